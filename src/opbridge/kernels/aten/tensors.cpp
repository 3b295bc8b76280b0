#include "tensors.h"

#include <stdexcept>
#include <string>

namespace opbridge {
namespace aten {

RuntimeTensor runtime_tensor(const OrtApi* api, const OrtValue* value) {
    RuntimeTensor view;
    static_cast<TensorDescription&>(view) = describe_tensor(api, value, view.size_storage);
    view.data = data_of(api, value);
    return view;
}

TensorObject* torch_tensor_on(const RuntimeTensor& tensor, bool is_complex) {
    const bool known = tensor.type > 0 && tensor.type < Dtypes::count;
    const int32_t type = !known ? -1 : is_complex ? dtypes().complex_of_onnx[tensor.type] : dtypes().of_onnx[tensor.type];
    size_t rank = tensor.rank;
    if (type < 0) {
        throw std::invalid_argument("an input has the ONNX element type " + std::to_string(tensor.type) + ", which torch does not support");
    }
    if (is_complex) {
        if (rank == 0 || tensor.sizes[rank - 1] != 2) {
            throw std::invalid_argument("an input that represents a complex tensor must have a last dimension of size 2");
        }
        --rank;
    }
    const std::vector<int64_t> strides = torch::row_major_strides(tensor.sizes, rank);
    TensorObject* made = nullptr;
    check(libtorch().aoti_torch_create_tensor_from_blob(tensor.data, static_cast<int64_t>(rank), tensor.sizes, strides.data(), 0, type, 0,
                                                        0, &made));
    return made;
}

}  // namespace aten
}  // namespace opbridge
