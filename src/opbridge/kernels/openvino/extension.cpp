// Kernels as custom operations of OpenVINO: a library that `ov::Core::add_extension` takes. It has the kernels of the files that are built
// into it, and those of other libraries that `opbridge_openvino_with` names before it is added.
#include <vector>

#include <openvino/core/extension.hpp>
#include <openvino/frontend/onnx/extension/conversion.hpp>

#include "node.h"

namespace opbridge {
namespace openvino {

namespace {

std::vector<const detail::Shown*>& others() {
    static auto* found = new std::vector<const detail::Shown*>;
    return *found;
}

void add_extensions(const detail::Shown& shown, std::vector<ov::Extension::Ptr>& extensions) {
    for (const detail::Operator* op = shown.first; op; op = op->next) {
        if (!op->problem.empty()) throw std::invalid_argument(op->problem);
        extensions.push_back(std::make_shared<ov::frontend::onnx::ConversionExtension>(
            op->schema.op_type(), op->schema.domain,
            [op, symbols = shown.symbols](const ov::frontend::NodeContext& context) { return KernelNode::made(*op, symbols, context); }));
    }
}

}  // namespace

}  // namespace openvino
}  // namespace opbridge

// The layout of `detail::Shown` that this extension was compiled with, which `opbridge_shown` of another library is asked for.
extern "C" OPBRIDGE_ENTRY int64_t opbridge_openvino_layout() { return opbridge::detail::shown_layout; }

// Adds the kernels of other libraries, as their `opbridge_shown` gives them, to what the library has the next time that it is added.
extern "C" OPBRIDGE_ENTRY void opbridge_openvino_with(const void* const* shown, size_t count) {
    auto& others = opbridge::openvino::others();
    others.clear();
    for (size_t i = 0; i < count; ++i) others.push_back(static_cast<const opbridge::detail::Shown*>(shown[i]));
}

OPENVINO_EXTENSION_C_API void create_extensions(std::vector<ov::Extension::Ptr>& extensions) {
    using namespace opbridge;
    const detail::Shown own{detail::Operator::first(), [] { return &detail::symbols(); }};
    openvino::add_extensions(own, extensions);
    for (const detail::Shown* shown : openvino::others()) openvino::add_extensions(*shown, extensions);
}
