// Products of many rows of FP4 by FP4 in integers (matmul_many.hpp, matmul_codes.hpp). Included
// inside a target region (cpu/target_region.hpp), after these and
//   sum_words(x, w, start)   start plus, in each 32-bit lane, the sum of the bytes x[i] (unsigned)
//                            times the four bytes at w + 4 i (signed)

/// `Weights`: the format of b; `Unit`: elements that share a scale of each side.
template <Format Weights, int Unit>
struct CodesProducts : CodesRows<Unit> {
  static constexpr int cols = Unit == 16 ? codes_cols : codes_cols / 2;
  static constexpr std::int64_t chunk = codes_chunk, code_bytes = chunk / 2;
  using Column = CodesColumn;

  static WeightsPlace place(const MatmulRows& b, std::int64_t column, std::int64_t at) {
    constexpr std::int64_t block = Weights == Format::mxfp4 ? 32 : 16;
    return {b.data + column * b.stride + at / 2, b.scales + column * b.scale_stride + at / block};
  }
  static constexpr std::int64_t ahead_bytes(std::int64_t count) { return count / Unit * 64; }

  /// codes_step codes; a block's sum begins at 12 * (16 * 12 - its bytes' sum).
  static void spread(const std::uint8_t* from, std::int64_t at, Column& to) {
    const CodeBytes bytes(from);
    const Int twelve = set8(12);
    store_blocks(to.codes + at, sub8(low64(bytes.even, bytes.odd), twelve),
                 sub8(high64(bytes.even, bytes.odd), twelve));
    alignas(64) std::int32_t sums[vector_bytes / 4];
    store(sums, add32(sum_bytes(bytes.even), sum_bytes(bytes.odd)));
    for (int i = 0; i < vector_bytes / 8; ++i)
      to.starts[at / 16 + i] = 12 * (16 * 12 - sums[2 * i]);
  }

  static void decode(const WeightsPlace& from, std::int64_t valid, Column& to) {
    std::int64_t at = 0;
    for (; at + codes_step <= valid; at += codes_step) spread(from.codes + at / 2, at, to);
    const std::int64_t all = rounded_up(valid, codes_step);
    if (at < all) {
      alignas(64) std::uint8_t last[vector_bytes] = {};
      __builtin_memcpy(last, from.codes + at / 2, static_cast<std::size_t>((valid - at) / 2));
      spread(last, at, to);
    }
    if constexpr (Unit == 32)
      for (std::int64_t u = 0; u < all / 32; ++u)
        to.starts[u] = to.starts[2 * u] + to.starts[2 * u + 1];
    unit_scales<Unit>(from.scales, Weights, valid / Unit, 1, codes_factor, to.scales);
    for (std::int64_t u = valid / Unit; u < all / Unit; ++u) to.scales[u] = 0.0f;
  }

  template <int Vectors, int Cols>
  static void block(const float* x, std::int64_t width, const Column* columns, std::int64_t count,
                    const char* ahead, float* sums) {
    constexpr int halves = Unit / 16;
    Float total[Vectors * Cols];
    MICROSCALE_UNROLL
    for (int i = 0; i < Vectors * Cols; ++i) total[i] = as_float(zero());
    for (std::int64_t u = 0; u < count / Unit; ++u, x += CodesRows<Unit>::words(Unit) * width) {
      _mm_prefetch(ahead + u * 64, _MM_HINT_T1);
      Int sum[Vectors * Cols];
      MICROSCALE_UNROLL
      for (int h = 0; h < halves; ++h) {
        Int bytes[Vectors][4];
        MICROSCALE_UNROLL
        for (int i = 0; i < Vectors * 4; ++i)
          bytes[i / 4][i % 4] = load(x + (4 * h + i % 4) * width + i / 4 * lanes);
        MICROSCALE_UNROLL
        for (int c = 0; c < Cols; ++c) {
          const Column& column = columns[c];
          const Int start = set32(static_cast<std::uint32_t>(column.starts[u]));
          MICROSCALE_UNROLL
          for (int v = 0; v < Vectors; ++v) {
            const int i = c * Vectors + v;
            sum[i] = sum_words(bytes[v], column.codes + u * Unit + h * 16, h == 0 ? start : sum[i]);
            if (h + 1 < halves) continue;
            const Float scale = load_float(x + Unit / 4 * width + v * lanes);
            total[i] = fma(mul(to_float(sum[i]), scale), set_float(column.scales[u]), total[i]);
          }
        }
      }
    }
    add_to_sums<Vectors, Cols>(total, sums);
  }
};

template <Format Weights>
void multiply_weights(const MatmulProduct& product, const MatmulTile& tile) {
  if constexpr (Weights == Format::mxfp4)
    if (codes_unit(product) == 32)
      return multiply_many<CodesProducts<Weights, 32>>(product, tile, product.factor);
  multiply_many<CodesProducts<Weights, 16>>(product, tile, product.factor);
}

/// Of rows that prepare_codes prepared.
void multiply_codes(const MatmulProduct& product, const MatmulTile& tile) {
  if (product.b_format == Format::mxfp4) return multiply_weights<Format::mxfp4>(product, tile);
  multiply_weights<Format::nvfp4>(product, tile);
}
