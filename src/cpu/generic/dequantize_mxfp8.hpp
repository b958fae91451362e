// MXFP8 to dense. Codes are exponent and mantissa as in a wider float: BF16 takes a shift and an
// addition where all 32 codes and the results are normal numbers; everything else goes through
// FP16, whose conversion instruction knows subnormals. Included inside a target region
// (cpu/target_region.hpp).

struct E4M3Code {
  static constexpr int mantissa_bits = 3, bias = 7, smallest_normal = 0x08, first_special = 0x7F,
                       top = 15;
};
struct E5M2Code {
  static constexpr int mantissa_bits = 2, bias = 15, smallest_normal = 0x04, first_special = 0x7C,
                       top = 30;
};

/// All codes of Blocks blocks are normal numbers, and so are their values as BF16.
template <class Code, int Blocks>
inline bool all_normal(const std::uint8_t* codes, const std::uint8_t* scales) {
  const __m256i limit = _mm256_set1_epi8(Code::first_special - Code::smallest_normal);
  __m256i largest = _mm256_setzero_si256();
  bool fits = true;
  MICROSCALE_UNROLL
  for (int i = 0; i < Blocks; ++i) {
    // One subtraction tells both ends apart: codes below the smallest normal one wrap around.
    const __m256i above =
        _mm256_sub_epi8(_mm256_and_si256(load256(codes + i * 32), _mm256_set1_epi8(0x7F)),
                        _mm256_set1_epi8(Code::smallest_normal));
    largest = _mm256_max_epu8(largest, above);
    fits &= static_cast<unsigned>(scales[i] - Code::bias) <= static_cast<unsigned>(254 - Code::top);
  }
  const __m256i special = _mm256_cmpeq_epi8(_mm256_max_epu8(largest, limit), largest);
  return fits && _mm256_movemask_epi8(special) == 0;
}

/// A block for which all_normal holds, to BF16: sign, exponent and mantissa move to their places at
/// once.
template <class Code>
inline void normal_to_bf16(const std::uint8_t* codes, int scale, std::uint8_t* output,
                           bool past_cache) {
  constexpr int shift = 7 - Code::mantissa_bits;
  const Int offset = set16((scale - Code::bias) << 7), mask = set16(0x8000 | 0x7F << shift);
  MICROSCALE_UNROLL
  for (int i = 0; i < 32; i += 2 * lanes)
    put(output + i * 2, add16(and_(shl16<shift>(widen8_signed(codes + i)), mask), offset),
        past_cache);
}

/// 2 * lanes codes as FP32, exact, in order.
template <class Code>
inline void decode_pair(const std::uint8_t* codes, Float& a, Float& b) {
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

template <class Code, DType Type>
inline void decode_block(const std::uint8_t* codes, float step, std::uint8_t* output,
                         bool past_cache) {
  MICROSCALE_UNROLL
  for (int i = 0; i < 32; i += 2 * lanes) {
    Float a, b;
    decode_pair<Code>(codes + i, a, b);
    put_pair<Type>(output + i * (Type == DType::f32 ? 4 : 2), mul(a, set_float(step)),
                   mul(b, set_float(step)), past_cache);
  }
}

template <class Code, DType Type>
void dequantize_mxfp8_run(const cpu::DequantizeRun& run) {
  constexpr int output_bytes = 32 * (Type == DType::f32 ? 4 : 2), together = 4;  // blocks
  static_assert(lanes % together == 0, "a run is a multiple of `lanes` blocks");
  const bool past_cache = run.stream && is_aligned(run.output);
  auto* output = static_cast<std::uint8_t*>(run.output);
  for (std::int64_t first = 0; first < run.blocks; first += together) {
    prefetch(run.codes + first * 32 + codes_ahead, together * 32);
    if (Type == DType::bf16 &&
        all_normal<Code, together>(run.codes + first * 32, run.scales + first)) {
      MICROSCALE_UNROLL
      for (std::int64_t block = first; block < first + together; ++block)
        normal_to_bf16<Code>(run.codes + block * 32, run.scales[block],
                             output + block * output_bytes, past_cache);
      continue;
    }
    for (std::int64_t block = first; block < first + together; ++block) {
      const std::uint8_t* codes = run.codes + block * 32;
      const int scale = run.scales[block];
      std::uint8_t* out = output + block * output_bytes;
      if (Type == DType::bf16 && all_normal<Code, 1>(codes, run.scales + block))
        normal_to_bf16<Code>(codes, scale, out, past_cache);
      else
        decode_block<Code, Type>(codes, run.steps[scale], out, past_cache);
    }
  }
  if (past_cache) _mm_sfence();
}

template <class Code>
inline cpu::DequantizeKernel mxfp8_decoder(DType type) {
  return by_type(type, dequantize_mxfp8_run<Code, DType::f32>,
                 dequantize_mxfp8_run<Code, DType::f16>, dequantize_mxfp8_run<Code, DType::bf16>);
}
