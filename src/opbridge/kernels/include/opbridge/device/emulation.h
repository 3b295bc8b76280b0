// CUDA's language on the CPU, so that device functions can be tested, and run under sanitizers, without a GPU: a grid of blocks of threads,
// shared memory, barriers, shuffles and atomic operations. It says nothing about speed.
//
//     #define OPBRIDGE_ON_DEVICE
//     #include <opbridge/device/emulation.h>
//     #include "my_kernel.cu"
//
//     opbridge::emulation::launch({grid}, {block}, shared_bytes, [&] { my_kernel<float>(x, y); });
//
// Blocks run one after the other. OPBRIDGE_EMULATES_BARRIERS is
//     1  each thread of a block is a thread of the CPU, so that the sanitizer of threads sees races
//     2  they take turns at barriers, which is many times as fast
//     0  they run one after the other, which is the fastest, and a barrier is an error
#pragma once

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifndef OPBRIDGE_EMULATES_BARRIERS
#define OPBRIDGE_EMULATES_BARRIERS 1
#endif

#if OPBRIDGE_EMULATES_BARRIERS == 2
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __shared__ static  // one for all threads of a block, as blocks run one after the other
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

inline thread_local dim3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim, gridDim;

namespace opbridge::emulation {

inline dim3 index_of(uint64_t number, const dim3& sizes) {
    return {static_cast<unsigned>(number % sizes.x), static_cast<unsigned>(number / sizes.x % sizes.y),
            static_cast<unsigned>(number / sizes.x / sizes.y)};
}

#if OPBRIDGE_EMULATES_BARRIERS == 2

// The threads of a block, one of which runs until it waits for others.
class Turns {
  public:
    Turns(unsigned threads, const dim3& block_size, const std::function<void()>& body)
        : body_(body), block_size_(block_size), stacks_(threads), contexts_(threads), ended_(threads) {
        for (auto& each : stacks_) each.reset(new unsigned char[stack_bytes]);
    }

    // Runs all of them to their ends.
    void run() {
        current() = this;
        const unsigned threads = static_cast<unsigned>(contexts_.size());
        ended_.assign(threads, false);
        thrown_ = nullptr;
        for (unsigned thread = 0; thread < threads; ++thread) {
            getcontext(&contexts_[thread]);
            contexts_[thread].uc_stack.ss_sp = stacks_[thread].get();
            contexts_[thread].uc_stack.ss_size = stack_bytes;
            contexts_[thread].uc_link = nullptr;
            makecontext(&contexts_[thread], &Turns::enter, 0);
        }
        for (unsigned left = threads; left > 0;) {
            const uint64_t before = events_;
            for (thread_ = 0; thread_ < threads; ++thread_) {
                if (ended_[thread_]) continue;
                threadIdx = index_of(thread_, block_size_);
                swapcontext(&scheduler_, &contexts_[thread_]);
                if (thrown_) std::rethrow_exception(thrown_);
                if (ended_[thread_]) --left;
            }
            if (events_ == before) throw std::logic_error("not all threads of a block reach the same barrier");
        }
    }

    // Lets the others run.
    static void yield() {
        Turns& own = *current();
        swapcontext(&own.contexts_[own.thread_], &own.scheduler_);
    }
    static void note_event() { ++current()->events_; }

  private:
    static constexpr size_t stack_bytes = 256 << 10;

    static Turns*& current() {
        static thread_local Turns* turns = nullptr;
        return turns;
    }

    static void enter() {
        Turns& own = *current();
        try {
            own.body_();
        } catch (...) {
            own.thrown_ = std::current_exception();
        }
        own.ended_[own.thread_] = true;
        ++own.events_;
        yield();
    }

    const std::function<void()> body_;
    dim3 block_size_;
    std::vector<std::unique_ptr<unsigned char[]>> stacks_;
    std::vector<ucontext_t> contexts_;
    std::vector<bool> ended_;
    ucontext_t scheduler_;
    unsigned thread_ = 0;
    uint64_t events_ = 0;
    std::exception_ptr thrown_;
};

// Where threads wait for each other; it is an error where some of them have come for something else.
class Barrier {
  public:
    explicit Barrier(unsigned threads) : threads_(threads) {}

