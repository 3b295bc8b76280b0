// Shared libraries that are looked for when they are needed, and the functions in them.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "../platform.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// Looks a function up in a loaded library; null where it has none of that name.
inline void* find_symbol(void* library, const char* name) {
#if defined(_WIN32)
    return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
#else
    return dlsym(library, name);
#endif
}

// Loads a library by its path or its name; null where there is none.
inline void* load_library(const char* name) {
#if defined(_WIN32)
    return LoadLibraryA(name);
#else
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL);
#endif
}

// A library that the process has loaded; null where it has not.
inline void* loaded_library(const char* name) {
#if defined(_WIN32)
    return GetModuleHandleA(name);
#else
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
#endif
}

// The file of the library that has a function, or "".
inline std::string file_of(const void* function) {
#if defined(_WIN32)
    (void)function;
    return "";
#else
    Dl_info info{};
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
#endif
}

// Files of the runtimes that have loaded this library: what belongs to them is looked for beside them.
class RuntimeFiles {
  public:
    static void add(const std::string& file) {
        const std::lock_guard<std::mutex> lock(mutex());
        for (const std::string& each : files()) {
            if (each == file) return;
        }
        files().push_back(file);
    }
    static std::vector<std::string> all() {
        const std::lock_guard<std::mutex> lock(mutex());
        return files();
    }

  private:
    static std::mutex& mutex() {
        static std::mutex mutex;
        return mutex;
    }
    static std::vector<std::string>& files() {
        static auto* files = new std::vector<std::string>;
        return *files;
    }
};

}  // namespace detail
}  // namespace opbridge
