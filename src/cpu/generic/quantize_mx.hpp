// Dense to MXFP4, MXFP6 and MXFP8. Elements are rounded in 16-bit integers: BF16 as it is, FP32 and
// FP16 as the upper half of FP32 rounded to odd. A power-of-two scale is then a subtraction from
// the pattern, and rounding to nearest even an addition. Included inside a target region
// (cpu/target_region.hpp).

/// What is subtracted from 16-bit patterns under scale byte b, for 8 blocks. Small bytes belong to
/// zero blocks (whose elements give code 0 under any) or to blocks the reference redoes.
template <class Element>
inline __m128i pattern_offsets(__m128i bytes) {
  const __m128i byte = _mm_max_epi16(bytes, _mm_set1_epi16(17));
  if constexpr (Element::mantissa_bits == 1)  // fp4_from_steps: 1/4 is pattern (b - 2) << 7
    return _mm_add_epi16(_mm_slli_epi16(byte, 7), _mm_set1_epi16(-(2 << 7) + 1 - 32));
  const int half = 1 << (6 - Element::mantissa_bits);
  return _mm_add_epi16(_mm_slli_epi16(byte, 7),
                       _mm_set1_epi16(static_cast<short>(-(Element::bias << 7) - (half - 1))));
}

/// Patterns to codes before saturation; `offset` from pattern_offsets. Ties: the last kept bit is
/// added.
template <class Element>
inline Int rounded_steps(Int x, Int offset) {
  constexpr int kept = 7 - Element::mantissa_bits;  // the bit that is the code's last
  const Int t = subs16(add_bit16<kept>(and_(x, set16(0x7FFF))), offset);
  return shr16 < Element::mantissa_bits == 1 ? 5 : kept > (t);
}

/// Codes of subnormal elements of a vector under one scale byte: the FPU rounds |x| / scale at the
/// smallest step.
template <class Element>
inline Int subnormal_codes(Int x, std::uint16_t byte) {
  const Int m = and_(x, set16(0x7FFF));
  const Float magic = set_float(Element::subnormal_magic);
  const Float inverse = as_float(
      max32(shl32<23>(set32(254u - byte)), set32(0x00400000u)));  // 2^-127 is subnormal itself
  const Int even = as_int(add(mul(as_float(shl32<16>(m)), inverse), magic));
  const Int odd = as_int(add(mul(as_float(and_(m, set32(0xFFFF0000u))), inverse), magic));
  return interleave(and_(even, set32(0xFFFFu)), odd);
}

/// `code`, the packed codes of the two vectors at x, with those below the normal ones made right.
/// A function of its own because few blocks have any: its registers would be missing elsewhere.
template <class Element>
[[gnu::noinline]] Int with_subnormals(const std::uint16_t* x, std::uint16_t byte0,
                                      std::uint16_t byte1, Int code) {
  const Int subnormal = pack16(subnormal_codes<Element>(load(x), byte0),
                               subnormal_codes<Element>(load(x + 2 * lanes), byte1));
  return replace_below8(code, set8(1 << Element::mantissa_bits), subnormal);
}

/// Encodes 8 blocks, a code a byte, under the scales `bytes`; `offsets` from pattern_offsets.
template <class Element>
inline void encode_bytes(const std::uint16_t* x, const std::uint16_t* offsets,
                         const std::uint16_t* bytes, std::uint8_t* codes, bool past_cache) {
  constexpr int per_vector = 2 * lanes, vectors = 8 * 32 / per_vector;
  MICROSCALE_UNROLL
  for (int i = 0; i < vectors; i += 2) {
    const std::uint16_t* pair = x + i * per_vector;
    const Int x0 = load(pair), x1 = load(pair + per_vector);
    Int code = min8(pack16(rounded_steps<Element>(x0, spread32(offsets, i)),
                           rounded_steps<Element>(x1, spread32(offsets, i + 1))),
                    set8(Element::max_code));
    if (__builtin_expect(any_below8(code, set8(1 << Element::mantissa_bits)), false))
      code = with_subnormals<Element>(pair, bytes[i * per_vector / 32],
                                      bytes[(i + 1) * per_vector / 32], code);
    const Int signs = and_(pack16_signed(x0, x1), set8(0x80));
    code = or_(code, Element::sign_bit == 0x80 ? signs : shr16<2>(signs));
    put(codes + i * per_vector, in_order(code), past_cache);
  }
}

/// As encode_bytes.
inline void encode_fp4(const std::uint16_t* x, const std::uint16_t* offsets, std::uint8_t* codes,
                       bool past_cache) {
  constexpr int per_vector = 2 * lanes, vectors = 8 * 32 / per_vector;
  MICROSCALE_UNROLL
  for (int i = 0; i < vectors; i += 4) {
    Int pair[2];
    MICROSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int v = i + 2 * j;
      const Int x0 = load(x + v * per_vector), x1 = load(x + (v + 1) * per_vector);
      pair[j] = or_(fp4_from_steps(rounded_steps<Fp4>(x0, spread32(offsets, v)),
                                   rounded_steps<Fp4>(x1, spread32(offsets, v + 1))),
                    sign_nibbles(x0, x1));
    }
    put(codes + i * per_vector / 2, merge_nibbles(pair[0], pair[1]), past_cache);
  }
}

