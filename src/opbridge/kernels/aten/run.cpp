#include "run.h"

#include "arguments.h"
#include "calling.h"
#include "results.h"

namespace opbridge {
namespace aten {

namespace {

// Runs what is in its scope without a record for gradients.
class WithoutGradients {
  public:
    WithoutGradients() : before_(libtorch().aoti_torch_grad_mode_is_enabled()) {
        if (before_) libtorch().aoti_torch_grad_mode_set_enabled(false);
    }
    WithoutGradients(const WithoutGradients&) = delete;
    WithoutGradients& operator=(const WithoutGradients&) = delete;
    ~WithoutGradients() {
        if (before_) libtorch().aoti_torch_grad_mode_set_enabled(true);
    }

  private:
    bool before_;
};

}  // namespace

void run(const Node& node, const CoreScheduler& cores, const OrtApi* api, OrtKernelContext* context) {
    const WithoutGradients guard;
    Arguments arguments;
    build_arguments(node, api, context, arguments);
    arguments.release();
    cores.run(api, context, [&] { call_operator(node, arguments.values); });
    write_results(node, api, context, arguments.values);
}

}  // namespace aten
}  // namespace opbridge
