// NVRTC, CUDA's compiler as a library: found when something is compiled. It needs no driver.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "../platform.h"
#include "device_cache.h"
#include "device_code.h"
#include "shared_library.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace cuda {

struct ProgramObject;

#define OPBRIDGE_NVRTC_FUNCTIONS(FUNCTION)                                                                                    \
    FUNCTION(nvrtcVersion, int(int*, int*))                                                                                   \
    FUNCTION(nvrtcGetErrorString, const char*(int))                                                                           \
    FUNCTION(nvrtcCreateProgram, int(ProgramObject**, const char*, const char*, int, const char* const*, const char* const*)) \
    FUNCTION(nvrtcDestroyProgram, int(ProgramObject**))                                                                       \
    FUNCTION(nvrtcAddNameExpression, int(ProgramObject*, const char*))                                                        \
    FUNCTION(nvrtcCompileProgram, int(ProgramObject*, int, const char* const*))                                               \
    FUNCTION(nvrtcGetLoweredName, int(ProgramObject*, const char*, const char**))                                             \
    FUNCTION(nvrtcGetProgramLogSize, int(ProgramObject*, size_t*))                                                            \
    FUNCTION(nvrtcGetProgramLog, int(ProgramObject*, char*))                                                                  \
    FUNCTION(nvrtcGetPTXSize, int(ProgramObject*, size_t*))                                                                   \
    FUNCTION(nvrtcGetPTX, int(ProgramObject*, char*))                                                                         \
    FUNCTION(nvrtcGetCUBINSize, int(ProgramObject*, size_t*))                                                                 \
    FUNCTION(nvrtcGetCUBIN, int(ProgramObject*, char*))

struct Nvrtc {
#define OPBRIDGE_DECLARE(name, Type) std::add_pointer_t<Type> name = nullptr;
    OPBRIDGE_NVRTC_FUNCTIONS(OPBRIDGE_DECLARE)
#undef OPBRIDGE_DECLARE
    int major = 0, minor = 0;

