// The entries of a table of matrix products made of dot products: each chooses the decoder of b's
// format. Included inside a target region, after the decoders and matmul_dot.hpp.

inline bool dot_supports(const MatmulProduct& product) { return cpu::covers_matmul(product); }

inline bool dot_in_range(const MatmulProduct&, const MatmulRows&) { return true; }

inline std::int64_t dot_row_bytes(const MatmulProduct& product) {
  return steps_of<Nvfp4>(product.k) * Nvfp4::elements * static_cast<std::int64_t>(sizeof(Nvfp4::X));
}

inline void dot_prepare(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                        void* prepared, std::uint8_t* odd) {
  if (product.b_format == Format::nvfp4 || product.b_format == Format::mxfp4)
    return prepare_dot<Nvfp4>(product, first, count, prepared, odd);
  prepare_dot<Mxfp8<true>>(product, first, count, prepared, odd);
}

inline MatmulTileShape dot_shape(const MatmulProduct&) { return dot_tile_shape; }

inline void dot_multiply(const MatmulProduct& product, const MatmulTile& tile) {
  switch (product.b_format) {
    case Format::nvfp4:
      return multiply_dot<Nvfp4>(product, tile);
    case Format::mxfp4:
      return multiply_dot<Mxfp4>(product, tile);
    case Format::mxfp8_e4m3:
      return multiply_dot<Mxfp8<false>>(product, tile);
    default:
      return multiply_dot<Mxfp8<true>>(product, tile);
  }
}

/// The decoder with the most groups a step has the most.
inline std::int64_t dot_most_roundings(std::int64_t k) {
  const std::int64_t a = dot_roundings<Nvfp4>(k), b = dot_roundings<Mxfp8<true>>(k);
  return (a > b ? a : b) + Mxfp4::vectors;
}

inline constexpr MatmulKernels dot_kernels() {
  return {.supports = dot_supports,
          .weights_in_range = dot_in_range,
          .prepared_row_bytes = dot_row_bytes,
          .prepared_rows = 1,
          .prepare = dot_prepare,
          .tile_shape = dot_shape,
          .workspace_bytes = dot_workspace,
          .multiply = dot_multiply,
          .activate = activate_gates,
          .store = store_values,
          .roundings = dot_most_roundings};
}
