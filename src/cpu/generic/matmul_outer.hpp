// Products of many rows in FP32 (matmul_many.hpp): weights are decoded with their scale inside.
// Elements of a lie in the order in which B decodes. Included inside a target region
// (cpu/target_region.hpp), after matmul_many.hpp and matmul_inputs.hpp.

template <class B>
struct OuterProducts {
  static constexpr int vectors = outer_vectors, cols = outer_cols;
  static constexpr std::int64_t chunk = 128, step = B::elements;
  static constexpr std::int64_t code_bytes = chunk / B::elements * B::code_bytes;
  static constexpr std::int64_t between = 8;  // elements for which a line is asked

  struct Column {
    float weights[chunk + lanes];  // columns are not all in the same sets of a cache
  };

  static WeightsPlace place(const MatmulRows& b, std::int64_t column, std::int64_t at) {
    return {b.data + column * b.stride + at / B::elements * B::code_bytes,
            b.scales + column * b.scale_stride + at / B::elements * B::scale_bytes};
  }
  static constexpr std::int64_t words(std::int64_t elements) { return elements; }
  static constexpr std::int64_t ahead_bytes(std::int64_t count) { return count / between * 64; }

  static void decode(const WeightsPlace& from, std::int64_t valid, Column& to) {
    decode_run<B>(from.codes, from.scales, valid, to.weights);
  }

  template <int Vectors, int Cols>
  static void block(const float* x, std::int64_t width, const Column* columns, std::int64_t count,
                    const char* ahead, float* sums) {
    Float total[Vectors * Cols];
    MICROSCALE_UNROLL
    for (int i = 0; i < Vectors * Cols; ++i) total[i] = as_float(zero());
    const float* w = columns->weights;
    for (std::int64_t done = 0; done < count; done += between, ahead += 64) {
      _mm_prefetch(ahead, _MM_HINT_T1);
      for (int k = 0; k < between; ++k, x += width, ++w) {
        Float rows[Vectors];
        MICROSCALE_UNROLL
        for (int v = 0; v < Vectors; ++v) rows[v] = load_float(x + v * lanes);
        MICROSCALE_UNROLL
        for (int c = 0; c < Cols; ++c) {
          const Float each = set_float(w[c * (chunk + lanes)]);
          MICROSCALE_UNROLL
          for (int v = 0; v < Vectors; ++v)
            total[c * Vectors + v] = fma(each, rows[v], total[c * Vectors + v]);
        }
      }
    }
    add_to_sums<Vectors, Cols>(total, sums);
  }

  /// What a term goes through: a sum over a chunk, then over the chunks.
  static std::int64_t roundings(std::int64_t k) {
    return (k < chunk ? k : chunk) + (k + chunk - 1) / chunk;
  }
};

/// Where each element of a step is among those decoded.
template <class B>
struct DecodedPlaces {
  int of[B::elements] = {};
  constexpr DecodedPlaces() {
    for (int i = 0; i < B::vectors; ++i)
      for (int l = 0; l < lanes; ++l) of[B::element(i, l)] = i * lanes + l;
  }
};

/// Rows of a, up to `lanes` of them, `first` a multiple of that; those that are not there are 0.
template <class B>
void prepare_outer(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                   void* prepared, std::uint8_t* odd) {
  static constexpr DecodedPlaces<B> places;
  const PreparedRows to = prepared_rows<OuterProducts<B>>(product, first, prepared);
  alignas(64) float values[lanes][B::elements] = {}, turned[lanes * lanes];
  for (std::int64_t r = 0; r < count; ++r) odd[first + r] = 0;
  for (std::int64_t at = 0; at < product.k; at += B::elements) {
    for (std::int64_t r = 0; r < count; ++r)
      if (!load_elements<B::elements>(product.a, first + r, at, product.k, values[r]))
        odd[first + r] = 1;
    for (int i = 0; i < B::elements; i += lanes) {
      transpose(values[0] + i, B::elements, turned);
      for (int l = 0; l < lanes; ++l)
        store_float(to.words + (at + places.of[i + l]) * to.width, load_float(turned + l * lanes));
    }
  }
}
