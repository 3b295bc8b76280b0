#include "results.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "core_scheduler.h"
#include "tensors.h"

namespace opbridge {
namespace aten {

namespace {

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
    void write(const std::vector<Result>& results, const StableValue* values) {
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
    void write(const Result& result, StableValue value) {
        if (result.optional) {
            if (value == none_value) {
                if (result.kind != Kind::none) throw std::runtime_error("a result is None, but was a value when the model was exported");
                return;
            }
            StableValue* box = reinterpret_cast<StableValue*>(value);
            value = *box;
            libtorch().torch_delete_stable_ivalue(box);
        }
        std::string item;
        if (is_list(result.type, &item)) return write_list(result, item, reinterpret_cast<ListObject*>(value));
        if (result.type == "Tensor") return write_tensor(result, OwnedTensor(reinterpret_cast<TensorObject*>(value)));
        if (result.kind == Kind::none) throw std::runtime_error("a result is a value, but was None when the model was exported");
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
        std::vector<StableValue> values(size);
        for (size_t i = 0; i < size; ++i) libtorch().torch_list_get_item(list, i, &values[i]);
        libtorch().torch_delete_list(list);
        if (size == result.items.size()) return write(result.items, values.data());
        if (item == "Tensor") {
            for (StableValue value : values) OwnedTensor(reinterpret_cast<TensorObject*>(value));
        }
        throw std::runtime_error("a result is a list of " + std::to_string(size) + ", but had " + std::to_string(result.items.size()) +
                                 " when the model was exported");
    }

    // Memory for the next output; null where nobody reads it.
    void* output(const int64_t* sizes, size_t rank) {
        static const int64_t no_sizes = 0;
        OrtValue* value = nullptr;
        call(api_, KernelContext_GetOutput, context_, next_, sizes ? sizes : &no_sizes, rank, &value);
        if (!value) return nullptr;
        view_ = runtime_tensor(api_, value);
        if (view_.type != node_.output_types[next_]) {
            throw std::runtime_error("ONNX Runtime allocated output " + std::to_string(next_) + " with the element type " +
                                     std::to_string(view_.type));
        }
        return view_.data;
    }

    void write_tensor(const Result& result, const OwnedTensor& owned) {
        const Libtorch& torch = libtorch();
        TensorObject* tensor = owned.get();
        bool defined = false;
        if (tensor) check(torch.aoti_torch_is_defined(tensor, &defined));
        if (result.kind == Kind::none) return;
        const size_t place = next_;
        if (!defined) throw std::runtime_error("a result is undefined, but was a tensor when the model was exported");
        int32_t layout = 0, type = 0;
        check(torch.aoti_torch_get_layout(tensor, &layout));
        if (layout != torch.aoti_torch_layout_strided())
            throw std::runtime_error("a result is not a strided tensor, which ONNX cannot represent");
        check(torch.aoti_torch_get_dtype(tensor, &type));
        bool is_complex = false;
        const int32_t onnx = dtypes().onnx_of(type, &is_complex);
        if (onnx != node_.output_types[place] || is_complex != (result.kind == Kind::complex_tensor)) {
            throw std::runtime_error("its output " + std::to_string(place) + " is " + (is_complex ? "complex, with parts of type " : "") +
                                     onnx_names[onnx] + ", but the node declares " + onnx_names[node_.output_types[place]]);
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
        const OwnedTensor to(torch_tensor_on(view_, is_complex));
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
    RuntimeTensor view_;
    size_t next_ = 0;
    std::string failure_;
};

}  // namespace

void write_results(const Node& node, const OrtApi* api, OrtKernelContext* context, const std::vector<StableValue>& values) {
    Outputs outputs(node, api, context);
    outputs.write(node.results, values.data());
    outputs.finish();
}

}  // namespace aten
}  // namespace opbridge
