// A kernel's call as an operation of OpenVINO's models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <openvino/frontend/node_context.hpp>
#include <openvino/op/op.hpp>

#include <opbridge/adapter/nodes.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace openvino {

using SymbolsOf = const detail::Symbols** (*)();

// What the ONNX node says: its attributes by the schema's arguments, which inputs it leaves out, the lengths of its lists, and the types of
// its inputs in the model, which OpenVINO's CPU replaces by others (int64 by int32).
struct Said {
    std::vector<detail::Attribute> attributes;
    std::vector<int64_t> places;  // by the node's inputs: the operation's input; -1: left out
    detail::InputLayout layout;
    std::vector<Type> types;      // by the operation's inputs
};

class KernelNode : public ov::op::Op {
  public:
    OPENVINO_OP("Kernel", "opbridge");

    // The operation of an ONNX node. Throws std::invalid_argument where the node does not agree with the schema.
    static ov::OutputVector made(const detail::Operator& op, SymbolsOf symbols, const ov::frontend::NodeContext& context);

    KernelNode(const ov::OutputVector& inputs, const detail::Operator& op, SymbolsOf symbols, Said said);

    void validate_and_infer_types() override;
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
    bool visit_attributes(ov::AttributeVisitor& visitor) override;
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
    bool has_evaluate() const override { return true; }

  private:
    // Calls read(place, tensor) for each tensor of a call; arguments that are no tensors are set. False where an input is left out.
    template <class Read>
    void fill(detail::Call& call, Read&& read) const;
    bool infer(bool assume);

    const detail::Operator* op_;
    SymbolsOf symbols_;
    Said said_;
};

}  // namespace openvino
}  // namespace opbridge