    void wait(const void* purpose) {
        if (waiting_ == 0) purpose_ = purpose;
        if (purpose_ != purpose) throw std::logic_error("not all threads of a block reach the same barrier");
        Turns::note_event();
        if (++waiting_ == threads_) {
            waiting_ = 0;
            ++round_;
            return;
        }
        for (const unsigned long round = round_; round == round_;) Turns::yield();
    }

  private:
    unsigned threads_, waiting_ = 0;
    unsigned long round_ = 0;
    const void* purpose_ = nullptr;
};

#else

// Where threads wait for each other. It is an error where some of them have come for something else; then nobody waits any more.
class Barrier {
  public:
    explicit Barrier(unsigned threads) : threads_(threads) {}

    void wait(const void* purpose) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (waiting_ == 0) purpose_ = purpose;
        if (purpose_ != purpose) failed_ = true;
        if (++waiting_ == threads_ || failed_) {
            waiting_ = 0;
            ++round_;
            condition_.notify_all();
        } else {
            const unsigned long round = round_;
            condition_.wait(lock, [&] { return round != round_ || failed_; });
        }
        if (failed_) throw std::logic_error("not all threads of a block reach the same barrier");
    }

    // Wakes all that wait, with an error.
    void fail() {
        const std::lock_guard<std::mutex> lock(mutex_);
        failed_ = true;
        condition_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable condition_;
    unsigned threads_, waiting_ = 0;
    unsigned long round_ = 0;
    const void* purpose_ = nullptr;
    bool failed_ = false;
};

#endif

constexpr unsigned warp_size = 32;

struct Block {
    unsigned threads;
    Barrier barrier;
    std::vector<std::unique_ptr<Barrier>> warps;
    std::vector<unsigned char> shared;
    std::vector<uint64_t> exchanged;  // what a shuffle passes

    Block(unsigned threads, size_t shared_bytes) : threads(threads), barrier(threads), shared(shared_bytes + 16), exchanged(threads) {
        for (unsigned first = 0; first < threads; first += warp_size) {
            warps.push_back(std::make_unique<Barrier>(threads - first < warp_size ? threads - first : warp_size));
        }
    }
};

inline thread_local Block* block = nullptr;

inline unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// Calls `body` for each thread of a grid. An exception from a thread is rethrown when its block has ended.
template <class Body>
void launch(dim3 grid, dim3 block_size, size_t shared_bytes, const Body& body) {
    const unsigned threads = block_size.x * block_size.y * block_size.z;
    const uint64_t blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    Block state(threads, shared_bytes);
    const auto enter = [&](uint64_t block_number, unsigned thread) {
        block = &state;
        gridDim = grid;
        blockDim = block_size;
        blockIdx = index_of(block_number, grid);
        threadIdx = index_of(thread, block_size);
    };
#if OPBRIDGE_EMULATES_BARRIERS == 2
    Turns turns(threads, block_size, [&] { body(); });
    for (uint64_t number = 0; number < blocks; ++number) {
        state = Block(threads, shared_bytes);
        std::memset(state.shared.data(), 0xff, state.shared.size());  // not a number
        enter(number, 0);
        turns.run();
    }
#elif OPBRIDGE_EMULATES_BARRIERS
    static const char end_of_block = 0;
    std::mutex mutex;
    std::exception_ptr thrown;
    const auto run = [&](unsigned thread) {
        try {
            for (uint64_t number = 0; number < blocks; ++number) {
                enter(number, thread);
                if (thread == 0) std::memset(state.shared.data(), 0xff, state.shared.size());  // not a number
                state.barrier.wait(&end_of_block);
                body();
                state.barrier.wait(&end_of_block);
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex);
            if (!thrown) thrown = std::current_exception();
            state.barrier.fail();
            for (const auto& each : state.warps) each->fail();
        }
    };
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; ++thread) running.emplace_back(run, thread);
    for (std::thread& each : running) each.join();
    if (thrown) std::rethrow_exception(thrown);
#else
    for (uint64_t number = 0; number < blocks; ++number) {
        for (unsigned thread = 0; thread < threads; ++thread) {
            enter(number, thread);
            body();
        }
    }
#endif
    block = nullptr;
}

