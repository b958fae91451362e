// Largest magnitude of a run. Included inside a target region (cpu/target_region.hpp).

/// Largest bit pattern without its sign. Patterns are ordered as the magnitudes are, NaN above
/// infinity.
template <int Bytes>
inline std::uint32_t largest_pattern(const void* input, std::int64_t count) {
  constexpr int step = vector_bytes / Bytes;
  const auto* p = static_cast<const std::uint8_t*>(input);
  const Int mask = Bytes == 4 ? set32(0x7FFFFFFFu) : set16(0x7FFF);
  Int largest[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    MICROSCALE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const Int v = and_(load(p + (i + j * step) * Bytes), mask);
      largest[j] = Bytes == 4 ? max32(largest[j], v) : max16(largest[j], v);
    }
  }
  alignas(64) std::uint8_t lane_bytes[4 * vector_bytes];
  for (int j = 0; j < 4; ++j) store(lane_bytes + j * vector_bytes, largest[j]);
  std::uint32_t result = 0;
  for (int j = 0; j < 4 * step; ++j) {
    std::uint32_t v = 0;
    __builtin_memcpy(&v, lane_bytes + j * Bytes, Bytes);
    if (v > result) result = v;
  }
  for (; i < count; ++i) {
    std::uint32_t v = 0;
    __builtin_memcpy(&v, p + i * Bytes, Bytes);
    v &= Bytes == 4 ? 0x7FFFFFFFu : 0x7FFFu;
    if (v > result) result = v;
  }
  return result;
}

inline AbsMaxRun abs_max_run(const void* input, DType type, std::int64_t count) {
  std::uint32_t pattern =
      type == DType::f32 ? largest_pattern<4>(input, count) : largest_pattern<2>(input, count);
  const std::uint32_t infinity = type == DType::f32   ? 0x7F800000u
                                 : type == DType::f16 ? 0x7C00u
                                                      : 0x7F80u;
  if (pattern > infinity)
    return reference_kernels.abs_max(input, type, count);  // NaN must not count
  const bool infinite = pattern == infinity;
  float amax;
  if (type == DType::f16) {
    amax = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(pattern))));
  } else {
    if (type == DType::bf16) pattern <<= 16;
    __builtin_memcpy(&amax, &pattern, sizeof(amax));
  }
  return {amax, infinite};
}
