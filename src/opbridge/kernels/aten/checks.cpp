// The table of operators that trust their arguments. What they need is looked at before each call, values included: a file gives some of
// them when it is loaded, and whoever runs it the others. tests/attack makes hostile calls of them through these checks, as of every other
// operator.
#include "checks.h"

#include "checks_by_kind.h"

namespace opbridge {
namespace aten {

namespace {

struct Row {
    const char* pattern;  // of a name, or of a name with its overload
    Check check;
};

constexpr Row table[] = {
    // Layers over time: the shape of every state and weight follows from the input, the number of layers and the hidden size.
    {"lstm.input", recurrent<4>},
    {"lstm.data", recurrent<4>},
    {"gru.input", recurrent<3>},
    {"gru.data", recurrent<3>},
    {"rnn_tanh.*", recurrent<1>},
    {"rnn_relu.*", recurrent<1>},
    {"lstm_cell", recurrent_cell<4>},
    {"gru_cell", recurrent_cell<3>},
    {"rnn_tanh_cell", recurrent_cell<1>},
    {"rnn_relu_cell", recurrent_cell<1>},

    // Indices into a table, labels, segments.
    {"embedding_bag*", embedding_bag},
    {"ctc_loss*", ctc_loss},
    {"segment_reduce", segment_reduce},

    // Modes that are numbers, and sampling.
    {"grid_sampler", grid_sampler},
    {"grid_sampler_2d", grid_sampler},
    {"grid_sampler_3d", grid_sampler},
    {"binary_cross_entropy", elementwise_loss},
    {"soft_margin_loss", elementwise_loss},
    {"multilabel_margin_loss*", labels_of_rows},
    {"pad", padding},
    {"_pad_enum", padding},
    {"_pad_circular", padding},
    {"_upsample_*", upsampling},
    {"upsample_*", upsampling},

    // Statistics and scales: one number a channel.
    {"batch_norm", batch_norm},
    {"instance_norm", batch_norm},
    {"native_batch_norm", batch_norm},
    {"_native_batch_norm_legit_no_training", batch_norm_with_statistics},
    {"_native_batch_norm_legit*", batch_norm},
    {"_batch_norm_no_update", batch_norm_with_statistics},
    {"batch_norm_update_stats", batch_norm},
    {"native_group_norm", group_norm},
    {"_weight_norm", weight_norm},
    {"_weight_norm_interface", weight_norm},

    // Attention: three tensors whose sizes belong together.
    {"scaled_dot_product_attention", attention},
    {"_scaled_dot_product_attention_math", attention},
    {"_scaled_dot_product_flash_attention_for_cpu", attention},

    // Convolution beneath its public operators.
    {"slow_conv3d*", convolution_step},
    {"max_pool1d*", pooling},

    // Linear algebra: pivots within the matrix, numbers that are finite.
    {"lu_unpack", pivoted},
    {"lu_solve", pivoted},
    {"linalg_lu_solve", pivoted},
    {"linalg_ldl_solve", pivoted},
    {"linalg_eigvals", finite},
    {"_linalg_eigvals", finite},
    {"linalg_lstsq", least_squares},

    // Integers whose quotient has no place in their dtype.
    {"div.*_mode", integer_division},
    {"divide.*_mode", integer_division},
    {"floor_divide", integer_division},
    {"lcm", common_multiple},

    // Degrees, which take as many steps for every number.
    {"special_laguerre_polynomial_l", polynomial},
    {"special_legendre_polynomial_p", polynomial},

    {"_fft_*", transformed_dimensions},
    {"_stack", stacked},
    {"pdist", distances_within},
    {"_pdist_forward", distances_within},
    {"cov", covariance},
};

}  // namespace

Check check_of(const FunctionSchema& schema) {
    if (schema.name_space != "aten") return nullptr;
    const std::string full = schema.overload.empty() ? schema.name : schema.name + "." + schema.overload;
    for (const Row& row : table) {
        if (matches(row.pattern, schema.name.c_str()) || matches(row.pattern, full.c_str())) return row.check;
    }
    return nullptr;
}

}  // namespace aten
}  // namespace opbridge
