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

// What a Scalar is: the checks know a type of each value.
std::string type_of(const Value& argument) {
    if (argument.type != "Scalar") return argument.type;
    switch (argument.kind) {
        case Kind::integer:
        case Kind::input_int: return "int";
        case Kind::number:
        case Kind::input_float: return "float";
        case Kind::boolean:
        case Kind::input_bool: return "bool";
        default: return argument.type;
    }
}

void check_arguments(const Node& node, const std::vector<StableValue>& values) {
    CheckedCall call;
    for (size_t i = 0; i < values.size(); ++i) {
        const Value& argument = node.arguments[i];
        const bool is_none = argument.kind == Kind::none;
        const bool is_boxed = argument.optional && !is_none && !node.run;
        call.values.push_back(
            {argument.name, type_of(argument), is_none, is_boxed ? *reinterpret_cast<StableValue*>(values[i]) : values[i]});
    }
    node.check(call);
}

}  // namespace

void run(const Node& node, const CoreScheduler& cores, const OrtApi* api, OrtKernelContext* context) {
    const WithoutGradients guard;
    Arguments arguments;
    build_arguments(node, api, context, arguments);
    if (node.check) check_arguments(node, arguments.values);
    arguments.release();
    cores.run(api, context, [&] { call_operator(node, arguments.values); });
    write_results(node, api, context, arguments.values);
}

}  // namespace aten
}  // namespace opbridge
