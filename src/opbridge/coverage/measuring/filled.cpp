// New memory full of numbers, for a process that is started with this library before others (LD_PRELOAD, glibc).
//
// A runtime that reads what it has not written finds what was there, which is often 0, and right by chance. Here it finds
// nan and large numbers of both signs by turns, as float; as int, large numbers. Numbers alone are not enough: where one
// of them is added to all elements, a softmax gives the right result all the same; a maximum may drop nan.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <malloc.h>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_memalign(size_t, size_t);
void* __libc_realloc(void*, size_t);
}

namespace {

constexpr size_t kWords = 1024;

struct Numbers {
    uint32_t words[kWords];
};

constexpr Numbers made() {
    Numbers found{};
    uint32_t state = 1;
    for (size_t at = 0; at < kWords; ++at) {
        state = state * 1664525u + 1013904223u;
        found.words[at] = at % 2 == 0 ? 0x7FFF7FFFu : 0x4B000000u | (state >> 8) | (state & 0x80000000u);
    }
    return found;
}

constexpr Numbers kNumbers = made();

void* filled(void* block, size_t from, size_t size) {
    if (block == nullptr) return block;
    for (size_t at = from; at < size;) {
        size_t offset = at % sizeof(kNumbers.words);
        size_t length = sizeof(kNumbers.words) - offset;
        if (length > size - at) length = size - at;
        std::memcpy(static_cast<char*>(block) + at, reinterpret_cast<const char*>(kNumbers.words) + offset, length);
        at += length;
    }
    return block;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* malloc(size_t size) noexcept { return filled(__libc_malloc(size), 0, size); }

__attribute__((visibility("default"))) void* memalign(size_t alignment, size_t size) noexcept {
    return filled(__libc_memalign(alignment, size), 0, size);
}

__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t size) noexcept {
    return filled(__libc_memalign(alignment, size), 0, size);
}

__attribute__((visibility("default"))) int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
    void* made = __libc_memalign(alignment, size);
    if (made == nullptr) return ENOMEM;
    *block = filled(made, 0, size);
    return 0;
}

__attribute__((visibility("default"))) void* realloc(void* block, size_t size) noexcept {
    size_t before = block == nullptr ? 0 : malloc_usable_size(block);
    return filled(__libc_realloc(block, size), before, size);
}
}
