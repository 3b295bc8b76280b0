// The fields of a plug-in: the attributes of its node, as TensorRT's parser gives them, and as an engine keeps them.
//
// | schema         | field                                                                   |
// | -------------- | ----------------------------------------------------------------------- |
// | int, bool      | INT32 or INT64                                                          |
// | float          | FLOAT32 or FLOAT64                                                      |
// | str            | CHAR, with a zero at the end                                            |
// | int[], float[] | the same, as many as there are; UNKNOWN where an engine keeps none      |
// | Tensor[]       | INT32 or INT64 of the list's name: how many tensors it has              |
// | -> Tensor[]    | INT32 or INT64, plugin_outputs: how many outputs the node has           |
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "nodes.h"
#include "operator.h"
#include "tensorrt_api.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

using namespace detail;

constexpr const char* outputs_field = "plugin_outputs";

inline const char* name_of(PluginFieldType type) {
    constexpr const char* names[] = {"FLOAT16", "FLOAT32", "FLOAT64", "INT8",     "INT16", "INT32",
                                     "CHAR",    "DIMS",    "UNKNOWN", "BFLOAT16", "INT64"};
    const auto number = static_cast<size_t>(type);
    return number < sizeof names / sizeof *names ? names[number] : "a type that is not known here";
}

// The values of one field.
class Field {
  public:
    explicit Field(const PluginField& field) : field_(field) {
        if (field.length < 0 || (field.length > 0 && !field.data)) throw std::invalid_argument(about("has no data"));
    }

    std::vector<int64_t> integers() const {
        switch (field_.type) {
            case PluginFieldType::kINT8: return read<int8_t, int64_t>();
            case PluginFieldType::kINT16: return read<int16_t, int64_t>();
            case PluginFieldType::kINT32: return read<int32_t, int64_t>();
            case PluginFieldType::kINT64: return read<int64_t, int64_t>();
            default: refuse("INT32 or INT64");
        }
    }

    std::vector<double> numbers() const {
        switch (field_.type) {
            case PluginFieldType::kFLOAT32: return read<float, double>();
            case PluginFieldType::kFLOAT64: return read<double, double>();
            default: refuse("FLOAT32 or FLOAT64");
        }
    }

    std::string text() const {
        if (field_.type != PluginFieldType::kCHAR) refuse("CHAR");
        const std::vector<char> all = read<char, char>();
        size_t size = all.size();
        while (size > 0 && all[size - 1] == '\0') --size;
        return std::string(all.data(), size);
    }

    int64_t integer() const { return one(integers()); }
    double number() const { return one(numbers()); }
    bool is_empty_list() const { return field_.type == PluginFieldType::kUNKNOWN || field_.length == 0; }

  private:
    template <class Stored, class Value>
    std::vector<Value> read() const {
        std::vector<Value> values;
        for (int32_t i = 0; i < field_.length; ++i) {
            Stored value;
            std::memcpy(&value, static_cast<const char*>(field_.data) + static_cast<size_t>(i) * sizeof value, sizeof value);
            values.push_back(static_cast<Value>(value));
        }
        return values;
    }

    template <class Value>
    Value one(const std::vector<Value>& values) const {
        if (values.size() != 1) throw std::invalid_argument(about("has " + std::to_string(values.size()) + " values, expected one"));
        return values[0];
    }

    std::string about(const std::string& what) const { return std::string("the field '") + field_.name + "' " + what; }
    [[noreturn]] void refuse(const char* expected) const {
        throw std::invalid_argument(about(std::string("is of the type ") + name_of(field_.type) + ", expected " + expected));
    }

    const PluginField& field_;
};

// The fields that a plug-in is made from.
class Fields {
  public:
    explicit Fields(const PluginFieldCollection* all) : all_(all) {}

    const PluginField* find(const std::string& name) const {
        const PluginField* found = nullptr;
        each([&](const PluginField& field) { found = field.name == name ? &field : found; });
        return found;
    }

