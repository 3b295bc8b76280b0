// libtorch, found in the process or at a given path, and the OpenMP library that it uses.
#pragma once

#include <cstdint>
#include <string>

#include <opbridge/adapter/libtorch.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

using torch::check;
using torch::Dtypes;
using torch::dtypes;
using torch::interface_version;
using torch::LibraryObject;
using torch::Libtorch;
using torch::libtorch;
using torch::ListObject;
using torch::OwnedTensor;
using torch::StableValue;
using torch::StringObject;
using torch::TensorObject;

constexpr StableValue none_value = 0;  // None, and an undefined tensor

// Finds libtorch: the library at `path`, else that of the environment's OPBRIDGE_LIBTORCH, else the one in the process. The first one
// that is found is used from then on. Throws std::runtime_error where there is none, with what to do.
void load(const std::string& path);

// The functions of the OpenMP library that libtorch uses; null where it has none.
struct OpenMp {
    int32_t (*pause_resource_all)(int32_t);
    int32_t (*get_max_threads)();
};
const OpenMp& open_mp();

// torch's number of a dtype, layout or memory format; throws std::invalid_argument for a name that it does not have.
int32_t number_of(const char* kind, const std::string& name);

}  // namespace aten
}  // namespace opbridge
