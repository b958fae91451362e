// Rows of what formats/producers.hpp defines, as reference/producers.cpp makes them, bit for bit.
// Included inside a target region (cpu/target_region.hpp).

inline const std::uint8_t* row_of(const TensorView& m, std::int64_t row) {
  return static_cast<const std::uint8_t*>(m.data) + row * m.row_stride * size_of(m.dtype);
}

/// `lanes` elements in FP32; what is read next is asked for, as far ahead as quantizers do.
template <DType Type>
inline Float next_floats(const std::uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p + dense_ahead), _MM_HINT_T1);
  return load_floats<Type>(p);
}

template <DType Type>
inline void silu_mul_row(const std::uint8_t* gate, const std::uint8_t* up, std::int64_t cols,
                         float* output) {
  for (std::int64_t i = 0; i < cols; i += lanes)
    store_float(output + i, canonical(silu_mul_lanes(next_floats<Type>(gate + i * size_of(Type)),
                                                     next_floats<Type>(up + i * size_of(Type)))));
}

template <DType Type>
void silu_mul_rows(const SiluMulOptions& o, std::int64_t first, std::int64_t count, float* output) {
  for (std::int64_t r = first; r < first + count; ++r, output += o.gate.cols)
    silu_mul_row<Type>(row_of(o.gate, r), row_of(o.up, r), o.gate.cols, output);
}

/// x + residual in their own type at `sum`, and in FP32; two vectors, or the last one alone.
template <DType Type>
inline void add_residual(const std::uint8_t* x, const std::uint8_t* residual, std::int64_t cols,
                         std::uint8_t* sum, float* output) {
  constexpr int bytes = lanes * size_of(Type);
  alignas(64) std::uint8_t last[2 * bytes];
  for (std::int64_t i = 0; i < cols; i += 2 * lanes) {
    const std::int64_t at = i * size_of(Type);
    const bool whole = i + 2 * lanes <= cols;
    const Float a = add(next_floats<Type>(x + at), next_floats<Type>(residual + at)),
                b = whole ? add(load_floats<Type>(x + at + bytes),
                                load_floats<Type>(residual + at + bytes))
                          : a;
    std::uint8_t* const to = whole ? sum + at : last;
    put_pair<Type>(to, a, b, false);
    store_float(output + i, load_floats<Type>(to));
    if (whole)
      store_float(output + i + lanes, load_floats<Type>(to + bytes));
    else
      __builtin_memcpy(sum + at, last, bytes);
  }
}

/// rms_group_sum of `lanes` groups side by side.
inline Float group_sums(const float* groups) {
  alignas(64) float tile[rms_group * lanes];
  for (int i = 0; i < rms_group; i += lanes) transpose(groups + i, rms_group, tile + i * lanes);
  Float sum[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < rms_group; ++i) {
    const Float x = load_float(tile + i * lanes);
    sum[i % 8] = i < 8 ? mul(x, x) : fma(x, x, sum[i % 8]);
  }
  return add(add(add(sum[0], sum[1]), add(sum[2], sum[3])),
             add(add(sum[4], sum[5]), add(sum[6], sum[7])));
}

inline float sum_of_squares(const float* row, std::int64_t cols) {
  constexpr std::int64_t segment = rms_group * rms_segment_groups, batch = rms_group * lanes;
  float total = 0;
  for (std::int64_t first = 0; first < cols; first += segment) {
    alignas(64) float sums[rms_segment_groups];
    const std::int64_t end = cols - first < segment ? cols : first + segment;
    int groups = 0;
    for (std::int64_t i = first; i < end; i += batch, groups += lanes) {
      alignas(64) float last[rms_group * lanes] = {};
      const float* from = row + i;
      if (i + batch > end) {
        __builtin_memcpy(last, from, static_cast<std::size_t>(end - i) * sizeof(float));
        from = last;
      }
      store_float(sums + groups, group_sums(from));
    }
    const float sum = sum_of_groups(sums, groups);
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

template <DType Type>
void rms_norm_rows(const RmsNormOptions& o, std::int64_t first, std::int64_t count, float* output) {
  const std::int64_t cols = o.input.cols;
  const auto* weight = static_cast<const std::uint8_t*>(o.weight);
  for (std::int64_t r = first; r < first + count; ++r, output += cols) {
    if (o.residual.data)
      add_residual<Type>(
          row_of(o.input, r), row_of(o.residual, r), cols,
          static_cast<std::uint8_t*>(o.sum.data) + r * o.sum.row_stride * size_of(Type), output);
    else
      for (std::int64_t i = 0; i < cols; i += lanes)
        store_float(output + i, next_floats<Type>(row_of(o.input, r) + i * size_of(Type)));
    const Float multiplier =
        set_float(row_multiplier(sum_of_squares(output, cols), cols, o.epsilon));
    for (std::int64_t i = 0; i < cols; i += lanes) {
      Float x = mul(load_float(output + i), multiplier);
      if (weight) x = mul(x, load_floats<Type>(weight + i * size_of(Type)));
      store_float(output + i, canonical(x));
    }
  }
}

template <DType Type, int Order>
inline void hadamard_row(const std::uint8_t* x, std::int64_t cols, const std::uint32_t* signs,
                         float* output) {
  for (std::int64_t start = 0; start < cols; start += Order) {
    Float run[Order / lanes];
    MICROSCALE_UNROLL
    for (int i = 0; i < Order / lanes; ++i)
      run[i] = flip_where(load(signs + i * lanes),
                          next_floats<Type>(x + (start + i * lanes) * size_of(Type)));
    hadamard_run<Order>(run);
    MICROSCALE_UNROLL
    for (int i = 0; i < Order / lanes; ++i)
      store_float(output + start + i * lanes, canonical(run[i]));
  }
}

template <DType Type, int Order>
void hadamard_rows(const HadamardOptions& o, std::int64_t first, std::int64_t count,
                   float* output) {
  alignas(64) std::uint32_t signs[Order];
  for (int i = 0; i < Order; ++i) signs[i] = o.negated[i / 32] >> (i % 32) << 31;
  for (std::int64_t r = first; r < first + count; ++r, output += o.input.cols)
    hadamard_row<Type, Order>(row_of(o.input, r), o.input.cols, signs, output);
}

template <DType Type>
void hadamard_of_order(const HadamardOptions& o, std::int64_t first, std::int64_t count,
                       float* output) {
  switch (o.order) {
    case 16:
      return hadamard_rows<Type, 16>(o, first, count, output);
    case 32:
      return hadamard_rows<Type, 32>(o, first, count, output);
    case 64:
      return hadamard_rows<Type, 64>(o, first, count, output);
    default:
      return hadamard_rows<Type, 128>(o, first, count, output);
  }
}

inline void silu_mul(const SiluMulOptions& o, std::int64_t first, std::int64_t count,
                     float* output) {
  by_type(o.gate.dtype, silu_mul_rows<DType::f32>, silu_mul_rows<DType::f16>,
          silu_mul_rows<DType::bf16>)(o, first, count, output);
}

inline void rms_norm(const RmsNormOptions& o, std::int64_t first, std::int64_t count,
                     float* output) {
  by_type(o.input.dtype, rms_norm_rows<DType::f32>, rms_norm_rows<DType::f16>,
          rms_norm_rows<DType::bf16>)(o, first, count, output);
}

inline void hadamard(const HadamardOptions& o, std::int64_t first, std::int64_t count,
                     float* output) {
  by_type(o.input.dtype, hadamard_of_order<DType::f32>, hadamard_of_order<DType::f16>,
          hadamard_of_order<DType::bf16>)(o, first, count, output);
}
