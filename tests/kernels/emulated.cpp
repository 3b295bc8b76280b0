// Device functions in the emulation of CUDA's language: emulated CASE. Compiled with sanitizers.
#define OPBRIDGE_ON_DEVICE
#include <opbridge/device/emulation.h>
#include <opbridge/device.h>

#include "../../src/opbridge/kernels/builtin/device/indices.h"

#include <cstdio>
#include <numeric>

using namespace opbridge;

template <class T>
void scaled_add(int64_t i, View<const T> a, View<const T> b, double alpha, View<T> out) {
    out[i] = T(alpha) * a[i] + b[i];
}

// The sum of each block's elements: in shared memory, and by shuffles within the last warp.
__global__ void block_sums(const float* x, float* sums, unsigned count, bool forget_barrier) {
    __shared__ float shared[64];
    float* more = dynamic_shared<float>();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = i < count ? x[i] : 0;
    more[threadIdx.x] = 1;
    if (!forget_barrier) __syncthreads();
    if (threadIdx.x < 32) {
        float sum = shared[threadIdx.x] + shared[threadIdx.x + 32] * more[threadIdx.x + 32];
        for (unsigned by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

__global__ void some_wait(int* out) {
    if (threadIdx.x < 16) __syncthreads();
    atomicAdd(out, 1);
}

__global__ void outside(float* x) { x[threadIdx.x + 1] = 1; }

int main(int, char** arguments) try {
    const std::string chosen = arguments[1];
    std::vector<float> x(200), sums(4);
    std::iota(x.begin(), x.end(), 0.0f);
    if (chosen == "barriers" || chosen == "race") {
        emulation::launch({4}, {64}, 64 * sizeof(float), [&] { block_sums(x.data(), sums.data(), 200, chosen == "race"); });
        std::printf("%g %g %g %g\n", sums[0], sums[1], sums[2], sums[3]);
    } else if (chosen == "divergence") {
        int count = 0;
        emulation::launch({1}, {32}, 0, [&] { some_wait(&count); });
    } else if (chosen == "outside") {
        std::unique_ptr<float[]> memory(new float[8]);
        emulation::launch({1}, {8}, 0, [&] { outside(memory.get()); });
    } else if (chosen == "large") {
        // A tensor of 2^34 elements, which nobody reads: the index of one beyond 2^31, and its number.
        const int64_t sizes[] = {4, 1 << 16, 1 << 16};
        const detail::ViewArgument<const float, 3> argument(nullptr, sizes, 3);
        const View<const float, 3> view(argument, false);
        const auto at = view.index((int64_t{3} << 32) + (int64_t{5} << 16) + 7);
        int64_t number = (int64_t{3} << 32) + 9;
        const int64_t last = device::take_index(number, 1 << 16), middle = device::take_index(number, 1 << 16);
        std::printf("%lld %lld %lld, %lld %lld %lld\n", static_cast<long long>(at[0]), static_cast<long long>(at[1]),
                    static_cast<long long>(at[2]), static_cast<long long>(number), static_cast<long long>(middle),
                    static_cast<long long>(last));
    } else if (chosen == "atomics") {
        double total = 0;
        int largest = 0;
        emulation::launch({2, 2}, {4, 2, 2}, 0, [&] {
            atomicAdd(&total, 0.5);
            atomicMax(&largest, static_cast<int>(blockIdx.y * 100 + threadIdx.z * 10 + threadIdx.x));
        });
        std::printf("%g %d\n", total, largest);
    } else {
        const int64_t sizes[] = {20, 10}, row[] = {1, 10};
        std::vector<float> out(200);
        detail::ElementArguments<decltype(&scaled_add<float>)> given{};
        given.count = 200;
        given.values.first = {x.data(), sizes, 2};
        given.values.rest.first = {x.data(), row, 2};
        given.values.rest.first.broadcast_to(sizes, 2);
        given.values.rest.rest.first = 2.0;
        given.values.rest.rest.rest.first = {out.data(), sizes, 2};
        emulation::launch({3}, {32}, 0, [&] { detail::elements<&scaled_add<float>>(given); });
        bool right = true;
        for (int i = 0; i < 200; ++i) right = right && out[i] == 2.0f * x[i] + x[i % 10];
        std::printf("%s\n", right ? "right" : "wrong");
    }
    return 0;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
