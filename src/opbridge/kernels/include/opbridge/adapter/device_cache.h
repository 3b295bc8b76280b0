// Compiled device code in the user's cache folder, beside the libraries that are built there: <cache>/device/<hash>, with a checksum. Where
// the folder cannot be written to, or others may write to it, nothing is kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "../platform.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// A hash that finds damage and tells contents apart (FNV-1a, twice); that nobody else writes to the folder is checked.
inline std::string content_hash(const std::string& content) {
    uint64_t first = 0xcbf29ce484222325u, second = 0x84222325cbf29ce4u;
    for (unsigned char each : content) {
        first = (first ^ each) * 0x100000001b3u;
        second = (second ^ (each + 0x9eu)) * 0x100000001b3u;
    }
    char text[40];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first), static_cast<unsigned long long>(second));
    return text;
}

class DeviceCache {
  public:
    DeviceCache() : folder_(own_folder()) {}

    // What was kept under a hash, into `content`; false where nothing whole is there.
    bool find(const std::string& hash, std::string& content) const {
        if (folder_.empty()) return false;
        std::ifstream file(folder_ + "/" + hash, std::ios::binary);
        const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        if (all.size() < 32 || content_hash(all.substr(32)) != all.substr(0, 32)) return false;
        content = all.substr(32);
        return true;
    }

    // Keeps what was compiled; written whole, and moved into place.
    void keep(const std::string& hash, const std::string& content) const {
        if (folder_.empty()) return;
#if !defined(_WIN32)
        std::string name = folder_ + "/writing-XXXXXX";  // mkstemp puts a name that nobody has in the place of the X
        const int descriptor = mkstemp(&name[0]);
        if (descriptor < 0) return;
        close(descriptor);
        std::ofstream file(name, std::ios::binary | std::ios::trunc);
        file << content_hash(content) << content;
        file.close();
        if (!file || std::rename(name.c_str(), (folder_ + "/" + hash).c_str()) != 0) std::remove(name.c_str());
#else
        (void)hash, (void)content;
#endif
    }

  private:
    static std::string variable(const char* name) {
        const char* value = std::getenv(name);
        return value ? value : "";
    }

    // The same folder as that of opbridge.kernels.cache; "" where there is none to use.
    static std::string own_folder() {
#if defined(_WIN32)
        return "";
#else
        std::string root = variable("OPBRIDGE_CACHE");
        const std::string home = variable("HOME");
        if (root.rfind("~/", 0) == 0) root = home + root.substr(1);
        if (root.empty()) {
            const std::string cache = variable("XDG_CACHE_HOME");
            if (cache.empty() && home.empty()) return "";
#if defined(__APPLE__)
            root = home + "/Library/Caches/opbridge";
#else
            root = (cache.empty() ? home + "/.cache" : cache) + "/opbridge";
#endif
        }
        const std::string folder = root + "/device";
        for (size_t place = folder.find('/', 1);; place = folder.find('/', place + 1)) {
            mkdir(folder.substr(0, place).c_str(), 0700);
            if (place == std::string::npos) break;
        }
        return is_private(root) && is_private(folder) ? folder : "";
#endif
    }

#if !defined(_WIN32)
    static bool is_private(const std::string& folder) {
        struct stat found{};
        if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid()) return false;
        // A group of the user's own number is the user's own, by the convention of Debian and Fedora.
        const bool is_shared = (found.st_mode & S_IWGRP) != 0 && found.st_gid != found.st_uid;
        return (found.st_mode & S_IWOTH) == 0 && !is_shared;
    }
#endif

    std::string folder_;
};

}  // namespace detail
}  // namespace opbridge
