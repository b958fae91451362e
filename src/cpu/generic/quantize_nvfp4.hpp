// Dense to NVFP4 under a given global scale. Included inside a target region
// (cpu/target_region.hpp).

// Adding 2^22 times the power of two u below a magnitude y (at least 1) rounds it to a multiple of
// u / 2: the sum's last bits count halves of u (n), its exponent is u's plus 149. The code is n + 2
// log2(u), so 64 times (code + 298) is one dot product of the sum's two 16-bit halves away. Clamp:
// y may be 7 or more.
inline constexpr int fp4_offset = 2 * 149;

template <bool Clamp>
inline Float add_magic(Float y) {
  if constexpr (Clamp) y = min_magnitude(y, set_float(6.0f));
  const Float unit = max_magnitude(and_float(y, as_float(set32(0x7F800000u))), set_float(1.0f));
  return fma(unit, set_float(0x1p22f), y);
}

/// Weights of a dot product that multiply the lower 16-bit number by `low`, the upper one by
/// `high`.
inline Int dot_weights(std::uint32_t low, std::uint32_t high) { return set32(low | high << 16); }

/// 2 * lanes BF16 to codes, two in the low byte of each 32-bit lane, plus a constant below 2^16.
/// Even and odd elements share a lane already; signs are added by one more dot product.
inline constexpr int pair_offset = 17 * fp4_offset;
template <bool Clamp>
inline Int fp4_pairs(const void* x, const float* multipliers) {
  const Int element = load(x), magnitude = and_(element, set16(0x7FFF));
  Float ma, mb;
  spread16<DType::bf16>(multipliers, ma, mb);
  const Int even = as_int(add_magic<Clamp>(mul(as_float(shl32<16>(magnitude)), ma)));
  const Int odd = as_int(add_magic<Clamp>(mul(as_float(and_(magnitude, set32(0xFFFF0000u))), mb)));
  const Int sum = add32(dot16(even, dot_weights(64, 1)), dot16(odd, dot_weights(64 * 16, 16)));
  const Int sign = dot16(shr16<15>(element), dot_weights(64 * 8, 64 * 128));
  return shr32<6>(add32(sum, sign));
}

/// 2 * lanes elements to codes in 16-bit lanes in order, without their signs.
template <DType Type, bool Clamp>
inline Int fp4_codes(const void* x, const float* multipliers) {
  const Float magnitude = as_float(set32(0x7FFFFFFFu));
  Float a, b, ma, mb;
  load_pair<Type>(x, a, b);
  spread16<Type>(multipliers, ma, mb);
  const Int even = as_int(add_magic<Clamp>(mul(and_float(a, magnitude), ma)));
  const Int odd = as_int(add_magic<Clamp>(mul(and_float(b, magnitude), mb)));
  const Int weights = dot_weights(64, 1);
  const Int sums = pack_pair<Type>(dot16(even, weights), dot16(odd, weights));
  return shr16<6>(sub16(sums, set16(64 * fp4_offset)));
}

/// 16-bit lanes in order whose top bit is each element's sign.
template <DType Type>
inline Int signs(const void* x) {
  if constexpr (Type != DType::f32)
    return load(x);
  else
    return in_order(pack32(load(x), load(static_cast<const float*>(x) + lanes)));
}

/// Encodes 4 vector pairs of elements.
template <DType Type, bool Clamp>
inline Int nvfp4_codes(const std::uint8_t* x, const float* multipliers) {
  constexpr int bytes = 2 * lanes * (Type == DType::f32 ? 4 : 2), blocks = lanes / 8;
  Int pair[2];
  MICROSCALE_UNROLL
  for (int j = 0; j < 2; ++j) {
    const std::uint8_t *x0 = x + 2 * j * bytes, *x1 = x0 + bytes;
    const float *m0 = multipliers + 2 * j * blocks, *m1 = m0 + blocks;
    if constexpr (Type == DType::bf16)
      pair[j] = sub16(pack32_unsigned(fp4_pairs<Clamp>(x0, m0), fp4_pairs<Clamp>(x1, m1)),
                      set16(pair_offset));
    else
      pair[j] = or_(pack16(fp4_codes<Type, Clamp>(x0, m0), fp4_codes<Type, Clamp>(x1, m1)),
                    sign_nibbles(signs<Type>(x0), signs<Type>(x1)));
  }
  if constexpr (Type == DType::bf16)
    return in_order_twice(pack16(pair[0], pair[1]));
  else
    return merge_nibbles(pair[0], pair[1]);
}

/// The largest magnitude of each of `lanes` blocks.
template <DType Type>
inline Float block_amax(const std::uint8_t* input) {
  if constexpr (Type == DType::f32) {
    alignas(64) std::uint32_t patterns[lanes];
    for (int i = 0; i < lanes; i += 8)
      _mm256_store_si256(reinterpret_cast<__m256i*>(patterns + i),
                         block_max_of_16_f32(reinterpret_cast<const float*>(input) + i * 16));
    return as_float(load(patterns));
  } else {
    const Int largest = block_max_of_16(reinterpret_cast<const std::uint16_t*>(input));
    return Type == DType::bf16 ? as_float(shl32<16>(largest)) : widen_f16(largest);
  }
}

/// As mx_chunk.
inline constexpr int nvfp4_chunk = 4 * lanes;

