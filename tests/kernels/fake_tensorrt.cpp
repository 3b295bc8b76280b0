// A host of TensorRT plug-ins: loads a library as TensorRT's registry does, and calls what is in it through TensorRT's interface alone.
// tensorrt_host.py calls it.
//
// With -DPUBLISHED, and NVIDIA's headers on the include path, it is compiled against those in place of opbridge's.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#ifdef PUBLISHED
#include <NvInferRuntime.h>
namespace trt = nvinfer1;
using nvinfer1::apiv::VDimensionExpr;
using nvinfer1::apiv::VExprBuilder;
#if NV_TENSORRT_MAJOR >= 11
using Severity = nvinfer1::ILogger::Severity;
#define HAS_VERSIONED_LOGGER
#else
using Severity = nvinfer1::ILogger::Severity;
#endif
using Logger = nvinfer1::ILogger;
using LoggerFinder = nvinfer1::ILoggerFinder;
#else
#include <opbridge/adapter/tensorrt_api.h>
namespace trt = opbridge::tensorrt;
using trt::Severity;
using trt::VDimensionExpr;
using trt::VExprBuilder;
#ifdef BEFORE_11
using Logger = trt::before_11::ILogger;
using LoggerFinder = trt::before_11::ILoggerFinder;
#else
using Logger = trt::ILogger;
using LoggerFinder = trt::ILoggerFinder;
#define HAS_VERSIONED_LOGGER
#endif
#endif

#define ENTRY extern "C" __attribute__((visibility("default")))

// The release that a plug-in library asks TensorRT's own for.
#ifndef PUBLISHED
#ifdef HAS_VERSIONED_LOGGER
ENTRY int32_t getInferLibVersion() { return 110100; }
#else
ENTRY int32_t getInferLibVersion() { return 101500; }
#endif
#else
ENTRY int32_t getInferLibVersion() noexcept { return NV_TENSORRT_VERSION; }
#endif

namespace {

std::string& messages() {
    static auto* text = new std::string;
    return *text;
}

class KeepingLogger final : public Logger {
  public:
#ifdef HAS_VERSIONED_LOGGER
    trt::InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILogger", 1, 0}; }
#endif
    void log(Severity severity, const char* message) noexcept override {
        messages() += std::to_string(static_cast<int>(severity)) + " " + message + "\n";
    }
};

class Finder final : public LoggerFinder {
  public:
#ifdef HAS_VERSIONED_LOGGER
    trt::InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILoggerFinder", 1, 0}; }
#endif
    Logger* findLogger() override { return &logger_; }

  private:
    KeepingLogger logger_;
};

// An expression: a number, a size of an input, or an operation.
struct Expression;

struct Implementation final : VDimensionExpr {
    const Expression* self = nullptr;
    bool isConstant() const override;
    int64_t getConstantValue() const override;
    bool isSizeTensor() const override { return false; }
};

struct Expression final : trt::IDimensionExpr {
    enum class Kind { constant, size, operation } kind = Kind::constant;
    int64_t value = 0;  // of a constant, or which size it is
    trt::DimensionOperation operation{};
    const Expression *first = nullptr, *second = nullptr;
    Implementation own;

    Expression() {
        own.self = this;
        mImpl = &own;
    }

    int64_t evaluate(const std::vector<int64_t>& sizes) const {
        if (kind == Kind::constant) return value;
        if (kind == Kind::size) return sizes.at(static_cast<size_t>(value));
        const int64_t a = first->evaluate(sizes), b = second->evaluate(sizes);
        const auto floor_divided = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
        switch (operation) {
            case trt::DimensionOperation::kSUM: return a + b;
            case trt::DimensionOperation::kPROD: return a * b;
            case trt::DimensionOperation::kMAX: return a > b ? a : b;
            case trt::DimensionOperation::kMIN: return a < b ? a : b;
            case trt::DimensionOperation::kSUB: return a - b;
            case trt::DimensionOperation::kEQUAL: return a == b;
            case trt::DimensionOperation::kLESS: return a < b;
            case trt::DimensionOperation::kFLOOR_DIV: return b == 0 ? 0 : floor_divided(a, b);
            default: return b == 0 ? 0 : -floor_divided(-a, b);
        }
    }
};

bool Implementation::isConstant() const { return self->kind == Expression::Kind::constant; }
int64_t Implementation::getConstantValue() const { return self->value; }

class Builder final : public trt::IExprBuilder {
  public:
    Builder() {
        own_.builder = this;
        mImpl = &own_;
    }

