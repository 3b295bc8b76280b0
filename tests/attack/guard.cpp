// A replacement for malloc and its likes under which accesses out of bounds end the process, and unwritten memory shows.
//
// It is loaded before the program (LD_PRELOAD). Between guard_on and guard_off, what the thread allocates lies in an arena of slots. A slot
// is a power of two of pages, followed by a page that nobody may access; a block ends at that page, or begins after that of the slot
// before. What of a slot is not the block's, and the block itself at first, is filled with one of two bytes, as the caller chooses: a
// result that is made of it differs between the two. Blocks of libc10, which are the memory of tensors, end exactly at the page that
// nobody may access; others are aligned as they ask for. What lies within 64 bytes of a block is compared when it is freed.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t page = 4096;
constexpr int classes = 13;  // of 1 page to 2^12, which is 16 MiB
constexpr size_t region = size_t{1} << 30;  // address space of a class
constexpr size_t arena_size = classes * region;
constexpr size_t most_alive = size_t{48} << 20;  // bytes; more is refused
constexpr uint8_t fills[] = {0xff, 0x3e};  // minus one and no number; large integers and 0.19
constexpr size_t compared = 64;  // bytes beside a block

struct Slot {
    char* block;
    size_t size;
    int fill;
};

// Free slots are filled, each with its byte.
struct Class {
    Slot* slots;
    uint32_t* free_slots[2];
    uint32_t free_count[2], fresh;
};

char* arena = nullptr;
Class all[classes];
size_t alive = 0;
std::atomic_flag lock = ATOMIC_FLAG_INIT;
uintptr_t c10_start = 0, c10_end = 0;
int64_t damaged = 0;

__attribute__((tls_model("initial-exec"))) thread_local bool is_on = false;
int fill = 0;
bool at_end = true;

