// The product of two matrices, c = a * b, by blocks that stay in the caches and tiles of c that stay in registers.
//
// b comes in panels of `panel_columns<A>()` columns, the last one filled up with zeros: panel j holds, for each of its k rows, the columns
// from j * panel_columns on, side by side. a is read as it lies, row by row. c has as many columns as the panels.
#pragma once

#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

// Two vectors: with the rows of a tile, as many sums as the processor has registers for.
template <class A>
int64_t panel_columns() {
    return 2 * vector_bytes() / static_cast<int64_t>(sizeof(A));
}

namespace matmul_detail {

// Rows of a tile of c: 2 * 12 sums in the 32 registers of AVX-512, 2 * 6 in 16 registers.
template <int Bytes>
constexpr int tile_rows = Bytes == 64 ? 12 : 6;

// Rows of a panel that are used together, so that they and a tile's part of a stay in the innermost cache: 24 KiB of b.
template <int Bytes>
constexpr int64_t depth = 24 * 1024 / (2 * Bytes);

template <int Bytes, int Rows, class A>
OPBRIDGE_INLINE void tile(int64_t k, const A* a, int64_t a_stride, const A* panel, A* c, int64_t c_stride, bool add) {
    constexpr int lanes = Bytes / sizeof(A);
    using V = VectorOf<A, Bytes>;
    V sums[Rows][2] = {};
    if (add) {
        OPBRIDGE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            load(sums[r][0], c + r * c_stride);
            load(sums[r][1], c + r * c_stride + lanes);
        }
    }
    for (int64_t i = 0; i < k; ++i) {
        V left, right;
        load(left, panel + i * 2 * lanes);
        load(right, panel + i * 2 * lanes + lanes);
        OPBRIDGE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const A factor = a[r * a_stride + i];
            sums[r][0] += left * factor;
            sums[r][1] += right * factor;
        }
    }
    OPBRIDGE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        store(sums[r][0], c + r * c_stride);
        store(sums[r][1], c + r * c_stride + lanes);
    }
}

}  // namespace matmul_detail

// c (m, panels * panel_columns) = a (m, k) * b (k, panels of it). Bytes is vector_bytes(); strides are from row to row.
template <int Bytes, class A>
OPBRIDGE_INLINE void matmul(int64_t m, int64_t k, const A* a, int64_t a_stride, int64_t panels, const A* b, A* c, int64_t c_stride) {
    using namespace matmul_detail;
    constexpr int rows = tile_rows<Bytes>;
    constexpr int64_t columns = 2 * Bytes / sizeof(A);
    int64_t done = 0;
    do {  // once where k is 0: c is zero then
        const int64_t part = k - done < depth<Bytes> ? k - done : depth<Bytes>;
        for (int64_t j = 0; j < panels; ++j) {
            const A* panel = b + (j * k + done) * columns;
            A* to = c + j * columns;
            int64_t i = 0;
            for (; i + rows <= m; i += rows) {
                tile<Bytes, rows>(part, a + i * a_stride + done, a_stride, panel, to + i * c_stride, c_stride, done > 0);
            }
            for (; i + rows / 3 <= m; i += rows / 3) {
                tile<Bytes, rows / 3>(part, a + i * a_stride + done, a_stride, panel, to + i * c_stride, c_stride, done > 0);
            }
            for (; i < m; ++i) {
                tile<Bytes, 1>(part, a + i * a_stride + done, a_stride, panel, to + i * c_stride, c_stride, done > 0);
            }
        }
        done += part;
    } while (done < k);
}

}  // namespace opbridge::compute
