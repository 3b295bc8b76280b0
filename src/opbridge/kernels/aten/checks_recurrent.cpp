// Checks of recurrent layers: everything follows from the input, the number of layers and the hidden size.
#include "checks_by_kind.h"

namespace opbridge {
namespace aten {

namespace {

void same_dtype(const std::vector<CheckedTensor>& tensors, const CheckedTensor& input) {
    for (const CheckedTensor& each : tensors) each.require_dtype_of(input);
}

// The number of sequences in a packed input.
int64_t packed_batch(const CheckedCall& call, const CheckedTensor& data) {
    const CheckedTensor tensor = call.tensor("batch_sizes");
    tensor.require_rank(1);
    require(tensor.type() == 7, "'batch_sizes' must be int64");
    const std::vector<int64_t> sizes = tensor.integers();
    require(!sizes.empty(), "'batch_sizes' is empty");
    int64_t left = data.size(0), before = sizes[0];
    for (int64_t size : sizes) {
        require(size > 0 && size <= before && size <= left,
                "'batch_sizes' must be positive, non-increasing, and sum to the number of rows");
        left -= size;
        before = size;
    }
    require(left == 0, "the sum of 'batch_sizes' is not the number of rows");
    return sizes[0];
}

}  // namespace

void recurrent_layers(const CheckedCall& call, int64_t gates) {
    const bool packed = call.has("batch_sizes");
    const CheckedTensor input = call.tensor(packed ? "data" : "input");
    input.require_rank(packed ? 2 : 3);
    require(input.is_floating(), "the input must be floating-point");
    const int64_t batch = packed ? packed_batch(call, input) : input.size(call.flag("batch_first") ? 0 : 1);
    const std::vector<CheckedTensor> params = call.tensors("params");
    const int64_t count = static_cast<int64_t>(params.size()), layers = call.integer("num_layers");
    const int64_t directions = call.flag("bidirectional") ? 2 : 1;
    require(layers >= 1 && layers <= count, "'num_layers' is " + std::to_string(layers) + ", for " + std::to_string(count) + " weights");
    const bool is_lstm = gates == 4;
    std::vector<CheckedTensor> states;
    if (is_lstm) states = call.tensors("hx");
    else states.push_back(call.tensor("hx"));
    require(states.size() == (is_lstm ? 2u : 1u), "'hx' has the wrong number of tensors");
    for (const CheckedTensor& each : states) each.require_rank(3);
    const int64_t hidden = states.back().size(2), projected = states[0].size(2);
    require(hidden > 0 && projected > 0, "the hidden size is zero");
    for (const CheckedTensor& each : states) each.require_sizes({layers * directions, batch, each.size(2)});
    same_dtype(states, input);
    same_dtype(params, input);
    const bool has_biases = call.flag("has_biases");
    const bool has_projection = is_lstm && projected != hidden;
    const int64_t each = (has_biases ? 4 : 2) + (has_projection ? 1 : 0);
    require(count == layers * directions * each,
            "there are " + std::to_string(count) + " weights for " + std::to_string(layers) + " layers");
    size_t at = 0;
    for (int64_t layer = 0; layer < layers * directions; ++layer) {
        const int64_t features = layer < directions ? input.size(-1) : directions * projected;
        params[at++].require_sizes({gates * hidden, features});
        params[at++].require_sizes({gates * hidden, projected});
        for (int i = 0; has_biases && i < 2; ++i) params[at++].require_sizes({gates * hidden});
        if (has_projection) params[at++].require_sizes({projected, hidden});
    }
    const double dropout = call.number("dropout");
    require(dropout >= 0 && dropout <= 1, "'dropout' must be from 0 to 1");
}

void recurrent_step(const CheckedCall& call, int64_t gates) {
    const CheckedTensor input = call.tensor("input");
    input.require_rank(2);
    require(input.is_floating(), "the input must be floating-point");
    const bool is_lstm = gates == 4;
    std::vector<CheckedTensor> states;
    if (is_lstm) states = call.tensors("hx");
    else states.push_back(call.tensor("hx"));
    require(states.size() == (is_lstm ? 2u : 1u), "'hx' has the wrong number of tensors");
    states[0].require_rank(2);
    const int64_t hidden = states[0].size(1);
    for (const CheckedTensor& each : states) each.require_sizes({input.size(0), hidden});
    same_dtype(states, input);
    const CheckedTensor from_input = call.tensor("w_ih"), from_hidden = call.tensor("w_hh");
    from_input.require_sizes({gates * hidden, input.size(1)});
    from_hidden.require_sizes({gates * hidden, hidden});
    from_input.require_dtype_of(input);
    from_hidden.require_dtype_of(input);
    for (const char* name : {"b_ih", "b_hh"}) {
        if (!call.has(name)) continue;
        const CheckedTensor bias = call.tensor(name);
        bias.require_sizes({gates * hidden});
        bias.require_dtype_of(input);
    }
}

}  // namespace aten
}  // namespace opbridge
