// Checks of operators that read at indices, labels, offsets and lengths that they are given.
#include <algorithm>

#include "checks_by_kind.h"

namespace opbridge {
namespace aten {

namespace {

void all_between(const std::vector<int64_t>& numbers, int64_t first, int64_t last, const std::string& name) {
    for (int64_t number : numbers) {
        require(number >= first && number <= last, "'" + name + "' contains " + std::to_string(number) + ", expected " +
                                                       std::to_string(first) + " to " + std::to_string(last));
    }
}

void require_indices(const CheckedTensor& tensor) {
    require(!tensor.is_complex() && (tensor.type() == 6 || tensor.type() == 7), "'" + tensor.name() + "' must be int32 or int64");
}

// Offsets that begin at 0, do not decrease, and end at `last` at most.
void in_order(const int64_t* offsets, int64_t count, int64_t last, const std::string& name) {
    int64_t before = 0;
    for (int64_t i = 0; i < count; ++i) {
        require(i > 0 || offsets[i] == 0, "'" + name + "' must begin with 0");
        require(offsets[i] >= before && offsets[i] <= last, "'" + name + "' must be non-decreasing and at most " + std::to_string(last));
        before = offsets[i];
    }
}

// A negative pivot begins a block of two rows, whose second pivot is read as well (LAPACK's sytrf).
void negative_in_pairs(const std::vector<int64_t>& pivots, int64_t of_a_matrix, const std::string& name) {
    int64_t run = 0;
    for (size_t i = 0; i < pivots.size(); ++i) {
        run = pivots[i] < 0 ? run + 1 : 0;
        const bool is_last = static_cast<int64_t>(i + 1) % of_a_matrix == 0;
        const bool ends = run > 0 && (is_last || pivots[i + 1] > 0);
        require(!ends || run % 2 == 0, "'" + name + "' contains a negative pivot without a matching neighbor");
        if (ends) run = 0;
    }
}

// Matrices in a batch are taken one after another for the right sides' whole batch, without being broadcast to it.
void require_batch_of(const CheckedTensor& matrices, const CheckedTensor& right) {
    bool fits = matrices.rank() == 2 || matrices.rank() >= right.rank();
    for (int64_t dim = 3; fits && matrices.rank() > 2 && dim <= right.rank(); ++dim) {
        fits = right.size(-dim) == 1 || right.size(-dim) == matrices.size(-dim);
    }
    require(fits, "'" + matrices.name() + "' and '" + right.name() + "' have different batch dimensions");
}

}  // namespace

void embedding_bag(const CheckedCall& call) {
    const CheckedTensor weight = call.tensor("weight"), indices = call.tensor("indices"), offsets = call.tensor("offsets");
    weight.require_rank(2);
    require(weight.is_floating(), "'weight' must be floating-point");
    indices.require_rank(1);
    offsets.require_rank(1);
    require_indices(indices);
    require_indices(offsets);
    call.require_between("mode", 0, 2);
    all_between(indices.integers(), 0, weight.size(0) - 1, "indices");
    const std::vector<int64_t> starts = offsets.integers();
    require(!call.flag("include_last_offset") || !starts.empty(), "'offsets' must not be empty if 'include_last_offset' is true");
    require(!starts.empty() || indices.count() == 0, "'offsets' is empty");
    in_order(starts.data(), static_cast<int64_t>(starts.size()), indices.count(), "offsets");
    if (call.has("per_sample_weights")) {
        const CheckedTensor weights = call.tensor("per_sample_weights");
        weights.require_sizes({indices.count()});
        weights.require_dtype_of(weight);
        call.require_between("mode", 0, 0);
    }
    if (call.has("padding_idx")) call.require_between("padding_idx", -weight.size(0), weight.size(0) - 1);
}

void ctc_loss(const CheckedCall& call) {
    const CheckedTensor scores = call.tensor("log_probs"), targets = call.tensor("targets");
    require(scores.rank() == 2 || scores.rank() == 3, "'log_probs' must have 2 or 3 dimensions");
    require(scores.type() == 1 || scores.type() == 11, "'log_probs' must be float32 or float64");
    require(!scores.is_complex(), "'log_probs' is complex");
    require_indices(targets);
    const bool batched = scores.rank() == 3;
    const int64_t steps = scores.size(0), batch = batched ? scores.size(1) : 1, classes = scores.size(-1);
    require(batch > 0 && classes > 0, "'log_probs' is empty");
    call.require_between("blank", 0, classes - 1);
    call.require_between("reduction", 0, 2);
    const std::vector<int64_t> lengths = call.integers("input_lengths"), labels = call.integers("target_lengths");
    require(static_cast<int64_t>(lengths.size()) == batch, "'input_lengths' must have one element per sequence");
    require(static_cast<int64_t>(labels.size()) == batch, "'target_lengths' must have one element per sequence");
    all_between(lengths, 0, steps, "input_lengths");
    // A sequence has no more labels than there are.
    all_between(labels, 0, targets.count(), "target_lengths");
    if (targets.rank() == 2) {
        require(targets.size(0) == batch, "'targets' must have one row per sequence");
        all_between(labels, 0, targets.size(1), "target_lengths");
    } else {
        targets.require_rank(1);
        int64_t sum = 0;
        for (int64_t each : labels) sum += each;
        require(sum == targets.count() || (!batched && sum <= targets.count()), "the sum of 'target_lengths' is not the number of targets");
    }
    all_between(targets.integers(), 0, classes - 1, "targets");
}

void segment_reduce(const CheckedCall& call) {
    const CheckedTensor data = call.tensor("data");
    require(data.is_floating() && data.rank() > 0, "'data' must be floating-point with at least one dimension");
    call.require_between("axis", 0, data.rank() - 1);
    require(!call.has("indices"), "'indices' is not supported");
    require(call.has("lengths") != call.has("offsets"), "exactly one of 'lengths' and 'offsets' is required");
    const bool by_lengths = call.has("lengths");
    const CheckedTensor given = call.tensor(by_lengths ? "lengths" : "offsets");
    require_indices(given);
    const int64_t axis = call.integer("axis");
    std::vector<int64_t> wanted(data.sizes().begin(), data.sizes().begin() + axis);
    wanted.push_back(-1);
    given.require_sizes(wanted);
    require(given.size(-1) > 0, "'" + given.name() + "' is empty");
    const std::vector<int64_t> numbers = given.integers();
    const int64_t row = given.size(-1), size = data.size(axis);
    for (size_t at = 0; at < numbers.size(); at += static_cast<size_t>(row)) {
        const int64_t* first = numbers.data() + at;
        if (!by_lengths) {
            in_order(first, row, size, "offsets");
            require(first[row - 1] == size, "'offsets' must end with the size of the axis");
            continue;
        }
        int64_t left = size;
        for (int64_t i = 0; i < row; ++i) {
            require(first[i] >= 0 && first[i] <= left, "'lengths' must be non-negative and sum to the size of the axis");
            left -= first[i];
        }
        require(left == 0, "'lengths' must be non-negative and sum to the size of the axis");
    }
}

void pivoted(const CheckedCall& call) {
    CheckedTensor matrix, pivots;
    for (const char* name : {"LU_data", "LU", "LD"}) {
        if (call.has(name)) matrix = call.tensor(name);
    }
    for (const char* name : {"LU_pivots", "pivots"}) {
        if (call.has(name)) pivots = call.tensor(name);
    }
    require(matrix.rank() >= 2, "'" + matrix.name() + "' must have at least 2 dimensions");
    require(pivots.type() == 6, "'" + pivots.name() + "' must be int32");
    std::vector<int64_t> wanted(matrix.sizes().begin(), matrix.sizes().end() - 2);
    const int64_t rows = matrix.size(-2), columns = matrix.size(-1);
    wanted.push_back(std::min(rows, columns));
    pivots.require_sizes(wanted);
    const bool blocks = matrix.name() == "LD";  // rows that are exchanged as a pair are negative
    const std::vector<int64_t> numbers = pivots.integers();
    for (int64_t pivot : numbers) {
        const int64_t row = blocks && pivot < 0 ? -pivot : pivot;
        require(row >= 1 && row <= rows,
                "'" + pivots.name() + "' contains " + std::to_string(pivot) + ", for " + std::to_string(rows) + " rows");
    }
    if (!blocks) return;
    negative_in_pairs(numbers, wanted.back(), pivots.name());
    require_batch_of(matrix, call.tensor("B"));
}

void transformed_dimensions(const CheckedCall& call) {
    const CheckedTensor tensor = call.tensor("self");
    std::vector<int64_t> dims = call.integers("dim");
    require(!dims.empty(), "'dim' is empty");
    all_between(dims, 0, tensor.rank() - 1, "dim");
    if (call.takes("last_dim_size")) {
        const int64_t size = call.integer("last_dim_size");
        require(size > 0 && tensor.size(dims.back()) == size / 2 + 1, "'last_dim_size' does not match 'self'");
    }
    std::sort(dims.begin(), dims.end());
    require(std::adjacent_find(dims.begin(), dims.end()) == dims.end(), "'dim' contains a dimension twice");
    require(tensor.count() > 0, "'self' is empty");
}

}  // namespace aten
}  // namespace opbridge
