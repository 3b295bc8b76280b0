#include "run.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include <opbridge/types.h>

#include "exchange.h"

namespace opbridge {
namespace aten {

namespace {

// A tensor of ONNX Runtime.
struct View : Described {
    void* data = nullptr;
    std::vector<int64_t> room;  // of the sizes, where they are a copy

    View() = default;
    View(View&&) = default;
    View& operator=(View&&) = default;

    int64_t count() const {
        int64_t count = 1;
        for (size_t axis = 0; axis < rank; ++axis) count *= sizes[axis];
        return count;
    }
};

View view_of(const OrtApi* api, const OrtValue* value) {
    View view;
    static_cast<Described&>(view) = described(api, value, view.room);
    view.data = data_of(api, value);
    return view;
}

// A tensor of torch's on the memory of one of ONNX Runtime's. The pairs of a complex one are its numbers.
TensorObject* on_memory(const View& view, bool is_complex) {
    const bool known = view.type > 0 && view.type < Types::count;
    const int32_t type = !known ? -1 : is_complex ? types().complex_of_onnx[view.type] : types().of_onnx[view.type];
    size_t rank = view.rank;
    if (type < 0) {
        throw std::invalid_argument("an input is of ONNX's element type " + std::to_string(view.type) + ", which torch does not have");
    }
    if (is_complex) {
        if (rank == 0 || view.sizes[rank - 1] != 2) {
            throw std::invalid_argument("an input that stands for a complex tensor has no last dimension of 2");
        }
        --rank;
    }
    std::vector<int64_t> strides(rank);
    int64_t step = 1;
    for (size_t axis = rank; axis-- > 0;) {
        strides[axis] = step;
        step *= view.sizes[axis] > 1 ? view.sizes[axis] : 1;
    }
    TensorObject* made = nullptr;
    check(libtorch().aoti_torch_create_tensor_from_blob(view.data, static_cast<int64_t>(rank), view.sizes, strides.data(), 0, type, 0, 0,
                                                        &made));
    return made;
}

// The arguments of a call, deleted again if it does not come to the call.
class Arguments {
  public:
    std::vector<Stable> values;

    ~Arguments() {
        const Libtorch& torch = libtorch();
        for (TensorObject* each : tensors_) torch.aoti_torch_delete_tensor_object(each);
        for (ListObject* each : lists_) torch.torch_delete_list(each);
        for (StringObject* each : strings_) torch.torch_delete_string(each);
        for (Stable* each : boxes_) torch.torch_delete_stable_ivalue(each);
    }

    void taken_over() {
        tensors_.clear();
        lists_.clear();
        strings_.clear();
        boxes_.clear();
    }

    Stable tensor(TensorObject* made) { return kept(tensors_, made); }

    Stable text(const std::string& text) {
        StringObject* made = nullptr;
        check(libtorch().torch_new_string_handle(text.data(), text.size(), &made));
        return kept(strings_, made);
    }

    ListObject* list(size_t size) {
        ListObject* made = nullptr;
        check(libtorch().torch_new_list_reserve_size(size, &made));
        kept(lists_, made);
        return made;
    }

    Stable boxed(Stable value) {
        Stable* made = nullptr;
        check(libtorch().torch_new_stable_ivalue(&made));
        *made = value;
        return kept(boxes_, made);
    }

  private:
    template <class Object>
    static Stable kept(std::vector<Object*>& all, Object* made) {
        all.push_back(made);
        return reinterpret_cast<Stable>(made);
    }

    std::vector<TensorObject*> tensors_;
    std::vector<ListObject*> lists_;
    std::vector<StringObject*> strings_;
    std::vector<Stable*> boxes_;
};

template <class Number>
Number read(const void* data) {
    Number number;
    std::memcpy(&number, data, sizeof number);
    return number;
}

// The number in an input: as an integer where it is one.
void read_number(const View& view, double* real, int64_t* integer, bool* is_integer) {
    if (view.count() != 1) throw std::invalid_argument("an input that stands for one number has " + std::to_string(view.count()));
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
        default: throw std::invalid_argument("an input that stands for a number is of ONNX's element type " + std::to_string(view.type));
    }
    if (*is_integer) *real = static_cast<double>(*integer);
}

// What a number in an input is for the type that the schema has.
Stable number_for(const Value& value, const View& view) {
    double real = 0;
    int64_t integer = 0;
    bool is_integer = false;
    read_number(view, &real, &integer, &is_integer);
    const std::string& type = value.type;
    const bool scalar = type == "Scalar";
    if (type == "float" || type == "SymFloat" || (scalar && value.kind == Kind::input_float)) return bits(real);
    if (type == "bool" || type == "SymBool" || (scalar && value.kind == Kind::input_bool)) return real != 0;
    if (!is_integer) {
        // Written so that what is no number does not pass.
        if (!(real == std::floor(real) && std::fabs(real) < 9e18)) {
            throw std::invalid_argument("an input that stands for an integer is " + std::to_string(real));
        }
        integer = static_cast<int64_t>(real);
    }
    return static_cast<Stable>(integer);
}

class Builder {
  public:
    Builder(const Node& node, const OrtApi* api, OrtKernelContext* context, Arguments& arguments)
        : node_(node), api_(api), context_(context), arguments_(arguments) {}

