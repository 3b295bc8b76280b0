#include "node.h"

#include <cstdlib>
#include <deque>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <openvino/op/constant.hpp>

namespace opbridge {
namespace openvino {

using namespace detail;

namespace {

Type type_of(const ov::element::Type& type) {
    switch (static_cast<ov::element::Type_t>(type)) {
        case ov::element::Type_t::f32: return Type::float32;
        case ov::element::Type_t::f64: return Type::float64;
        case ov::element::Type_t::f16: return Type::float16;
        case ov::element::Type_t::bf16: return Type::bfloat16;
        case ov::element::Type_t::i8: return Type::int8;
        case ov::element::Type_t::i16: return Type::int16;
        case ov::element::Type_t::i32: return Type::int32;
        case ov::element::Type_t::i64: return Type::int64;
        case ov::element::Type_t::u8: return Type::uint8;
        case ov::element::Type_t::u16: return Type::uint16;
        case ov::element::Type_t::u32: return Type::uint32;
        case ov::element::Type_t::u64: return Type::uint64;
        case ov::element::Type_t::boolean: return Type::boolean;
        default: return Type::any;
    }
}

ov::element::Type type_of(Type type) {
    switch (type) {
        case Type::float32: return ov::element::f32;
        case Type::float64: return ov::element::f64;
        case Type::float16: return ov::element::f16;
        case Type::bfloat16: return ov::element::bf16;
        case Type::int8: return ov::element::i8;
        case Type::int16: return ov::element::i16;
        case Type::int32: return ov::element::i32;
        case Type::int64: return ov::element::i64;
        case Type::uint8: return ov::element::u8;
        case Type::uint16: return ov::element::u16;
        case Type::uint32: return ov::element::u32;
        case Type::uint64: return ov::element::u64;
        case Type::boolean: return ov::element::boolean;
        default: return ov::element::dynamic;
    }
}

std::vector<double> doubles(const ov::Any& found) {
    if (found.is<float>()) return {found.as<float>()};
    if (found.is<double>()) return {found.as<double>()};
    if (found.is<std::vector<double>>()) return found.as<std::vector<double>>();
    if (found.is<std::vector<float>>()) {
        const auto& numbers = found.as<std::vector<float>>();
        return {numbers.begin(), numbers.end()};
    }
    if (found.is<ov::Tensor>()) {
        const ov::Tensor tensor = found.as<ov::Tensor>();
        if (tensor.get_element_type() == ov::element::f64) return {tensor.data<double>(), tensor.data<double>() + tensor.get_size()};
    }
    if (found.is<std::shared_ptr<ov::op::v0::Constant>>()) return found.as<std::shared_ptr<ov::op::v0::Constant>>()->cast_vector<double>();
    throw std::invalid_argument("has a type that OpenVINO's frontend does not support");
}

Attribute read_attribute(const ov::frontend::NodeContext& context, const ArgumentSchema& declared) {
    Attribute value;
    const ov::Any found = context.get_attribute_as_any(declared.name);
    value.given = !found.empty();
    if (!value.given) return value;
    try {
        switch (declared.kind) {
            case Kind::integer:
            case Kind::boolean: value.integer.known = found.as<int64_t>(); break;
            case Kind::number: value.number = doubles(found).at(0); break;
            case Kind::text: value.text = found.as<std::string>(); break;
            case Kind::integers: value.integers = found.as<std::vector<int64_t>>(); break;
            default: value.numbers = doubles(found);
        }
    } catch (const std::exception& error) {
        throw std::invalid_argument("the attribute '" + declared.name + "' " + error.what());
    }
    return value;
}

template <class Body>
void with_type(Type type, Body&& body) {
    switch (type) {
        case Type::float32: return body(float());
        case Type::float64: return body(double());
        case Type::float16: return body(Half());
        case Type::bfloat16: return body(BFloat16());
        case Type::int8: return body(int8_t());
        case Type::int16: return body(int16_t());
        case Type::int32: return body(int32_t());
        case Type::int64: return body(int64_t());
        case Type::uint8: return body(uint8_t());
        case Type::uint16: return body(uint16_t());
        case Type::uint32: return body(uint32_t());
        case Type::uint64: return body(uint64_t());
        case Type::boolean: return body(bool());
        default: throw std::invalid_argument("an input has an element type that no kernel supports");
    }
}

// The numbers of a tensor in another type.
std::vector<char> converted(const ov::Tensor& given, Type type) {
    std::vector<char> made(given.get_size() * size_of(type) + 1);
    with_type(openvino::type_of(given.get_element_type()), [&](auto from) {
        with_type(type, [&](auto to) {
            using From = decltype(from);
            using To = decltype(to);
            const From* source = static_cast<const From*>(given.data());
            To* target = reinterpret_cast<To*>(made.data());
            for (size_t i = 0; i < given.get_size(); ++i) {
                if constexpr (std::is_integral_v<From>) target[i] = static_cast<To>(source[i]);
                else target[i] = static_cast<To>(static_cast<float>(source[i]));
            }
        });
    });
    return made;
}

// What a kernel needs while it runs. It computes in the thread that OpenVINO calls it in.
class Scratch : public Runtime {
  public:
    explicit Scratch(ov::TensorVector& outputs, const ov::Node& node) : outputs_(outputs), node_(node) {}
    ~Scratch() {
        for (void* memory : scratch_) std::free(memory);
    }

    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        ov::Tensor& tensor = outputs_[static_cast<size_t>(index)];
        if (tensor.get_element_type() != type_of(type)) {
            throw std::logic_error("output " + std::to_string(index) + " has the type " + name_of(type) + ", but OpenVINO expects " +
                                   tensor.get_element_type().get_type_name());
        }
        const ov::PartialShape& expected = node_.get_output_partial_shape(static_cast<size_t>(index));
        const ov::Shape shape(sizes, sizes + rank);
        if (!expected.compatible(ov::PartialShape(shape))) {
            throw std::logic_error("output " + std::to_string(index) + " has the shape " + ov::PartialShape(shape).to_string() +
                                   ", but OpenVINO expects " + expected.to_string());
        }
        tensor.set_shape(shape);
        return tensor.data();
    }