struct Locked {
    Locked() {
        while (lock.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Locked() { lock.clear(std::memory_order_release); }
};

size_t data_size(int of) { return page << of; }
size_t stride(int of) { return data_size(of) + page; }
uint32_t slot_count(int of) { return static_cast<uint32_t>((region - page) / stride(of)); }
// The first page of a region stays without access.
char* slot_start(int of, uint32_t slot) { return arena + static_cast<size_t>(of) * region + page + slot * stride(of); }
bool is_ours(const void* address) {
    return arena && static_cast<const char*>(address) >= arena && static_cast<const char*>(address) < arena + arena_size;
}

void* reserve(size_t bytes, int protection) {
    void* made = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made == MAP_FAILED ? nullptr : made;
}

int find_c10(dl_phdr_info* info, size_t, void*) {
    if (!info->dlpi_name || !std::strstr(info->dlpi_name, "libc10.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
        c10_start = info->dlpi_addr + part.p_vaddr;
        c10_end = c10_start + part.p_memsz;
    }
    return 1;
}

bool prepare() {
    if (arena) return true;
    dl_iterate_phdr(find_c10, nullptr);
    for (int of = 0; of < classes; ++of) {
        all[of].slots = static_cast<Slot*>(reserve(slot_count(of) * sizeof(Slot), PROT_READ | PROT_WRITE));
        if (!all[of].slots) return false;
        for (uint32_t*& each : all[of].free_slots) {
            each = static_cast<uint32_t*>(reserve(slot_count(of) * sizeof(uint32_t), PROT_READ | PROT_WRITE));
            if (!each) return false;
        }
    }
    arena = static_cast<char*>(reserve(arena_size, PROT_NONE));
    return arena != nullptr;
}

// Slots above 16 pages keep no more than what is beside a block filled.
bool is_small(int of) { return of <= 4; }

void fill_large(char* start, char* end, const Slot& slot) {
    char* from = slot.block - start < static_cast<std::ptrdiff_t>(page) ? start : slot.block - page;
    char* to = end - (slot.block + slot.size) < static_cast<std::ptrdiff_t>(page) ? end : slot.block + slot.size + page;
    std::memset(from, fills[slot.fill], static_cast<size_t>(to - from));
}

void* allocate(size_t size, size_t alignment) {
    if (size > data_size(classes - 1) || alignment > page) return nullptr;
    int of = 0;
    while (data_size(of) < size) ++of;
    char* start = nullptr;
    uint32_t slot = 0;
    bool is_fresh = false;
    {
        const Locked locked;
        if (alive + size > most_alive) return nullptr;
        Class& found = all[of];
        if (found.free_count[fill]) {
            slot = found.free_slots[fill][--found.free_count[fill]];
            start = slot_start(of, slot);
        } else {
            if (found.fresh == slot_count(of)) return nullptr;
            slot = found.fresh++;
            start = slot_start(of, slot);
            if (mprotect(start, data_size(of), PROT_READ | PROT_WRITE) != 0) return nullptr;
            is_fresh = true;
        }
        alive += size;
    }
    char* end = start + data_size(of);
    char* block = at_end ? end - (size + alignment - 1) / alignment * alignment : start;
    if (block < start) block = start;
    const Slot made{block, size, fill};
    all[of].slots[slot] = made;
    if (!is_small(of)) fill_large(start, end, made);
    else if (is_fresh) std::memset(start, fills[fill], data_size(of));
    return block;
}

bool is_filled(const char* from, const char* to, int with) {
    static char expected[2][compared];
    if (expected[0][0] == 0) {
        for (int of : {0, 1}) std::memset(expected[of], fills[of], compared);
    }
    return from >= to || std::memcmp(from, expected[with], static_cast<size_t>(to - from)) == 0;
}

const Slot& slot_of(const void* address, int* of, uint32_t* slot) {
    const size_t offset = static_cast<size_t>(static_cast<const char*>(address) - arena);
    *of = static_cast<int>(offset / region);
    *slot = static_cast<uint32_t>((offset % region - page) / stride(*of));
    return all[*of].slots[*slot];
}

void release(void* address) {
    int of = 0;
    uint32_t slot = 0;
    const Slot known = slot_of(address, &of, &slot);
    char* start = slot_start(of, slot);
    char *end = start + data_size(of), *after = known.block + known.size;
    const auto room = [](const char* from, const char* to) { return static_cast<size_t>(to - from); };
    const char* first = room(start, known.block) < compared ? start : known.block - compared;
    const char* last = room(after, end) < compared ? end : after + compared;
    if (!is_filled(first, known.block, known.fill) || !is_filled(after, last, known.fill)) {
        ++damaged;
        if (is_small(of)) std::memset(start, fills[known.fill], data_size(of));
    }
    if (is_small(of)) std::memset(known.block, fills[known.fill], known.size);
    else if (data_size(of) >= size_t{1} << 20) madvise(start, data_size(of), MADV_DONTNEED);
    const Locked locked;
    alive -= known.size;
    all[of].free_slots[known.fill][all[of].free_count[known.fill]++] = slot;
}

struct Fault {
    int64_t signal, address, is_write, in_arena;
};
Fault* report = nullptr;

void on_signal(int number, siginfo_t* info, void* context) {
    if (report) {
        report->signal = number;
        report->address = reinterpret_cast<int64_t>(info->si_addr);
        report->is_write = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
        report->in_arena = is_ours(info->si_addr);
    }
    signal(number, SIG_DFL);
    raise(number);
}

}  // namespace

SHOWN void* malloc(size_t size) {
    if (!is_on) return __libc_malloc(size);
    void* made = allocate(size, 16);
    if (!made) errno = ENOMEM;
    return made;
}

SHOWN void* calloc(size_t count, size_t size) {
    if (!is_on) return __libc_calloc(count, size);
    size_t bytes = 0;
    void* made = __builtin_mul_overflow(count, size, &bytes) ? nullptr : allocate(bytes, 16);
    if (!made) errno = ENOMEM;
    return made ? std::memset(made, 0, bytes) : nullptr;
}

SHOWN void free(void* address) {
    if (!address) return;
    if (is_ours(address)) release(address);
    else __libc_free(address);
}

SHOWN void* realloc(void* address, size_t size) {
    if (!address) return malloc(size);
    if (!is_ours(address)) return __libc_realloc(address, size);
    int of = 0;
    uint32_t slot = 0;
    const size_t before = slot_of(address, &of, &slot).size;
    void* made = malloc(size);
    if (!made) return nullptr;
    std::memcpy(made, address, before < size ? before : size);
    release(address);
    return made;
}

SHOWN int posix_memalign(void** into, size_t alignment, size_t size) {
    if (!is_on) {
        *into = __libc_memalign(alignment, size);
        return *into ? 0 : ENOMEM;
    }
    const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    // A tensor's numbers need no more than the alignment of a number.
    if (caller >= c10_start && caller < c10_end && size % 64) alignment = size & (~size + 1);
    void* made = alignment > page ? __libc_memalign(alignment, size) : allocate(size, alignment);
    if (!made) return ENOMEM;
    *into = made;
    return 0;
}

SHOWN void* memalign(size_t alignment, size_t size) {
    if (!is_on || alignment > page) return __libc_memalign(alignment, size);
    return allocate(size, alignment);
}

SHOWN void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

SHOWN size_t malloc_usable_size(void* address) {
    static auto* others = reinterpret_cast<size_t (*)(void*)>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    int of = 0;
    uint32_t slot = 0;
    return address && is_ours(address) ? slot_of(address, &of, &slot).size : others(address);
}

// From here to guard_off, what this thread allocates is guarded: filled with the first or the second byte, at the end or the beginning.
SHOWN int guard_on(int second, int ends) {
    if (!prepare()) return -1;
    fill = second != 0;
    at_end = ends != 0;
    is_on = true;
    return 0;
}

SHOWN void guard_off() { is_on = false; }

// How many freed blocks had been written beside.
SHOWN int64_t guard_damaged() { return damaged; }

// Has a signal that ends the process say where, in four integers: signal, address, whether it wrote, whether in the arena.
SHOWN void guard_report(void* into) {
    report = static_cast<Fault*>(into);
    static char stack[64 * 1024];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(number, &action, nullptr);
}
