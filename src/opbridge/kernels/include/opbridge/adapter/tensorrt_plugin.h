// An operator as a plug-in of TensorRT: one node of a network, and one of its execution contexts.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "operator.h"
#include "tensorrt_api.h"
#include "tensorrt_fields.h"
#include "tensorrt_log.h"
#include "tensorrt_run.h"
#include "tensorrt_shapes.h"
#include "tensorrt_types.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

constexpr const char* plugin_version = "1";

class Plugin final : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
  public:
    Plugin(const Operator& op, Made made) : op_(op), name_(op.schema.op_type()), made_(std::move(made)) {
        fields_.write(op.schema, made_);
        described_ = to_text(op.schema, made_);
    }

    // IPluginV3

    IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
        switch (type) {
            case PluginCapabilityType::kCORE: return static_cast<IPluginV3OneCore*>(this);
            case PluginCapabilityType::kBUILD: return static_cast<IPluginV3OneBuild*>(this);
            case PluginCapabilityType::kRUNTIME: return static_cast<IPluginV3OneRuntime*>(this);
            default: return nullptr;
        }
    }

    IPluginV3* clone() noexcept override {
        std::unique_ptr<Plugin> made;
        if (!succeeds(op_, [&] {
                made = std::make_unique<Plugin>(op_, made_);
                made->inputs_ = inputs_;
            })) {
            return nullptr;
        }
        return made.release();
    }

    // IPluginV3OneCore

    const char* getPluginName() const noexcept override { return name_.c_str(); }
    const char* getPluginVersion() const noexcept override { return plugin_version; }
    const char* getPluginNamespace() const noexcept override { return op_.schema.domain.c_str(); }

    // IPluginV3OneBuild

    int32_t getNbOutputs() const noexcept override { return static_cast<int32_t>(made_.outputs); }

    int32_t getOutputDataTypes(DataType* output_types, int32_t outputs, const DataType* input_types,
                               int32_t inputs) const noexcept override {
        return status(op_, [&] {
            std::vector<Type> given;
            for (int32_t i = 0; i < inputs; ++i) given.push_back(type_of(input_types[i]));
            const KernelTypes types = chosen_types(op_, made_.layout, given, static_cast<size_t>(made_.outputs));
            check_count(outputs);
            for (size_t i = 0; i < types.outputs.size(); ++i) to_tensorrt(types.outputs[i], output_types[i]);
        });
    }

    int32_t getOutputShapes(const DimsExprs* inputs, int32_t input_count, const DimsExprs*, int32_t shape_inputs, DimsExprs* outputs,
                            int32_t output_count, IExprBuilder& builder) noexcept override {
        return status(op_, [&] {
            if (shape_inputs != 0)
                throw std::invalid_argument("a kernel has no inputs that are shapes (tensorrt_plugin_shape_input_indices)");
            Expressions expressions(builder);
            std::vector<std::vector<Dim>> dims(static_cast<size_t>(input_count));
            Call call = call_with_attributes();
            set_tensors(op_.schema, made_.layout, call, dims.size(), [&](size_t input, Tensor& tensor) {
                const DimsExprs& from = inputs[input];
                if (from.nbDims < 0) return false;
                std::vector<Dim>& own = dims[input];
                own.reserve(Dims::MAX_DIMS + 1);
                for (int32_t axis = 0; axis < from.nbDims; ++axis) own.push_back(expressions.dim(from.d[axis]));
                tensor.rank = from.nbDims;
                tensor.dims = own.data();
                return true;
            });
            const std::vector<Shape> shapes = ShapeRows(op_, expressions).run(call);
            check_count(output_count);
            check_count(static_cast<int64_t>(shapes.size()));
            for (size_t i = 0; i < shapes.size(); ++i) write(shapes[i], i, outputs[i], expressions);
        });
    }

    bool supportsFormatCombination(int32_t position, const DynamicPluginTensorDesc* all, int32_t inputs, int32_t) noexcept override {
        bool is_supported = false;
        succeeds(op_, [&] {
            const auto place = static_cast<size_t>(position), given = static_cast<size_t>(inputs);
            if (all[place].desc.format != TensorFormat::kLINEAR) return;
            std::vector<Type> types;
            for (size_t i = 0; i <= place && i < given; ++i) types.push_back(type_of(all[i].desc.type));
            for (const Instance& each : op_.instances) {
                const KernelTypes own(op_, each, made_.layout, given, static_cast<size_t>(made_.outputs));
                if (!own.takes(types)) continue;
                const bool is_plugin = each.launch && own.are_in_tensorrt();
                if (place < given) {
                    is_supported = is_supported || is_plugin;
                    continue;
                }
                // All inputs are known, and so is the kernel.
                is_supported = is_plugin && own.outputs.at(place - given) == type_of(all[place].desc.type);
                return;
            }
        });
        return is_supported;
    }

    int32_t configurePlugin(const DynamicPluginTensorDesc*, int32_t inputs, const DynamicPluginTensorDesc*,
                            int32_t outputs) noexcept override {
        return status(op_, [&] {
            check_count(outputs);
            inputs_ = inputs;
        });
    }

    const char* getTimingCacheID() noexcept override { return described_.c_str(); }
    const char* getMetadataString() noexcept override { return described_.c_str(); }

    // IPluginV3OneRuntime

    // The sizes are known here: what the shape function refuses is an error before anything is launched.
    int32_t onShapeChange(const PluginTensorDesc* in, int32_t inputs, const PluginTensorDesc*, int32_t outputs) noexcept override {
        return status(op_, [&] {
            check_count(outputs);
            Call call = call_of(in, nullptr, static_cast<size_t>(inputs));
            op_.choose(call);
            op_.shapes(call);
            inputs_ = inputs;
        });
    }

    int32_t enqueue(const PluginTensorDesc* in, const PluginTensorDesc* out, const void* const* inputs, void* const* outputs, void*,
                    cudaStream_t stream) noexcept override {
        return status(op_, [&] {
            if (inputs_ < 0) throw std::logic_error("the kernel is to run before its sizes are known (onShapeChange)");
            Call call = call_of(in, inputs, static_cast<size_t>(inputs_));
            TensorRtRuntime runtime(out, outputs, static_cast<size_t>(made_.outputs), stream);
            runtime.copy_to_host(op_, call);
            op_.run(call, runtime);
            check_count(static_cast<int64_t>(call.results.size()));
        });
    }

    IPluginV3* attachToContext(IPluginResourceContext*) noexcept override { return clone(); }

    const PluginFieldCollection* getFieldsToSerialize() noexcept override { return fields_.collection(); }

  private:
    Call call_with_attributes() const {
        Call call;
        call.arguments.resize(op_.schema.arguments.size());
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            if (is_tensor(op_.schema.arguments[i].kind)) continue;
            call.arguments[i].given = made_.attributes[i].given;
            call.arguments[i].attribute = &made_.attributes[i];
        }
        return call;
    }

    Call call_of(const PluginTensorDesc* in, const void* const* inputs, size_t given) const {
        Call call = call_with_attributes();
        set_tensors(op_.schema, made_.layout, call, given,
                    [&](size_t input, Tensor& tensor) { return describe(in[input], inputs ? inputs[input] : nullptr, tensor); });
        return call;
    }

    void check_count(int64_t outputs) const {
        if (outputs == made_.outputs) return;
        throw std::invalid_argument("the node has " + std::to_string(made_.outputs) + " outputs, and the operator returns " +
                                    std::to_string(outputs) + " tensors here");
    }

    static void write(const Shape& shape, size_t output, DimsExprs& to, Expressions& expressions) {
        if (shape.rank() > Dims::MAX_DIMS) {
            throw std::invalid_argument("output " + std::to_string(output) + " has " + std::to_string(shape.rank()) +
                                        " dimensions, and TensorRT's tensors have at most " + std::to_string(Dims::MAX_DIMS));
        }
        to.nbDims = static_cast<int32_t>(shape.rank());
        for (int32_t axis = 0; axis < to.nbDims; ++axis) to.d[axis] = expressions.expression(shape[axis]);
    }

    const Operator& op_;
    std::string name_;
    Made made_;
    KeptFields fields_;
    std::string described_;
    int32_t inputs_ = -1;  // how many the node has; known when the plug-in is configured
};

