// The arguments of a call, as checks read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtorch.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Throws std::invalid_argument where something does not hold.
inline void require(bool holds, const std::string& words) {
    if (!holds) throw std::invalid_argument("invalid arguments: " + words);
}

// A tensor that is an argument, or an item of one.
class CheckedTensor {
  public:
    CheckedTensor() = default;
    CheckedTensor(TensorObject* tensor, const std::string& name);

    bool is_there() const { return tensor_ != nullptr; }
    int64_t rank() const { return static_cast<int64_t>(sizes_.size()); }
    // Of a dimension, which may be counted from the end; throws where there is none.
    int64_t size(int64_t dim) const;
    const std::vector<int64_t>& sizes() const { return sizes_; }
    int64_t count() const;
    // ONNX's element type, of the parts where it is complex; 0 where ONNX has none.
    int32_t type() const { return type_; }
    bool is_complex() const { return is_complex_; }
    bool is_floating() const { return !is_complex_ && (type_ == 1 || type_ == 10 || type_ == 11 || type_ == 16); }
    bool is_integer() const { return !is_complex_ && type_ >= 2 && type_ <= 13 && type_ != 8 && !is_floating() && type_ != 9; }
    // Its numbers; throws where they are no integers.
    std::vector<int64_t> integers() const;
    // Throws where a number is above `most`, or none at all. Those of dtypes that are no number's have no such limit.
    void require_at_most(double most) const;
    // Whether every number is finite; true for integers.
    bool is_finite() const;
    // Throws where it has another rank, other sizes (-1 stands for any) or another dtype.
    void require_rank(int64_t rank) const;
    void require_sizes(const std::vector<int64_t>& sizes) const;
    void require_dtype_of(const CheckedTensor& other) const;
    const std::string& name() const { return name_; }

  private:
    const void* data() const;

    TensorObject* tensor_ = nullptr;
    std::string name_;
    std::vector<int64_t> sizes_;
    int32_t type_ = 0;
    bool is_complex_ = false;
};

// An argument: what the schema says of it, and its value as the C interface passes it, out of the place of an optional one.
struct CheckedValue {
    std::string name;
    std::string type;  // without "?"; of a Scalar that of its value
    bool is_none = false;
    StableValue value = 0;
};

class CheckedCall {
  public:
    std::vector<CheckedValue> values;

    // Whether the operator takes an argument of that name.
    bool takes(const char* name) const { return find(name) != nullptr; }
    // Whether it does, and it is not None.
    bool has(const char* name) const;
    CheckedTensor tensor(const char* name) const;  // one that is not there, for None
    std::vector<CheckedTensor> tensors(const char* name) const;
    int64_t integer(const char* name) const;
    bool flag(const char* name) const { return (integer(name) & 0xff) != 0; }
    double number(const char* name) const;
    // Whether it is an integer, or a tensor of integers.
    bool is_integer(const char* name) const;
    const std::string& type(const char* name) const { return get(name).type; }
    std::vector<int64_t> integers(const char* name) const;  // of a list, of a tensor, or a single one
    std::string text(const char* name) const;

    // Throws where a number, or one of a tensor, is above `most`.
    void require_at_most(const char* name, double most) const;
    // Throws where a number is not from `first` to `last`.
    void require_between(const char* name, int64_t first, int64_t last) const;

  private:
    const CheckedValue* find(const char* name) const;
    const CheckedValue& get(const char* name) const;
};

}  // namespace aten
}  // namespace opbridge
