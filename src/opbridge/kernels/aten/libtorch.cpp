#include "libtorch.h"

#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include <dlfcn.h>

#include "dispatcher.h"

namespace opbridge {
namespace aten {

namespace {

#if defined(__APPLE__)
constexpr const char* file_name = "libtorch_cpu.dylib";
#else
constexpr const char* file_name = "libtorch_cpu.so";
#endif

OpenMp found_open_mp;

void* open(const std::string& given) {
    const char* named = std::getenv("OPBRIDGE_LIBTORCH");
    std::string path = !given.empty() ? given : named ? named : "";
    if (!path.empty()) {
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) library = dlopen((path + "/" + file_name).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) throw std::runtime_error("libtorch cannot be loaded from " + path + ": " + dlerror());
        return library;
    }
    if (void* library = dlopen(file_name, RTLD_NOW | RTLD_NOLOAD)) return library;
    // It may be linked into the program, or be there under another name.
    if (dlsym(RTLD_DEFAULT, "torch_call_dispatcher")) return dlopen(nullptr, RTLD_NOW);
    throw std::runtime_error(
        std::string("the model has nodes that run in PyTorch, but ") + file_name +
        " is not loaded in this process. Import torch (or load that library) first, or set its path in the environment variable "
        "OPBRIDGE_LIBTORCH or the session config entry opbridge.libtorch");
}

}  // namespace

void load(const std::string& path) {
    static std::mutex mutex;
    static bool is_loaded = false;
    const std::lock_guard<std::mutex> lock(mutex);
    if (is_loaded) return;
    void* library = open(path);
    torch::connect(library, "aten nodes");
    connect_dispatcher();
    found_open_mp.pause_resource_all = reinterpret_cast<int32_t (*)(int32_t)>(dlsym(library, "omp_pause_resource_all"));
    found_open_mp.get_max_threads = reinterpret_cast<int32_t (*)()>(dlsym(library, "omp_get_max_threads"));
    is_loaded = true;
}

const OpenMp& open_mp() { return found_open_mp; }

int32_t number_of(const char* kind, const std::string& name) {
    int32_t number = 0;
    if (libtorch().find_number(kind, name, number)) return number;
    throw std::invalid_argument("torch " + libtorch().version() + " has no " + kind + " '" + name + "'");
}

}  // namespace aten
}  // namespace opbridge
