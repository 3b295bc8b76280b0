// Kernels as plug-ins of TensorRT: `setLoggerFinder` and `getCreators`, which it looks for in a library of plug-ins.
#pragma once

#include <vector>

#include "operator.h"
#include "tensorrt_log.h"
#include "tensorrt_plugin.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

// One for each operator of the library. They live as long as the process, as TensorRT keeps pointers to them.
inline const std::vector<IPluginCreatorInterface*>& creators() {
    static const auto* all = [] {
        auto* made = new std::vector<IPluginCreatorInterface*>;
        for (const Operator* op = Operator::first(); op; op = op->next) {
            if (op->problem.empty()) made->push_back(new Creator(*op));
            else log(Severity::kERROR, op->problem.c_str());
        }
        return made;
    }();
    return *all;
}

}  // namespace tensorrt
}  // namespace opbridge

extern "C" OPBRIDGE_ENTRY void setLoggerFinder(void* finder) {
    opbridge::detail::guarded([&] { opbridge::tensorrt::Log::current().set(finder); }, [](opbridge::detail::Thrown, const char*) {});
}

extern "C" OPBRIDGE_ENTRY opbridge::tensorrt::IPluginCreatorInterface* const* getCreators(int32_t& count) {
    using namespace opbridge::tensorrt;
    count = 0;
    const std::vector<IPluginCreatorInterface*>* found = nullptr;
    opbridge::detail::guarded([&] { found = &creators(); },
                              [](opbridge::detail::Thrown, const char* message) { log(Severity::kERROR, message); });
    if (!found) return nullptr;
    count = static_cast<int32_t>(found->size());
    return found->data();
}