    void build() {
        arguments_.values.reserve(node_.arguments.size() + node_.results.size());
        for (const Value& value : node_.arguments) arguments_.values.push_back(of_argument(value));
    }

  private:
    // The C interface passes what is optional in a place of its own.
    Stable of_argument(const Value& value) {
        if (value.kind == Kind::none) return nothing;
        const Stable made = of(value);
        return value.optional && !node_.run ? arguments_.boxed(made) : made;
    }

    Stable of(const Value& value) {
        switch (value.kind) {
            case Kind::tensor:
            case Kind::complex_tensor: return of_tensor(value);
            case Kind::input_int:
            case Kind::input_float:
            case Kind::input_bool: return number_for(value, input(value));
            case Kind::text: return arguments_.text(value.text);
            case Kind::complex: return of_complex(value);
            case Kind::list: return of_list(value);
            case Kind::none: return nothing;
            default: return value.constant;
        }
    }

    View input(const Value& value) {
        const OrtValue* found = nullptr;
        call(api_, KernelContext_GetInput, static_cast<const OrtKernelContext*>(context_), value.input, &found);
        if (!found) throw std::invalid_argument("its input " + std::to_string(value.input) + " is left out");
        return view_of(api_, found);
    }

    Stable of_tensor(const Value& value) {
        TensorObject* made = on_memory(input(value), value.kind == Kind::complex_tensor);
        return arguments_.tensor(value.written ? cloned(made) : made);
    }

    // A complex number becomes one of torch's when it is on the stack.
    Stable of_complex(const Value& value) {
        constexpr int64_t pair = 2;
        View view;
        view.type = 11;
        view.rank = 1;
        view.sizes = &pair;
        double parts[2] = {value.real, value.imaginary};
        view.data = parts;
        return arguments_.tensor(cloned(on_memory(view, true)));
    }

    // A copy in the place of a tensor.
    static TensorObject* cloned(TensorObject* tensor) {
        TensorObject* copy = nullptr;
        const int32_t failure = libtorch().aoti_torch_clone(tensor, &copy);
        libtorch().aoti_torch_delete_tensor_object(tensor);
        check(failure);
        return copy;
    }

    Stable of_list(const Value& value) {
        ListObject* list = arguments_.list(value.items.size());
        for (const Value& item : value.items) {
            const Stable made = of(item);
            // What is optional in a list has a place of its own in either interface.
            check(libtorch().torch_list_push_back(list, item.optional && item.kind != Kind::none ? arguments_.boxed(made) : made));
        }
        return reinterpret_cast<Stable>(list);
    }

    const Node& node_;
    const OrtApi* api_;
    OrtKernelContext* context_;
    Arguments& arguments_;
};

// A result that is ours to delete.
class Owned {
  public:
    explicit Owned(TensorObject* tensor) : tensor_(tensor) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (tensor_) libtorch().aoti_torch_delete_tensor_object(tensor_);
    }
    TensorObject* get() const { return tensor_; }

  private:
    TensorObject* tensor_;
};

const char* const onnx_names[] = {"a dtype that ONNX does not have",
                                  "float32",
                                  "uint8",
                                  "int8",
                                  "uint16",
                                  "int16",
                                  "int32",
                                  "int64",
                                  "string",
                                  "boolean",
                                  "float16",
                                  "float64",
                                  "uint32",
                                  "uint64",
                                  "complex64",
                                  "complex128",
                                  "bfloat16",
                                  "float8_e4m3fn",
                                  "float8_e4m3fnuz",
                                  "float8_e5m2",
                                  "float8_e5m2fnuz"};

class Outputs {
  public:
    Outputs(const Node& node, const OrtApi* api, OrtKernelContext* context) : node_(node), api_(api), context_(context) {}

    // Writes results, which it takes over: all of them, whatever happens with one.
    void write(const std::vector<Result>& results, const Stable* values) {
        for (size_t i = 0; i < results.size(); ++i) {
            try {
                write(results[i], values[i]);
            } catch (const std::exception& error) {
                if (failure_.empty()) failure_ = error.what();
            }
        }
    }

    void finish() const {
        if (!failure_.empty()) throw std::runtime_error(failure_);
    }

  private:
    void write(const Result& result, Stable value) {
        if (result.optional) {
            if (value == nothing) {
                if (result.kind != Kind::none) throw std::runtime_error("a result is None, and was a value when the model was exported");
                return;
            }
            Stable* box = reinterpret_cast<Stable*>(value);
            value = *box;
            libtorch().torch_delete_stable_ivalue(box);
        }
        std::string item;
        if (is_list(result.type, &item)) return write_list(result, item, reinterpret_cast<ListObject*>(value));
        if (result.type == "Tensor") return write_tensor(result, Owned(reinterpret_cast<TensorObject*>(value)));
        if (result.kind == Kind::none) throw std::runtime_error("a result is a value, and was None when the model was exported");
        const int64_t integer = static_cast<int64_t>(value);
        const uint8_t boolean = (value & 0xff) != 0;
        if (void* data = output(nullptr, 0)) {
            if (result.kind == Kind::boolean) std::memcpy(data, &boolean, sizeof boolean);
            else std::memcpy(data, &integer, sizeof integer);
        }
        ++next_;
    }

