// What is known of PyTorch's operators: for each release of torch that was attacked, what hostile calls of each operator in guarded memory
// came to. The tables are written by tests/attack/evidence.py into the folder evidence/, sorted by name.
#pragma once

#include <string>

#include <opbridge/platform.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Why there is not enough evidence that an operator of aten ("add.Tensor") bears any arguments, in a release of torch ("2.15"); "" where
// there is. For a release without a table of its own, the two nearest ones have to have it.
std::string missing_evidence(const std::string& name, const std::string& torch_version);

}  // namespace aten
}  // namespace opbridge
