// Kernels as custom operators of ONNX Runtime: `RegisterCustomOps`, which it looks for in a library.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "operator.h"
#include "ort_nodes.h"
#include "ort_shapes.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

using namespace detail;

class OrtRuntime final : public Runtime {
  public:
    OrtRuntime(const OrtApi* api, OrtKernelContext* context) : api_(api), context_(context) {}
    ~OrtRuntime() {
        for (void* memory : scratch_) succeeds(api_, AllocatorFree, allocator_, memory);
        if (allocator_) function(api_, ReleaseAllocator)(allocator_);
        if (memory_) function(api_, ReleaseMemoryInfo)(memory_);
    }

    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        OrtValue* value = nullptr;
        call(api_, KernelContext_GetOutput, context_, static_cast<size_t>(index), sizes, static_cast<size_t>(rank), &value);
        if (value) return data_of(api_, value);
        // Nobody reads this output, so ONNX Runtime has no memory for it; the kernel writes it all the same.
        size_t bytes = size_of(type);
        for (int64_t axis = 0; axis < rank; ++axis) bytes *= static_cast<size_t>(sizes[axis]);
        return allocate_scratch(bytes);
    }

    void* allocate_scratch(size_t bytes) override {
        if (!allocator_) {
            call(api_, CreateCpuMemoryInfo, 1, 0, &memory_);
            call(api_, KernelContext_GetAllocator, context_, memory_, &allocator_);
        }
        void* found = nullptr;
        call(api_, AllocatorAlloc, allocator_, bytes + 63, &found);
        scratch_.push_back(found);
        return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(found) + 63) & ~uintptr_t{63});
    }

    void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) override {
        struct Work {
            void (*piece)(void*, int64_t);
            void* data;
        } work{piece, data};
        const auto one = [](void* given, size_t index) {
            const Work& work = *static_cast<Work*>(given);
            work.piece(work.data, static_cast<int64_t>(index));
        };
        call(api_, KernelContext_ParallelFor, context_, one, static_cast<size_t>(pieces), size_t{0}, static_cast<void*>(&work));
    }

    // ONNX Runtime does not tell how many threads its pool has; no more than this work at once.
    int64_t threads() override {
        static const int64_t count = std::thread::hardware_concurrency();
        return count > 0 ? count : 1;
    }

    void* stream() override {
        void* stream = nullptr;
        return succeeds(api_, KernelContext_GetGPUComputeStream, context_, &stream) ? stream : nullptr;
    }

  private:
    const OrtApi* api_;
    OrtKernelContext* context_;
    OrtMemoryInfo* memory_ = nullptr;
    OrtAllocator* allocator_ = nullptr;
    std::vector<void*> scratch_;
};

inline const OrtApi*& current_api() {
    static const OrtApi* api = nullptr;
    return api;
}

// Reads an attribute of a node; false where it has none of that name.
template <class Number, class Source, class Place>
bool read_array(const OrtApi* api, const Source* source, Place place, const char* name, std::vector<Number>& values) {
    size_t size = 0;
    if (!succeeds(api, place, source, name, static_cast<Number*>(nullptr), &size)) return false;
    values.resize(size);
    return size == 0 || succeeds(api, place, source, name, values.data(), &size);
}

// Doubles that a float does not hold are kept in an attribute that is a tensor.
inline bool read_doubles(const OrtApi* api, const OrtKernelInfo* info, const char* name, std::vector<double>& values) {
    OrtAllocator* allocator = nullptr;
    OrtValue* value = nullptr;
    call(api, GetAllocatorWithDefaultOptions, &allocator);
    if (!succeeds(api, KernelInfoGetAttribute_tensor, info, name, allocator, &value)) return false;
    OrtTensorTypeAndShapeInfo* described = nullptr;
    int32_t type = 0;
    size_t count = 0;
    void* data = nullptr;
    bool found = succeeds(api, GetTensorTypeAndShape, value, &described) && succeeds(api, GetTensorElementType, described, &type) &&
                 succeeds(api, GetTensorShapeElementCount, described, &count) && succeeds(api, GetTensorMutableData, value, &data) &&
                 type == static_cast<int32_t>(Type::float64);
    if (found) values.assign(static_cast<const double*>(data), static_cast<const double*>(data) + count);
    if (described) function(api, ReleaseTensorTypeAndShapeInfo)(described);
    function(api, ReleaseValue)(value);
    return found;
}

