// Kernels as custom operators of ONNX Runtime: `RegisterCustomOps`, which it looks for in a library.
#pragma once

#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "operator.h"
#include "ort_kernel.h"
#include "ort_shapes.h"
#include "shared_library.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

using namespace detail;

inline const OrtApi*& current_api() {
    static const OrtApi* api = nullptr;
    return api;
}

constexpr int32_t on_cpu = -2;  // OrtMemTypeCPUInput

constexpr const char* cuda_provider = "CUDAExecutionProvider";

// An operator with one of its kernels, as ONNX Runtime sees it. It merges those of one name, and picks by the inputs' types.
struct CustomOp : OrtCustomOp {
    const Operator* op;
    size_t instance;
    bool on_cuda;  // a kernel for the CUDA execution provider
    std::string name;
    std::vector<int32_t> inputs, presence, memory, outputs;

    CustomOp(const Operator* op, size_t instance, bool on_cuda);
};

inline const CustomOp& self(const OrtCustomOp* op) { return *static_cast<const CustomOp*>(op); }

inline CustomOp::CustomOp(const Operator* op, size_t instance, bool on_cuda)
    : OrtCustomOp(), op(op), instance(instance), on_cuda(on_cuda), name(op->schema.op_type()) {
    const Instance& kernel = op->instances[instance];
    size_t argument = 0;
    for (size_t i = 0; i < kernel.count; ++i) {
        const Parameter& parameter = kernel.parameters[i];
        if (parameter.kind == Kind::context) continue;
        if (is_output(parameter.kind)) {
            outputs.push_back(static_cast<int32_t>(parameter.type));
            continue;
        }
        const ArgumentSchema& declared = op->schema.arguments[argument++];
        if (!is_tensor(declared.kind)) continue;
        if (!presence.empty() && presence.back() == variadic) {
            // What follows a list is part of the same variadic input, which then takes any types.
            inputs.back() = static_cast<int32_t>(Type::any);
            continue;
        }
        inputs.push_back(static_cast<int32_t>(parameter.type));
        presence.push_back(declared.kind == Kind::tensors ? variadic : declared.optional ? ort::optional : required);
        memory.push_back(on_cuda && op->reads_on_host(argument - 1) ? on_cpu : 0);
    }
    OrtCustomOp::version = ort::version;
    GetName = [](const OrtCustomOp* op) { return self(op).name.c_str(); };
    GetExecutionProviderType = [](const OrtCustomOp* op) -> const char* { return self(op).on_cuda ? cuda_provider : nullptr; };
    GetInputType = [](const OrtCustomOp* op, size_t i) { return self(op).inputs[i]; };
    GetInputTypeCount = [](const OrtCustomOp* op) { return self(op).inputs.size(); };
    GetOutputType = [](const OrtCustomOp* op, size_t i) { return self(op).outputs[i]; };
    GetOutputTypeCount = [](const OrtCustomOp* op) { return self(op).outputs.size(); };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    GetInputCharacteristic = [](const OrtCustomOp* op, size_t i) { return self(op).presence[i]; };
    GetOutputCharacteristic = [](const OrtCustomOp* op, size_t i) {
        const Schema& schema = self(op).op->schema;
        return static_cast<int32_t>(schema.returns_list && i + 1 == schema.returns ? variadic : required);
    };
    GetInputMemoryType = [](const OrtCustomOp* op, size_t i) { return self(op).memory[i]; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp* op) { return self(op).inputs.back() == 0 ? 0 : 1; };
    GetVariadicOutputMinArity = [](const OrtCustomOp* op) { return self(op).op->schema.returns > 1 ? 0 : 1; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
        const Operator* found = self(op).op;
        const bool on_cuda = self(op).on_cuda;
        return guarded(
            api, [&] { *kernel = new Kernel(api, found, info, on_cuda); },
            [&](const char* message) { return found->error_message(message); });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
        const Kernel& found = *static_cast<const Kernel*>(kernel);
        return guarded(found.api, [&] { found.compute(context); }, [&](const char* message) { return found.op->error_message(message); });
    };
    InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
        const OrtApi* api = current_api();
        try {
            ShapeInference(api, *self(op).op, context).run();
        } catch (...) {  // ONNX Runtime takes no notice of errors here; the same one is raised when the model runs
        }
        return static_cast<OrtStatus*>(nullptr);
    };
    for (const ArgumentSchema& declared : op->schema.arguments) {
        // For an input that is left out, ONNX Runtime itself reads through a null pointer before it calls the function.
        if (declared.kind == Kind::tensor && declared.optional) InferOutputShapeFn = nullptr;
    }
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return 0x7fffffff; };
}

// How one library of the process lists its custom operators to another one: the first calls `add(data, domain, op)` for each.
using AddCustomOp = void (*)(void* data, const char* domain, const OrtCustomOp* op);
using ListCustomOps = void (*)(const OrtApi* api, AddCustomOp add, void* data);