// Calls a kernel as the driver does: with the addresses of its arguments.
template <class... P, size_t... index>
void launch_with(void (*kernel)(P...), dim3 grid, dim3 block_size, size_t shared_bytes, void** arguments, std::index_sequence<index...>) {
    launch(grid, block_size, shared_bytes, [&] { kernel(*static_cast<std::remove_const_t<P>*>(arguments[index])...); });
}

template <class... P>
void launch_with(void (*kernel)(P...), dim3 grid, dim3 block_size, size_t shared_bytes, void** arguments) {
    launch_with(kernel, grid, block_size, shared_bytes, arguments, std::index_sequence_for<P...>());
}

template <class T>
T shuffled(T value, unsigned from) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    Block& at = *block;
    const unsigned own = thread_number(), first = own / warp_size * warp_size;
    Barrier& barrier = *at.warps[own / warp_size];
    std::memcpy(&at.exchanged[own], &value, sizeof(T));
    barrier.wait(&at.exchanged);
    const unsigned source = first + from;
    T found = value;
    if (from < warp_size && source < at.threads) std::memcpy(&found, &at.exchanged[source], sizeof(T));
    barrier.wait(&at.exchanged);
    return found;
}

template <class T, class Change>
T changed(T* place, const Change& change) {
    T before;
    __atomic_load(place, &before, __ATOMIC_RELAXED);
    T after = change(before);
    while (!__atomic_compare_exchange(place, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) after = change(before);
    return before;
}

}  // namespace opbridge::emulation

inline void __syncthreads() {
#if OPBRIDGE_EMULATES_BARRIERS
    static const char purpose = 0;
    opbridge::emulation::block->barrier.wait(&purpose);
#else
    throw std::logic_error("a barrier in an emulation without barriers");
#endif
}

inline void __syncwarp(unsigned = 0xffffffffu) {
    static const char purpose = 0;
    opbridge::emulation::block->warps[opbridge::emulation::thread_number() / opbridge::emulation::warp_size]->wait(&purpose);
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T __shfl_sync(unsigned, T value, int from) {
    return opbridge::emulation::shuffled(value, static_cast<unsigned>(from));
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by) {
    return opbridge::emulation::shuffled(value, opbridge::emulation::thread_number() % opbridge::emulation::warp_size + by);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return opbridge::emulation::shuffled(
        value, (opbridge::emulation::thread_number() % opbridge::emulation::warp_size) ^ static_cast<unsigned>(mask));
}

template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
    const unsigned lane = opbridge::emulation::thread_number() % opbridge::emulation::warp_size;
    return opbridge::emulation::shuffled(value, lane < by ? lane : lane - by);
}

// A bit for each thread of a warp.
inline unsigned __ballot_sync(unsigned, int predicate) {
    unsigned found = 0;
    for (unsigned lane = 0; lane < opbridge::emulation::warp_size; ++lane) {
        const unsigned at = opbridge::emulation::thread_number() / opbridge::emulation::warp_size * opbridge::emulation::warp_size + lane;
        const int other = opbridge::emulation::shuffled(predicate, lane);
        if (at < opbridge::emulation::block->threads && other != 0) found |= 1u << lane;
    }
    return found;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }

template <class T>
T atomicOr(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return before | value; });
}
template <class T>
T atomicAnd(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return before & value; });
}
template <class T>
T atomicAdd(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return before + value; });
}
template <class T>
T atomicMax(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return before < value ? value : before; });
}
template <class T>
T atomicMin(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return value < before ? value : before; });
}
template <class T>
T atomicExch(T* place, T value) {
    return opbridge::emulation::changed(place, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* place, T expected, T value) {
    return opbridge::emulation::changed(place, [&](T before) { return before == expected ? value : before; });
}
template <class T>
T __ldg(const T* place) {
    return *place;
}

namespace opbridge {

// The shared memory whose size the launch gives.
template <class T>
T* dynamic_shared() {
    const uintptr_t address = reinterpret_cast<uintptr_t>(emulation::block->shared.data());
    return reinterpret_cast<T*>((address + 15) & ~uintptr_t{15});
}

}  // namespace opbridge
