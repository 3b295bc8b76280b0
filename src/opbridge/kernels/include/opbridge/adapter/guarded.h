// The one place where an exception becomes something else: C interfaces let none pass.
#pragma once

#include <exception>
#include <stdexcept>

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

}  // namespace detail
}  // namespace opbridge