// Makes plug-ins of one operator.
class Creator final : public IPluginCreatorV3One {
  public:
    explicit Creator(const Operator& op) : op_(op), name_(op.schema.op_type()) { fields_.declare(op.schema); }

    IPluginV3* createPlugin(const char*, const PluginFieldCollection* fields, TensorRTPhase) noexcept override {
        std::unique_ptr<Plugin> made;
        if (!succeeds(op_, [&] {
                if (!op_.has_launch()) {
                    throw std::invalid_argument(
                        "it has no kernel for CUDA devices, which a plug-in needs. Register one with OPBRIDGE_ELEMENT_KERNEL or "
                        "OPBRIDGE_CPU_CUDA_KERNEL");
                }
                made = std::make_unique<Plugin>(op_, Made::read(op_.schema, Fields(fields)));
                const std::string with = made->getMetadataString();
                log(Severity::kVERBOSE, op_, ("made a plug-in" + (with.empty() ? "" : " with " + with)).c_str());
            })) {
            return nullptr;
        }
        return made.release();
    }

    const PluginFieldCollection* getFieldNames() noexcept override { return fields_.collection(); }
    const char* getPluginName() const noexcept override { return name_.c_str(); }
    const char* getPluginVersion() const noexcept override { return plugin_version; }
    const char* getPluginNamespace() const noexcept override { return op_.schema.domain.c_str(); }

  private:
    const Operator& op_;
    std::string name_;
    KeptFields fields_;
};

}  // namespace tensorrt
}  // namespace opbridge