    template <class Body>
    void each(Body&& body) const {
        for (int32_t i = 0; all_ && i < all_->nbFields; ++i) {
            if (all_->fields[i].name) body(all_->fields[i]);
        }
    }

  private:
    const PluginFieldCollection* all_;
};

inline Attribute read_attribute(const Fields& fields, const ArgumentSchema& declared) {
    Attribute value;
    const PluginField* found = fields.find(declared.name);
    if (!found) return value;
    const Field field(*found);
    value.given = true;
    switch (declared.kind) {
        case Kind::integer: value.integer = field.integer(); break;
        case Kind::boolean: value.integer = field.integer() != 0; break;
        case Kind::number: value.number = field.number(); break;
        case Kind::text: value.text = field.text(); break;
        case Kind::integers:
            if (!field.is_empty_list()) value.integers = field.integers();
            break;
        default:
            if (!field.is_empty_list()) value.numbers = field.numbers();
    }
    return value;
}

// What a plug-in is: the operator's attributes, and how many tensors its lists have.
struct Made {
    std::vector<Attribute> attributes;  // by argument
    InputLayout layout;
    int64_t outputs = 0;

    // Throws std::invalid_argument where fields are missing, or are not those of the operator.
    static Made read(const Schema& schema, const Fields& fields) {
        Made made;
        fields.each([&](const PluginField& field) { check_name(schema, field.name); });
        for (const ArgumentSchema& declared : schema.arguments) {
            made.attributes.push_back(is_tensor(declared.kind) ? Attribute() : with_default(read_attribute(fields, declared), declared));
        }
        made.layout = InputLayout::read(schema, [&](const char* name, int64_t* length) {
            const PluginField* found = fields.find(name);
            if (found) *length = Field(*found).integer();
            return found != nullptr;
        });
        made.outputs = static_cast<int64_t>(schema.returns);
        if (schema.returns_list) {
            const PluginField* found = fields.find(outputs_field);
            if (!found) {
                throw std::invalid_argument(
                    std::string("the node has no attribute '") + outputs_field +
                    "', the number of its outputs, which depends on the call. Export the model with the target tensorrt");
            }
            made.outputs = Field(*found).integer();
            if (made.outputs < static_cast<int64_t>(schema.single_returns()) || made.outputs > InputLayout::most) {
                throw std::invalid_argument("the node declares an invalid number of outputs: " + std::to_string(made.outputs));
            }
        }
        return made;
    }

    // Calls body(name, kind) for each field that the operator has.
    template <class Body>
    static void each_name(const Schema& schema, Body&& body) {
        for (const ArgumentSchema& declared : schema.arguments) {
            if (declared.kind != Kind::tensor) body(declared.name.c_str(), declared.kind == Kind::tensors ? Kind::integer : declared.kind);
        }
        if (schema.returns_list) body(outputs_field, Kind::integer);
    }

  private:
    static void check_name(const Schema& schema, const char* name) {
        bool is_known = false;
        std::string known;
        each_name(schema, [&](const char* each, Kind) {
            is_known = is_known || std::strcmp(each, name) == 0;
            known += (known.empty() ? "" : ", ") + std::string(each);
        });
        if (!is_known) {
            throw std::invalid_argument(std::string("there is no field '") + name + "', only " + (known.empty() ? "none at all" : known));
        }
    }
};

// The fields of a plug-in, with the memory that they point to.
class KeptFields {
  public:
    KeptFields() = default;
    KeptFields(const KeptFields&) = delete;
    KeptFields& operator=(const KeptFields&) = delete;

    // The fields that make the same plug-in again.
    void write(const Schema& schema, const Made& made) {
        clear();
        for (size_t i = 0; i < schema.arguments.size(); ++i) {
            const ArgumentSchema& declared = schema.arguments[i];
            const char* name = declared.name.c_str();
            if (declared.kind == Kind::tensors && made.layout.lengths[i] >= 0) add_integers(name, {made.layout.lengths[i]});
            else if (!is_tensor(declared.kind) && made.attributes[i].given) add(name, declared.kind, made.attributes[i]);
        }
        if (schema.returns_list) add_integers(outputs_field, {made.outputs});
        finish();
    }