    void* allocate_scratch(size_t bytes) override {
        scratch_.push_back(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
        if (!scratch_.back()) throw std::bad_alloc();
        return scratch_.back();
    }

    void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) override {
        for (int64_t i = 0; i < pieces; ++i) piece(data, i);
    }

    int64_t threads() override { return 1; }

  private:
    ov::TensorVector& outputs_;
    const ov::Node& node_;
    std::vector<void*> scratch_;
};

// While it lives, sizes that are not known have new symbols. Comparisons of them are given up, or taken for what an operator asks of its
// arguments: equal, and not less.
class WithSymbols {
  public:
    WithSymbols(SymbolsOf symbols, bool assume) : symbols_(symbols), assume_(assume), own_{apply, this} { *symbols_() = &own_; }
    WithSymbols(const WithSymbols&) = delete;
    WithSymbols& operator=(const WithSymbols&) = delete;
    ~WithSymbols() { *symbols_() = nullptr; }

    int64_t next() { return ++count_; }

  private:
    static int32_t apply(void* self, int32_t operation, const Dim*, const Dim*, Dim* result) {
        auto& own = *static_cast<WithSymbols*>(self);
        const auto asked = static_cast<Operation>(operation);
        if (asked == Operation::number || (operation >= static_cast<int32_t>(Operation::equal) && !own.assume_)) return 1;
        if (asked == Operation::equal) *result = Dim(1);
        else if (asked == Operation::less) *result = Dim(0);
        else result->symbol = own.next();
        return 0;
    }