    const Expression* size(int64_t number) {
        Expression& made = all_.emplace_back();
        made.kind = Expression::Kind::size;
        made.value = number;
        return &made;
    }
    const Expression* number(int64_t value) {
        Expression& made = all_.emplace_back();
        made.value = value;
        return &made;
    }
    size_t made() const { return all_.size(); }

  private:
    struct Own final : VExprBuilder {
        Builder* builder = nullptr;
        const trt::IDimensionExpr* constant(int64_t value) override { return builder->number(value); }
        const trt::IDimensionExpr* operation(trt::DimensionOperation operation, const trt::IDimensionExpr& first,
                                             const trt::IDimensionExpr& second) override {
            Expression& made = builder->all_.emplace_back();
            made.kind = Expression::Kind::operation;
            made.operation = operation;
            made.first = static_cast<const Expression*>(&first);
            made.second = static_cast<const Expression*>(&second);
            if (first.isConstant() && second.isConstant()) {
                made.value = made.evaluate({});
                made.kind = Expression::Kind::constant;
            }
            return &made;
        }
        const trt::IDimensionExpr* declareSizeTensor(int32_t, const trt::IDimensionExpr&, const trt::IDimensionExpr&) override {
            return nullptr;
        }
    };

    Own own_;
    std::deque<Expression> all_;
};

trt::IPluginV3OneBuild* build_of(trt::IPluginV3* plugin) {
    return static_cast<trt::IPluginV3OneBuild*>(plugin->getCapabilityInterface(trt::PluginCapabilityType::kBUILD));
}
trt::IPluginV3OneRuntime* runtime_of(trt::IPluginV3* plugin) {
    return static_cast<trt::IPluginV3OneRuntime*>(plugin->getCapabilityInterface(trt::PluginCapabilityType::kRUNTIME));
}
trt::IPluginV3OneCore* core_of(trt::IPluginV3* plugin) {
    return static_cast<trt::IPluginV3OneCore*>(plugin->getCapabilityInterface(trt::PluginCapabilityType::kCORE));
}

}  // namespace

// A tensor as Python gives it. `dynamic` has a bit for each axis whose size is not known when the engine is built.
struct HostTensor {
    int32_t type, rank, dynamic;
    int64_t sizes[8];
    void* data;
};

namespace {

trt::PluginTensorDesc described(const HostTensor& tensor) {
    trt::PluginTensorDesc found{};
    found.dims.nbDims = tensor.rank;
    for (int32_t axis = 0; axis < tensor.rank; ++axis) found.dims.d[axis] = tensor.sizes[axis];
    found.type = static_cast<trt::DataType>(tensor.type);
    found.format = trt::TensorFormat::kLINEAR;
    return found;
}

std::vector<trt::PluginTensorDesc> described(const HostTensor* tensors, int32_t count) {
    std::vector<trt::PluginTensorDesc> found;
    for (int32_t i = 0; i < count; ++i) found.push_back(described(tensors[i]));
    return found;
}

}  // namespace

ENTRY const char* host_messages() { return messages().c_str(); }
ENTRY void host_clear() { messages().clear(); }

// The creators of a library, of which `count` is set.
ENTRY trt::IPluginCreatorInterface* const* host_load(const char* path, int32_t* count) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        messages() += std::string(dlerror()) + "\n";
        return nullptr;
    }
    static auto* finder = new Finder;
    using SetLoggerFinder = void (*)(LoggerFinder*);
    using GetCreators = trt::IPluginCreatorInterface* const* (*)(int32_t&);
    reinterpret_cast<SetLoggerFinder>(dlsym(library, "setLoggerFinder"))(finder);
    return reinterpret_cast<GetCreators>(dlsym(library, "getCreators"))(*count);
}

