// The parallel loop of the runtime that runs a kernel, as the templates here take it: `parallel_of(context)`.
#pragma once

#include <cstdint>

namespace opbridge::compute {

template <class Context>
auto parallel_of(Context& context) {
    return [&context](int64_t count, int64_t grain, auto&& body) { context.parallel_for(count, grain, body); };
}

}  // namespace opbridge::compute