// This library's custom operators, which live as long as the process.
inline const std::deque<CustomOp>& custom_ops() {
    static const std::deque<CustomOp>* ops = [] {
        auto* made = new std::deque<CustomOp>;
        for (const Operator* op = Operator::first(); op; op = op->next) {
            if (!op->problem.empty()) throw std::invalid_argument(op->problem);
            for (size_t instance = 0; instance < op->instances.size(); ++instance) {
                for (bool on_cuda : {false, true}) {
                    if (on_cuda && !op->instances[instance].launch) continue;
                    CustomOp found(op, instance, on_cuda);
                    bool same = false;  // kernels that differ in nothing that ONNX Runtime sees are told apart when they are called
                    for (const CustomOp& other : *made) {
                        same = same || (other.op == op && other.on_cuda == on_cuda && other.inputs == found.inputs &&
                                        other.outputs == found.outputs);
                    }
                    if (!same) made->push_back(std::move(found));
                }
            }
        }
        return made;
    }();
    return *ops;
}

// Whether this ONNX Runtime has the CUDA execution provider.
inline bool has_cuda_provider(const OrtApi* api) {
    char** names = nullptr;
    int32_t count = 0;
    if (!succeeds(api, GetAvailableProviders, &names, &count)) return false;
    bool found = false;
    for (int32_t i = 0; i < count; ++i) found = found || std::string(names[i]) == cuda_provider;
    succeeds(api, ReleaseAvailableProviders, names, count);
    return found;
}

inline void list_custom_ops(const OrtApi* api, AddCustomOp add, void* data) {
    current_api() = api;
    const bool has_cuda = has_cuda_provider(api);
    for (const CustomOp& op : custom_ops()) {
        if (!op.on_cuda || has_cuda) add(data, op.op->schema.domain.c_str(), &op);
    }
}

// The domains of the operators of some libraries. A session accepts a domain from one library only, so that this library may be asked to
// register those of others with its own.
struct Domains {
    const OrtApi* api;
    std::vector<ListCustomOps> libraries;
    std::vector<std::pair<std::string, OrtCustomOpDomain*>> domains;

    static void add(void* data, const char* name, const OrtCustomOp* op) {
        Domains& all = *static_cast<Domains*>(data);
        OrtCustomOpDomain* found = nullptr;
        for (const auto& domain : all.domains) found = domain.first == name ? domain.second : found;
        if (!found) {
            call(all.api, CreateCustomOpDomain, name, &found);
            all.domains.emplace_back(name, found);
        }
        call(all.api, CustomOpDomain_Add, found, op);
    }

    Domains(const OrtApi* api, const std::vector<ListCustomOps>& libraries) : api(api), libraries(libraries) {
        for (ListCustomOps list : libraries) list(api, &add, this);
    }

    // Made once for each set of libraries: sessions keep pointers to them.
    static const Domains& of(const OrtApi* api, const std::vector<ListCustomOps>& libraries) {
        static std::mutex mutex;
        static auto* known = new std::deque<Domains>;
        const std::lock_guard<std::mutex> lock(mutex);
        for (const Domains& each : *known) {
            if (each.libraries == libraries) return each;
        }
        return known->emplace_back(api, libraries);
    }
};

// The libraries whose operators the next registration on this thread registers as well.
inline std::vector<ListCustomOps>& other_libraries() {
    thread_local std::vector<ListCustomOps> libraries;
    return libraries;
}

}  // namespace ort
}  // namespace opbridge

extern "C" OPBRIDGE_ENTRY void opbridge_list_custom_ops(const OrtApi* api, opbridge::ort::AddCustomOp add, void* data) {
    opbridge::ort::list_custom_ops(api, add, data);
}

// The next RegisterCustomOps on this thread also registers the operators of the libraries whose `opbridge_list_custom_ops` are given.
extern "C" OPBRIDGE_ENTRY void opbridge_register_with(const opbridge::ort::ListCustomOps* libraries, size_t count) {
    opbridge::ort::other_libraries().assign(libraries, libraries + count);
}

extern "C" OPBRIDGE_ENTRY OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
    using namespace opbridge;
    const OrtApi* api = ort::connect(base);
    if (!api) return nullptr;  // there is nothing to report it with
    detail::RuntimeFiles::add(detail::file_of(reinterpret_cast<const void*>(base->GetApi)));
    return ort::guarded(
        api,
        [&] {
            std::vector<ort::ListCustomOps> libraries{&opbridge_list_custom_ops};
            libraries.insert(libraries.end(), ort::other_libraries().begin(), ort::other_libraries().end());
            ort::other_libraries().clear();
            for (const auto& domain : ort::Domains::of(api, libraries).domains)
                ort::call(api, ort::AddCustomOpDomain, options, domain.second);
        },
        [](const char* message) { return std::string(message); });
}
