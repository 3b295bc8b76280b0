#include "node.h"

#include <cmath>
#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>

#include "calling.h"

namespace opbridge {
namespace aten {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::string part;
    std::istringstream stream(text);
    while (std::getline(stream, part, separator)) {
        if (!part.empty()) parts.push_back(part);
    }
    return parts;
}

std::invalid_argument malformed(const std::string& words) { return std::invalid_argument("the node is malformed: " + words); }

// "[a,b]" into "a" and "b".
std::vector<std::string> items_of(const std::string& kind) {
    if (kind.size() < 2 || kind.back() != ']') throw malformed("the list " + kind + " does not end");
    return split(kind.substr(1, kind.size() - 2), ',');
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (text == name) return true;
    }
    return false;
}

// Whether a value of a kind may be given for a type of the schema.
bool fits(const std::string& kind, const std::string& type) {
    const bool is_input = is_one_of(kind, {"input_int", "input_float", "input_bool"});
    if (type == "Tensor") return is_one_of(kind, {"tensor", "complex_tensor"});
    if (type == "int" || type == "SymInt") return kind == "int" || is_input;
    if (type == "float" || type == "SymFloat") return kind == "float" || is_input;
    if (type == "bool" || type == "SymBool") return kind == "bool" || is_input;
    if (type == "Scalar") return is_one_of(kind, {"int", "float", "bool", "complex"}) || is_input;
    if (type == "str") return kind == "str";
    if (type == "ScalarType") return kind == "dtype";
    if (type == "Layout") return kind == "layout";
    if (type == "Device") return kind == "device";
    if (type == "MemoryFormat") return kind == "memory_format";
    return false;
}

class Reader {
  public:
    Reader(const Attributes& attributes, size_t inputs) : attributes_(attributes), inputs_(inputs) {}

    Value argument(const SchemaItem& declared, const std::string& kind) {
        static const std::set<std::string> reserved{"operator",  "overload_name", "schema",      "torch_version",
                                                    "arguments", "results",       "output_types"};
        where_ = declared.name;
        Value value = read(declared.type, kind, declared.name + (reserved.count(declared.name) ? "_" : ""));
        // Batch normalisation updates these, and no schema says so.
        mark_written(value, declared.written || declared.name == "running_mean" || declared.name == "running_var");
        return value;
    }

    size_t read_inputs() const { return next_; }
    bool has_complex = false;

  private:
    std::invalid_argument type_error(const std::string& type, const std::string& kind) const {
        return malformed("its argument '" + where_ + "' of the type " + type + " is given as " + kind);
    }

    static void mark_written(Value& value, bool written) {
        value.written = written;
        for (Value& item : value.items) mark_written(item, written);
    }

    Value read(const std::string& declared, const std::string& kind, const std::string& stored) {
        Value value;
        value.type = without_optional(declared);
        value.optional = value.type != declared;
        if (kind == "none") {
            if (!value.optional) throw type_error(declared, kind);
            return value;
        }
        std::string item;
        if (is_list(value.type, &item)) return list(std::move(value), item, kind, stored);
        if (!fits(kind, value.type)) throw type_error(declared, kind);
        return single(std::move(value), kind, stored);
    }

    Value list(Value value, const std::string& item, const std::string& kind, const std::string& stored) {
        value.kind = Kind::list;
        const auto add = [&](Kind of, StableValue constant) {
            Value each;
            each.kind = of;
            each.type = item;
            each.constant = constant;
            value.items.push_back(each);
        };
        if (kind == "ints" || kind == "bools") {
            if (!fits(kind == "ints" ? "int" : "bool", item)) throw type_error(value.type, kind);
            for (int64_t number : attributes_.integers(stored)) {
                if (kind == "ints") add(Kind::integer, static_cast<StableValue>(number));
                else add(Kind::boolean, number != 0);
            }
        } else if (kind == "floats") {
            if (!fits("float", item)) throw type_error(value.type, kind);
            for (double number : attributes_.doubles(stored)) add(Kind::number, stable_value(number));
        } else if (!kind.empty() && kind[0] == '[') {
            for (const std::string& each : items_of(kind)) {
                value.items.push_back(read(item, each, stored + "." + std::to_string(value.items.size())));
            }
        } else {
            throw type_error(value.type, kind);
        }
        return value;
    }

