// Which threads have the processor's cores while libtorch works: its own, or those of ONNX Runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <opbridge/adapter/ort_calls.h>

namespace opbridge {
namespace aten {

using namespace opbridge::ort;

// What is known of a node's calls. Threads of either side go on asking for work for some milliseconds when they have done theirs, on the
// cores that the other side needs next. So around a call that takes long, as the one before did, ONNX Runtime's threads sleep until it is
// over, and libtorch's are let go behind it. A short call is not worth that: to wake a thread takes about as long.
class Cores {
  public:
    // Calls `work` on this thread; what it throws is thrown here.
    void lend(const OrtApi* api, OrtKernelContext* context, const std::function<void()>& work) const;

  private:
    mutable std::atomic<bool> is_long_{false};     // the call before
    mutable std::atomic<bool> has_company_{true};  // whether threads of ONNX Runtime slept during it
};

// Copies memory on ONNX Runtime's threads.
void copy(const OrtApi* api, OrtKernelContext* context, void* to, const void* from, size_t bytes);

}  // namespace aten
}  // namespace opbridge
