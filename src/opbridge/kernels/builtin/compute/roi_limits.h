// Beyond which a region is refused on the CPU and gives no numbers on a GPU: it is nowhere near an image.
#pragma once

#include "both.h"

namespace opbridge::compute {

constexpr int64_t most_samples = int64_t{1} << 16;              // along one side of a bin
constexpr double most_samples_of_bin = 1 << 24;  // of a rotated region

}  // namespace opbridge::compute
