#include "cores.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "libtorch.h"

namespace opbridge {
namespace aten {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds worth_it(200);

void let_go() {
    const Libtorch& torch = libtorch();
    if (!torch.omp_pause_resource_all || !torch.omp_get_max_threads || torch.omp_get_max_threads() < 2) return;
    constexpr int32_t soft = 1;
    torch.omp_pause_resource_all(soft);
}

// One call during which ONNX Runtime's threads sleep.
struct Loan {
    const std::function<void()>& work;
    std::chrono::microseconds patience;  // how long to wait for a thread of ONNX Runtime to fall asleep
    std::thread::id caller = std::this_thread::get_id();
    std::exception_ptr thrown;
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int> asleep{0};  // threads of ONNX Runtime
    bool has_begun = false, is_over = false;

    Loan(const std::function<void()>& work, std::chrono::microseconds patience) : work(work), patience(patience) {}

    // One piece of a parallel loop. The caller's is the work; every other thread that takes one sleeps in it. It does not do so for long
    // where the caller takes none.
    static void piece(void* data, size_t) {
        Loan& loan = *static_cast<Loan*>(data);
        if (std::this_thread::get_id() == loan.caller) return loan.run();
        std::unique_lock<std::mutex> lock(loan.mutex);
        loan.asleep.fetch_add(1);
        loan.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return loan.has_begun; });
        if (loan.has_begun) loan.changed.wait(lock, [&] { return loan.is_over; });
    }

    // OpenMP keeps threads for each thread that calls it, so the work is always the caller's.
    void run() {
        if (is_over) return;
        // Threads that libtorch makes are put on the cores that are free then.
        const Clock::time_point until = Clock::now() + patience;
        while (asleep.load() == 0 && Clock::now() < until) {
        }
        set(has_begun);
        try {
            work();
        } catch (...) {
            thrown = std::current_exception();
        }
        let_go();  // first: a thread that wakes would wait for the core that one of them has
        set(is_over);
    }

    void set(bool& what) {
        const std::lock_guard<std::mutex> lock(mutex);
        what = true;
        changed.notify_all();
    }
};

// More than ONNX Runtime has threads, so that there is one for the caller whoever else has taken some.
constexpr size_t pieces = 1024;

}  // namespace

void Cores::lend(const OrtApi* api, OrtKernelContext* context, const std::function<void()>& work) const {
    const bool was_long = is_long_.load(std::memory_order_relaxed);
    const Clock::time_point began = Clock::now();
    if (was_long) {
        Loan loan(work, std::chrono::microseconds(has_company_.load(std::memory_order_relaxed) ? 20 : 0));
        call(api, KernelContext_ParallelFor, static_cast<const OrtKernelContext*>(context), &Loan::piece, pieces, size_t{0},
             static_cast<void*>(&loan));
        loan.run();  // where it has not been yet
        has_company_.store(loan.asleep.load() > 0, std::memory_order_relaxed);
        if (loan.thrown) std::rethrow_exception(loan.thrown);
    } else {
        work();
    }
    const bool is_long = Clock::now() - began > worth_it;
    if (is_long != was_long) is_long_.store(is_long, std::memory_order_relaxed);
    if (is_long && !was_long) let_go();
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
            const Copy& copy = *static_cast<Copy*>(data);
            const size_t start = index * block, rest = copy.bytes - start;
            std::memcpy(copy.to + start, copy.from + start, rest < block ? rest : block);
        }
    } all{static_cast<char*>(to), static_cast<const char*>(from), bytes};
    const size_t blocks = (bytes + block - 1) / block;
    call(api, KernelContext_ParallelFor, static_cast<const OrtKernelContext*>(context), &Copy::piece, blocks, size_t{0},
         static_cast<void*>(&all));
}

}  // namespace aten
}  // namespace opbridge
