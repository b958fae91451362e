// Codes of FP4 as bytes, for products of many rows of FP4 by FP4: twice an E2M1 value is a small
// integer, so a block's sum is exact in integers and only its scales are numbers of FP32.
// matmul_integers.hpp multiplies them. Included inside a target region (cpu/target_region.hpp),
// after matmul_many.hpp.
//
// Bytes of a are 2 a + 12 (unsigned) and those of b are 2 b, so a sum over a block is 4 sum(a b) +
// 12 sum(2 b); it begins with the negative of that second term. In a block of 16 the eight even
// elements come first. Prepared rows are unit after unit, that is 16 elements or, where both sides
// have blocks of 32, those: the words of its bytes, then its scale in FP32.

inline constexpr std::int64_t codes_step = 2 * vector_bytes;  // codes of a vector
inline constexpr std::int64_t codes_chunk = 512;              // elements of k
inline constexpr float codes_factor =
    0.25f;  // of both sides' doubled values, in the weights' scales

/// Elements that share one scale of a and one of b.
inline int codes_unit(const MatmulProduct& product) {
  return product.a.format == Format::mxfp4 && product.b_format == Format::mxfp4 ? 32 : 16;
}

/// A chunk's weights of one column.
struct CodesColumn {
  std::int8_t codes[codes_chunk];
  std::int32_t starts[codes_chunk / 16];  // of a unit's sum
  float scales[codes_chunk / 16];
};

/// Of a kernel of matmul_many.hpp what memory depends on.
template <int Unit>
struct CodesRows {
  using Column = CodesColumn;
  static constexpr int vectors = codes_vectors;
  static constexpr std::int64_t step = codes_step;
  static constexpr std::int64_t words(std::int64_t elements) {
    return elements / Unit * (Unit / 4 + 1);
  }
};

/// codes_step codes as bytes: 2 * the E2M1 value + 12.
struct CodeBytes {
  Int even, odd;
  explicit CodeBytes(const std::uint8_t* codes) {
    alignas(16) static constexpr std::uint8_t doubled[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                             12, 11, 10, 9,  8,  6,  4,  0};
    const Int values = table16(doubled), w = load(codes), mask = set8(15);
    even = lookup8(values, and_(w, mask));
    odd = lookup8(values, and_(shr16<4>(w), mask));
  }
};

/// The FP32 scales of `count` units of Unit elements times `factor`, `stride` apart.
template <int Unit>
inline void unit_scales(const std::uint8_t* scales, Format format, std::int64_t count,
                        std::int64_t stride, float factor, float* output) {
  const float* const values = cpu::scale_values(format);
  const int halves = format == Format::mxfp4 && Unit == 16 ? 1 : 0;  // two units share a scale
  for (std::int64_t u = 0; u < count; ++u)
    output[u * stride] = factor * values[scales[u >> halves]];
}

template <int Unit>
void prepare_units(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                   void* prepared, std::uint8_t* odd) {
  constexpr int words = Unit / 4;
  const MatmulRows& a = product.a;
  const std::int64_t k = product.k;
  const PreparedRows to = prepared_rows<CodesRows<Unit>>(product, first, prepared);
  const std::int64_t stride = (words + 1) * to.width;
  float* const scales = to.words + words * to.width;
  for (std::int64_t u = 0; u < rounded_up(k, codes_step) / Unit; ++u)
    store_float(scales + u * stride, as_float(zero()));
  for (std::int64_t r = 0; r < count; ++r) {
    odd[first + r] = !cpu::scales_inside(a, first + r, k);
    unit_scales<Unit>(a.scales + (first + r) * a.scale_stride, a.format, k / Unit, stride, 1.0f,
                      scales + r);
    float* output = to.words + r;
    for (std::int64_t at = 0; at < k; at += codes_step) {
      alignas(64) std::uint8_t last[vector_bytes] = {};
      const std::uint8_t* from = a.data + (first + r) * a.stride + at / 2;
      if (at + codes_step > k) {
        __builtin_memcpy(last, from, static_cast<std::size_t>((k - at) / 2));
        from = last;
      }
      alignas(64) float bytes[codes_step / 4];
      const CodeBytes spread(from);
      store_blocks(bytes, low64(spread.even, spread.odd), high64(spread.even, spread.odd));
      for (std::int64_t i = 0; i < codes_step / 4; i += words, output += stride)
        for (int j = 0; j < words; ++j) output[j * to.width] = bytes[i + j];
    }
  }
}

/// Rows of a, up to `lanes` of them, `first` a multiple of that; the scales of those that are not
/// there are 0.
inline void prepare_codes(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                          void* prepared, std::uint8_t* odd) {
  if (codes_unit(product) == 32) return prepare_units<32>(product, first, count, prepared, odd);
  prepare_units<16>(product, first, count, prepared, odd);
}

inline std::int64_t codes_row_bytes(const MatmulProduct& product) {
  return 4 * (codes_unit(product) == 32 ? prepared_words<CodesRows<32>>(product.k)
                                        : prepared_words<CodesRows<16>>(product.k));
}
