// FP32, FP16 and BF16 in and out of vectors. Included inside a target region
// (cpu/target_region.hpp).

inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

inline Int magnitude_mask32() { return set32(0x7FFFFFFFu); }

/// 2 * lanes elements as FP32. For BF16 `a` has the even elements and `b` the odd ones; otherwise
/// the first and the second half. pack_pair is the way back.
template <DType Type>
inline void load_pair(const void* p, Float& a, Float& b) {
  if constexpr (Type == DType::bf16) {
    const Int both = load(p);
    a = as_float(shl32<16>(both));
    b = as_float(and_(both, set32(0xFFFF0000u)));
  } else if constexpr (Type == DType::f16) {
    a = from_f16(p);
    b = from_f16(static_cast<const std::uint8_t*>(p) + 2 * lanes);
  } else {
    a = load_float(static_cast<const float*>(p));
    b = load_float(static_cast<const float*>(p) + lanes);
  }
}

/// Numbers in [0, 32767] of such a pair as 16-bit lanes in order.
template <DType Type>
inline Int pack_pair(Int a, Int b) {
  if constexpr (Type == DType::bf16)
    return interleave(a, b);
  else
    return in_order(pack32(a, b));
}

/// The one of three functions that is for `type`.
template <class Function>
inline Function by_type(DType type, Function f32, Function f16, Function bf16) {
  return type == DType::bf16 ? bf16 : type == DType::f16 ? f16 : f32;
}

/// `lanes` elements in order as FP32.
template <DType Type>
inline Float load_floats(const void* p) {
  if constexpr (Type == DType::bf16)
    return as_float(shl32<16>(widen16(p)));
  else if constexpr (Type == DType::f16)
    return from_f16(p);
  else
    return load_float(static_cast<const float*>(p));
}

/// `count` elements in order as FP32; count is a multiple of lanes.
template <DType Type>
inline void to_floats(const void* p, int count, float* output) {
  for (int i = 0; i < count; i += lanes)
    store_float(output + i,
                load_floats<Type>(static_cast<const std::uint8_t*>(p) + i * size_of(Type)));
}

inline void to_floats(const void* p, DType type, std::int64_t count, float* output) {
  const int n = static_cast<int>(count);
  if (type == DType::bf16) return to_floats<DType::bf16>(p, n, output);
  if (type == DType::f16) return to_floats<DType::f16>(p, n, output);
  to_floats<DType::f32>(p, n, output);
}

/// FP32 with any NaN made canonical.
inline Float canonical(Float v) { return choose(unordered(v), as_float(magnitude_mask32()), v); }

/// Nearest-even BF16 of 2 * lanes values in order; NaN canonical.
inline Int to_bf16(Float a, Float b) {
  const Int one = set32(1), bias = set32(0x7FFFu);
  Int x = as_int(a), y = as_int(b);
  x = shr32<16>(add32(x, add32(bias, and_(shr32<16>(x), one))));
  y = shr32<16>(add32(y, add32(bias, and_(shr32<16>(y), one))));
  x = choose32(unordered(a), bias, x);
  y = choose32(unordered(b), bias, y);
  return in_order(pack32_unsigned(x, y));
}

inline void put(void* p, Int v, bool past_cache) {
  if (past_cache)
    stream(p, v);
  else
    store(p, v);
}

/// Writes 2 * lanes FP32 values as `Type`.
template <DType Type>
inline void put_pair(void* p, Float a, Float b, bool past_cache) {
  if constexpr (Type == DType::f32) {
    put(p, as_int(canonical(a)), past_cache);
    put(static_cast<float*>(p) + lanes, as_int(canonical(b)), past_cache);
  } else if constexpr (Type == DType::f16) {
    put(p, to_f16(canonical(a), canonical(b)), past_cache);
  } else {
    put(p, to_bf16(a, b), past_cache);
  }
}

/// Asks for the cache lines of `bytes` bytes at p, each `stride`-th. Kernels ask for what they need
/// next beside each piece of work, so that memory and arithmetic overlap. Beyond the end of a
/// buffer it does nothing.
inline void prefetch(const std::uint8_t* p, int bytes, int stride = 1) {
  MICROSCALE_UNROLL
  for (int i = 0; i < bytes; i += 64 * stride)
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T1);
}

/// How far ahead of its reads a quantizer asks, in bytes of dense input, and a decoder, in bytes of
/// codes: the time of a read from memory (about 150 ns) at one core's share of its bandwidth,
/// twice.
inline constexpr int dense_ahead = 8192, codes_ahead = 2048;

inline bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % vector_bytes == 0;
}
