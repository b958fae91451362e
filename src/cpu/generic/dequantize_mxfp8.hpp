// MXFP8 to dense. Codes are exponent and mantissa as in a wider float: BF16 takes a shift and an addition
// where all 32 codes and the results are normal numbers; everything else goes through FP16, whose
// conversion instruction knows subnormals. Included inside a target region (cpu/target_region.hpp).

struct E4M3Code {
  static constexpr int mantissa_bits = 3, bias = 7, smallest_normal = 0x08, first_special = 0x7F, top = 15;
};
struct E5M2Code {
  static constexpr int mantissa_bits = 2, bias = 15, smallest_normal = 0x04, first_special = 0x7C, top = 30;
};

/// All of 32 codes are normal numbers.
template <class Code> inline bool all_normal(const std::uint8_t* codes) {
  const __m256i c = load256(codes);
  const __m256i above = _mm256_sub_epi8(_mm256_and_si256(c, _mm256_set1_epi8(0x7F)),
                                        _mm256_set1_epi8(Code::smallest_normal));
  const __m256i limit = _mm256_set1_epi8(Code::first_special - Code::smallest_normal);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(above, limit), above)) == 0;
}

/// 2 * lanes codes as FP32, exact, in order.
template <class Code> inline void decode_pair(const std::uint8_t* codes, Float& a, Float& b) {
  const Int wide = widen8(codes);
  if constexpr (Code::mantissa_bits == 2) {  // the upper byte of an FP16 number
    const Int half = shl16<8>(wide);
    a = low_f16(half);
    b = high_f16(half);
  } else {  // an FP16 number whose exponent is 8 less
    const Int magnitude = and_(wide, set16(0x7F));
    Int half = or_(shl16<7>(magnitude), shl16<8>(and_(wide, set16(0x80))));
    half = or_where_equal16(half, set16(0x7FFF), magnitude, set16(0x7F));
    a = mul(low_f16(half), set_float(256.0f));
    b = mul(high_f16(half), set_float(256.0f));
  }
}

template <class Code, DType Type> void dequantize_mxfp8_run(const cpu::DequantizeRun& run) {
  constexpr int output_bytes = Type == DType::f32 ? 4 : 2, per_pair = 2 * lanes;
  const bool past_cache = run.stream && is_aligned(run.output);
  auto* output = static_cast<std::uint8_t*>(run.output);
  for (std::int64_t block = 0; block < run.blocks; ++block) {
    const std::uint8_t* codes = run.codes + block * 32;
    if (block % 2 == 0) prefetch(codes + prefetch_ahead, 64, 0);
    std::uint8_t* out = output + block * 32 * output_bytes;
    const int scale = run.scales[block];
    if constexpr (Type == DType::bf16) {
      if (scale >= Code::bias && scale - Code::bias + Code::top <= 254 && all_normal<Code>(codes)) {
        const Int offset = set16((scale - Code::bias) << 7);
        MICROSCALE_UNROLL
        for (int i = 0; i < 32; i += per_pair) {
          const Int wide = widen8(codes + i);
          const Int magnitude = shl16<7 - Code::mantissa_bits>(and_(wide, set16(0x7F)));
          const Int sign = shl16<8>(and_(wide, set16(0x80)));
          put(out + i * 2, or_(add16(magnitude, offset), sign), past_cache);
        }
        continue;
      }
    }
    const Float step = set_float(run.steps[scale]);
    MICROSCALE_UNROLL
    for (int i = 0; i < 32; i += per_pair) {
      Float a, b;
      decode_pair<Code>(codes + i, a, b);
      put_pair<Type>(out + i * output_bytes, mul(a, step), mul(b, step), past_cache);
    }
  }
  if (past_cache) _mm_sfence();
}

template <class Code> inline cpu::DequantizeKernel mxfp8_decoder(DType type) {
  switch (type) {
    case DType::f16: return dequantize_mxfp8_run<Code, DType::f16>;
    case DType::bf16: return dequantize_mxfp8_run<Code, DType::bf16>;
    case DType::f32: break;
  }
  return dequantize_mxfp8_run<Code, DType::f32>;
}