/// The search's choice between bytes and bytes + 1 for `lanes` blocks.
template <class Element, DType Type, bool Weighted>
inline void search_e8m0(const void* input, const float* weights, std::uint16_t* bytes) {
  alignas(64) float tile[32 * lanes], weight_tile[Weighted ? 32 * lanes : 1];
  load_tile<Type, 32>(input, tile);
  if constexpr (Weighted) load_weights<32>(weights, weight_tile);
  const Int byte = widen16(bytes);
  const Int pattern = shl32<23>(sub32(set32(254), byte));
  const Float inverse = as_float(pattern), half = as_float(sub32(pattern, set32(1u << 23)));
  const Float multipliers[2] = {inverse, half};
  Float errors[2];
  error_sums<Element, 32, 2, Weighted>(tile, weight_tile, multipliers, errors);
  const Mask up = less(mul(errors[1], set_float(4.0f)), errors[0]);
  alignas(64) std::uint32_t result[lanes];
  store(result, choose32(up, add32(byte, set32(1)), byte));
  for (int i = 0; i < lanes; ++i) bytes[i] = static_cast<std::uint16_t>(result[i]);
}

/// The upper halves of 8 blocks of FP32 or FP16: rounded to odd, they round to 6 bits or fewer, and
/// compare, as the whole numbers do.
template <DType Type>
inline void convert8(const std::uint8_t* input, std::uint16_t* output) {
  MICROSCALE_UNROLL
  for (int i = 0; i < 8 * 32; i += 2 * lanes) {
    Float a, b;
    load_pair<Type>(input + i * (Type == DType::f32 ? 4 : 2), a, b);
    store(output + i, upper_sticky(a, b));
  }
}

/// Blocks whose scales are found before the first of them is encoded: chains of dependent
/// instructions from elements to scale overlap, and the elements are still in the first-level
/// cache. No more than that takes: memory idles where reads and writes come in turns.
inline constexpr int mx_chunk = 2 * lanes;

template <class Element, DType Type, bool Weighted>
void quantize_mx_run(const cpu::QuantizeRun& run) {
  const E8M0Rule rule = e8m0_rule<Element>(run.call->numerics.scale_rule);
  constexpr int block_bytes = 32 * (Type == DType::f32 ? 4 : 2);
  constexpr int block_codes = Element::mantissa_bits == 1 ? 16 : 32;
  const bool past_cache = run.stream && is_aligned(run.codes);
  alignas(64) std::uint16_t converted[Type == DType::bf16 ? 1 : mx_chunk * 32];
  alignas(64) std::uint16_t bytes[mx_chunk], offsets[mx_chunk];
  for (std::int64_t first = 0; first < run.blocks; first += mx_chunk) {
    const int count =
        run.blocks - first < mx_chunk ? static_cast<int>(run.blocks - first) : mx_chunk;
    const auto* input = static_cast<const std::uint8_t*>(run.input) + first * block_bytes;
    const std::uint16_t* x = converted;
    if constexpr (Type == DType::bf16) x = reinterpret_cast<const std::uint16_t*>(input);
    std::uint64_t redo = 0;
    for (int i = 0; i < count; i += 8) {
      prefetch(input + dense_ahead + i * block_bytes, 8 * block_bytes, 2);  // the other half below
      if constexpr (Type != DType::bf16)
        convert8<Type>(input + i * block_bytes, converted + i * 32);
      const __m128i amax = block_max_of_32(x + i * 32);
      redo |= std::uint64_t{needs_reference(amax)} << i;
      const __m128i byte = e8m0_bytes(amax, rule);
      _mm_store_si128(reinterpret_cast<__m128i*>(bytes + i), byte);
    }
    if (rule.search)
      for (int i = 0; i < count; i += lanes)
        search_e8m0<Element, Type, Weighted>(input + i * block_bytes,
                                             Weighted ? run.weights + (first + i) * 32 : nullptr,
                                             bytes + i);
    for (int i = 0; i < count; i += 8) {
      const __m128i byte = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + i));
      _mm_store_si128(reinterpret_cast<__m128i*>(offsets + i), pattern_offsets<Element>(byte));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(run.scales + first + i),
                       _mm_packus_epi16(byte, byte));
    }
    for (int i = 0; i < count; i += 8) {
      prefetch(input + dense_ahead + i * block_bytes + 64, 8 * block_bytes, 2);
      std::uint8_t* codes = run.codes + (first + i) * block_codes;
      if constexpr (Element::mantissa_bits == 1)
        encode_fp4(x + i * 32, offsets + i, codes, past_cache);
      else
        encode_bytes<Element>(x + i * 32, offsets + i, bytes + i, codes, past_cache);
    }
    if (__builtin_expect(redo != 0, false)) cpu::requantize(run, first, redo);
  }
  if (past_cache) _mm_sfence();
}

template <class Element>
cpu::QuantizeKernel quantize_mx(const QuantizeLines& call) {
  const bool weighted = call.weights && call.numerics.scale_rule == ScaleRule::search;
  switch (call.input_type) {
    case DType::f16:
      return weighted ? quantize_mx_run<Element, DType::f16, true>
                      : quantize_mx_run<Element, DType::f16, false>;
    case DType::bf16:
      return weighted ? quantize_mx_run<Element, DType::bf16, true>
                      : quantize_mx_run<Element, DType::bf16, false>;
    case DType::f32:
      break;
  }
  return weighted ? quantize_mx_run<Element, DType::f32, true>
                  : quantize_mx_run<Element, DType::f32, false>;
}