// "NAMESPACE NAME VERSION FIELD:TYPE:LENGTH ..."
ENTRY const char* host_creator(trt::IPluginCreatorInterface* creator) {
    static std::string text;
    text.clear();
    const trt::InterfaceInfo info = creator->getInterfaceInfo();
    if (std::strcmp(info.kind, "PLUGIN CREATOR_V3ONE") != 0 || info.major != 1) return info.kind;
    auto* own = static_cast<trt::IPluginCreatorV3One*>(creator);
    text = std::string(own->getPluginNamespace()) + " " + own->getPluginName() + " " + own->getPluginVersion();
    const trt::PluginFieldCollection* fields = own->getFieldNames();
    for (int32_t i = 0; i < fields->nbFields; ++i) {
        const trt::PluginField& field = fields->fields[i];
        text += std::string(" ") + field.name + ":" + std::to_string(static_cast<int>(field.type)) + ":" + std::to_string(field.length);
    }
    return text.c_str();
}

ENTRY trt::IPluginV3* host_create(trt::IPluginCreatorInterface* creator, const trt::PluginField* fields, int32_t count, int32_t phase) {
    const trt::PluginFieldCollection all{count, fields};
    return static_cast<trt::IPluginCreatorV3One*>(creator)->createPlugin("node", &all, static_cast<trt::TensorRTPhase>(phase));
}

// What an engine keeps of a plug-in, and the plug-in that is made of it; the first one is gone by then, and the memory of its fields.
ENTRY trt::IPluginV3* host_deserialized(trt::IPluginCreatorInterface* creator, trt::IPluginV3* plugin) {
    constexpr size_t sizes[] = {2, 4, 8, 1, 2, 4, 1, sizeof(trt::Dims), 1, 2, 8};
    const trt::PluginFieldCollection* fields = runtime_of(plugin)->getFieldsToSerialize();
    std::deque<std::string> kept;
    std::vector<trt::PluginField> made;
    for (int32_t i = 0; i < fields->nbFields; ++i) {
        const trt::PluginField& field = fields->fields[i];
        const std::string& name = kept.emplace_back(field.name);
        const size_t bytes = static_cast<size_t>(field.length) * sizes[static_cast<size_t>(field.type)];
        const std::string& data = kept.emplace_back(static_cast<const char*>(field.data), bytes);
        made.push_back({name.c_str(), data.data(), field.type, field.length});
    }
    delete plugin;
    return host_create(creator, made.data(), static_cast<int32_t>(made.size()), 1);
}

ENTRY void host_destroy(trt::IPluginV3* plugin) { delete plugin; }
ENTRY trt::IPluginV3* host_clone(trt::IPluginV3* plugin) { return plugin->clone(); }
ENTRY int32_t host_outputs(trt::IPluginV3* plugin) { return build_of(plugin)->getNbOutputs(); }
ENTRY const char* host_metadata(trt::IPluginV3* plugin) { return build_of(plugin)->getMetadataString(); }
ENTRY const char* host_timing(trt::IPluginV3* plugin) { return build_of(plugin)->getTimingCacheID(); }

// "NAMESPACE NAME VERSION" and the kinds of the interfaces.
ENTRY const char* host_core(trt::IPluginV3* plugin) {
    static std::string text;
    trt::IPluginV3OneCore* core = core_of(plugin);
    text = std::string(core->getPluginNamespace()) + " " + core->getPluginName() + " " + core->getPluginVersion() + " " +
           plugin->getInterfaceInfo().kind + " " + core->getInterfaceInfo().kind + " " + build_of(plugin)->getInterfaceInfo().kind + " " +
           runtime_of(plugin)->getInterfaceInfo().kind;
    return text.c_str();
}

ENTRY int32_t host_types(trt::IPluginV3* plugin, const int32_t* inputs, int32_t input_count, int32_t* outputs, int32_t output_count) {
    std::vector<trt::DataType> given, found(static_cast<size_t>(output_count));
    for (int32_t i = 0; i < input_count; ++i) given.push_back(static_cast<trt::DataType>(inputs[i]));
    const int32_t status = build_of(plugin)->getOutputDataTypes(found.data(), output_count, given.data(), input_count);
    for (size_t i = 0; i < found.size(); ++i) outputs[i] = static_cast<int32_t>(found[i]);
    return status;
}

