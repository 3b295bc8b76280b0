#include "core_scheduler.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include <opbridge/adapter/handover.h>

#include "libtorch.h"

namespace opbridge {
namespace aten {

namespace {

using Clock = std::chrono::steady_clock;

// Calls that take longer are worth putting threads to sleep for.
constexpr std::chrono::microseconds long_call(200);

// Ends the threads that libtorch's OpenMP library keeps for this one.
void release_open_mp_threads() {
    const OpenMp& found = open_mp();
    if (!found.pause_resource_all || !found.get_max_threads || found.get_max_threads() < 2) return;
    constexpr int32_t soft = 1;
    found.pause_resource_all(soft);
}

// One call during which ONNX Runtime's threads sleep.
struct ExclusiveCall {
    const std::function<void()>& work;
    std::chrono::microseconds longest_wait;  // for a thread of ONNX Runtime to fall asleep
    std::thread::id caller = std::this_thread::get_id();
    std::exception_ptr thrown;
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int> asleep{0};  // threads of ONNX Runtime
    bool has_begun = false, is_over = false;

    ExclusiveCall(const std::function<void()>& work, std::chrono::microseconds longest_wait) : work(work), longest_wait(longest_wait) {}

    // One piece of a parallel loop. The caller's is the work; every other thread that takes one sleeps in it. It does not do so for long
    // where the caller takes none.
    static void piece(void* data, size_t) {
        detail::take_over(data);
        ExclusiveCall& self = *static_cast<ExclusiveCall*>(data);
        if (std::this_thread::get_id() == self.caller) return self.run();
        std::unique_lock<std::mutex> lock(self.mutex);
        self.asleep.fetch_add(1);
        self.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return self.has_begun; });
        if (self.has_begun) self.changed.wait(lock, [&] { return self.is_over; });
        detail::hand_over(data);
    }

    // OpenMP keeps threads for each thread that calls it, so the work is always the caller's.
    void run() {
        if (is_over) return;
        // Threads that libtorch makes are put on the cores that are free then.
        const Clock::time_point until = Clock::now() + longest_wait;
        while (asleep.load() == 0 && Clock::now() < until) {
        }
        set(has_begun);
        try {
            work();
        } catch (...) {
            thrown = std::current_exception();
        }
        release_open_mp_threads();  // first: a thread that wakes would wait for the core that one of them has
        set(is_over);
    }

    void set(bool& state) {
        const std::lock_guard<std::mutex> lock(mutex);
        state = true;
        changed.notify_all();
    }
};

// More than ONNX Runtime has threads, so that there is one for the caller whoever else has taken some.
constexpr size_t pieces = 1024;

}  // namespace

void CoreScheduler::run(const OrtApi* api, OrtKernelContext* context, const std::function<void()>& work) const {
    const bool was_long = last_was_long_.load(std::memory_order_relaxed);
    const Clock::time_point began = Clock::now();
    if (was_long) {
        ExclusiveCall exclusive(work, std::chrono::microseconds(threads_slept_.load(std::memory_order_relaxed) ? 20 : 0));
        detail::hand_over(&exclusive);
        call(api, KernelContext_ParallelFor, static_cast<const OrtKernelContext*>(context), &ExclusiveCall::piece, pieces, size_t{0},
             static_cast<void*>(&exclusive));
        detail::take_over(&exclusive);
        exclusive.run();  // where it has not been yet
        threads_slept_.store(exclusive.asleep.load() > 0, std::memory_order_relaxed);
        if (exclusive.thrown) std::rethrow_exception(exclusive.thrown);
    } else {
        work();
    }
    const bool is_long = Clock::now() - began > long_call;
    if (is_long != was_long) last_was_long_.store(is_long, std::memory_order_relaxed);
    if (is_long && !was_long) release_open_mp_threads();
}

void copy(const OrtApi* api, OrtKernelContext* context, void* to, const void* from, size_t bytes) {
    constexpr size_t block = size_t{1} << 18;
    if (bytes <= 2 * block) {
        std::memcpy(to, from, bytes);
        return;
    }
    struct Copy {
        char* to;
        const char* from;
        size_t bytes;

        static void piece(void* data, size_t index) {
            detail::take_over(data);
            const Copy& copy = *static_cast<Copy*>(data);
            const size_t start = index * block, rest = copy.bytes - start;
            std::memcpy(copy.to + start, copy.from + start, rest < block ? rest : block);
            detail::hand_over(data);
        }
    } all{static_cast<char*>(to), static_cast<const char*>(from), bytes};
    const size_t blocks = (bytes + block - 1) / block;
    detail::hand_over(&all);
    call(api, KernelContext_ParallelFor, static_cast<const OrtKernelContext*>(context), &Copy::piece, blocks, size_t{0},
         static_cast<void*>(&all));
    detail::take_over(&all);
}

}  // namespace aten
}  // namespace opbridge