inline Attribute read_attribute(const OrtApi* api, const OrtKernelInfo* info, const ArgumentSchema& declared) {
    const char* name = declared.name.c_str();
    Attribute value;
    switch (declared.kind) {
        case Kind::integer:
        case Kind::boolean: value.given = succeeds(api, KernelInfoGetAttribute_int64, info, name, &value.integer.known); break;
        case Kind::number: {
            float number = 0;
            std::vector<double> numbers;
            value.given = succeeds(api, KernelInfoGetAttribute_float, info, name, &number);
            value.number = number;
            if (!value.given && read_doubles(api, info, name, numbers) && numbers.size() == 1) {
                value.given = true;
                value.number = numbers[0];
            }
            break;
        }
        case Kind::text: {
            size_t size = 0;
            if (!succeeds(api, KernelInfoGetAttribute_string, info, name, static_cast<char*>(nullptr), &size)) break;
            value.text.resize(size);
            value.given = succeeds(api, KernelInfoGetAttribute_string, info, name, &value.text[0], &size);
            value.text.resize(size > 0 ? size - 1 : 0);  // it counts the zero at the end
            break;
        }
        case Kind::integers: value.given = read_array(api, info, KernelInfoGetAttributeArray_int64, name, value.integers); break;
        default: {
            // In this order: ONNX Runtime reads a tensor as an empty list.
            std::vector<float> numbers;
            value.given = read_doubles(api, info, name, value.numbers);
            if (value.given) break;
            value.given = read_array(api, info, KernelInfoGetAttributeArray_float, name, numbers);
            value.numbers.assign(numbers.begin(), numbers.end());
        }
    }
    return value;
}

// An operator with one of its kernels, as ONNX Runtime sees it. It merges those of one name, and picks by the inputs' types.
struct CustomOp : OrtCustomOp {
    const Operator* op;
    size_t instance;
    std::string name;
    std::vector<int32_t> inputs, presence, outputs;

    CustomOp(const Operator* op, size_t instance);
};

struct Kernel {
    const OrtApi* api;
    const Operator* op;
    std::vector<Attribute> attributes;
    Layout layout;

    Kernel(const OrtApi* api, const Operator* op, const OrtKernelInfo* info) : api(api), op(op) {
        for (const ArgumentSchema& declared : op->schema.arguments) {
            attributes.push_back(is_tensor(declared.kind) ? Attribute() : completed(read_attribute(api, info, declared), declared));
        }
        layout = Layout::read(
            op->schema, [&](const char* name, int64_t* length) { return succeeds(api, KernelInfoGetAttribute_int64, info, name, length); });
    }

    void compute(OrtKernelContext* context) const {
        const Schema& schema = op->schema;
        Call call;
        call.arguments.resize(schema.arguments.size());
        size_t given = 0;
        ort::call(api, KernelContext_GetInputCount, context, &given);
        std::vector<std::vector<int64_t>> copies;
        const auto read = [&](size_t input, Tensor& tensor) {
            const OrtValue* value = nullptr;
            if (input < given) ort::call(api, KernelContext_GetInput, context, input, &value);
            if (!value) return false;
            std::vector<int64_t> copy;
            const Described found = described(api, value, copy);
            if (!copy.empty()) copies.push_back(std::move(copy));
            tensor.type = static_cast<Type>(found.type);
            tensor.rank = static_cast<int64_t>(found.rank);
            tensor.sizes = found.sizes;
            tensor.count = 1;
            for (size_t axis = 0; axis < found.rank; ++axis) tensor.count *= found.sizes[axis];
            tensor.data = data_of(api, value);
            return true;
        };
        layout.each(schema, given, [&](size_t index, size_t input, size_t length) {
            Argument& argument = call.arguments[index];
            const ArgumentSchema& declared = schema.arguments[index];
            if (declared.kind == Kind::tensor) {
                argument.given = read(input, argument.tensor);
                if (!argument.given && !declared.optional) throw std::invalid_argument("the input '" + declared.name + "' is left out");
                return;
            }
            argument.given = true;
            argument.tensors.resize(length);
            for (size_t i = 0; i < length; ++i) {
                if (!read(input + i, argument.tensors[i]))
                    throw std::invalid_argument("a tensor of the list '" + declared.name + "' is left out");
            }
        });
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            if (is_tensor(schema.arguments[i].kind)) continue;
            call.arguments[i].given = attributes[i].given;
            call.arguments[i].attribute = &attributes[i];
        }
        OrtRuntime runtime(api, context);
        op->run(call, runtime);
    }
};

inline const CustomOp& self(const OrtCustomOp* op) { return *static_cast<const CustomOp*>(op); }

