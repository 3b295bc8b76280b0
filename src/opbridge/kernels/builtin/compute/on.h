// The threads of whoever runs a kernel, as the templates here take them: `on(context)`.
#pragma once

#include <cstdint>

namespace opbridge::compute {

template <class Context>
auto on(Context& context) {
    return [&context](int64_t count, int64_t grain, auto&& body) { context.parallel_for(count, grain, body); };
}

}  // namespace opbridge::compute
