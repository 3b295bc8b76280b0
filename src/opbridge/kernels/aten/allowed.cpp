// The default list: operators of aten whose schema, as libtorch has it, says that they write to nothing, which no rule below refuses, and
// of which there is evidence that they bear any arguments (evidence.h). Numbers drawn at random are on it: what they change is the state of
// the process's generator, which is there for that.
#include "allowed.h"

#include <stdexcept>

#include "evidence.h"
#include "libtorch.h"

namespace opbridge {
namespace aten {

namespace {

struct Rule {
    const char* pattern;
    const char* reason;  // "" for what runs although a later rule would refuse it
};

constexpr const char* internal = "it is an internal PyTorch operator, which hardly checks its arguments";
constexpr const char* unwritten = "it returns uninitialized memory, which may contain data of the process";
constexpr const char* backend = "it is for another backend than the CPU";
constexpr const char* gradient = "it is a gradient operator, which hardly checks its arguments";

// The first rule that fits decides.
constexpr Rule rules[] = {
    {"from_file", "it reads and writes files"},
    {"pin_memory", "it allocates memory through system drivers"},
    {"is_pinned", "it queries system drivers"},
    {"set", "it shares storage beyond the call"},
    {"empty*", unwritten},
    {"new_empty*", unwritten},
    {"resize*", unwritten},
    {"*backward*", gradient},
    {"glu_jvp", gradient},
    {"get_gradients", gradient},
    {"cudnn_*", backend},
    {"miopen_*", backend},
    {"mkldnn_*", backend},
    {"mps_*", backend},
    {"lstm_mps*", backend},
    {"fbgemm_*", backend},
    {"to_mkldnn*", backend},
    {"is_vulkan_available", backend},
    {"quantized_*", backend},
    {"*_overrideable", backend},
    {"sparse_*", "it creates or accepts sparse tensors, which ONNX does not support"},
    {"to_sparse*", "it creates sparse tensors, which ONNX does not support"},

    // Steps that exported models have.
    {"_adaptive_avg_pool2d", ""},
    {"_adaptive_avg_pool3d", ""},
    {"_addmm_activation", ""},
    {"_aminmax", ""},
    {"_batch_norm_no_update", ""},
    {"_cast_*", ""},
    {"_cdist_forward", ""},
    {"_conj*", ""},
    {"_convolution", ""},
    {"_convolution_mode", ""},
    {"_dim_arange", ""},
    {"_euclidean_dist", ""},
    {"_fft_*", ""},
    {"_foreach_*", ""},
    {"_fused_rms_norm", ""},
    {"_int_mm", ""},
    {"_is_all_true", ""},
    {"_is_any_true", ""},
    {"_linalg_det", ""},
    {"_linalg_eigh", ""},
    {"_linalg_eigvals", ""},
    {"_linalg_slogdet", ""},
    {"_linalg_solve_ex", ""},
    {"_linalg_svd", ""},
    {"_local_scalar_dense", ""},
    {"_log_softmax", ""},
    {"_logcumsumexp", ""},
    {"_lu_with_info", ""},
    {"_native_batch_norm_legit*", ""},
    {"_neg_view*", ""},
    {"_pad_circular", ""},
    {"_pad_enum", ""},
    {"_pdist_forward", ""},
    {"_prelu_kernel", ""},
    {"_reshape_alias*", ""},
    {"_reshape_copy", ""},
    {"_safe_softmax", ""},
    {"_scaled_mm", ""},
    {"_scaled_mm_v2", ""},
    {"_scaled_dot_product_attention_math", ""},
    {"_scaled_dot_product_flash_attention_for_cpu", ""},
    {"_shape_as_tensor", ""},
    {"_softmax", ""},
    {"_stack", ""},
    {"_standard_gamma", ""},
    {"_to_copy", ""},
    {"_trilinear", ""},
    {"_unique", ""},
    {"_unique2", ""},
    {"_unsafe_index", ""},
    {"_unsafe_view", ""},
    {"_upsample_*", ""},
    {"_weight_norm", ""},
    {"_weight_norm_interface", ""},
    {"_*", internal},
};

// "add.Tensor"
std::string name_of(const FunctionSchema& schema) { return schema.overload.empty() ? schema.name : schema.name + "." + schema.overload; }

}  // namespace

bool matches(const char* pattern, const char* name) {
    const char *star = nullptr, *resume = nullptr;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = name;
        } else if (*pattern == *name) {
            ++pattern;
            ++name;
        } else if (star) {
            pattern = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') ++pattern;
    return *pattern == '\0';
}

std::string rule(const FunctionSchema& schema) {
    if (schema.name_space != "aten") return "it does not belong to aten";
    if (schema.is_mutable()) return "it writes to its arguments";
    const std::string full = name_of(schema);
    for (const Rule& each : rules) {
        if (matches(each.pattern, schema.name.c_str()) || matches(each.pattern, full.c_str())) return each.reason;
    }
    return "";
}

std::string refusal(const FunctionSchema& schema) {
    const std::string reason = rule(schema);
    return reason.empty() ? missing_evidence(name_of(schema), libtorch().version()) : reason;
}

Allowed::Allowed(const std::string& patterns) {
    std::string pattern;
    for (char letter : patterns + ",") {
        if (letter != ',' && letter != ' ') {
            pattern += letter;
            continue;
        }
        if (!pattern.empty()) patterns_.push_back(pattern);
        pattern.clear();
    }
}

void Allowed::check(const FunctionSchema& schema) const {
    const std::string reason = refusal(schema), name = schema.qualified_name(), full = schema.full_name();
    if (reason.empty()) return;
    for (const std::string& pattern : patterns_) {
        if (matches(pattern.c_str(), name.c_str()) || matches(pattern.c_str(), full.c_str())) return;
    }
    throw std::invalid_argument("the operator is not on the list of operators that a model file may run in PyTorch: " + reason +
                                ". If you trust the file, allow it by name: aten=('" + name +
                                "',) of opbridge.session, --aten on the command line, or the session config entry opbridge.aten");
}

}  // namespace aten
}  // namespace opbridge