    std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

namespace nvrtc_detail {

namespace fs = std::filesystem;

constexpr int newest_major = 13, oldest_major = 12;

inline std::string library_name(int major) {
#if defined(_WIN32)
    return "nvrtc64_" + std::to_string(major) + "0_0.dll";
#else
    return "libnvrtc.so." + std::to_string(major);
#endif
}

// The folders of NVIDIA's Python packages near a file: site-packages/nvidia/cu13/lib, .../nvidia/cuda_nvrtc/lib.
inline void add_package_folders(const fs::path& file, std::vector<fs::path>& folders) {
    std::error_code failed;
    fs::path folder = file.parent_path();
    for (int level = 0; level < 5 && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
        for (const auto& each : fs::directory_iterator(folder / "nvidia", failed)) {
            const fs::path found = each.path() / "lib";
            if (std::find(folders.begin(), folders.end(), found) == folders.end()) folders.push_back(found);
        }
    }
    std::sort(folders.begin(), folders.end());
}

inline void* open_in(const fs::path& folder, int major) {
    std::error_code failed;
    const fs::path library = folder / library_name(major);
    if (!fs::exists(library, failed)) return nullptr;
    // NVRTC asks for this one by its name, and the packages' folder is on no path.
    for (const auto& each : fs::directory_iterator(folder, failed)) {
        const std::string name = each.path().filename().string();
        if (name.rfind("libnvrtc-builtins.so.", 0) == 0) detail::load_library(each.path().string().c_str());
    }
    return detail::load_library(library.string().c_str());
}

// The library, for a driver that supports CUDA up to `most`, of a major release; the newest one where none is as old.
inline void* open(int most) {
    const char* named = std::getenv("OPBRIDGE_NVRTC");
    if (named && *named) {
        void* library = detail::load_library(named);
        if (!library) {
            throw std::runtime_error(std::string("OPBRIDGE_NVRTC is ") + named + ", which cannot be loaded. Correct or unset it");
        }
        return library;
    }
    std::vector<fs::path> folders;
    for (const std::string& each : detail::RuntimeFiles::all()) add_package_folders(each, folders);
    add_package_folders(detail::file_of(reinterpret_cast<const void*>(&library_name)), folders);
    std::vector<int> majors;
    for (int major = std::min(most, newest_major); major >= oldest_major; --major) majors.push_back(major);
    for (int major = std::max(most + 1, oldest_major); major <= newest_major; ++major) majors.push_back(major);
    for (int major : majors) {
        if (void* library = detail::loaded_library(library_name(major).c_str())) return library;
        for (const fs::path& folder : folders) {
            if (void* library = open_in(folder, major)) return library;
        }
        if (void* library = detail::load_library(library_name(major).c_str())) return library;
    }
    throw std::runtime_error(
        "NVRTC, which compiles kernels for CUDA devices, was not found. Install it (pip install nvidia-cuda-nvrtc, or "
        "nvidia-cuda-nvrtc-cu12 for a driver of CUDA 12), set OPBRIDGE_NVRTC to the path of libnvrtc, or build the library with "
        "opbridge build --arch");
}

}  // namespace nvrtc_detail

// Finds NVRTC for a driver that supports CUDA up to a major release. Throws std::runtime_error where there is none.
inline const Nvrtc& nvrtc(int most) {
    static const Nvrtc found = [&] {
        void* library = nvrtc_detail::open(most);
        Nvrtc found;
#define OPBRIDGE_FIND(name, Type)                                                             \
    found.name = reinterpret_cast<decltype(found.name)>(detail::find_symbol(library, #name)); \
    if (!found.name) throw std::runtime_error("this NVRTC has no " #name ". Install the one of CUDA 12 or newer");
        OPBRIDGE_NVRTC_FUNCTIONS(OPBRIDGE_FIND)
#undef OPBRIDGE_FIND
        found.nvrtcVersion(&found.major, &found.minor);
        return found;
    }();
    return found;
}

// A program as NVRTC has it.
class Compilation {
  public:
    Compilation(const Nvrtc& nvrtc, const detail::DeviceProgram& program, const std::vector<std::string>& functions) : at_(nvrtc) {
        check(at_.nvrtcCreateProgram(&program_, program.source, program.name, static_cast<int>(program.headers), program.header_texts,
                                     program.header_names));
        for (const std::string& each : functions) check(at_.nvrtcAddNameExpression(program_, each.c_str()));
    }
    ~Compilation() { at_.nvrtcDestroyProgram(&program_); }
    Compilation(const Compilation&) = delete;
    Compilation& operator=(const Compilation&) = delete;

    bool compile(const std::vector<std::string>& options) {
        std::vector<const char*> given;
        for (const std::string& each : options) given.push_back(each.c_str());
        return at_.nvrtcCompileProgram(program_, static_cast<int>(given.size()), given.data()) == 0;
    }

    std::string log() const { return text(at_.nvrtcGetProgramLogSize, at_.nvrtcGetProgramLog); }
    std::string code(bool ptx) const {
        return ptx ? text(at_.nvrtcGetPTXSize, at_.nvrtcGetPTX) : text(at_.nvrtcGetCUBINSize, at_.nvrtcGetCUBIN);
    }
    std::string symbol(const std::string& function) const {
        const char* name = nullptr;
        check(at_.nvrtcGetLoweredName(program_, function.c_str(), &name));
        return name;
    }

  private:
    void check(int failure) const {
        if (failure != 0) throw std::runtime_error(std::string("NVRTC reports ") + at_.nvrtcGetErrorString(failure));
    }
    std::string text(int (*size_of)(ProgramObject*, size_t*), int (*read)(ProgramObject*, char*)) const {
        size_t size = 0;
        check(size_of(program_, &size));
        std::string result(size, '\0');
        if (size) check(read(program_, &result[0]));
        return result;
    }

    const Nvrtc& at_;
    ProgramObject* program_ = nullptr;
};

// The functions of a program compiled for an architecture: sm_90 for its devices, compute_90 for PTX; taken from the cache where the same
// was compiled before. Throws std::runtime_error, with the compiler's messages, where it does not compile.
inline detail::DeviceImage compile(const detail::DeviceProgram& program, const std::vector<std::string>& functions,
                                   const std::string& architecture, int most) {
    const Nvrtc& at = nvrtc(most);
    std::vector<std::string> options{"--gpu-architecture=" + architecture, "--std=c++17", "-default-device", "-DOPBRIDGE_ON_DEVICE"};
    options.insert(options.end(), program.option_list, program.option_list + program.options);
    std::string all = at.version() + '\n' + program.name + '\n' + program.source;
    for (size_t i = 0; i < program.headers; ++i) all += std::string(1, '\0') + program.header_names[i] + '\n' + program.header_texts[i];
    for (const std::string& each : options) all += '\0' + each;
    for (const std::string& each : functions) all += '\0' + each;
    const std::string hash = detail::content_hash(all);
    const detail::DeviceCache cache;
    std::string kept;
    if (cache.find(hash, kept)) return detail::DeviceImage::unpacked(kept);
    Compilation compilation(at, program, functions);
    if (!compilation.compile(options)) {
        std::string log = compilation.log();
        while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
        const bool is_missing = log.find("could not open source file") != std::string::npos;
        throw std::runtime_error(std::string(program.name) + " does not compile for CUDA (" + architecture + ", NVRTC " + at.version() +
                                 "):\n" + log +
                                 (is_missing ? "\nThe device compiler has no standard library: put what only the CPU uses between #ifndef "
                                               "OPBRIDGE_ON_DEVICE and #endif, or what the device uses into a .cu file of the same name."
                                             : ""));
    }
    detail::DeviceImage image;
    image.architecture = architecture;
    image.code = compilation.code(detail::Architecture(architecture).is_ptx);
    for (const std::string& each : functions) image.symbols.emplace_back(each, compilation.symbol(each));
    cache.keep(hash, image.packed());
    return image;
}

}  // namespace cuda
}  // namespace opbridge
