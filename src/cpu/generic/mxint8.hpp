// Dense to MXINT8, and back. Its elements have seven significant bits, one more than upper halves
// of FP32 round to, so this is FP32. Included inside a target region (cpu/target_region.hpp).

/// Codes times 1/64 below 2, as round_to() and the search take them: no smaller unit than 1/64.
struct Int8Steps {
  static constexpr int mantissa_bits = 6;
  static constexpr float largest = 127.0f / 64.0f, smallest_normal = 1.0f;
};

/// The largest magnitude of 32 elements; infinity if one is NaN.
template <DType Type>
inline float largest_of_32(const std::uint8_t* input) {
  Int most = zero();
  MICROSCALE_UNROLL
  for (int i = 0; i < 32; i += lanes)
    most = max32_signed(
        most, and_(as_int(load_floats<Type>(input + i * size_of(Type))), magnitude_mask32()));
  return max_lanes(as_float(min32_signed(most, set32(0x7F800000u))));
}

template <DType Type>
inline void encode_int8(const std::uint8_t* input, std::uint32_t scale, std::uint8_t* codes) {
  const Float inverse =  // 2^-127 is subnormal
      as_float(max32(shl32<23>(set32(254u - scale)), set32(0x00400000u)));
  const Float largest = set_float(Int8Steps::largest), least = set_float(-Int8Steps::largest);
  MICROSCALE_UNROLL
  for (int i = 0; i < 32; i += lanes) {
    const Float y = mul(load_floats<Type>(input + i * size_of(Type)), inverse);
    const Int code = to_nearest_int(mul(max(min(y, largest), least), set_float(64.0f)));
    store_low_bytes(codes + i, and_(code, set32(0xFF)));
  }
}

template <DType Type, bool Weighted>
void quantize_mxint8_run(const cpu::QuantizeRun& run) {
  constexpr int block_bytes = 32 * static_cast<int>(size_of(Type));
  const ScaleRule rule = run.call->numerics.scale_rule;
  for (std::int64_t first = 0; first < run.blocks; first += lanes) {
    const auto* input = static_cast<const std::uint8_t*>(run.input) + first * block_bytes;
    alignas(64) std::uint16_t bytes[lanes];
    std::uint64_t redo = 0;
    for (int i = 0; i < lanes; ++i) {
      prefetch(input + dense_ahead + i * block_bytes, block_bytes);
      const float amax = largest_of_32<Type>(input + i * block_bytes);
      const bool finite = amax < __builtin_inff();
      bytes[i] = finite ? cpu::mxint8_scale(rule, amax) : 0;
      // The search's second scale has a subnormal inverse.
      if (!finite || (rule == ScaleRule::search && bytes[i] >= 253)) redo |= std::uint64_t{1} << i;
    }
    if (rule == ScaleRule::search)
      search_e8m0<Int8Steps, Type, Weighted>(input, Weighted ? run.weights + first * 32 : nullptr,
                                             bytes);
    for (int i = 0; i < lanes; ++i) {
      run.scales[first + i] = static_cast<std::uint8_t>(bytes[i]);
      encode_int8<Type>(input + i * block_bytes, bytes[i], run.codes + (first + i) * 32);
    }
    if (__builtin_expect(redo != 0, false)) cpu::requantize(run, first, redo);
  }
}

inline cpu::QuantizeKernel mxint8_encoder(const QuantizeLines& call) {
  if (call.weights && call.numerics.scale_rule == ScaleRule::search)
    return by_type(call.input_type, quantize_mxint8_run<DType::f32, true>,
                   quantize_mxint8_run<DType::f16, true>, quantize_mxint8_run<DType::bf16, true>);
  return by_type(call.input_type, quantize_mxint8_run<DType::f32, false>,
                 quantize_mxint8_run<DType::f16, false>, quantize_mxint8_run<DType::bf16, false>);
}

template <DType Type>
void dequantize_mxint8_run(const cpu::DequantizeRun& run) {
  const bool past_cache = run.stream && is_aligned(run.output);
  auto* output = static_cast<std::uint8_t*>(run.output);
  const Float unit = set_float(1.0f / 64.0f);
  for (std::int64_t block = 0; block < run.blocks; ++block) {
    const std::uint8_t* codes = run.codes + block * 32;
    prefetch(codes + codes_ahead, 32);
    const Float step = set_float(run.steps[run.scales[block]]);
    for (int i = 0; i < 32; i += 2 * lanes) {
      const Float a = mul(to_float(widen8_to_32(codes + i)), unit),
                  b = mul(to_float(widen8_to_32(codes + i + lanes)), unit);
      put_pair<Type>(output + (block * 32 + i) * size_of(Type), mul(a, step), mul(b, step),
                     past_cache);
    }
  }
  if (past_cache) _mm_sfence();
}

inline cpu::DequantizeKernel mxint8_decoder(DType type) {
  return by_type(type, dequantize_mxint8_run<DType::f32>, dequantize_mxint8_run<DType::f16>,
                 dequantize_mxint8_run<DType::bf16>);
}
