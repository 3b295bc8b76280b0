// Which threads have the processor's cores while libtorch works: its own, or those of ONNX Runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <opbridge/adapter/ort_calls.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

using namespace opbridge::ort;

// Decides how a node's calls share the processor's cores. The threads of ONNX Runtime and of libtorch go on asking for work for some
// milliseconds when they have finished theirs, on the cores that the other side needs next. So during a call that takes long, as the one
// before it did, ONNX Runtime's threads sleep, and libtorch's are released after it. A short call is not worth that: to wake a thread takes
// about as long.
class CoreScheduler {
  public:
    // Calls `work` on this thread; what it throws is thrown here.
    void run(const OrtApi* api, OrtKernelContext* context, const std::function<void()>& work) const;

  private:
    mutable std::atomic<bool> last_was_long_{false};
    mutable std::atomic<bool> threads_slept_{true};  // whether threads of ONNX Runtime slept during the last long call
};

// Copies memory on ONNX Runtime's threads.
void copy(const OrtApi* api, OrtKernelContext* context, void* to, const void* from, size_t bytes);

}  // namespace aten
}  // namespace opbridge
