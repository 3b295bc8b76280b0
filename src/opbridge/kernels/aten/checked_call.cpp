#include "checked_call.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include <opbridge/types.h>

namespace opbridge {
namespace aten {

namespace {

std::string text_of(const std::vector<int64_t>& sizes) {
    std::string text = "[";
    for (int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + (size < 0 ? std::string("any") : std::to_string(size));
    return text + "]";
}

template <class Number>
void append(const void* data, int64_t count, std::vector<int64_t>& into) {
    const Number* numbers = static_cast<const Number*>(data);
    for (int64_t i = 0; i < count; ++i) into.push_back(static_cast<int64_t>(numbers[i]));
}

template <class Number>
bool all_finite(const void* data, int64_t count) {
    const Number* numbers = static_cast<const Number*>(data);
    for (int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(static_cast<double>(static_cast<float>(numbers[i])))) return false;
    }
    return true;
}

template <>
bool all_finite<double>(const void* data, int64_t count) {
    const double* numbers = static_cast<const double*>(data);
    for (int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(numbers[i])) return false;
    }
    return true;
}

template <class Number>
bool all_at_most(const void* data, int64_t count, double most) {
    const Number* numbers = static_cast<const Number*>(data);
    for (int64_t i = 0; i < count; ++i) {
        if (!(static_cast<double>(static_cast<float>(numbers[i])) <= most)) return false;
    }
    return true;
}

}  // namespace

CheckedTensor::CheckedTensor(TensorObject* tensor, const std::string& name) : tensor_(tensor), name_(name) {
    const Libtorch& torch = libtorch();
    bool defined = false;
    if (tensor) check(torch.aoti_torch_is_defined(tensor, &defined));
    if (!defined) {
        tensor_ = nullptr;
        return;
    }
    int64_t rank = 0, *sizes = nullptr;
    int32_t type = 0;
    check(torch.aoti_torch_get_dim(tensor, &rank));
    check(torch.aoti_torch_get_sizes(tensor, &sizes));
    check(torch.aoti_torch_get_dtype(tensor, &type));
    sizes_.assign(sizes, sizes + rank);
    type_ = dtypes().onnx_of(type, &is_complex_);
}

int64_t CheckedTensor::size(int64_t dim) const {
    const int64_t at = dim < 0 ? dim + rank() : dim;
    require(at >= 0 && at < rank(), "'" + name_ + "' has no dimension " + std::to_string(dim));
    return sizes_[static_cast<size_t>(at)];
}

int64_t CheckedTensor::count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
}

const void* CheckedTensor::data() const {
    const Libtorch& torch = libtorch();
    bool contiguous = false;
    int32_t device = 0;
    check(torch.aoti_torch_is_contiguous(tensor_, &contiguous));
    check(torch.aoti_torch_get_device_type(tensor_, &device));
    require(contiguous && device == 0, "'" + name_ + "' is not one block of the CPU's memory");
    void* data = nullptr;
    check(torch.aoti_torch_get_data_ptr(tensor_, &data));
    return data;
}

std::vector<int64_t> CheckedTensor::integers() const {
    require(is_integer(), "'" + name_ + "' must be an integer tensor");
    std::vector<int64_t> found;
    const int64_t numbers = count();
    if (numbers == 0) return found;
    found.reserve(static_cast<size_t>(numbers));
    const void* from = data();
    switch (type_) {
        case 2: append<uint8_t>(from, numbers, found); break;
        case 3: append<int8_t>(from, numbers, found); break;
        case 4: append<uint16_t>(from, numbers, found); break;
        case 5: append<int16_t>(from, numbers, found); break;
        case 6: append<int32_t>(from, numbers, found); break;
        case 7: append<int64_t>(from, numbers, found); break;
        case 12: append<uint32_t>(from, numbers, found); break;
        default: append<uint64_t>(from, numbers, found);
    }
    return found;
}

bool CheckedTensor::is_finite() const {
    const int64_t numbers = count() * (is_complex_ ? 2 : 1);
    if (numbers == 0) return true;
    switch (type_) {
        case 1: return all_finite<float>(data(), numbers);
        case 10: return all_finite<Half>(data(), numbers);
        case 11: return all_finite<double>(data(), numbers);
        case 16: return all_finite<BFloat16>(data(), numbers);
        default: return true;
    }
}

void CheckedTensor::require_at_most(double most) const {
    const auto is_within = [&] {
        if (is_integer()) {
            for (int64_t number : integers()) {
                if (static_cast<double>(number) > most) return false;
            }
            return true;
        }
        if (count() == 0 || !is_floating()) return true;
        switch (type_) {
            case 1: return all_at_most<float>(data(), count(), most);
            case 10: return all_at_most<Half>(data(), count(), most);
            case 11: return all_at_most<double>(data(), count(), most);
            default: return all_at_most<BFloat16>(data(), count(), most);
        }
    };
    require(is_within(), "'" + name_ + "' must not contain values above " + std::to_string(static_cast<int64_t>(most)));
}

