// The checks that the table of checks.cpp names.
#pragma once

#include "checked_call.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Layers of an LSTM, a GRU or a plain recurrence, whose weights have so many blocks of the hidden size; also over packed sequences.
void recurrent_layers(const CheckedCall& call, int64_t gates);
template <int64_t gates>
void recurrent(const CheckedCall& call) {
    recurrent_layers(call, gates);
}

// One step of such a layer.
void recurrent_step(const CheckedCall& call, int64_t gates);
template <int64_t gates>
void recurrent_cell(const CheckedCall& call) {
    recurrent_step(call, gates);
}

// Indices within the table, offsets in order that begin at 0 and end within the indices, a known mode.
void embedding_bag(const CheckedCall& call);
// Labels within the classes, lengths within the tensors.
void ctc_loss(const CheckedCall& call);
// Lengths or offsets that cover the reduced axis and no more.
void segment_reduce(const CheckedCall& call);
// Known modes, sizes that belong together.
void grid_sampler(const CheckedCall& call);
// Tensors of one shape, a known reduction.
void elementwise_loss(const CheckedCall& call);
// Labels within each row's scores, which are not empty.
void labels_of_rows(const CheckedCall& call);
// No negative padding where it repeats the input.
void padding(const CheckedCall& call);
// Scales that agree with the sizes.
void upsampling(const CheckedCall& call);
// Weights and statistics of one number a channel; statistics where the input's own are not taken.
void normalised_channels(const CheckedCall& call, bool needs_statistics);
inline void batch_norm(const CheckedCall& call) { normalised_channels(call, false); }
inline void batch_norm_with_statistics(const CheckedCall& call) { normalised_channels(call, true); }
void weight_norm(const CheckedCall& call);
// Sizes that are the input's, groups that divide its channels.
void group_norm(const CheckedCall& call);
// Queries, keys, values and masks that fit each other, none of them empty.
void attention(const CheckedCall& call);
// A kernel size that is the weight's.
void convolution_step(const CheckedCall& call);
// Pivots that are rows of the matrix; of an LDL factorisation, negative ones in pairs, and matrices for every right side.
void pivoted(const CheckedCall& call);
void finite(const CheckedCall& call);
// Matrices of which none is empty, of finite numbers.
void least_squares(const CheckedCall& call);
// Not the least integer where there is a -1 to divide by.
void integer_division(const CheckedCall& call);
// Not the least integer, which has no absolute value.
void common_multiple(const CheckedCall& call);
// A degree that ends.
void polynomial(const CheckedCall& call);
// Dimensions that the tensor has, each once.
void transformed_dimensions(const CheckedCall& call);
// At least one tensor, all of one shape and dtype.
void stacked(const CheckedCall& call);
// Rows of one number or more.
void distances_within(const CheckedCall& call);
// Observations in one or two dimensions.
void covariance(const CheckedCall& call);
// Sizes of windows that do not overflow.
void pooling(const CheckedCall& call);

}  // namespace aten
}  // namespace opbridge
