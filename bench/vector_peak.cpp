// The most multiply-adds there are, of FP32 and of bytes: twelve sums in turn, so that none waits
// for its last one.
#include <cstdint>

#include "clock.hpp"
#include "core/threads.hpp"
#include "cpu/target_region.hpp"
#include "cpu_limits.hpp"

MICROSCALE_AVX2_BEGIN

float multiply_add_loop(std::int64_t rounds, float start) {
  const __m256 factor = _mm256_set1_ps(1.0f - start), term = _mm256_set1_ps(start);
  __m256 sums[12];
  MICROSCALE_UNROLL
  for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t r = 0; r < rounds; ++r) {
    MICROSCALE_UNROLL
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  MICROSCALE_UNROLL
  for (int i = 1; i < 12; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  return _mm256_cvtss_f32(sums[0]);
}

int multiply_bytes_loop(std::int64_t rounds, int start) {
  const __m256i a = _mm256_set1_epi8(static_cast<char>(start)), b = _mm256_set1_epi8(3);
  __m256i sums[12];
  MICROSCALE_UNROLL
  for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_epi16(static_cast<short>(i));
  for (std::int64_t r = 0; r < rounds; ++r) {
    MICROSCALE_UNROLL
    for (int i = 0; i < 12; ++i) {
      __m256i product = _mm256_maddubs_epi16(a, b);
      asm("" : "+x"(product));  // or it would leave the loop
      sums[i] = _mm256_add_epi16(sums[i], product);
    }
  }
  MICROSCALE_UNROLL
  for (int i = 1; i < 12; ++i) sums[0] = _mm256_add_epi16(sums[0], sums[i]);
  return _mm256_cvtsi256_si32(sums[0]);
}

MICROSCALE_AVX2_END

MICROSCALE_VNNI_BEGIN

int multiply_bytes_loop(std::int64_t rounds, int start) {
  const __m512i a = _mm512_set1_epi8(static_cast<char>(start)), b = _mm512_set1_epi8(3);
  __m512i sums[12];
  MICROSCALE_UNROLL
  for (int i = 0; i < 12; ++i) sums[i] = _mm512_set1_epi32(i);
  for (std::int64_t r = 0; r < rounds; ++r) {
    MICROSCALE_UNROLL
    for (int i = 0; i < 12; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
  }
  MICROSCALE_UNROLL
  for (int i = 1; i < 12; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  return _mm512_cvtsi512_si32(sums[0]);
}

MICROSCALE_VNNI_END

MICROSCALE_AVX512_BEGIN

float multiply_add_loop(std::int64_t rounds, float start) {
  const __m512 factor = _mm512_set1_ps(1.0f - start), term = _mm512_set1_ps(start);
  __m512 sums[12];
  MICROSCALE_UNROLL
  for (int i = 0; i < 12; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t r = 0; r < rounds; ++r) {
    MICROSCALE_UNROLL
    for (int i = 0; i < 12; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  MICROSCALE_UNROLL
  for (int i = 1; i < 12; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

MICROSCALE_AVX512_END

namespace microscale::bench {
namespace {

/// `terms`: products of one instruction.
template <class Number>
double peak_of(Number (*loop)(std::int64_t, Number), Number start, int terms, int threads,
               bool brief) {
  const std::int64_t rounds = brief ? 10000 : 1 << 20;
  const double seconds = seconds_of([&] {
    parallel_for(threads, threads, [&](std::int64_t) {
      volatile Number kept = loop(rounds, start);
      static_cast<void>(kept);
    });
  });
  return 2.0 * 12 * terms * static_cast<double>(rounds) * threads / seconds;
}

}  // namespace

double avx2_peak(int threads, bool brief) {
  return peak_of(avx2::multiply_add_loop, 0.25f, 8, threads, brief);
}
double avx512_peak(int threads, bool brief) {
  return peak_of(avx512::multiply_add_loop, 0.25f, 16, threads, brief);
}

Peak arithmetic_peak(Backend backend, int threads, bool brief) {
  if (backend == Backend::automatic) backend = available_backends().front();
  if (backend == Backend::amx) return {"AMX", amx_peak(threads, brief)};
  if (backend == Backend::avx512) return {"FMA", avx512_peak(threads, brief)};
  if (backend == Backend::avx2) return {"FMA", avx2_peak(threads, brief)};
  return {};
}

Peak codes_peak(Backend backend, int threads, bool brief) {
  if (backend == Backend::automatic) backend = available_backends().front();
  if (backend == Backend::avx512 && __builtin_cpu_supports("avx512vnni"))
    return {"INT8", peak_of(vnni::multiply_bytes_loop, 5, 64, threads, brief)};
  if (backend == Backend::avx2)
    return {"INT8", peak_of(avx2::multiply_bytes_loop, 5, 32, threads, brief)};
  return arithmetic_peak(backend, threads, brief);
}

}  // namespace microscale::bench
