// Few rows of a times FP4 weights: codes look up BF16 values, 32 at a time, and pairs of products
// are summed by one instruction. Numbers below 2^-126 count as zero there.
#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_AMX_BEGIN
using namespace microscale::avx512;
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/matmul_scales.hpp"

inline constexpr int most_rows = 4;

#include "cpu/generic/matmul_dot.hpp"

/// start and add for decoders into BF16.
struct Bf16Products {
  using X = std::uint16_t;
  static constexpr int width = 32;
  static Float start(Int v, const X* x) { return add(v, x, as_float(zero())); }
  static Float add(Int v, const X* x, Float sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(v),
                            reinterpret_cast<__m512bh>(load(x)));
  }
  static bool convert(const float* value, X* output) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, value, sizeof bits);
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    *output = static_cast<X>(nan ? 0x7FFFu : bits >> 16);
    return nan || (bits & 0xFFFFu) == 0;
  }
};

/// 128 E2M1 codes: place l of vector i is nibble i of the l-th 16-bit word. The lookup takes the
/// lowest five bits of a place; its 32 entries are the 16 values twice.
struct Fp4Codes : Bf16Products {
  static constexpr int elements = 128, vectors = 4, code_bytes = 64, groups = 1;
  static constexpr int element(int vector, int place) { return 4 * place + vector; }
  using Codes = Int;
  using Scales = Float;
  static Codes load(const std::uint8_t* p) { return microscale::avx512::load(p); }
  static Int vector(Codes w, int i) {
    const Int sixteen = _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0x0000, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, -0x8000,
                          -0x4100, -0x4080, -0x4040, -0x4000, -0x3FC0, -0x3F80, -0x3F40));
    return _mm512_permutexvar_epi16(_mm512_srli_epi16(w, static_cast<unsigned>(4 * i)), sixteen);
  }
  static Float scale(Scales q, int) { return q; }
};

/// Lane l of a sum belongs to block l / 2.
struct Nvfp4 : Fp4Codes {
  static constexpr int scale_bytes = 8;
  static constexpr double factor = 256.0;
  static Scales load_scales(const std::uint8_t* p) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                 _mm512_castps256_ps512(eight_from_e4m3(p)));
  }
};

/// Lane l of a sum belongs to block l / 4.
struct Mxfp4 : Fp4Codes {
  static constexpr int scale_bytes = 4;
  static constexpr double factor = 1.0;
  static Scales load_scales(const std::uint8_t* p) { return four_from_e8m0(p); }
};

static_assert(Fp4Codes::elements == row_elements, "prepared rows are filled up to whole steps");

void prepare_vectors(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                     void* prepared, std::uint8_t* odd) {
  prepare_dot<Nvfp4>(product, first, count, prepared, odd);
}

void multiply_vectors(const MatmulProduct& product, const MatmulTile& tile) {
  if (product.b_format == Format::nvfp4) return multiply_dot<Nvfp4>(product, tile);
  multiply_dot<Mxfp4>(product, tile);
}

std::int64_t vector_workspace() { return most_vector_rows * most_tile_columns * vector_bytes; }

void store_rounded(const float* values, std::int64_t count, DType type, void* output) {
  store_values(values, count, type, output);
}
MICROSCALE_AMX_END