ENTRY int32_t host_supports(trt::IPluginV3* plugin, int32_t position, const int32_t* types, const int32_t* formats, int32_t inputs,
                            int32_t outputs) {
    std::vector<trt::DynamicPluginTensorDesc> all(static_cast<size_t>(inputs + outputs));
    for (size_t i = 0; i < all.size(); ++i) {
        all[i].desc.type = static_cast<trt::DataType>(types[i]);
        all[i].desc.format = static_cast<trt::TensorFormat>(formats[i]);
    }
    return build_of(plugin)->supportsFormatCombination(position, all.data(), inputs, outputs);
}

// The shapes of the outputs: expressions of the sizes that are not known, evaluated for the sizes that are given. `made` is how many
// expressions there are.
ENTRY int32_t host_shapes(trt::IPluginV3* plugin, const HostTensor* inputs, int32_t input_count, HostTensor* outputs, int32_t output_count,
                          int32_t* made) {
    Builder builder;
    std::vector<int64_t> sizes;
    std::vector<trt::DimsExprs> given(static_cast<size_t>(input_count)), found(static_cast<size_t>(output_count));
    for (size_t i = 0; i < given.size(); ++i) {
        given[i].nbDims = inputs[i].rank;
        for (int32_t axis = 0; axis < inputs[i].rank; ++axis) {
            if (inputs[i].dynamic >> axis & 1) {
                given[i].d[axis] = builder.size(static_cast<int64_t>(sizes.size()));
                sizes.push_back(inputs[i].sizes[axis]);
            } else {
                given[i].d[axis] = builder.number(inputs[i].sizes[axis]);
            }
        }
    }
    const int32_t status = build_of(plugin)->getOutputShapes(given.data(), input_count, nullptr, 0, found.data(), output_count, builder);
    *made = static_cast<int32_t>(builder.made());
    for (size_t i = 0; status == 0 && i < found.size(); ++i) {
        outputs[i].rank = found[i].nbDims;
        for (int32_t axis = 0; axis < found[i].nbDims; ++axis) {
            outputs[i].sizes[axis] = static_cast<const Expression*>(found[i].d[axis])->evaluate(sizes);
        }
    }
    return status;
}

// What an execution context does: a clone that is attached to it, its sizes, and a run. 1, 2 and 3 say which of them failed.
ENTRY int32_t host_run(trt::IPluginV3* plugin, const HostTensor* inputs, int32_t input_count, const HostTensor* outputs,
                       int32_t output_count, void* stream) {
    const auto in = described(inputs, input_count), out = described(outputs, output_count);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (int32_t i = 0; i < input_count; ++i) from.push_back(inputs[i].data);
    for (int32_t i = 0; i < output_count; ++i) to.push_back(outputs[i].data);
    trt::IPluginV3* attached = runtime_of(plugin)->attachToContext(nullptr);
    if (!attached) return 1;
    trt::IPluginV3OneRuntime* runtime = runtime_of(attached);
    int32_t failed = runtime->setTactic(0) || runtime->onShapeChange(in.data(), input_count, out.data(), output_count) ? 2 : 0;
    if (!failed) {
        failed = runtime->enqueue(in.data(), out.data(), from.data(), to.data(), nullptr, static_cast<CUstream_st*>(stream)) ? 3 : 0;
    }
    delete attached;
    return failed;
}

// How long the host takes for a run, in nanoseconds: the mean of so many, after one. Negative: it failed.
ENTRY double host_time(trt::IPluginV3* plugin, const HostTensor* inputs, int32_t input_count, const HostTensor* outputs,
                       int32_t output_count, void* stream, int32_t repeats) {
    const auto in = described(inputs, input_count), out = described(outputs, output_count);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (int32_t i = 0; i < input_count; ++i) from.push_back(inputs[i].data);
    for (int32_t i = 0; i < output_count; ++i) to.push_back(outputs[i].data);
    trt::IPluginV3OneRuntime* runtime = runtime_of(plugin);
    const auto run = [&] {
        return runtime->enqueue(in.data(), out.data(), from.data(), to.data(), nullptr, static_cast<CUstream_st*>(stream)) == 0;
    };
    bool succeeds = runtime->onShapeChange(in.data(), input_count, out.data(), output_count) == 0 && run();
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < repeats; ++i) succeeds = run() && succeeds;
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    return succeeds ? spent.count() / repeats : -1;
}

// A run before the sizes are known.
ENTRY int32_t host_enqueue(trt::IPluginV3* plugin) {
    return runtime_of(plugin)->enqueue(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
}
