// MXFP4 and NVFP4 to dense: one table of 16 values for each scale byte, made at the start of a
// call, so that every special scale is just another table. Included inside a target region
// (cpu/target_region.hpp).

inline constexpr float fp4_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

template <DType Type, int Block>
void dequantize_fp4_run(const cpu::DequantizeRun& run) {
  constexpr int step_bytes = table_bytes<Type>, output_bytes = 32 * (Type == DType::f32 ? 4 : 2);
  alignas(64) std::uint8_t tables[256 * step_bytes];
  const Float a = load_float(fp4_values), b = load_float(fp4_values + 16 - lanes);
  for (int s = 0; s < 256; ++s) {
    const Float step = set_float(run.steps[s]);
    make_table<Type>(tables + s * step_bytes, mul(a, step), mul(b, step));
  }
  const bool past_cache = run.stream && is_aligned(run.output);
  auto* output = static_cast<std::uint8_t*>(run.output);
  const std::uint8_t *codes = run.codes, *scales = run.scales;
  const std::int64_t count = run.blocks * Block / 32;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 4 == 0) prefetch(codes + i * 16 + codes_ahead, 64);
    const std::uint8_t *first = tables + scales[i * 32 / Block] * step_bytes,
                       *second =
                           Block == 32 ? first : tables + scales[i * 32 / Block + 1] * step_bytes;
    decode_fp4<Type>(codes + i * 16, first, second, output + i * output_bytes, past_cache);
  }
  if (past_cache) _mm_sfence();
}

template <int Block>
inline cpu::DequantizeKernel fp4_decoder(DType type) {
  return by_type(type, dequantize_fp4_run<DType::f32, Block>, dequantize_fp4_run<DType::f16, Block>,
                 dequantize_fp4_run<DType::bf16, Block>);
}
