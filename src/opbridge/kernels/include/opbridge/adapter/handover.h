// Tells the thread sanitizer what a runtime does that was not compiled with it: it orders what its threads do after what was done before it
// was given the work, and what is done after it returns after them. In a build without that sanitizer this is nothing.
#pragma once

#include "../platform.h"

#if defined(__SANITIZE_THREAD__)
#define OPBRIDGE_SANITIZES_THREADS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPBRIDGE_SANITIZES_THREADS
#endif
#endif

#ifdef OPBRIDGE_SANITIZES_THREADS
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// To be called before work is given to a runtime, and at the end of each piece of it.
inline void hand_over([[maybe_unused]] void* work) {
#ifdef OPBRIDGE_SANITIZES_THREADS
    __tsan_release(work);
#endif
}

// To be called at the beginning of each piece, and when the runtime has returned.
inline void take_over([[maybe_unused]] void* work) {
#ifdef OPBRIDGE_SANITIZES_THREADS
    __tsan_acquire(work);
#endif
}

}  // namespace detail
}  // namespace opbridge
