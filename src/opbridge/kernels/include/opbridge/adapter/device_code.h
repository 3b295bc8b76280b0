// What a library holds for devices: the sources of its functions, and what was compiled of them when it was built.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../platform.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// A source file and the headers that it includes, as `opbridge build` has put them into the library.
struct DeviceProgram {
    const char* name;  // the file
    const char* source;
    size_t headers;
    const char* const* header_names;  // as the sources include them
    const char* const* header_texts;
    size_t options;
    const char* const* option_list;
};

// A program that was compiled for an architecture, as `DeviceImage::packed` gives it.
struct PackedImage {
    int32_t program;
    const char* architecture;
    const char* data;
    size_t size;
};

struct DeviceCode {
    size_t programs;
    const DeviceProgram* program_list;
    size_t images;
    const PackedImage* image_list;
};

inline const DeviceCode*& device_code() {
    static const DeviceCode* code = nullptr;
    return code;
}

struct RegisteredDeviceCode {
    explicit RegisteredDeviceCode(const DeviceCode& code) { device_code() = &code; }
};

// What code is compiled for: sm_90, the devices of that compute capability and the same major one's later ones; compute_90: PTX, for those
// and all later ones.
struct Architecture {
    bool is_ptx;
    int number;  // 90

    explicit Architecture(const std::string& name) : is_ptx(name.rfind("compute_", 0) == 0), number(0) {
        for (char each : name) {
            if (each >= '0' && each <= '9' && number < 10000) number = number * 10 + (each - '0');
        }
    }

    // Whether a device of compute capability 9.0, which is 90 here, runs it.
    bool runs_on(int device) const { return number <= device && (is_ptx || number / 10 == device / 10); }

    // Whether it is the better one of two that a device runs.
    bool is_better_than(const Architecture& other) const { return is_ptx == other.is_ptx ? number > other.number : other.is_ptx; }
};

// A compiled program.
struct DeviceImage {
    std::string architecture;
    std::vector<std::pair<std::string, std::string>> symbols;  // what a function is called in it
    std::string code;

    std::string packed() const {
        std::string text = std::string(header()) + architecture + "\n" + std::to_string(symbols.size()) + "\n";
        for (const auto& each : symbols) text += each.first + "\t" + each.second + "\n";
        return text + code;
    }

    // Throws std::runtime_error where the data is of another form.
    static DeviceImage unpacked(const std::string& data) {
        size_t place = 0;
        const auto until = [&](char end) {
            const size_t found = data.find(end, place);
            if (found == std::string::npos) throw std::runtime_error("the device code is damaged");
            const std::string text = data.substr(place, found - place);
            place = found + 1;
            return text;
        };
        DeviceImage image;
        if (until('\n') + "\n" != header()) throw std::runtime_error("the device code was made by another version of opbridge");
        image.architecture = until('\n');
        const unsigned long count = std::stoul(until('\n'));
        for (unsigned long i = 0; i < count; ++i) {
            const std::string name = until('\t');
            image.symbols.emplace_back(name, until('\n'));
        }
        image.code = data.substr(place);
        return image;
    }

    const std::string* symbol(const std::string& function) const {
        for (const auto& each : symbols) {
            if (each.first == function) return &each.second;
        }
        return nullptr;
    }

  private:
    static const char* header() { return "opbridge device code 1\n"; }
};

}  // namespace detail
}  // namespace opbridge
