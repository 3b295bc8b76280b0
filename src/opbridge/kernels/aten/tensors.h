// Tensors of ONNX Runtime, and torch's on the same memory.
#pragma once

#include <vector>

#include "libtorch.h"
#include "ort.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// A tensor of ONNX Runtime.
struct RuntimeTensor : TensorDescription {
    void* data = nullptr;
    std::vector<int64_t> size_storage;  // of the sizes, where ONNX Runtime gives only a copy

    RuntimeTensor() = default;
    RuntimeTensor(RuntimeTensor&&) = default;
    RuntimeTensor& operator=(RuntimeTensor&&) = default;

    int64_t count() const {
        int64_t count = 1;
        for (size_t axis = 0; axis < rank; ++axis) count *= sizes[axis];
        return count;
    }
};

RuntimeTensor runtime_tensor(const OrtApi* api, const OrtValue* value);

// A tensor of torch's on the memory of one of ONNX Runtime's. The pairs of a complex one are its numbers. Throws std::invalid_argument
// where torch has no such tensors.
TensorObject* torch_tensor_on(const RuntimeTensor& tensor, bool is_complex);

}  // namespace aten
}  // namespace opbridge
