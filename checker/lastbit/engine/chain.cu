// A chain of a matrix unit of the method `aligned`, on an NVIDIA GPU.
//
//     for each tile of outputs, in parallel:
//         c: f32 = 0
//         for each step, WIDTH products:
//             E = the exponent of c
//             for i in the step:  E = max(E, exponent(a[i]) + exponent(b[i]))
//             s = 2^(F - E)
//             sum: int = int(c * s)                              toward zero
//             for i in the step:  sum += int(a[i] * b[i] * s)    toward zero
//             c = cut(sum) / s                                   toward zero, to BITS digits
//
// A block of DOWN x ACROSS threads computes a tile. Each thread has ROWS x COLUMNS outputs in
// registers; the operands of DEPTH products lie in shared memory. Every operation is exact, but the
// conversions to integers, which cut toward zero as the unit does, and the cut of the sum.
//
// NARROW: operands of like magnitude, scaled so that their largest exponents are 0, in binary32,
// for the reasons in narrow.py. The exponent of a product is -62 or more, or all products of the
// step are zero; then the accumulator, a multiple of 2^(-62 - F), loses nothing.
//
// Otherwise: operands of any magnitude and at most 24 digits, in binary64, as in wide.py. Neither a
// product nor a scaled product leaves its range. NaN and infinities are where the plain sum of all
// terms has them.
//
// Sums: significands are below 2, so a term is below 2^(F + 2), and the accumulator below
// 2^(F + 1). Terms are added in parts that stay below 2^31. In the narrow form these are two at
// most, and their sum is below 2^32, so that its sign and its lower 32 bits tell it.
//
// The caller defines WIDTH, F, BITS, FLOOR (the exponent that a zero counts with), NARROW, and the
// tile: DOWN, ACROSS, ROWS, COLUMNS, and BLOCKS, how many at least share a multiprocessor. ROWS and
// COLUMNS are powers of two, COLUMNS is even.

constexpr int BIAS = 127;  // of every exponent below
constexpr int NONE = -8192;  // the exponent of a zero: below all others, also of two added
constexpr int MOST = BIAS + 256;  // above every exponent that counts

constexpr long long TERM = 1ll << (F + 2), ACCUMULATOR = 1ll << (F + 1);

__host__ __device__ constexpr int terms_of_a_part() {
    int terms = WIDTH;
    while (terms * TERM + ACCUMULATOR > 1ll << 31) terms = (terms + 1) / 2;
    return terms;
}

constexpr int PART = terms_of_a_part();

// The biased exponent of a binary32 number; that of a subnormal one is too low.
__device__ __forceinline__ int field_of(float x) { return __float_as_int(x) >> 23 & 0xFF; }

// An output within a step, in binary32.
struct Narrow {
    using Real = float;
    static constexpr int LEAST = BIAS - 62;  // the least E

    float up;  // 2^(F - E)
    int sum, before;  // of this part, and of the one before

    __device__ __forceinline__ void start(float acc, int largest) {
        up = __int_as_float((2 * BIAS + F - max(largest, field_of(acc))) << 23);
        sum = __float2int_rz(acc * up);
        before = 0;
    }

    __device__ __forceinline__ void add(float a, float b) { sum += __float2int_rz(a * b * up); }

    __device__ __forceinline__ void next_part() {
        before = sum;
        sum = 0;
    }

    __device__ __forceinline__ float end() const {
        static_assert(!NARROW || (2 * PART >= WIDTH && WIDTH * TERM + ACCUMULATOR <= 1ll << 32),
                      "a sum may have more than 32 bits and a sign");
        // An overflow of the 32 bits flips the sign of the sum.
        int all = (int)((unsigned)before + (unsigned)sum);
        int sign = all ^ ((before ^ all) & (sum ^ all));
        float size = __uint2float_rz(sign < 0 ? 0u - (unsigned)all : (unsigned)all);
        unsigned digits = __float_as_uint(size) & ~((1u << (23 - BITS)) - 1);
        float down = __int_as_float((2 * BIAS << 23) - __float_as_int(up));
        return __uint_as_float(digits | (sign & 0x80000000u)) * down;
    }
};

// An output within a step, in binary64.
struct Wide {
    using Real = double;
    static constexpr int LEAST = BIAS + FLOOR;

    double up, total, plain;  // 2^(F - E), the parts before this one, and the plain sum
    int sum;

    static __device__ __forceinline__ double power_of_two(int e) {
        return __hiloint2double((e + 1023) << 20, 0);
    }

    __device__ __forceinline__ void start(float acc, int largest) {
        int own = acc == 0.0f ? LEAST : max(field_of(acc), 1);
        up = power_of_two(BIAS + F - min(max(largest, own), MOST));
        sum = __double2int_rz(acc * up);
        total = 0.0;
        plain = acc;
    }

    __device__ __forceinline__ void add(double a, double b) {
        sum += __double2int_rz(a * b * up);
        plain = fma(a, b, plain);
    }

    __device__ __forceinline__ void next_part() {
        total += sum;
        sum = 0;
    }