/// Encodes a chunk of blocks whose scales are known: elements times the block's multiplier, in
/// FP32.
template <DType Type>
class ByMultiplier {
 public:
  explicit ByMultiplier(const Nvfp4Call& call) : call_(call) {}
  /// Forgets the last chunk.
  void start() { largest_scaled_ = set_float(0.0f); }
  /// Blocks i ... i + lanes - 1 of the chunk have these scales and largest magnitudes.
  void add_scales(int i, Int code, Float largest) {
    const Float multiplier = nvfp4_multipliers(decode_ue4m3(code), call_);
    store_float(multipliers_ + i, multiplier);
    // In this order: where an instruction set's maximum has a NaN (a block that is redone anyway),
    // it gives its second operand.
    largest_scaled_ = max_magnitude(mul(largest, multiplier), largest_scaled_);
  }
  /// Whether it gives the reference's codes for every block of finite numbers.
  static constexpr bool covers_call() { return true; }
  /// Encodes `count` blocks, a multiple of `lanes`.
  template <bool Search>
  void encode(const std::uint8_t* x, int count, std::uint8_t* codes, bool past_cache) const {
    if (!Search && bits_of(less(largest_scaled_, set_float(7.0f))) == (1u << lanes) - 1)
      encode_all<false>(x, count, codes, past_cache);
    else
      encode_all<true>(x, count, codes, past_cache);
  }

 private:
  template <bool Clamp>
  void encode_all(const std::uint8_t* x, int count, std::uint8_t* codes, bool past_cache) const {
    constexpr int block_bytes = 16 * (Type == DType::f32 ? 4 : 2), step = lanes / 2;  // blocks
    for (int i = 0; i < count; i += step) {
      prefetch(x + dense_ahead + i * block_bytes + 64, step * block_bytes, 2);
      put(codes + i * 8, nvfp4_codes<Type, Clamp>(x + i * block_bytes, multipliers_ + i),
          past_cache);
    }
  }

  const Nvfp4Call& call_;
  alignas(64) float multipliers_[nvfp4_chunk];
  Float largest_scaled_;
};

template <DType Type, class Encoder, bool Search, bool Weighted>
void quantize_nvfp4_run(const cpu::QuantizeRun& run) {
  constexpr int block_bytes = 16 * (Type == DType::f32 ? 4 : 2);
  const float g = run.call->global_scale;
  const Nvfp4Call call{g, cpu::nvfp4_factor(g), run.call->numerics.scale_rule};
  const bool past_cache = run.stream && is_aligned(run.codes);
  alignas(64) float amax[nvfp4_chunk];
  Encoder encoder(call);
  for (std::int64_t first = 0; first < run.blocks; first += nvfp4_chunk) {
    const int count =
        run.blocks - first < nvfp4_chunk ? static_cast<int>(run.blocks - first) : nvfp4_chunk;
    const auto* input = static_cast<const std::uint8_t*>(run.input) + first * block_bytes;
    for (int i = 0; i < count; i += lanes) {
      prefetch(input + dense_ahead + i * block_bytes, lanes * block_bytes, 2);
      store_float(amax + i, block_amax<Type>(input + i * block_bytes));
    }
    std::uint64_t redo = 0;
    encoder.start();
    for (int i = 0; i < count; i += lanes) {
      const Float largest = load_float(amax + i);
      const Float target = mul(largest, set_float(call.scale_factor));
      Int code = encode_ue4m3(target);
      if constexpr (Search)
        code = search_nvfp4<Type, Weighted>(input + i * block_bytes,
                                            Weighted ? run.weights + (first + i) * 16 : nullptr,
                                            target, code, call);
      code = choose32(equal32(as_int(largest), zero()), zero(), code);
      encoder.add_scales(i, code, largest);
      store_low_bytes(run.scales + first + i, code);
      const Mask finite = less(largest, as_float(set32(0x7F800000u)));  // else the reference's
      const std::uint32_t done = encoder.covers_call() ? bits_of(finite) : 0;
      redo |= std::uint64_t{~done & ((1u << lanes) - 1)} << i;
    }
    encoder.template encode<Search>(input, count, run.codes + first * 8, past_cache);
    if (__builtin_expect(redo != 0, false)) cpu::requantize(run, first, redo);
  }
  if (past_cache) _mm_sfence();
}

template <DType Type, class Encoder>
inline cpu::QuantizeKernel nvfp4_kernel_of(bool search, bool weighted) {
  if (!search) return quantize_nvfp4_run<Type, Encoder, false, false>;
  return weighted ? quantize_nvfp4_run<Type, Encoder, true, true>
                  : quantize_nvfp4_run<Type, Encoder, true, false>;
}

/// `Bf16Encoder`: ByMultiplier or something as good.
template <class Bf16Encoder>
inline cpu::QuantizeKernel nvfp4_kernel(const QuantizeLines& call) {
  const bool search = call.numerics.scale_rule != ScaleRule::nearest,
             weighted = call.weights != nullptr;
  switch (call.input_type) {
    case DType::f16:
      return nvfp4_kernel_of<DType::f16, ByMultiplier<DType::f16>>(search, weighted);
    case DType::bf16:
      return nvfp4_kernel_of<DType::bf16, Bf16Encoder>(search, weighted);
    case DType::f32:
      break;
  }
  return nvfp4_kernel_of<DType::f32, ByMultiplier<DType::f32>>(search, weighted);
}