inline CustomOp::CustomOp(const Operator* op, size_t instance) : OrtCustomOp(), op(op), instance(instance), name(op->schema.op_type()) {
    const Instance& kernel = op->instances[instance];
    size_t argument = 0;
    for (size_t i = 0; i < kernel.count; ++i) {
        const Parameter& parameter = kernel.parameters[i];
        if (parameter.kind == Kind::context) continue;
        if (parameter.kind == Kind::output) {
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
    }
    OrtCustomOp::version = ort::version;
    GetName = [](const OrtCustomOp* op) { return self(op).name.c_str(); };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputType = [](const OrtCustomOp* op, size_t i) { return self(op).inputs[i]; };
    GetInputTypeCount = [](const OrtCustomOp* op) { return self(op).inputs.size(); };
    GetOutputType = [](const OrtCustomOp* op, size_t i) { return self(op).outputs[i]; };
    GetOutputTypeCount = [](const OrtCustomOp* op) { return self(op).outputs.size(); };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    GetInputCharacteristic = [](const OrtCustomOp* op, size_t i) { return self(op).presence[i]; };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return static_cast<int32_t>(required); };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return int32_t{0}; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp* op) { return self(op).inputs.back() == 0 ? 0 : 1; };
    GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
        const Operator* found = self(op).op;
        return guarded(
            api, [&] { *kernel = new Kernel(api, found, info); }, [&](const char* message) { return found->error_message(message); });
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

// Tells another library of the process about a custom operator of this one.
using Take = void (*)(void* self, const char* domain, const OrtCustomOp* op);
using Offer = void (*)(const OrtApi* api, Take take, void* self);

// This library's custom operators, which live as long as the process.
inline const std::deque<CustomOp>& custom_ops() {
    static const std::deque<CustomOp>* ops = [] {
        auto* made = new std::deque<CustomOp>;
        for (const Operator* op = Operator::first(); op; op = op->next) {
            if (!op->problem.empty()) throw std::invalid_argument(op->problem);
            for (size_t instance = 0; instance < op->instances.size(); ++instance) {
                CustomOp found(op, instance);
                bool same = false;  // kernels that differ in nothing that ONNX Runtime sees are told apart when they are called
                for (const CustomOp& other : *made) {
                    same = same || (other.op == op && other.inputs == found.inputs && other.outputs == found.outputs);
                }
                if (!same) made->push_back(std::move(found));
            }
        }
        return made;
    }();
    return *ops;
}

inline void offer(const OrtApi* api, Take take, void* self) {
    current_api() = api;
    for (const CustomOp& op : custom_ops()) take(self, op.op->schema.domain.c_str(), &op);
}

// Domains of the operators that some libraries offer. A session takes a domain from one library only, so that this library may be asked
// to bring those of others along.
struct Domains {
    const OrtApi* api;
    std::vector<Offer> offers;
    std::vector<std::pair<std::string, OrtCustomOpDomain*>> domains;

    static void take(void* self, const char* name, const OrtCustomOp* op) {
        Domains& all = *static_cast<Domains*>(self);
        OrtCustomOpDomain* found = nullptr;
        for (const auto& domain : all.domains) found = domain.first == name ? domain.second : found;
        if (!found) {
            call(all.api, CreateCustomOpDomain, name, &found);
            all.domains.emplace_back(name, found);
        }
        call(all.api, CustomOpDomain_Add, found, op);
    }

    Domains(const OrtApi* api, const std::vector<Offer>& offers) : api(api), offers(offers) {
        for (Offer offer : offers) offer(api, &take, this);
    }

    // Made once for each set of libraries: sessions keep pointers to them.
    static const Domains& of(const OrtApi* api, const std::vector<Offer>& offers) {
        static std::mutex mutex;
        static auto* known = new std::deque<Domains>;
        const std::lock_guard<std::mutex> lock(mutex);
        for (const Domains& each : *known) {
            if (each.offers == offers) return each;
        }
        return known->emplace_back(api, offers);
    }
};

// Libraries to bring along in the next registration on this thread.
inline std::vector<Offer>& companions() {
    thread_local std::vector<Offer> offers;
    return offers;
}

}  // namespace ort
}  // namespace opbridge

extern "C" OPBRIDGE_ENTRY void opbridge_offer(const OrtApi* api, opbridge::ort::Take take, void* self) {
    opbridge::ort::offer(api, take, self);
}

// The next RegisterCustomOps on this thread also registers the operators of the libraries whose `opbridge_offer` these are.
extern "C" OPBRIDGE_ENTRY void opbridge_bring(const opbridge::ort::Offer* offers, size_t count) {
    opbridge::ort::companions().assign(offers, offers + count);
}

extern "C" OPBRIDGE_ENTRY OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
    using namespace opbridge;
    const OrtApi* api = ort::connect(base);
    if (!api) return nullptr;  // there is nothing to report it with
    return ort::guarded(
        api,
        [&] {
            std::vector<ort::Offer> offers{&opbridge_offer};
            offers.insert(offers.end(), ort::companions().begin(), ort::companions().end());
            ort::companions().clear();
            for (const auto& domain : ort::Domains::of(api, offers).domains) ort::call(api, ort::AddCustomOpDomain, options, domain.second);
        },
        [](const char* message) { return std::string(message); });
}
