// What the library of a model's Triton kernels declares: how each is launched. opbridge writes these tables; see
// opbridge.kernels.triton.library_source.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

enum class TritonKind : int32_t { tensor, output, integer, natural, number };

// A parameter of the compiled kernel.
struct TritonParameter {
    const char* name;
    TritonKind kind;
    int32_t place;     // the argument of the operator that it is, or the output
    int32_t bytes;     // of a number
    int64_t multiple;  // what a number or an address is a multiple of
    int32_t initial;   // of an output: the argument that it has the content of at first; -1: none
    int32_t shape;     // of an output: the argument with its sizes, where `initial` is -1
};

struct TritonKernel {
    const char* name;
    int32_t program;     // its code among that of the library
    int32_t grid;        // the argument with the numbers of blocks
    size_t arguments;    // of the operator
    const char* const* argument_names;
    size_t parameters;
    const TritonParameter* parameter_list;
};

OPBRIDGE_ADAPTER Shapes triton_shapes(const TritonKernel& kernel, Call& call);

// Hands a call to what runs Triton kernels on the CPU for this process, if there is anything.
OPBRIDGE_ADAPTER void run_triton(const TritonKernel& kernel, Call& call);

OPBRIDGE_ADAPTER void launch_triton(const TritonKernel& kernel, Call& call);

}  // namespace detail
}  // namespace opbridge
