// Products in FP32 of rows of a tile with keys that are decoded. Included inside a target region
// (cpu/target_region.hpp), after attention_sides.hpp and attention_softmax.hpp; what it is made of,
// attention_sums and put_sums, is told in attention.hpp.

/// Scores of Rows rows with as many keys as registers hold sums of; scores[r * attention_keys +
/// key].
template <int Rows>
inline void multiply_keys(const float* q, const float* k, std::int64_t stride, std::int64_t keys,
                          const RowsAhead* ahead, float* scores) {
  constexpr int cols = attention_sums / Rows;
  for (std::int64_t c = 0; c < keys; c += cols) {
    if (ahead)
      for (int j = 0; j < cols; ++j) ahead->ask(c + j);
    Float sum[attention_sums];
    MICROSCALE_UNROLL
    for (int i = 0; i < attention_sums; ++i) sum[i] = as_float(zero());
    const float* row = k + c * stride;
    for (std::int64_t e = 0; e < stride; e += lanes) {
      Float v[cols];
      MICROSCALE_UNROLL
      for (int j = 0; j < cols; ++j) v[j] = load_float(row + j * stride + e);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Float x = load_float(q + r * stride + e);
        MICROSCALE_UNROLL
        for (int j = 0; j < cols; ++j) {
          Float& s = sum[place_of_sum(r * cols + j)];
          s = fma(x, v[j], s);
        }
      }
    }
    put_sums<cols>(sum, attention_keys, scores + c);
  }
}

/// o[r] = o[r] * alpha[r] + sum of p[r][j] * v[j], over `keys` rows of v.
template <class Steps, int Rows>
inline void multiply_values(const float* p, const float* alpha, const float* v, std::int64_t stride,
                            std::int64_t keys, const RowsAhead* ahead, float* o) {
  constexpr int step = row_step<Steps> / lanes, most = attention_sums / Rows,
                cols = most < step ? most : step;  // of a step's vectors
  for (std::int64_t e = 0; e < stride; e += cols * lanes) {
    Float sum[Rows * cols];
    MICROSCALE_UNROLL
    for (int i = 0; i < Rows * cols; ++i) sum[i] = as_float(zero());
    for (std::int64_t j = 0; j < keys; ++j) {
      if (ahead && e == 0) ahead->ask(j);
      Float x[cols];
      MICROSCALE_UNROLL
      for (int c = 0; c < cols; ++c) x[c] = load_float(v + j * stride + e + c * lanes);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Float weight = set_float(p[r * attention_keys + j]);
        MICROSCALE_UNROLL
        for (int c = 0; c < cols; ++c) sum[r * cols + c] = fma(weight, x[c], sum[r * cols + c]);
      }
    }
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Float factor = set_float(alpha[r]);
      MICROSCALE_UNROLL
      for (int c = 0; c < cols; ++c) {
        float* at = o + r * stride + e + c * lanes;
        store_float(at, fma(load_float(at), factor, sum[r * cols + c]));
      }
    }
  }
}

/// Groups of 4, 2 and 1 of those rows whose `chosen` is `which`.
template <class Function>
inline void for_row_groups(std::int64_t rows, const bool* chosen, bool which, Function function) {
  for (std::int64_t r = 0; r < rows;) {
    if (chosen[r] != which) {
      ++r;
      continue;
    }
    std::int64_t end = r + 1;
    while (end < rows && end < r + 4 && chosen[end] == which) ++end;
    if (end == r + 4) {
      function.template run<4>(r);
      r += 4;
    } else if (end >= r + 2) {
      function.template run<2>(r);
      r += 2;
    } else {
      function.template run<1>(r++);
    }
  }
}