    SymbolsOf symbols_;
    bool assume_;
    Symbols own_;
    int64_t count_ = 0;
};

}  // namespace

ov::OutputVector KernelNode::made(const Operator& op, SymbolsOf symbols, const ov::frontend::NodeContext& context) {
    try {
        if (op.schema.returns_list) throw std::invalid_argument("it returns a list of tensors, which kernels in OpenVINO do not support");
        Said said;
        for (const ArgumentSchema& declared : op.schema.arguments) {
            said.attributes.push_back(is_tensor(declared.kind) ? Attribute() : with_default(read_attribute(context, declared), declared));
        }
        said.layout = InputLayout::read(op.schema, [&](const char* name, int64_t* length) {
            const ov::Any found = context.get_attribute_as_any(name);
            if (!found.empty()) *length = found.as<int64_t>();
            return !found.empty();
        });
        ov::OutputVector inputs;
        for (size_t i = 0; i < context.get_input_size(); ++i) {
            const ov::Output<ov::Node> input = context.get_input(static_cast<int>(i));
            // What ONNX's frontend has for an input that is left out.
            const bool is_left_out = !input.get_node() || std::string(input.get_node()->get_type_name()) == "NullNode";
            said.places.push_back(is_left_out ? -1 : static_cast<int64_t>(inputs.size()));
            if (is_left_out) continue;
            inputs.push_back(input);
            said.types.push_back(openvino::type_of(input.get_element_type()));
        }
        return std::make_shared<KernelNode>(inputs, op, symbols, std::move(said))->outputs();
    } catch (const std::exception& error) {
        throw std::invalid_argument(op.error_message(error.what()));
    }
}

KernelNode::KernelNode(const ov::OutputVector& inputs, const Operator& op, SymbolsOf symbols, Said said)
    : Op(inputs), op_(&op), symbols_(symbols), said_(std::move(said)) {
    constructor_validate_and_infer_types();
}

template <class Read>
void KernelNode::fill(Call& call, Read&& read) const {
    const Schema& schema = op_->schema;
    call.arguments.resize(schema.arguments.size());
    said_.layout.each(schema, said_.places.size(), [&](size_t index, size_t input, size_t length) {
        Argument& argument = call.arguments[index];
        const ArgumentSchema& declared = schema.arguments[index];
        const auto place = [&](size_t i) { return i < said_.places.size() ? said_.places[i] : -1; };
        if (declared.kind == Kind::tensor) {
            argument.given = place(input) >= 0;
            if (argument.given) read(static_cast<size_t>(place(input)), argument.tensor);
            else if (!declared.optional) throw std::invalid_argument("the input '" + declared.name + "' is missing");
            return;
        }
        argument.given = true;
        argument.tensors.resize(length);
        for (size_t i = 0; i < length; ++i) {
            if (place(input + i) < 0) throw std::invalid_argument("a tensor of the list '" + declared.name + "' is missing");
            read(static_cast<size_t>(place(input + i)), argument.tensors[i]);
        }
    });
    for (size_t i = 0; i < call.arguments.size(); ++i) {
        if (is_tensor(schema.arguments[i].kind)) continue;
        call.arguments[i].given = said_.attributes[i].given;
        call.arguments[i].attribute = &said_.attributes[i];
    }
}

bool KernelNode::infer(bool assume) {
    WithSymbols symbols(symbols_, assume);
    std::deque<std::vector<Dim>> dims;
    Call call;
    fill(call, [&](size_t place, Tensor& tensor) {
        std::vector<Dim>& found = dims.emplace_back();
        for (const ov::Dimension& size : get_input_partial_shape(place)) {
            Dim dim(size.is_static() ? size.get_length() : 0);
            if (size.is_dynamic()) dim.symbol = symbols.next();
            found.push_back(dim);
        }
        tensor.type = said_.types[place];
        tensor.rank = static_cast<int64_t>(found.size());
        tensor.dims = found.data();
    });
    const Instance& kernel = op_->choose(call);
    Shapes shapes{std::vector<Shape>()};
    try {
        shapes = op_->shapes(call);
    } catch (const Undecided&) {
        return false;
    }
    each_output(kernel, shapes.size(), [&](size_t output, const Parameter& parameter) {
        std::vector<ov::Dimension> sizes;
        for (const Dim& dim : shapes[output]) {
            sizes.push_back(dim.is_known() && !assume ? ov::Dimension(dim.known) : ov::Dimension::dynamic());
        }
        set_output_type(output, openvino::type_of(parameter.type), ov::PartialShape(sizes));
    });
    return true;
}

void KernelNode::validate_and_infer_types() {
    set_output_size(op_->schema.returns);
    for (size_t i = 0; i < get_input_size(); ++i) {
        if (said_.types[i] == Type::any) said_.types[i] = openvino::type_of(get_input_element_type(i));
        if (get_input_partial_shape(i).rank().is_dynamic() || get_input_element_type(i).is_dynamic()) {
            for (size_t output = 0; output < op_->schema.returns; ++output) {
                set_output_type(output, ov::element::dynamic, ov::PartialShape::dynamic());
            }
            return;
        }
    }
    try {
        // With assumptions, only the number of dimensions is taken: OpenVINO's CPU wants it.
        if (!infer(false) && !infer(true)) throw std::invalid_argument("the rank of its outputs depends on sizes");
    } catch (const std::exception& error) {
        throw std::invalid_argument(op_->error_message(error.what()));
    }
}

std::shared_ptr<ov::Node> KernelNode::clone_with_new_inputs(const ov::OutputVector& inputs) const {
    return std::make_shared<KernelNode>(inputs, *op_, symbols_, said_);
}

// OpenVINO takes two operations of the same attributes and inputs for one.
bool KernelNode::visit_attributes(ov::AttributeVisitor& visitor) {
    std::string name = op_->schema.operator_name();
    visitor.on_attribute("opbridge_operator", name);
    visitor.on_attribute("opbridge_places", said_.places);
    visitor.on_attribute("opbridge_lengths", said_.layout.lengths);
    for (size_t i = 0; i < said_.attributes.size(); ++i) {
        const ArgumentSchema& declared = op_->schema.arguments[i];
        Attribute& value = said_.attributes[i];
        if (!value.given) continue;
        switch (declared.kind) {
            case Kind::integer:
            case Kind::boolean: visitor.on_attribute(declared.name, value.integer.known); break;
            case Kind::number: visitor.on_attribute(declared.name, value.number); break;
            case Kind::text: visitor.on_attribute(declared.name, value.text); break;
            case Kind::integers: visitor.on_attribute(declared.name, value.integers); break;
            case Kind::numbers: visitor.on_attribute(declared.name, value.numbers); break;
            default: break;
        }
    }
    return true;
}

bool KernelNode::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
    try {
        std::deque<std::vector<int64_t>> sizes;
        std::deque<std::vector<char>> numbers;
        Call call;
        fill(call, [&](size_t place, Tensor& tensor) {
            const ov::Tensor& given = inputs[place];
            const ov::Shape& shape = given.get_shape();
            sizes.emplace_back(shape.begin(), shape.end());
            tensor.type = said_.types[place];
            tensor.rank = static_cast<int64_t>(shape.size());
            tensor.sizes = sizes.back().data();
            tensor.count = static_cast<int64_t>(given.get_size());
            if (openvino::type_of(given.get_element_type()) == tensor.type) {
                tensor.data = const_cast<void*>(given.data());
            } else {
                numbers.push_back(converted(given, tensor.type));
                tensor.data = numbers.back().data();
            }
        });
        Scratch runtime(outputs, *this);
        op_->run(call, runtime);
    } catch (const std::exception& error) {
        throw std::runtime_error(op_->error_message(error.what()));
    }
    return true;
}

}  // namespace openvino
}  // namespace opbridge
