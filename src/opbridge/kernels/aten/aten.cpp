// The custom operator org.pytorch.aten::ATen of ONNX Runtime. A session's options say, before the library is registered with them:
//     opbridge.aten       patterns of operators that run beside those of the default list, as "torchvision::*,mylib::my_add"
//     opbridge.libtorch   the path of libtorch, where it is not in the process
#include <deque>
#include <mutex>

#include <dlfcn.h>

#include "checks_for_torch.h"
#include "evidence.h"
#include "run.h"

namespace opbridge {
namespace aten {

namespace {

struct CustomOp : OrtCustomOp {
    std::string patterns, path;
    Allowed allowed;
    OrtCustomOpDomain* domain = nullptr;

    CustomOp(const std::string& patterns, const std::string& path);
};

const CustomOp& self(const OrtCustomOp* op) { return *static_cast<const CustomOp*>(op); }

struct Kernel {
    const OrtApi* api;
    Node node;
    std::string name;
    CoreScheduler cores;
};

// A node's name in errors: "aten::topk".
std::string node_name(const Attributes& attributes) {
    try {
        const std::string overload = attributes.text("overload_name");
        return attributes.text("operator") + (overload.empty() ? "" : "." + overload);
    } catch (const std::exception&) {
        return "an aten node";
    }
}

CustomOp::CustomOp(const std::string& patterns, const std::string& path)
    : OrtCustomOp(), patterns(patterns), path(path), allowed(patterns) {
    OrtCustomOp::version = ort::version;
    GetName = [](const OrtCustomOp*) { return "ATen"; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputType = [](const OrtCustomOp*, size_t) { return int32_t{0}; };
    GetInputTypeCount = [](const OrtCustomOp*) { return size_t{1}; };
    GetOutputType = [](const OrtCustomOp*, size_t) { return int32_t{0}; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return size_t{1}; };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return static_cast<int32_t>(variadic); };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return static_cast<int32_t>(variadic); };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return int32_t{0}; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
        const Attributes attributes(api, info);
        const std::string name = node_name(attributes);
        return guarded(
            api,
            [&] {
                load(self(op).path);
                size_t inputs = 0, outputs = 0;
                call(api, KernelInfo_GetInputCount, info, &inputs);
                call(api, KernelInfo_GetOutputCount, info, &outputs);
                *kernel = new Kernel{api, read_node(attributes, inputs, outputs, self(op).allowed), name, {}};
            },
            [&](const char* message) { return name + ": " + message; });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
        const Kernel& found = *static_cast<const Kernel*>(kernel);
        return guarded(
            found.api, [&] { run(found.node, found.cores, found.api, context); },
            [&](const char* message) { return found.name + ": " + message; });
    };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return 1; };
}

// Made once for each set of options: sessions keep pointers to them.
const CustomOp& custom_op(const OrtApi* api, const std::string& patterns, const std::string& path) {
    static std::mutex mutex;
    static auto* known = new std::deque<CustomOp>;
    const std::lock_guard<std::mutex> lock(mutex);
    for (const CustomOp& each : *known) {
        if (each.patterns == patterns && each.path == path) return each;
    }
    CustomOp& made = known->emplace_back(patterns, path);
    call(api, CreateCustomOpDomain, "org.pytorch.aten", &made.domain);
    call(api, CustomOpDomain_Add, made.domain, static_cast<const OrtCustomOp*>(&made));
    return made;
}

// ONNX Runtime closes the library with the last session; libtorch keeps pointers to its functions.
void stay_loaded() {
    Dl_info own;
    if (dladdr(reinterpret_cast<const void*>(&self), &own) && own.dli_fname) dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

const char* answer(std::string (*question)(const FunctionSchema&), const char* schema) {
    thread_local std::string reason;
    detail::guarded([&] { reason = question(detail::parse_schema(schema)); },
                    [](detail::Thrown, const char* message) { reason = message; });
    return reason.c_str();
}

}  // namespace
}  // namespace aten
}  // namespace opbridge

// Why an operator with this schema runs only where it is named, in the libtorch of the process; "" where it runs anyway. Valid until the
// thread's next call.
extern "C" __attribute__((visibility("default"))) const char* opbridge_aten_refusal(const char* schema) {
    return opbridge::aten::answer(
        [](const opbridge::aten::FunctionSchema& parsed) {
            opbridge::aten::load("");
            return opbridge::aten::refusal(parsed);
        },
        schema);
}

// Why no evidence puts an operator with this schema on the default list; "" where some may. Valid until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* opbridge_aten_rule(const char* schema) {
    return opbridge::aten::answer(opbridge::aten::rule, schema);
}

// Whether an operator with this schema has a check of its arguments: "yes", or "". Valid until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* opbridge_aten_has_check(const char* schema) {
    return opbridge::aten::answer(
        [](const opbridge::aten::FunctionSchema& parsed) { return std::string(opbridge::aten::check_of(parsed) ? "yes" : ""); }, schema);
}

// Why there is not enough evidence for an operator ("add.Tensor") in a release of torch ("2.15"); "" where there is. Valid until the
// thread's next call.
extern "C" __attribute__((visibility("default"))) const char* opbridge_aten_missing_evidence(const char* name, const char* torch_version) {
    using namespace opbridge;
    thread_local std::string reason;
    detail::guarded([&] { reason = aten::missing_evidence(name, torch_version); },
                    [](detail::Thrown, const char* message) { reason = message; });
    return reason.c_str();
}

// Defines the check of an operator with this schema as an operator of torch's (`define_check`). "" where it has none, else that
// operator's namespace; where it cannot be defined, a text that begins with "error: ". Valid until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* opbridge_aten_define_check(const char* schema) {
    using namespace opbridge;
    thread_local std::string name;
    detail::guarded([&] { name = aten::define_check(schema) ? "opbridge_checks" : ""; },
                    [](detail::Thrown, const char* message) { name = std::string("error: ") + message; });
    return name.c_str();
}

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
    using namespace opbridge::aten;
    const OrtApi* api = opbridge::ort::connect(base);
    if (!api) return nullptr;  // there is nothing to report it with
    return guarded(
        api,
        [&] {
            stay_loaded();
            const CustomOp& op =
                custom_op(api, config_entry(api, options, "opbridge.aten"), config_entry(api, options, "opbridge.libtorch"));
            call(api, AddCustomOpDomain, options, op.domain);
        },
        [](const char* message) { return std::string("The library for aten nodes: ") + message; });
}
