// The arguments of a call, made of a node's inputs and attributes.
#pragma once

#include <string>
#include <vector>

#include "node.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// The arguments of a call, deleted again if it does not come to the call.
class Arguments {
  public:
    std::vector<StableValue> values;

    ~Arguments() {
        const Libtorch& torch = libtorch();
        for (TensorObject* each : tensors_) torch.aoti_torch_delete_tensor_object(each);
        for (ListObject* each : lists_) torch.torch_delete_list(each);
        for (StringObject* each : strings_) torch.torch_delete_string(each);
        for (StableValue* each : boxes_) torch.torch_delete_stable_ivalue(each);
    }

    // To be called when the values belong to the operator.
    void release() {
        tensors_.clear();
        lists_.clear();
        strings_.clear();
        boxes_.clear();
    }

    StableValue tensor(TensorObject* made) { return track(tensors_, made); }

    StableValue text(const std::string& text) {
        StringObject* made = nullptr;
        check(libtorch().torch_new_string_handle(text.data(), text.size(), &made));
        return track(strings_, made);
    }

    ListObject* list(size_t size) {
        ListObject* made = nullptr;
        check(libtorch().torch_new_list_reserve_size(size, &made));
        track(lists_, made);
        return made;
    }

    StableValue boxed(StableValue value) {
        StableValue* made = nullptr;
        check(libtorch().torch_new_stable_ivalue(&made));
        *made = value;
        return track(boxes_, made);
    }

  private:
    template <class Object>
    static StableValue track(std::vector<Object*>& all, Object* made) {
        all.push_back(made);
        return reinterpret_cast<StableValue>(made);
    }

    std::vector<TensorObject*> tensors_;
    std::vector<ListObject*> lists_;
    std::vector<StringObject*> strings_;
    std::vector<StableValue*> boxes_;
};

// Makes the values of a node's arguments. Inputs are not copied, unless the operator writes to them. Throws std::exception where an input
// does not fit.
void build_arguments(const Node& node, const OrtApi* api, OrtKernelContext* context, Arguments& arguments);

}  // namespace aten
}  // namespace opbridge