    __device__ __forceinline__ float end() const {
        if ((__double2hiint(plain) & 0x7FF00000) == 0x7FF00000) return (float)plain;
        double down = __hiloint2double((2 * 1023 << 20) - __double2hiint(up), 0);
        double value = (total + sum) * down;
        // Below the normal numbers of binary32: a multiple of 2^(-126 - BITS).
        if (fabs(value) < power_of_two(-126))
            return (float)(__double2int_rz(value * power_of_two(126 + BITS)) *
                           power_of_two(-126 - BITS));
        long long digits = __double_as_longlong(value) & -(1ll << (52 - BITS));
        return (float)__longlong_as_double(digits);
    }
};

#if NARROW
using Sum = Narrow;
#else
using Sum = Wide;
#endif

constexpr int THREADS = DOWN * ACROSS;
constexpr int TILE_ROWS = DOWN * ROWS, TILE_COLUMNS = ACROSS * COLUMNS;
constexpr int DEPTH = WIDTH < 32 ? 32 / WIDTH * WIDTH : WIDTH;

struct alignas(16) Stage {
    Sum::Real a[DEPTH][TILE_ROWS], b[DEPTH][TILE_COLUMNS];
    unsigned a_exponents[DEPTH][TILE_ROWS];  // each twice in a word, for two columns
    unsigned short b_exponents[DEPTH][TILE_COLUMNS];
};

// The operands of DEPTH products. Rows past M, columns past N and products past K are zeros.
__device__ __forceinline__ void fill(
    Stage& stage, const float* a, const float* b, int start, int m, int n, int k, int least_a,
    int least_b
) {
    auto fetch = [=](const float* from, int i, int place, int size) {
        return start + i < k && place < size ? from[(size_t)(start + i) * size + place] : 0.0f;
    };
    auto exponent = [](float x, int least) { return x == 0.0f ? NONE : max(field_of(x), least); };
    int first_row = blockIdx.y * TILE_ROWS, first_column = blockIdx.x * TILE_COLUMNS;
#pragma unroll 4
    for (int at = threadIdx.x; at < DEPTH * TILE_ROWS; at += THREADS) {
        int i = at / TILE_ROWS, row = at % TILE_ROWS;
        float x = fetch(a, i, first_row + row, m);
        stage.a[i][row] = x;
        stage.a_exponents[i][row] = (exponent(x, least_a) - BIAS & 0xFFFF) * 0x10001u;
    }
#pragma unroll 4
    for (int at = threadIdx.x; at < DEPTH * TILE_COLUMNS; at += THREADS) {
        int i = at / TILE_COLUMNS, column = at % TILE_COLUMNS;
        float x = fetch(b, i, first_column + column, n);
        stage.b[i][column] = x;
        stage.b_exponents[i][column] = (unsigned short)exponent(x, least_b);
    }
}

// N numbers that lie one after the other, loaded together.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Row {
    T at[N];
    static __device__ __forceinline__ Row load(const void* from) {
        return *static_cast<const Row*>(from);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) chain(
    const float* a,  // [K, M]
    const float* b,  // [K, N]
    float* out,      // [M, N]
    int m,
    int n,
    int k,        // a multiple of WIDTH
    int least_a,  // the biased exponent of the least normal number of the format of a
    int least_b
) {
    __shared__ Stage stage;
    const int row = threadIdx.x / ACROSS * ROWS, column = threadIdx.x % ACROSS * COLUMNS;
    float acc[ROWS][COLUMNS] = {};
    for (int start = 0; start < k; start += DEPTH) {
        __syncthreads();
        fill(stage, a, b, start, m, n, k, least_a, least_b);
        __syncthreads();
        for (int step = 0; step < DEPTH && start + step < k; step += WIDTH) {
            // The largest exponents of two columns in a word: signed numbers of 16 bits.
            unsigned largest[ROWS][COLUMNS / 2];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS / 2; c++)
                    largest[r][c] = (Sum::LEAST & 0xFFFF) * 0x10001u;
#pragma unroll 4
            for (int i = step; i < step + WIDTH; i++) {
                auto x = Row<unsigned, ROWS>::load(&stage.a_exponents[i][row]);
                auto y = Row<unsigned, COLUMNS / 2>::load(&stage.b_exponents[i][column]);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int c = 0; c < COLUMNS / 2; c++)
                        largest[r][c] = __viaddmax_s16x2(x.at[r], y.at[c], largest[r][c]);
            }
            Sum sums[ROWS][COLUMNS];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    sums[r][c].start(acc[r][c], (short)(largest[r][c / 2] >> c % 2 * 16));
#pragma unroll
            for (int part = 0; part < WIDTH; part += PART) {
#pragma unroll 8
                for (int i = step + part; i < step + min(part + PART, WIDTH); i++) {
                    auto x = Row<Sum::Real, ROWS>::load(&stage.a[i][row]);
                    auto y = Row<Sum::Real, COLUMNS>::load(&stage.b[i][column]);
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
#pragma unroll
                        for (int c = 0; c < COLUMNS; c++) sums[r][c].add(x.at[r], y.at[c]);
                }
                if (part + PART < WIDTH)
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
#pragma unroll
                        for (int c = 0; c < COLUMNS; c++) sums[r][c].next_part();
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) acc[r][c] = sums[r][c].end();
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int i = blockIdx.y * TILE_ROWS + row + r, j = blockIdx.x * TILE_COLUMNS + column + c;
            if (i < m && j < n) out[(size_t)i * n + j] = acc[r][c];
        }
}