    // The names of the fields, with the types that the parser's attributes have.
    void declare(const Schema& schema) {
        clear();
        Made::each_name(schema, [&](const char* name, Kind kind) {
            const bool is_number = kind == Kind::number || kind == Kind::numbers;
            const auto type = is_number ? PluginFieldType::kFLOAT32 : kind == Kind::text ? PluginFieldType::kCHAR : PluginFieldType::kINT64;
            fields_.push_back({name, nullptr, type, kind == Kind::integers || kind == Kind::numbers || kind == Kind::text ? 0 : 1});
        });
        finish();
    }

    const PluginFieldCollection* collection() const { return &collection_; }

  private:
    void clear() {
        memory_.clear();
        fields_.clear();
    }

    void finish() { collection_ = {static_cast<int32_t>(fields_.size()), fields_.data()}; }

    void add(const char* name, Kind kind, const Attribute& value) {
        switch (kind) {
            case Kind::integer:
            case Kind::boolean: return add_integers(name, {value.integer.known});
            case Kind::number: return add_numbers(name, {value.number});
            case Kind::text: return add(name, PluginFieldType::kCHAR, value.text.c_str(), value.text.size() + 1, 1);
            case Kind::integers: return add_integers(name, value.integers);
            default: return add_numbers(name, value.numbers);
        }
    }

    void add_integers(const char* name, const std::vector<int64_t>& values) {
        if (values.empty()) return add_none(name);
        add(name, PluginFieldType::kINT64, values.data(), values.size(), sizeof(int64_t));
    }

    void add_numbers(const char* name, const std::vector<double>& values) {
        if (values.empty()) return add_none(name);
        add(name, PluginFieldType::kFLOAT64, values.data(), values.size(), sizeof(double));
    }

    // A list without elements, which is not the same as none; whether an engine keeps a field of length zero is not documented.
    void add_none(const char* name) { add(name, PluginFieldType::kUNKNOWN, "", 1, 1); }

    void add(const char* name, PluginFieldType type, const void* data, size_t count, size_t size) {
        const auto* bytes = static_cast<const char*>(data);
        memory_.emplace_back(bytes, bytes + count * size);
        fields_.push_back({name, memory_.back().data(), type, static_cast<int32_t>(count)});
    }

    std::deque<std::vector<char>> memory_;
    std::vector<PluginField> fields_;
    PluginFieldCollection collection_{0, nullptr};
};

inline std::string to_text(const std::vector<int64_t>& values) {
    std::string text;
    for (int64_t each : values) text += (text.empty() ? "" : ", ") + std::to_string(each);
    return "[" + text + "]";
}

inline std::string to_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

// "alpha=3, axes=[0, 1]": the fields, for people and for the cache of timings.
inline std::string to_text(const Schema& schema, const Made& made) {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& value) { text += (text.empty() ? "" : ", ") + name + "=" + value; };
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
        const ArgumentSchema& declared = schema.arguments[i];
        const Attribute& value = made.attributes[i];
        if (declared.kind == Kind::tensors && made.layout.lengths[i] >= 0) add(declared.name, std::to_string(made.layout.lengths[i]));
        if (is_tensor(declared.kind) || !value.given) continue;
        switch (declared.kind) {
            case Kind::integer:
            case Kind::boolean: add(declared.name, std::to_string(value.integer.known)); break;
            case Kind::number: add(declared.name, to_text(value.number)); break;
            case Kind::text: add(declared.name, "'" + value.text + "'"); break;
            case Kind::integers: add(declared.name, to_text(value.integers)); break;
            default: {
                std::string all;
                for (double each : value.numbers) all += (all.empty() ? "" : ", ") + to_text(each);
                add(declared.name, "[" + all + "]");
            }
        }
    }
    if (schema.returns_list) add(outputs_field, std::to_string(made.outputs));
    return text;
}

}  // namespace tensorrt
}  // namespace opbridge
