// As much of CUDA as lastbit/engine/chain.cu needs, on the host: a thread for each of a block, and
// blocks one after the other. Compile it as C++20, with -fwrapv and the constants of the kernel.

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __global__
#define __host__
#define __launch_bounds__(threads, blocks)
#define __shared__ static

using std::max, std::min;

struct Place {
    int x, y;
};

static thread_local Place threadIdx, blockIdx;
static std::barrier<> everyone(DOWN* ACROSS);

inline void __syncthreads() { everyone.arrive_and_wait(); }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) { return (int)(std::bit_cast<long long>(x) >> 32); }
inline double __hiloint2double(int high, int low) {
    return std::bit_cast<double>((long long)high << 32 | (unsigned)low);
}

// Toward zero; NaN and what is too large have no right value, and none counts.
inline int __double2int_rz(double x) { return std::fabs(x) < 0x1p31 ? (int)x : INT32_MIN; }
inline int __float2int_rz(float x) { return __double2int_rz(x); }

inline float __uint2float_rz(unsigned x) {
    int spare = max(0, (int)std::bit_width(x) - 24);
    return (float)(x >> spare << spare);
}

inline unsigned __viaddmax_s16x2(unsigned a, unsigned b, unsigned c) {
    unsigned out = 0;
    for (int at : {0, 16}) {
        auto half = [at](unsigned x) { return (int16_t)(x >> at); };
        out |= (unsigned)(uint16_t)max<int16_t>(half(a) + half(b), half(c)) << at;
    }
    return out;
}

#include "chain.cu"

extern "C" void run(
    const float* a, const float* b, float* out, int m, int n, int k, int least_a, int least_b
) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < DOWN * ACROSS; thread++)
        threads.emplace_back([=] {
            threadIdx = {thread, 0};
            for (int y = 0; y * TILE_ROWS < m; y++)
                for (int x = 0; x * TILE_COLUMNS < n; x++) {
                    blockIdx = {x, y};
                    chain(a, b, out, m, n, k, least_a, least_b);
                }
        });
    for (auto& thread : threads) thread.join();
}
