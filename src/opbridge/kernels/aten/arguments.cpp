#include "arguments.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include <opbridge/types.h>

#include "calling.h"
#include "tensors.h"

namespace opbridge {
namespace aten {

namespace {

template <class Number>
Number read(const void* data) {
    Number number;
    std::memcpy(&number, data, sizeof number);
    return number;
}

// The number in an input: as an integer where it is one.
void read_number(const RuntimeTensor& view, double* real, int64_t* integer, bool* is_integer) {
    if (view.count() != 1)
        throw std::invalid_argument("an input that represents a single number has " + std::to_string(view.count()) + " elements");
    *is_integer = true;
    switch (view.type) {
        case 2: *integer = read<uint8_t>(view.data); break;
        case 3: *integer = read<int8_t>(view.data); break;
        case 4: *integer = read<uint16_t>(view.data); break;
        case 5: *integer = read<int16_t>(view.data); break;
        case 6: *integer = read<int32_t>(view.data); break;
        case 7: *integer = read<int64_t>(view.data); break;
        case 9: *integer = read<uint8_t>(view.data) != 0; break;
        case 12: *integer = read<uint32_t>(view.data); break;
        case 13: *integer = static_cast<int64_t>(read<uint64_t>(view.data)); break;
        case 1: *is_integer = false, *real = read<float>(view.data); break;
        case 10: *is_integer = false, *real = static_cast<float>(read<Half>(view.data)); break;
        case 11: *is_integer = false, *real = read<double>(view.data); break;
        case 16: *is_integer = false, *real = static_cast<float>(read<BFloat16>(view.data)); break;
        default: throw std::invalid_argument("an input that represents a number has the ONNX element type " + std::to_string(view.type));
    }
    if (*is_integer) *real = static_cast<double>(*integer);
}

// What a number in an input is for the type that the schema has.
StableValue number_for(const Value& value, const RuntimeTensor& view) {
    double real = 0;
    int64_t integer = 0;
    bool is_integer = false;
    read_number(view, &real, &integer, &is_integer);
    const std::string& type = value.type;
    const bool scalar = type == "Scalar";
    if (type == "float" || type == "SymFloat" || (scalar && value.kind == Kind::input_float)) return stable_value(real);
    if (type == "bool" || type == "SymBool" || (scalar && value.kind == Kind::input_bool)) return real != 0;
    if (!is_integer) {
        // Written so that what is no number does not pass.
        if (!(real == std::floor(real) && std::fabs(real) < 9e18)) {
            throw std::invalid_argument("an input that represents an integer is " + std::to_string(real));
        }
        integer = static_cast<int64_t>(real);
    }
    return static_cast<StableValue>(integer);
}

class Builder {
  public:
    Builder(const Node& node, const OrtApi* api, OrtKernelContext* context, Arguments& arguments)
        : node_(node), api_(api), context_(context), arguments_(arguments) {}

    void build() {
        arguments_.values.reserve(node_.arguments.size() + node_.results.size());
        for (const Value& value : node_.arguments) arguments_.values.push_back(argument(value));
    }

  private:
    // The C interface passes what is optional in a place of its own.
    StableValue argument(const Value& value) {
        if (value.kind == Kind::none) return none_value;
        const StableValue made = convert(value);
        return value.optional && !node_.run ? arguments_.boxed(made) : made;
    }

    StableValue convert(const Value& value) {
        switch (value.kind) {
            case Kind::tensor:
            case Kind::complex_tensor: return convert_tensor(value);
            case Kind::input_int:
            case Kind::input_float:
            case Kind::input_bool: return number_for(value, input(value));
            case Kind::text: return arguments_.text(value.text);
            case Kind::complex: return convert_complex(value);
            case Kind::list: return convert_list(value);
            case Kind::none: return none_value;
            default: return value.constant;
        }
    }

    RuntimeTensor input(const Value& value) {
        const OrtValue* found = nullptr;
        call(api_, KernelContext_GetInput, static_cast<const OrtKernelContext*>(context_), value.input, &found);
        if (!found) throw std::invalid_argument("its input " + std::to_string(value.input) + " is missing");
        return runtime_tensor(api_, found);
    }

    StableValue convert_tensor(const Value& value) {
        TensorObject* made = torch_tensor_on(input(value), value.kind == Kind::complex_tensor);
        return arguments_.tensor(value.written ? cloned(made) : made);
    }

    // A complex number becomes one of torch's when it is on the stack.
    StableValue convert_complex(const Value& value) {
        constexpr int64_t pair = 2;
        RuntimeTensor view;
        view.type = 11;
        view.rank = 1;
        view.sizes = &pair;
        double parts[2] = {value.real, value.imaginary};
        view.data = parts;
        return arguments_.tensor(cloned(torch_tensor_on(view, true)));
    }

    // A copy in the place of a tensor.
    static TensorObject* cloned(TensorObject* tensor) {
        TensorObject* copy = nullptr;
        const int32_t failure = libtorch().aoti_torch_clone(tensor, &copy);
        libtorch().aoti_torch_delete_tensor_object(tensor);
        check(failure);
        return copy;
    }

    StableValue convert_list(const Value& value) {
        ListObject* list = arguments_.list(value.items.size());
        for (const Value& item : value.items) {
            const StableValue made = convert(item);
            // What is optional in a list has a place of its own in either interface.
            check(libtorch().torch_list_push_back(list, item.optional && item.kind != Kind::none ? arguments_.boxed(made) : made));
        }
        return reinterpret_cast<StableValue>(list);
    }

    const Node& node_;
    const OrtApi* api_;
    OrtKernelContext* context_;
    Arguments& arguments_;
};

}  // namespace

void build_arguments(const Node& node, const OrtApi* api, OrtKernelContext* context, Arguments& arguments) {
    Builder(node, api, context, arguments).build();
}

}  // namespace aten
}  // namespace opbridge
