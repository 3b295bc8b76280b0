// The one place where an exception becomes something else: C interfaces let none pass.
#pragma once

#include <exception>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../platform.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

enum class Thrown { invalid_argument, other };

// Runs `body`. Where it throws, calls report(Thrown, const char* message) and returns false.
template <class Body, class Report>
bool guarded(Body&& body, Report&& report) {
    try {
        body();
        return true;
    } catch (const std::invalid_argument& error) {
        report(Thrown::invalid_argument, error.what());
    } catch (const std::exception& error) {
        report(Thrown::other, error.what());
    } catch (...) {
        report(Thrown::other, "an exception that is not a std::exception was thrown");
    }
    return false;
}

// The message of the last error on this thread.
inline std::string& last_error() {
    thread_local std::string message;
    return message;
}

// Runs `body` for a caller in C: 0, or 1 with the message of what it has thrown in `last_error`.
template <class Body>
int32_t reported(Body&& body) {
    return guarded(body, [](Thrown, const char* message) { last_error() = message; }) ? 0 : 1;
}

}  // namespace detail
}  // namespace opbridge