void CheckedTensor::require_rank(int64_t wanted) const {
    require(rank() == wanted, "'" + name_ + "' has " + std::to_string(rank()) + " dimensions, expected " + std::to_string(wanted));
}

void CheckedTensor::require_sizes(const std::vector<int64_t>& wanted) const {
    bool fits = wanted.size() == sizes_.size();
    for (size_t i = 0; fits && i < wanted.size(); ++i) fits = wanted[i] < 0 || wanted[i] == sizes_[i];
    require(fits, "'" + name_ + "' has the shape " + text_of(sizes_) + ", expected " + text_of(wanted));
}

void CheckedTensor::require_dtype_of(const CheckedTensor& other) const {
    require(type_ == other.type_ && is_complex_ == other.is_complex_, "'" + name_ + "' must have the same dtype as '" + other.name_ + "'");
}

const CheckedValue* CheckedCall::find(const char* name) const {
    for (const CheckedValue& each : values) {
        if (each.name == name) return &each;
    }
    return nullptr;
}

const CheckedValue& CheckedCall::get(const char* name) const {
    const CheckedValue* found = find(name);
    if (!found) throw std::logic_error(std::string("a check asks for an argument '") + name + "', which the operator does not have");
    return *found;
}

bool CheckedCall::has(const char* name) const {
    const CheckedValue* found = find(name);
    if (!found || found->is_none) return false;
    return found->type != "Tensor" || CheckedTensor(reinterpret_cast<TensorObject*>(found->value), name).is_there();
}

CheckedTensor CheckedCall::tensor(const char* name) const {
    const CheckedValue& found = get(name);
    return found.is_none ? CheckedTensor() : CheckedTensor(reinterpret_cast<TensorObject*>(found.value), name);
}

std::vector<CheckedTensor> CheckedCall::tensors(const char* name) const {
    const CheckedValue& found = get(name);
    std::vector<CheckedTensor> items;
    if (found.is_none) return items;
    ListObject* list = reinterpret_cast<ListObject*>(found.value);
    size_t size = 0;
    check(libtorch().torch_list_size(list, &size));
    for (size_t i = 0; i < size; ++i) {
        StableValue item = 0;
        check(libtorch().torch_list_get_item(list, i, &item));
        items.emplace_back(reinterpret_cast<TensorObject*>(item), std::string(name) + "[" + std::to_string(i) + "]");
    }
    return items;
}

int64_t CheckedCall::integer(const char* name) const {
    const CheckedValue& found = get(name);
    require(!found.is_none, std::string("'") + name + "' is None");
    return static_cast<int64_t>(found.value);
}

double CheckedCall::number(const char* name) const {
    const int64_t bits = integer(name);
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

bool CheckedCall::is_integer(const char* name) const {
    const CheckedValue& found = get(name);
    if (found.type == "Tensor") return !found.is_none && tensor(name).is_integer();
    return !found.is_none && (found.type == "int" || found.type == "SymInt");
}

std::vector<int64_t> CheckedCall::integers(const char* name) const {
    const CheckedValue& found = get(name);
    if (found.is_none) return {};
    if (found.type == "Tensor") return tensor(name).integers();
    if (found.type == "int" || found.type == "SymInt") return {static_cast<int64_t>(found.value)};
    ListObject* list = reinterpret_cast<ListObject*>(found.value);
    size_t size = 0;
    check(libtorch().torch_list_size(list, &size));
    std::vector<int64_t> items(size);
    for (size_t i = 0; i < size; ++i) {
        StableValue item = 0;
        check(libtorch().torch_list_get_item(list, i, &item));
        items[i] = static_cast<int64_t>(item);
    }
    return items;
}

std::string CheckedCall::text(const char* name) const {
    const CheckedValue& found = get(name);
    if (found.is_none) return "";
    StringObject* text = reinterpret_cast<StringObject*>(found.value);
    size_t size = 0;
    const char* letters = nullptr;
    check(libtorch().torch_string_length(text, &size));
    check(libtorch().torch_string_c_str(text, &letters));
    return std::string(letters, size);
}

void CheckedCall::require_at_most(const char* name, double most) const {
    const CheckedValue& found = get(name);
    if (found.type == "Tensor") return tensor(name).require_at_most(most);
    const double given = is_integer(name) ? static_cast<double>(integer(name)) : found.type == "float" ? number(name) : 0;
    require(given <= most, std::string("'") + name + "' must be at most " + std::to_string(static_cast<int64_t>(most)));
}

void CheckedCall::require_between(const char* name, int64_t first, int64_t last) const {
    const int64_t given = integer(name);
    require(given >= first && given <= last, std::string("'") + name + "' is " + std::to_string(given) + ", expected " +
                                                 std::to_string(first) + " to " + std::to_string(last));
}

}  // namespace aten
}  // namespace opbridge
