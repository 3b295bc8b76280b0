// What a plug-in tells: TensorRT's logger, which it finds through the finder that it gives a library of plug-ins. No exception passes.
#pragma once

#include <atomic>
#include <string>

#include "guarded.h"
#include "operator.h"
#include "shared_library.h"
#include "tensorrt_api.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

// TensorRT's logger, whose form differs between releases.
class Log {
  public:
    static Log& current() {
        static Log log;
        return log;
    }

    // The finder is an object of TensorRT's library, which says its release; where it does not, nothing is logged.
    void set(void* finder) {
        const int32_t version = finder ? version_of(*static_cast<const void* const*>(finder)) : 0;
        const bool is_rtx = version >= rtx && version < 20000;
        has_version_ = version >= 110000 || is_rtx;
        finder_ = has_version_ || version >= 100000 ? finder : nullptr;
    }

    void write(Severity severity, const char* message) noexcept {
        void* finder = finder_;
        if (!finder) return;
        try {
            if (has_version_) write_to<ILoggerFinder>(finder, severity, message);
            else write_to<before_11::ILoggerFinder>(finder, severity, message);
        } catch (...) {  // the finder is another's code, and nothing is left to tell it to
        }
    }

  private:
    // TensorRT 10.15.0 is 101500; TensorRT-RTX counts for itself, and 1.7.1 is 10701.
    static constexpr int32_t rtx = 10700;

    static int32_t version_of(const void* functions) {
        const std::string file = detail::file_of(functions);
        void* library = file.empty() ? nullptr : detail::loaded_library(file.c_str());
        void* found = library ? detail::find_symbol(library, "getInferLibVersion") : nullptr;
        return found ? reinterpret_cast<int32_t (*)()>(found)() : 0;
    }

    template <class Finder>
    static void write_to(void* finder, Severity severity, const char* message) {
        if (auto* logger = static_cast<Finder*>(finder)->findLogger()) logger->log(severity, message);
    }

    std::atomic<void*> finder_{nullptr};
    std::atomic<bool> has_version_{false};
};

inline void log(Severity severity, const char* message) noexcept { Log::current().write(severity, message); }

inline void log(Severity severity, const detail::Operator& op, const char* message) noexcept {
    try {
        log(severity, op.error_message(message).c_str());
    } catch (...) {  // no memory for the name of the operator
        log(severity, message);
    }
}

// Runs `body`. What it throws is logged as an error of the operator, and the result is false.
template <class Body>
bool succeeds(const detail::Operator& op, Body&& body) noexcept {
    return detail::guarded(body, [&](detail::Thrown, const char* message) { log(Severity::kERROR, op, message); });
}

// The same for a caller that takes zero for success.
template <class Body>
int32_t status(const detail::Operator& op, Body&& body) noexcept {
    return succeeds(op, body) ? 0 : -1;
}

}  // namespace tensorrt
}  // namespace opbridge
