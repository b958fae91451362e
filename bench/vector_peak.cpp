// The most FP32 multiply-adds there are: twelve sums in turn, so that none waits for its last one.
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

MICROSCALE_AVX2_END

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

template <class Loop>
double peak_of(Loop loop, int lanes, int threads, bool brief) {
  const std::int64_t rounds = brief ? 10000 : 1 << 20;
  const double seconds = seconds_of([&] {
    parallel_for(threads, threads, [&](std::int64_t i) {
      volatile float kept = loop(rounds, 0.25f + static_cast<float>(i) * 0.001f);
      static_cast<void>(kept);
    });
  });
  return 2.0 * 12 * lanes * static_cast<double>(rounds) * threads / seconds;
}

}  // namespace

double avx2_peak(int threads, bool brief) {
  return peak_of(avx2::multiply_add_loop, 8, threads, brief);
}
double avx512_peak(int threads, bool brief) {
  return peak_of(avx512::multiply_add_loop, 16, threads, brief);
}

Peak arithmetic_peak(Backend backend, int threads, bool brief) {
  if (backend == Backend::automatic) backend = available_backends().front();
  if (backend == Backend::amx) return {"AMX", amx_peak(threads, brief)};
  if (backend == Backend::avx512) return {"FMA", avx512_peak(threads, brief)};
  if (backend == Backend::avx2) return {"FMA", avx2_peak(threads, brief)};
  return {};
}

}  // namespace microscale::bench