    void write_list(const Result& result, const std::string& item, ListObject* list) {
        size_t size = 0;
        libtorch().torch_list_size(list, &size);
        std::vector<Stable> values(size);
        for (size_t i = 0; i < size; ++i) libtorch().torch_list_get_item(list, i, &values[i]);
        libtorch().torch_delete_list(list);
        if (size == result.items.size()) return write(result.items, values.data());
        if (item == "Tensor") {
            for (Stable value : values) Owned(reinterpret_cast<TensorObject*>(value));
        }
        throw std::runtime_error("a result is a list of " + std::to_string(size) + ", and had " + std::to_string(result.items.size()) +
                                 " when the model was exported");
    }

    // Memory for the next output; null where nobody reads it.
    void* output(const int64_t* sizes, size_t rank) {
        static const int64_t no_sizes = 0;
        OrtValue* value = nullptr;
        call(api_, KernelContext_GetOutput, context_, next_, sizes ? sizes : &no_sizes, rank, &value);
        if (!value) return nullptr;
        view_ = view_of(api_, value);
        if (view_.type != node_.output_types[next_]) {
            throw std::runtime_error("ONNX Runtime takes its output " + std::to_string(next_) + " for one of the element type " +
                                     std::to_string(view_.type));
        }
        return view_.data;
    }

    void write_tensor(const Result& result, const Owned& owned) {
        const Libtorch& torch = libtorch();
        TensorObject* tensor = owned.get();
        bool defined = false;
        if (tensor) check(torch.aoti_torch_is_defined(tensor, &defined));
        if (result.kind == Kind::none) return;
        const size_t place = next_;
        if (!defined) throw std::runtime_error("a result is left undefined, and was a tensor when the model was exported");
        int32_t layout = 0, type = 0;
        check(torch.aoti_torch_get_layout(tensor, &layout));
        if (layout != types().cpu_strided_layout) throw std::runtime_error("a result is no strided tensor, which ONNX cannot hold");
        check(torch.aoti_torch_get_dtype(tensor, &type));
        bool is_complex = false;
        const int32_t onnx = types().onnx_of(type, &is_complex);
        if (onnx != node_.output_types[place] || is_complex != (result.kind == Kind::complex_tensor)) {
            throw std::runtime_error("its output " + std::to_string(place) + " comes out " + (is_complex ? "complex, of " : "as ") +
                                     onnx_names[onnx] + ", and the node says " + onnx_names[node_.output_types[place]]);
        }
        int64_t rank = 0, *sizes = nullptr;
        check(torch.aoti_torch_get_dim(tensor, &rank));
        check(torch.aoti_torch_get_sizes(tensor, &sizes));
        std::vector<int64_t> written(sizes, sizes + rank);
        if (is_complex) written.push_back(2);
        void* data = output(written.data(), written.size());
        ++next_;
        if (data && view_.count() > 0) copy(result, tensor, data, is_complex);
    }

    void copy(const Result& result, TensorObject* tensor, void* data, bool is_complex) {
        const Libtorch& torch = libtorch();
        int32_t device = 0;
        bool contiguous = false;
        check(torch.aoti_torch_get_device_type(tensor, &device));
        check(torch.aoti_torch_is_contiguous(tensor, &contiguous));
        const int64_t bytes = view_.count() * static_cast<int64_t>(size_of(view_.type));
        // Torch's own copy is made where numbers may stand there conjugated or negated.
        if (device == 0 && contiguous && !is_complex && !node_.has_complex && !result.aliases) {
            void* from = nullptr;
            check(torch.aoti_torch_get_data_ptr(tensor, &from));
            if (from) return aten::copy(api_, context_, data, from, static_cast<size_t>(bytes));  // zeros may have no memory of their own
        }
        const Owned to(on_memory(view_, is_complex));
        check(torch.aoti_torch_copy_(to.get(), tensor, 0));
    }

    static size_t size_of(int32_t type) {
        switch (type) {
            case 2:
            case 3:
            case 9:
            case 17:
            case 18:
            case 19:
            case 20: return 1;
            case 4:
            case 5:
            case 10:
            case 16: return 2;
            case 1:
            case 6:
            case 12: return 4;
            default: return 8;
        }
    }

    const Node& node_;
    const OrtApi* api_;
    OrtKernelContext* context_;
    View view_;
    size_t next_ = 0;
    std::string failure_;
};

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

void run(const Node& node, const Cores& cores, const OrtApi* api, OrtKernelContext* context) {
    const WithoutGradients guard;
    Arguments arguments;
    Builder(node, api, context, arguments).build();
    arguments.taken_over();
    cores.lend(api, context, [&] { call_operator(node, arguments.values); });
    Outputs outputs(node, api, context);
    outputs.write(node.results, arguments.values.data());
    outputs.finish();
}

}  // namespace aten
}  // namespace opbridge
