// The entries of a table of matrix products: few rows are dot products, many outer products, of
// codes as integers where both sides are FP4. Included inside a target region, after the decoders,
// matmul_dot.hpp, matmul_outer.hpp, matmul_codes.hpp, matmul_range.hpp and
//   multiply_integers()   multiply_codes (matmul_integers.hpp); null: it would not be faster here

enum class ProductWay { dot, outer, codes };

/// Rows from which on they are multiplied by outer products. Sums of fewer have another order.
inline constexpr std::int64_t many_rows = 16;

inline bool is_fp4(Format format) { return format == Format::nvfp4 || format == Format::mxfp4; }

inline bool by_codes(const MatmulProduct& product) {
  return product.m >= many_rows && !product.a.dense() && is_fp4(product.a.format) &&
         is_fp4(product.b_format) && multiply_integers() != nullptr;
}

inline ProductWay way_of(const MatmulProduct& product) {
  if (by_codes(product)) return ProductWay::codes;
  return product.m >= many_rows && product.weights_in_range ? ProductWay::outer : ProductWay::dot;
}

inline bool range_matters(const MatmulProduct& product) {
  return product.m >= many_rows && !by_codes(product) && product.b_format != Format::nvfp4;
}

inline bool vectors_in_range(const MatmulProduct& product, const MatmulRows& b) {
  return !range_matters(product) || rows_in_range(b, product.n, product.k);
}

inline std::int64_t prepared_bytes_of_row(const MatmulProduct& product) {
  if (by_codes(product)) return codes_row_bytes(product);
  return steps_of<Nvfp4>(product.k) * Nvfp4::elements * static_cast<std::int64_t>(sizeof(float));
}

inline std::int64_t rows_together(const MatmulProduct& product) {
  return way_of(product) == ProductWay::dot ? 1 : lanes;
}

/// FP4 codes of either format decode in one order, FP8 codes in another.
inline void prepare_rows(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                         void* prepared, std::uint8_t* odd) {
  const bool fp4 = is_fp4(product.b_format);
  switch (way_of(product)) {
    case ProductWay::codes:
      return prepare_codes(product, first, count, prepared, odd);
    case ProductWay::outer:
      return fp4 ? prepare_outer<Nvfp4>(product, first, count, prepared, odd)
                 : prepare_outer<Mxfp8<true>>(product, first, count, prepared, odd);
    case ProductWay::dot:
      return fp4 ? prepare_dot<Nvfp4>(product, first, count, prepared, odd)
                 : prepare_dot<Mxfp8<true>>(product, first, count, prepared, odd);
  }
}

inline MatmulTileShape shape_of_tile(const MatmulProduct& product) {
  return way_of(product) == ProductWay::dot ? dot_tile_shape : many_shape;
}

inline std::int64_t bytes_of_tile(const MatmulProduct& product) {
  switch (way_of(product)) {
    case ProductWay::codes:
      return ManyMemory<CodesRows<16>>::bytes();  // as with units of 32
    case ProductWay::outer:
      return ManyMemory<OuterProducts<Nvfp4>>::bytes();
    default:
      return dot_sums(product.m) * vector_bytes;
  }
}

template <class B>
inline void multiply_by(const MatmulProduct& product, const MatmulTile& tile) {
  if (way_of(product) == ProductWay::outer)
    return multiply_many<OuterProducts<B>>(product, tile, product.factor * B::factor);
  multiply_dot<B>(product, tile);
}

inline void multiply_rows(const MatmulProduct& product, const MatmulTile& tile) {
  if (by_codes(product)) return multiply_integers()(product, tile);
  switch (product.b_format) {
    case Format::nvfp4:
      return multiply_by<Nvfp4>(product, tile);
    case Format::mxfp4:
      return multiply_by<Mxfp4>(product, tile);
    case Format::mxfp8_e4m3:
      return multiply_by<Mxfp8<false>>(product, tile);
    default:
      return multiply_by<Mxfp8<true>>(product, tile);
  }
}

/// Of dot products, the decoder with the most groups a step has the most; of codes, each block's
/// sum is one term of an outer product.
inline std::int64_t most_roundings(std::int64_t k) {
  std::int64_t most = OuterProducts<Nvfp4>::roundings(k);
  for (const std::int64_t each :
       {dot_roundings<Nvfp4>(k) + Mxfp4::vectors, dot_roundings<Mxfp8<true>>(k)})
    most = each > most ? each : most;
  return most;
}

template <DType Type>
inline void store_floats(const float* values, std::int64_t count, std::uint8_t* output) {
  constexpr std::int64_t pair = 2 * lanes, bytes = Type == DType::f32 ? 4 : 2;
  std::int64_t i = 0;
  for (; i + pair <= count; i += pair)
    put_pair<Type>(output + i * bytes, load_float(values + i), load_float(values + i + lanes),
                   false);
  if (i == count) return;
  alignas(64) float last[pair] = {};
  alignas(64) std::uint8_t converted[pair * 4];
  __builtin_memcpy(last, values + i, static_cast<std::size_t>(count - i) * 4);
  put_pair<Type>(converted, load_float(last), load_float(last + lanes), false);
  __builtin_memcpy(output + i * bytes, converted, static_cast<std::size_t>((count - i) * bytes));
}

inline void store_values(const float* values, std::int64_t count, DType type, void* output) {
  auto* bytes = static_cast<std::uint8_t*>(output);
  if (type == DType::bf16) return store_floats<DType::bf16>(values, count, bytes);
  if (type == DType::f16) return store_floats<DType::f16>(values, count, bytes);
  store_floats<DType::f32>(values, count, bytes);
}

inline constexpr MatmulKernels vector_kernels() {
  return {.supports = cpu::covers_matmul,
          .asks_for_range = range_matters,
          .weights_in_range = vectors_in_range,
          .prepared_row_bytes = prepared_bytes_of_row,
          .prepared_rows = rows_together,
          .prepare = prepare_rows,
          .tile_shape = shape_of_tile,
          .workspace_bytes = bytes_of_tile,
          .multiply = multiply_rows,
          .activate = activate_gates,
          .store = store_values,
          .roundings = most_roundings};
}
