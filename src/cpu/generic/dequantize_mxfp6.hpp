// MXFP6 to dense. A code's magnitude, in the lowest bits of FP16's exponent and the highest of its
// mantissa, is an FP16 number a power of two off, subnormals included. Included inside a target
// region (cpu/target_region.hpp).

struct E2M3Code {
  static constexpr int mantissa_bits = 3;
  static constexpr float unit = 0x1p14f;  // FP16's bias is 14 more
};
struct E3M2Code {
  static constexpr int mantissa_bits = 2;
  static constexpr float unit = 0x1p12f;
};

/// 2 * lanes codes, a byte each, of which the upper two bits are left out.
template <class Code, DType Type>
inline void decode_codes(const std::uint8_t* codes, float step, std::uint8_t* output,
                         bool past_cache) {
  constexpr int shift = 10 - Code::mantissa_bits;
  const Int wide = widen8(codes),
            half = or_(shl16<shift>(and_(wide, set16(0x1F))), shl16<10>(and_(wide, set16(0x20))));
  const Float unit = set_float(Code::unit), by = set_float(step);
  put_pair<Type>(output, mul(mul(low_f16(half), unit), by), mul(mul(high_f16(half), unit), by),
                 past_cache);
}

template <class Code, DType Type>
void dequantize_mxfp6_run(const cpu::DequantizeRun& run) {
  const bool past_cache = run.stream && is_aligned(run.output);
  auto* output = static_cast<std::uint8_t*>(run.output);
  for (std::int64_t block = 0; block < run.blocks; ++block) {
    const std::uint8_t* codes = run.codes + block * 32;
    prefetch(codes + codes_ahead, 32);
    for (int i = 0; i < 32; i += 2 * lanes)
      decode_codes<Code, Type>(codes + i, run.steps[run.scales[block]],
                               output + (block * 32 + i) * size_of(Type), past_cache);
  }
  if (past_cache) _mm_sfence();
}

template <class Code>
inline cpu::DequantizeKernel mxfp6_decoder(DType type) {
  return by_type(type, dequantize_mxfp6_run<Code, DType::f32>,
                 dequantize_mxfp6_run<Code, DType::f16>, dequantize_mxfp6_run<Code, DType::bf16>);
}