    Value single(Value value, const std::string& kind, const std::string& stored) {
        const Libtorch& torch = libtorch();
        if (is_one_of(kind, {"tensor", "complex_tensor", "input_int", "input_float", "input_bool"})) {
            value.kind = kind == "tensor"           ? Kind::tensor
                         : kind == "complex_tensor" ? Kind::complex_tensor
                         : kind == "input_int"      ? Kind::input_int
                         : kind == "input_float"    ? Kind::input_float
                                                    : Kind::input_bool;
            has_complex = has_complex || value.kind == Kind::complex_tensor;
            value.input = next_++;
            if (value.input >= inputs_) throw malformed("there is no input for its argument '" + where_ + "'");
        } else if (kind == "int") {
            value.kind = Kind::integer;
            value.constant = static_cast<StableValue>(attributes_.integer(stored));
        } else if (kind == "bool") {
            value.kind = Kind::boolean;
            value.constant = attributes_.integer(stored) != 0;
        } else if (kind == "float") {
            value.kind = Kind::number;
            value.constant = stable_value(numbers(stored, 1)[0]);
        } else if (kind == "complex") {
            const std::vector<double> parts = numbers(stored, 2);
            value.kind = Kind::complex;
            value.real = parts[0];
            value.imaginary = parts[1];
        } else if (kind == "str") {
            value.kind = Kind::text;
            value.text = attributes_.text(stored);
        } else if (kind == "device") {
            const std::string text = attributes_.text(stored);
            uint32_t type = 0;
            int32_t index = 0;
            check(torch.torch_parse_device_string(text.c_str(), &type, &index));
            value.kind = Kind::code;
            value.constant = static_cast<uint64_t>(static_cast<uint32_t>(index)) | static_cast<uint64_t>(type) << 32;
        } else {
            value.kind = Kind::code;
            value.constant = static_cast<uint32_t>(number_of(kind.c_str(), attributes_.text(stored)));
        }
        return value;
    }

    std::vector<double> numbers(const std::string& stored, size_t count) const {
        const std::vector<double> found = attributes_.doubles(stored);
        if (found.size() != count) throw malformed("its attribute '" + stored + "' has " + std::to_string(found.size()) + " numbers");
        return found;
    }

    const Attributes& attributes_;
    size_t inputs_;
    size_t next_ = 0;
    std::string where_;
};

Result read_result(const std::string& declared, bool aliases, const std::string& kind) {
    Result result;
    result.type = without_optional(declared);
    result.optional = result.type != declared;
    result.aliases = aliases;
    std::string item;
    const bool wants_list = is_list(result.type, &item);
    const bool is_tensor = result.type == "Tensor";
    const std::invalid_argument type_error = malformed("a result of type " + declared + " is declared as " + kind);
    if (!kind.empty() && kind[0] == '[') {
        if (!wants_list) throw type_error;
        result.kind = Kind::list;
        for (const std::string& each : items_of(kind)) result.items.push_back(read_result(item, aliases, each));
    } else if (is_tensor && is_one_of(kind, {"tensor", "complex_tensor", "none"})) {
        result.kind = kind == "tensor" ? Kind::tensor : kind == "none" ? Kind::none : Kind::complex_tensor;
    } else if (kind == "none" && result.optional) {
        result.kind = Kind::none;
    } else if (kind == "int" && is_one_of(result.type, {"int", "SymInt", "Scalar"})) {
        result.kind = Kind::integer;
    } else if (kind == "float" && is_one_of(result.type, {"float", "SymFloat", "Scalar"})) {
        result.kind = Kind::number;
    } else if (kind == "bool" && is_one_of(result.type, {"bool", "SymBool", "Scalar"})) {
        result.kind = Kind::boolean;
    } else {
        throw type_error;
    }
    return result;
}

