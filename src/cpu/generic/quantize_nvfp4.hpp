// Dense to NVFP4 under a given global scale. Included inside a target region (cpu/target_region.hpp).

/// E2M1 codes of 2 * lanes elements, as 16-bit lanes in order, not yet saturated at 7. Adding 2^22 times the
/// power of two u below |y| (at least 1) rounds to u / 2: the sum's last bits count halves of u (n), its
/// exponent is u's plus 149, and the code is n + 2 log2(u), one dot product away. |y| < 2^100.
template <DType Type> inline Int fp4_codes(const void* x, const float* multipliers) {
  const Float exponent = as_float(set32(0x7F800000u)), magnitude = as_float(set32(0x7FFFFFFFu));
  const Float one = set_float(1.0f), magic = set_float(0x1p22f);
  Float a, b, ma, mb;
  load_pair<Type>(x, a, b);
  spread16<Type>(multipliers, ma, mb);
  a = mul(and_float(a, magnitude), ma);
  b = mul(and_float(b, magnitude), mb);
  a = fma(max(and_float(a, exponent), one), magic, a);
  b = fma(max(and_float(b, exponent), one), magic, b);
  const Int weights = set32(64 | 1 << 16);  // 64 * n + (exponent << 7)
  const Int sums = pack_pair<Type>(dot16(as_int(a), weights), dot16(as_int(b), weights));
  return shr16<6>(sub16(sums, set16(64 * 2 * 149)));
}

/// 16-bit lanes in order whose top bit is each element's sign.
template <DType Type> inline Int signs(const void* x) {
  if constexpr (Type != DType::f32) return load(x);
  else return in_order(pack32(load(x), load(static_cast<const float*>(x) + lanes)));
}

template <DType Type>
inline void encode_nvfp4(const std::uint8_t* x, const float* multipliers, std::uint8_t* codes,
                         bool past_cache) {
  constexpr int per_vector = 2 * lanes, bytes = per_vector * (Type == DType::f32 ? 4 : 2);
  constexpr int blocks = per_vector / 16;
  MICROSCALE_UNROLL
  for (int i = 0; i < lanes / blocks; i += 4) {
    Int pair[2];
    MICROSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int v = i + 2 * j;
      const std::uint8_t *x0 = x + v * bytes, *x1 = x0 + bytes;
      const Int code = pack16(fp4_codes<Type>(x0, multipliers + v * blocks),
                              fp4_codes<Type>(x1, multipliers + (v + 1) * blocks));
      pair[j] = or_(min8(code, set8(7)), sign_nibbles(signs<Type>(x0), signs<Type>(x1)));
    }
    put(codes + i * per_vector / 2, merge_nibbles(pair[0], pair[1]), past_cache);
  }
}

template <DType Type> inline void block_amax16(const std::uint8_t* input, float* amax) {
  for (int i = 0; i < lanes; i += 8) {
    __m256i pattern;
    if constexpr (Type == DType::f32) {
      pattern = block_max32(reinterpret_cast<const float*>(input) + i * 16);
    } else {
      const __m128i largest = block_max16<16>(reinterpret_cast<const std::uint16_t*>(input) + i * 16);
      if constexpr (Type == DType::bf16) pattern = _mm256_slli_epi32(_mm256_cvtepu16_epi32(largest), 16);
      else pattern = _mm256_castps_si256(_mm256_cvtph_ps(largest));
    }
    _mm256_storeu_ps(amax + i, _mm256_castsi256_ps(pattern));
  }
}

/// As mx_chunk.
inline constexpr int nvfp4_chunk = 64;

template <DType Type, bool Weighted> void quantize_nvfp4_run(const cpu::QuantizeRun& run) {
  constexpr int block_bytes = 16 * (Type == DType::f32 ? 4 : 2);
  const float g = run.call->global_scale;
  const Nvfp4Call call{g, cpu::nvfp4_factor(g), run.call->numerics.scale_rule};
  const bool past_cache = run.stream && is_aligned(run.codes);
  alignas(64) float amax[nvfp4_chunk], multipliers[nvfp4_chunk];
  for (std::int64_t first = 0; first < run.blocks; first += nvfp4_chunk) {
    const int count =
        run.blocks - first < nvfp4_chunk ? static_cast<int>(run.blocks - first) : nvfp4_chunk;
    const auto* input = static_cast<const std::uint8_t*>(run.input) + first * block_bytes;
    for (int i = 0; i < count; i += lanes) block_amax16<Type>(input + i * block_bytes, amax + i);
    std::uint64_t redo = 0;
    for (int i = 0; i < count; i += lanes) {
      const Float largest = load_float(amax + i);
      const Int code = nvfp4_scales<Type, Weighted>(
          input + i * block_bytes, Weighted ? run.weights + (first + i) * 16 : nullptr, largest, call);
      const Float multiplier = nvfp4_multipliers(decode_ue4m3(code), call);
      store_float(multipliers + i, multiplier);
      store_low_bytes(run.scales + first + i, code);
      // Neither fp4_codes nor the search is right for NaN, infinity, or scaled values that leave the range.
      const Mask fits = less(mul(largest, multiplier), set_float(0x1p100f));
      const std::uint32_t bad = ~bits_of(both(fits, less(largest, as_float(set32(0x7F800000u)))));
      redo |= std::uint64_t{bad & ((1u << lanes) - 1)} << i;
    }
    for (int i = 0; i < count; i += lanes) {
      prefetch(input + (nvfp4_chunk + i) * block_bytes, lanes * block_bytes);
      encode_nvfp4<Type>(input + i * block_bytes, multipliers + i, run.codes + (first + i) * 8, past_cache);
    }
    if (__builtin_expect(redo != 0, false)) cpu::requantize(run, first, redo);
  }
  if (past_cache) _mm_sfence();
}

inline cpu::QuantizeKernel nvfp4_kernel(const QuantizeLines& call) {
  const bool weighted = call.weights && call.numerics.scale_rule != ScaleRule::nearest;
  switch (call.input_type) {
    case DType::f16:
      return weighted ? quantize_nvfp4_run<DType::f16, true> : quantize_nvfp4_run<DType::f16, false>;
    case DType::bf16:
      return weighted ? quantize_nvfp4_run<DType::bf16, true> : quantize_nvfp4_run<DType::bf16, false>;
    case DType::f32: break;
  }
  return weighted ? quantize_nvfp4_run<DType::f32, true> : quantize_nvfp4_run<DType::f32, false>;
}
