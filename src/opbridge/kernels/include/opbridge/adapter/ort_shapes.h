// Shape inference for ONNX Runtime.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "nodes.h"
#include "ort_calls.h"
#include "symbols.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

using namespace detail;

// Shapes while a session is made, where sizes may have names instead of numbers.
class ShapeInference {
  public:
    ShapeInference(const OrtApi* api, const Operator& op, OrtShapeInferContext* context) : api_(api), op_(op), context_(context) {}

    void run() {
        const Schema& schema = op_.schema;
        Call call;
        call.arguments.resize(schema.arguments.size());
        std::vector<Attribute> attributes(schema.arguments.size());
        size_t given = 0;
        ort::call(api_, ShapeInferContext_GetInputCount, context_, &given);
        const InputLayout layout =
            InputLayout::read(schema, [&](const char* name, int64_t* length) { return read(name, attribute_int, length, sizeof *length); });
        layout.each(schema, given, [&](size_t index, size_t input, size_t length) {
            Argument& argument = call.arguments[index];
            if (schema.arguments[index].kind == Kind::tensors) {
                argument.given = true;
                argument.tensors.resize(length);
                for (size_t i = 0; i < length; ++i) read_input(input + i, argument.tensors[i]);
            } else if (input < given) {
                argument.given = read_input(input, argument.tensor);
            }
        });
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            const ArgumentSchema& declared = schema.arguments[i];
            if (is_tensor(declared.kind)) {
                if (declared.kind == Kind::tensor && !call.arguments[i].given) return;
                continue;
            }
            attributes[i] = with_default(read_attribute(declared), declared);
            call.arguments[i].given = attributes[i].given;
            call.arguments[i].attribute = &attributes[i];
        }
        if (has_unknown_rank_) return;
        const Symbols symbols{apply, this};
        detail::symbols() = &symbols;
        try {
            const Instance& kernel = op_.choose(call);
            const Shapes shapes = op_.shapes(call);
            each_output(kernel, shapes.size(),
                        [&](size_t output, const Parameter& parameter) { write_output(output, parameter.type, shapes[output]); });
        } catch (const Undecided&) {  // it depends on what is not known yet; the sizes come out when the model runs
        } catch (...) {
            detail::symbols() = nullptr;
            throw;
        }
        detail::symbols() = nullptr;
    }

  private:
    static int32_t apply(void* self, int32_t operation, const Dim*, const Dim*, Dim* result) {
        if (operation >= static_cast<int32_t>(Operation::equal)) return 1;
        result->symbol = static_cast<ShapeInference*>(self)->symbol_for("");
        return 0;
    }

    int64_t symbol_for(const std::string& name) {
        for (size_t i = 0; i < names_.size() && !name.empty(); ++i) {
            if (names_[i] == name) return static_cast<int64_t>(i) + 1;
        }
        names_.push_back(name);
        return static_cast<int64_t>(names_.size());
    }

    bool read(const char* name, int32_t type, void* data, size_t bytes) {
        const OrtOpAttr* found = nullptr;
        size_t needed = 0;
        return succeeds(api_, ShapeInferContext_GetAttribute, context_, name, &found) && found &&
               succeeds(api_, ReadOpAttr, found, type, data, bytes, &needed);
    }

    template <class Element>
    bool read_list(const char* name, int32_t type, std::vector<Element>& values) {
        const OrtOpAttr* found = nullptr;
        size_t bytes = 0;
        if (!succeeds(api_, ShapeInferContext_GetAttribute, context_, name, &found) || !found) return false;
        succeeds(api_, ReadOpAttr, found, type, static_cast<void*>(nullptr), size_t{0}, &bytes);
        values.resize(bytes / sizeof(Element));
        return bytes == 0 || succeeds(api_, ReadOpAttr, found, type, static_cast<void*>(values.data()), bytes, &bytes);
    }

    Attribute read_attribute(const ArgumentSchema& declared) {
        const char* name = declared.name.c_str();
        Attribute value;
        switch (declared.kind) {
            case Kind::integer:
            case Kind::boolean: value.given = read(name, attribute_int, &value.integer.known, sizeof(int64_t)); break;
            case Kind::number: {
                float number = 0;
                value.given = read(name, attribute_float, &number, sizeof number);
                value.number = number;
                break;
            }
            case Kind::text: {
                std::vector<char> text;
                value.given = read_list(name, attribute_string, text) && !text.empty();
                if (value.given) value.text.assign(text.begin(), text.end() - 1);  // it counts the zero at the end
                break;
            }
            case Kind::integers: value.given = read_list(name, attribute_ints, value.integers); break;
            default: {
                std::vector<float> numbers;
                value.given = read_list(name, attribute_floats, numbers);
                value.numbers.assign(numbers.begin(), numbers.end());
            }
        }
        return value;
    }

    bool read_input(size_t input, Tensor& tensor) {
        OrtTensorTypeAndShapeInfo* info = nullptr;
        if (!succeeds(api_, ShapeInferContext_GetInputTypeShape, context_, input, &info) || !info) return false;
        size_t rank = 0;
        int32_t type = 0;
        if (!succeeds(api_, GetDimensionsCount, info, &rank) || !succeeds(api_, GetTensorElementType, info, &type)) return false;
        if (rank == 0) has_unknown_rank_ = true;
        std::vector<int64_t> sizes(rank);
        std::vector<const char*> names(rank);
        if (!succeeds(api_, GetDimensions, info, sizes.data(), rank)) return false;
        if (!succeeds(api_, GetSymbolicDimensions, info, names.data(), rank)) return false;
        std::vector<Dim>& dims = dims_.emplace_back();
        for (size_t axis = 0; axis < rank; ++axis) {
            Dim dim(sizes[axis]);
            if (names[axis] && *names[axis]) dim.symbol = symbol_for(names[axis]);
            else if (sizes[axis] < 0) dim.symbol = symbol_for("");
            dims.push_back(dim);
        }
        tensor.type = static_cast<Type>(type);
        tensor.rank = static_cast<int64_t>(rank);
        tensor.dims = dims.data();
        return true;
    }

    // ONNX Runtime wants every size to have a number or a name: where one has neither, the shape is left open.
    void write_output(size_t output, Type type, const Shape& shape) {
        std::vector<int64_t> sizes;
        std::vector<const char*> names;
        for (const Dim& dim : shape) {
            const std::string* name = dim.symbol > 0 ? &names_[static_cast<size_t>(dim.symbol) - 1] : nullptr;
            if (!dim.is_known() && (!name || name->empty())) return;
            sizes.push_back(name ? -1 : dim.known);
            names.push_back(name ? name->c_str() : "");
        }
        OrtTensorTypeAndShapeInfo* info = nullptr;
        ort::call(api_, CreateTensorTypeAndShapeInfo, &info);
        if (succeeds(api_, SetTensorElementType, info, static_cast<int32_t>(type)) &&
            succeeds(api_, SetDimensions, info, sizes.data(), sizes.size()) &&
            succeeds(api_, SetSymbolicDimensions, info, names.data(), names.size())) {
            succeeds(api_, ShapeInferContext_SetOutputTypeShape, context_, output, info);
        }
        function(api_, ReleaseTensorTypeAndShapeInfo)(info);
    }

    const OrtApi* api_;
    const Operator& op_;
    OrtShapeInferContext* context_;
    std::vector<std::string> names_;
    std::deque<std::vector<Dim>> dims_;
    bool has_unknown_rank_ = false;  // a tensor without dimensions and one of which nothing is known look the same here
};

}  // namespace ort
}  // namespace opbridge