void collect(const Result& result, std::vector<Kind>& leaves) {
    if (result.kind != Kind::list && result.kind != Kind::none) leaves.push_back(result.kind);
    for (const Result& item : result.items) collect(item, leaves);
}

// What the node says of its arguments or results: pairs of names or types and kinds.
std::vector<std::pair<std::string, std::string>> pairs(const std::string& text) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const std::string& token : split(text, ' ')) {
        const size_t at = token.find('=');
        if (at == std::string::npos) throw malformed("'" + token + "' has no kind");
        found.emplace_back(token.substr(0, at), token.substr(at + 1));
    }
    return found;
}

std::string counted(size_t count, const char* what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

void check_outputs(const Node& node, size_t outputs) {
    std::vector<Kind> leaves;
    for (const Result& result : node.results) collect(result, leaves);
    if (leaves.size() != outputs || leaves.size() != node.output_types.size()) {
        throw malformed("it has " + counted(outputs, "output") + " and " + counted(node.output_types.size(), "output type") + " for " +
                        counted(leaves.size(), "result"));
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
        const int64_t type = node.output_types[i];
        const bool known = type > 0 && type < Dtypes::count && dtypes().of_onnx[type] >= 0;
        const int64_t wanted = leaves[i] == Kind::integer ? 7 : leaves[i] == Kind::number ? 11 : leaves[i] == Kind::boolean ? 9 : type;
        const bool fits_kind = leaves[i] != Kind::complex_tensor || (known && dtypes().complex_of_onnx[type] >= 0);
        if (!known || type != wanted || !fits_kind) {
            throw malformed("its output " + std::to_string(i) + " is declared with the element type " + std::to_string(type));
        }
    }
}

}  // namespace

Node read_node(const Attributes& attributes, size_t inputs, size_t outputs, const Allowed& allowed) {
    Node node;
    node.name = attributes.text("operator");
    if (!attributes.has_text("arguments")) {
        throw std::invalid_argument("the node has the format of older exporters; load the model with opbridge.session, which rewrites it");
    }
    node.overload = attributes.text("overload_name");
    const std::string written_for = attributes.text("schema");
    const std::string torch_version = attributes.text("torch_version");
    const Operator found = find_operator(node.name, node.overload);
    if (found.schema != written_for) {
        throw std::invalid_argument("the model was exported with torch " + torch_version + ", whose schema is " + written_for +
                                    ", but torch " + libtorch().version() + " is installed, whose schema is " + found.schema +
                                    ". Export the model again, or install that torch");
    }
    const FunctionSchema schema = detail::parse_schema(found.schema);
    allowed.check(schema);

    const auto arguments = pairs(attributes.text("arguments"));
    const auto results = pairs(attributes.text("results"));
    if (arguments.size() != schema.arguments.size() || results.size() != schema.results.size()) {
        throw malformed("it has " + counted(arguments.size(), "argument") + " and " + counted(results.size(), "result"));
    }
    Reader reader(attributes, inputs);
    for (size_t i = 0; i < arguments.size(); ++i) {
        const SchemaItem& declared = schema.arguments[i];
        if (arguments[i].first != declared.name + ":" + declared.type) {
            throw malformed("its argument " + std::to_string(i) + " is " + arguments[i].first + ", and not " + declared.name + ":" +
                            declared.type);
        }
        node.arguments.push_back(reader.argument(declared, arguments[i].second));
        node.arguments.back().name = declared.name;
    }
    if (reader.read_inputs() != inputs) throw malformed(counted(reader.read_inputs(), "argument") + " for " + counted(inputs, "input"));
    for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].first != schema.results[i].type) {
            throw malformed("its result " + std::to_string(i) + " is declared as " + results[i].first);
        }
        node.results.push_back(read_result(schema.results[i].type, schema.results[i].aliases, results[i].second));
    }
    node.output_types = attributes.integers("output_types");
    node.has_complex = reader.has_complex;
    node.check = check_of(schema);
    check_outputs(node, outputs);
    choose_interface(node, found);
    return node;
}

}  // namespace aten
}  // namespace opbridge
