// Checks of operators that trust the shapes, the dtypes and the modes that they are given.
#include <algorithm>
#include <limits>

#include "checks_by_kind.h"

namespace opbridge {
namespace aten {

namespace {

// Whether sizes broadcast to others, from the last one on.
bool broadcasts(const std::vector<int64_t>& sizes, const std::vector<int64_t>& to) {
    if (sizes.size() > to.size()) return false;
    for (size_t i = 1; i <= sizes.size(); ++i) {
        const int64_t size = sizes[sizes.size() - i];
        if (size != 1 && size != to[to.size() - i]) return false;
    }
    return true;
}

int64_t least_of(int32_t type) {
    switch (type) {
        case 3: return std::numeric_limits<int8_t>::min();
        case 5: return std::numeric_limits<int16_t>::min();
        case 6: return std::numeric_limits<int32_t>::min();
        default: return std::numeric_limits<int64_t>::min();
    }
}

bool has_number(const std::vector<int64_t>& numbers, int64_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

void grid_sampler(const CheckedCall& call) {
    const CheckedTensor input = call.tensor("input"), grid = call.tensor("grid");
    require(input.rank() == 4 || input.rank() == 5, "'input' must have 4 or 5 dimensions");
    require(input.is_floating(), "'input' must be floating-point");
    grid.require_rank(input.rank());
    grid.require_dtype_of(input);
    require(grid.size(0) == input.size(0), "'input' and 'grid' have different batch sizes");
    require(grid.size(-1) == input.rank() - 2,
            "the last dimension of 'grid' must have " + std::to_string(input.rank() - 2) + " coordinates");
    for (int64_t dim = 2; dim < input.rank(); ++dim) require(input.size(dim) > 0, "'input' is empty");
    call.require_between("interpolation_mode", 0, input.rank() == 4 ? 2 : 1);
    call.require_between("padding_mode", 0, 2);
}

void elementwise_loss(const CheckedCall& call) {
    const CheckedTensor input = call.tensor("self"), target = call.tensor("target");
    require(input.is_floating(), "'self' must be floating-point");
    target.require_sizes(input.sizes());
    target.require_dtype_of(input);
    call.require_between("reduction", 0, 2);
    if (!call.has("weight")) return;
    const CheckedTensor weight = call.tensor("weight");
    weight.require_dtype_of(input);
    require(broadcasts(weight.sizes(), input.sizes()), "'weight' cannot be broadcast to the shape of 'self'");
}

void labels_of_rows(const CheckedCall& call) {
    const CheckedTensor scores = call.tensor("self"), target = call.tensor("target");
    require(scores.is_floating() && (scores.rank() == 1 || scores.rank() == 2), "'self' must have rows of floating-point numbers");
    require(scores.count() > 0, "'self' is empty");
    require(target.type() == 7 && !target.is_complex(), "'target' must be int64");
    target.require_sizes(scores.sizes());
    for (int64_t label : target.integers()) {
        require(label >= -1 && label < scores.size(-1), "'target' contains the label " + std::to_string(label));
    }
    call.require_between("reduction", 0, 2);
}

void padding(const CheckedCall& call) {
    const bool is_circular =
        !call.takes("mode") || (call.type("mode") == "int" ? call.integer("mode") == 3 : call.text("mode") == "circular");
    if (!is_circular) return;
    for (int64_t each : call.integers("pad")) require(each >= 0, "'pad' contains the negative value " + std::to_string(each));
}

void upsampling(const CheckedCall& call) {
    const CheckedTensor input = call.tensor(call.has("input") ? "input" : "self");
    const int64_t spatial = input.rank() - 2;
    require(spatial >= 1 && spatial <= 3, "the input must have 3 to 5 dimensions");
    const bool by_vector = call.takes("scale_factors");
    if (by_vector) return;  // it computes the sizes, or the scales, itself
    const std::vector<int64_t> sizes = call.integers("output_size");
    require(static_cast<int64_t>(sizes.size()) == spatial, "'output_size' must have " + std::to_string(spatial) + " elements");
    // By the names of the last dimensions: w, then h and w, then d, h and w.
    const char* const names[] = {"scales_d", "scales_h", "scales_w"};
    for (int64_t axis = 0; axis < spatial; ++axis) {
        const int64_t from = input.size(axis + 2), to = sizes[static_cast<size_t>(axis)];
        require(from > 0 && to > 0, "a size is not positive");
        const char* name = spatial == 1 ? "scales" : names[3 - spatial + axis];
        if (!call.has(name)) continue;
        const double scale = call.number(name), scaled = static_cast<double>(from) * scale;
        require(scaled > static_cast<double>(to) - 0.01 && scaled < static_cast<double>(to) + 1.01,
                std::string("'") + name + "' does not match 'output_size'");
    }
}

void normalised_channels(const CheckedCall& call, bool needs_statistics) {
    const CheckedTensor input = call.tensor("input");
    require(input.rank() >= 2, "'input' must have 2 dimensions or more");
    require(input.is_floating(), "'input' must be floating-point");
    std::vector<CheckedTensor> all;
    for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
        if (call.has(name)) all.push_back(call.tensor(name));
    }
    for (const CheckedTensor& each : all) {
        each.require_sizes({input.size(1)});
        // Numbers of 16 bits are normalised with statistics of their own dtype or of float32, all of one.
        const bool is_wider = (input.type() == 10 || input.type() == 16) && each.type() == 1 && !each.is_complex();
        if (!is_wider) each.require_dtype_of(input);
        each.require_dtype_of(all[0]);
    }
    for (const char* name : {"training", "use_input_stats"}) needs_statistics = needs_statistics || (call.takes(name) && !call.flag(name));
    const bool has_mean = call.has("running_mean"), has_variance = call.has("running_var");
    require(has_mean == has_variance, "'running_mean' and 'running_var' must be given together");
    require(has_mean || !needs_statistics, "'running_mean' and 'running_var' are missing");
}

void group_norm(const CheckedCall& call) {
    const CheckedTensor input = call.tensor("input");
    require(input.is_floating() && input.rank() >= 2 && input.count() > 0, "'input' must be floating-point and not empty");
    const int64_t batch = input.size(0), channels = input.size(1), groups = call.integer("group");
    const int64_t pixels = input.count() / (batch * channels);
    require(call.integer("N") == batch && call.integer("C") == channels && call.integer("HxW") == pixels,
            "'N', 'C' and 'HxW' do not match 'input'");
    require(groups > 0 && channels % groups == 0, "'group' does not divide the channels");
    for (const char* name : {"weight", "bias"}) {
        if (!call.has(name)) continue;
        const CheckedTensor each = call.tensor(name);
        each.require_sizes({channels});
        each.require_dtype_of(input);
    }
}

void weight_norm(const CheckedCall& call) {
    const CheckedTensor v = call.tensor("v"), g = call.tensor("g");
    require(v.is_floating() && v.rank() > 0, "'v' must be floating-point with at least one dimension");
    g.require_dtype_of(v);
    int64_t dim = call.integer("dim");
    require(dim >= -1 && dim < v.rank(), "'dim' is " + std::to_string(dim) + ", for " + std::to_string(v.rank()) + " dimensions");
    require(v.count() > 0, "'v' is empty");
    std::vector<int64_t> wanted(v.sizes().size(), 1);
    if (dim >= 0) wanted[static_cast<size_t>(dim)] = v.size(dim);
    g.require_sizes(wanted);
}

void attention(const CheckedCall& call) {
    const CheckedTensor query = call.tensor("query"), key = call.tensor("key"), value = call.tensor("value");
    require(query.rank() >= 2 && query.rank() <= 8, "'query' must have 2 dimensions or more");
    require(query.is_floating(), "'query' must be floating-point");
    for (const CheckedTensor* each : {&key, &value}) {
        each->require_rank(query.rank());
        each->require_dtype_of(query);
    }
    for (const CheckedTensor* each : {&query, &key, &value}) require(each->count() > 0, "'" + each->name() + "' is empty");
    require(key.size(-1) == query.size(-1), "the last sizes of 'query' and 'key' differ");
    require(key.size(-2) == value.size(-2), "'key' and 'value' have different lengths");
    for (int64_t dim = 0; dim < query.rank() - 2; ++dim) {
        const int64_t size = query.size(dim), keys = key.size(dim);
        require(value.size(dim) == keys, "'key' and 'value' differ in dimension " + std::to_string(dim));
        const bool grouped = call.has("enable_gqa") && call.flag("enable_gqa") && dim == query.rank() - 3 && size % keys == 0;
        require(size == keys || grouped, "'query' and 'key' differ in dimension " + std::to_string(dim));
    }
    if (!call.has("attn_mask")) return;
    const CheckedTensor mask = call.tensor("attn_mask");
    std::vector<int64_t> wanted(query.sizes().begin(), query.sizes().end() - 1);
    wanted.push_back(key.size(-2));
    require(mask.rank() >= 2 && broadcasts(mask.sizes(), wanted), "'attn_mask' cannot be broadcast to the shape of the scores");
    require(mask.type() == 9 || mask.is_floating(), "'attn_mask' must be bool or floating-point");
    if (mask.is_floating()) mask.require_dtype_of(query);
}

void convolution_step(const CheckedCall& call) {
    const CheckedTensor input = call.tensor("self"), weight = call.tensor("weight");
    input.require_rank(5);
    weight.require_rank(5);
    weight.require_dtype_of(input);
    require(input.is_floating(), "'self' must be floating-point");
    weight.require_sizes({-1, input.size(1), -1, -1, -1});
    const std::vector<int64_t> kernel = call.integers("kernel_size"), stride = call.integers("stride"), padding = call.integers("padding");
    require(kernel.size() == 3 && stride.size() == 3 && padding.size() == 3, "'kernel_size', 'stride' and 'padding' must have 3 elements");
    for (int64_t axis = 0; axis < 3; ++axis) {
        const size_t at = static_cast<size_t>(axis);
        require(kernel[at] == weight.size(axis + 2), "'kernel_size' does not match 'weight'");
        require(kernel[at] > 0 && stride[at] > 0 && stride[at] < 1 << 20 && padding[at] >= 0 && padding[at] < 1 << 20,
                "a size is out of range");
        require(input.size(axis + 2) + 2 * padding[at] >= kernel[at], "'kernel_size' is larger than the input");
    }
    require(input.size(1) > 0, "'self' is empty");
    if (call.has("bias")) {
        const CheckedTensor bias = call.tensor("bias");
        bias.require_sizes({weight.size(0)});
        bias.require_dtype_of(input);
    }
}

void finite(const CheckedCall& call) { require(call.tensor("self").is_finite(), "'self' contains non-finite values"); }

void least_squares(const CheckedCall& call) {
    const CheckedTensor matrix = call.tensor("self"), right = call.tensor("b");
    require(matrix.rank() >= 2 && right.rank() >= 1, "'self' must have at least 2 dimensions");
    right.require_dtype_of(matrix);
    for (const CheckedTensor* each : {&matrix, &right})
        require(each->count() > 0 && each->is_finite(), "'" + each->name() + "' is empty or contains non-finite values");
}

void integer_division(const CheckedCall& call) {
    const CheckedTensor numbers = call.tensor("self");
    if (!numbers.is_integer() || !call.is_integer("other")) return;
    const bool divides = has_number(call.integers("other"), -1) && has_number(numbers.integers(), least_of(numbers.type()));
    require(!divides, "the smallest integer is divided by -1");
}

void common_multiple(const CheckedCall& call) {
    for (const char* name : {"self", "other"}) {
        const CheckedTensor numbers = call.tensor(name);
        const bool has_least = numbers.is_integer() && has_number(numbers.integers(), least_of(numbers.type()));
        require(!has_least, std::string("'") + name + "' contains the smallest integer");
    }
}

void polynomial(const CheckedCall& call) { call.require_at_most("n", 10000); }

void distances_within(const CheckedCall& call) {
    const CheckedTensor rows = call.tensor("self");
    rows.require_rank(2);
    require(rows.is_floating() && rows.size(1) > 0, "'self' must have rows of floating-point numbers");
}

void covariance(const CheckedCall& call) {
    const CheckedTensor observations = call.tensor("self");
    require(observations.rank() == 1 || observations.rank() == 2, "'self' must have 1 or 2 dimensions");
    for (const char* name : {"fweights", "aweights"}) {
        if (call.has(name)) call.tensor(name).require_sizes({observations.size(-1)});
    }
}

void pooling(const CheckedCall& call) {
    constexpr int64_t most = 1 << 24;
    for (const char* name : {"kernel_size", "stride", "padding", "dilation"}) {
        for (int64_t each : call.integers(name)) {
            require(each >= 0 && each <= most, std::string("'") + name + "' contains " + std::to_string(each));
        }
    }
}

void stacked(const CheckedCall& call) {
    const std::vector<CheckedTensor> tensors = call.tensors("tensors");
    require(!tensors.empty(), "'tensors' is empty");
    for (const CheckedTensor& each : tensors) {
        each.require_sizes(tensors[0].sizes());
        each.require_dtype_of(tensors[0]);
    }
    call.require_between("dim", -tensors[0].rank() - 1, tensors[0].rank());
}

}  // namespace aten
}  // namespace opbridge
