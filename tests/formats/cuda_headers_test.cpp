// The element codecs against the host paths of CUDA's own headers, where the toolkit is installed.
// With MICROSCALE_DEEP=1 (make check-deep) on every FP32 bit pattern.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>

#include "core/threads.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

#if __has_include(<cuda_fp4.h>)
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#define MICROSCALE_HAVE_CUDA_HEADERS 1
#endif

namespace microscale {
namespace {

#if defined(MICROSCALE_HAVE_CUDA_HEADERS)

// All BF16 values, and floats spread over the whole range, with ulp neighbours of every code's
// midpoints.
template <class Check>
void for_inputs(Check&& check) {
  for (unsigned bits = 0; bits < 65536; ++bits)
    check(bf16_to_float(static_cast<std::uint16_t>(bits)));
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 65521)
    check(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

template <class Codec, class Convert>
void expect_same(Convert&& convert) {
  for_inputs([&](float value) {
    ASSERT_EQ(int{Codec::encode(value, Rounding::nearest_even)}, int{convert(value)})
        << std::hexfloat << value;
  });
  if (!std::getenv("MICROSCALE_DEEP")) return;
  std::atomic<std::int64_t> differing = 0;
  parallel_for(65536, 0, [&](std::int64_t high) {
    std::int64_t count = 0;
    for (std::int64_t bits = high << 16; bits < (high + 1) << 16; ++bits) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      count += Codec::encode(value, Rounding::nearest_even) != convert(value);
    }
    differing += count;
  });
  EXPECT_EQ(differing, 0);
}

TEST(CudaHeaders, encode_e2m1_alike) {
  expect_same<E2M1>([](float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
}
TEST(CudaHeaders, encode_e4m3_alike) {
  expect_same<E4M3>([](float x) {
    const auto code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
    return std::isnan(x) ? static_cast<std::uint8_t>(code & 0x7F) : code;
  });
}
TEST(CudaHeaders, encode_e5m2_alike) {
  expect_same<E5M2>([](float x) {
    const auto code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
    return std::isnan(x) ? static_cast<std::uint8_t>(code & 0x7F) : code;
  });
}
TEST(CudaHeaders, encode_e2m3_alike) {
  expect_same<E2M3>([](float x) { return __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest); });
}
TEST(CudaHeaders, encode_e3m2_alike) {
  expect_same<E3M2>([](float x) { return __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest); });
}
TEST(CudaHeaders, decode_every_code_alike) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const auto same = [&](float ours, float theirs) {
      if (std::isnan(theirs))
        EXPECT_TRUE(std::isnan(ours)) << code;
      else
        EXPECT_EQ(ours, theirs) << code;
    };
    same(E4M3::decode(byte), static_cast<float>(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3))));
    same(E5M2::decode(byte), static_cast<float>(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2))));
    if (code < 64) {
      same(E2M3::decode(byte),
           static_cast<float>(__half(__nv_cvt_fp6_to_halfraw(byte, __NV_E2M3))));
      same(E3M2::decode(byte),
           static_cast<float>(__half(__nv_cvt_fp6_to_halfraw(byte, __NV_E3M2))));
    }
    if (code < 16)
      same(E2M1::decode(byte),
           static_cast<float>(__half(__nv_cvt_fp4_to_halfraw(byte, __NV_E2M1))));
    same(decode_e8m0(byte), static_cast<float>(__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(byte))));
  }
}
TEST(CudaHeaders, e8m0_rounding_up_is_rceil_of_a_quotient) {
  for_inputs([](float value) {
    if (!std::isfinite(value) || value <= 0) return;
    const auto theirs = __nv_cvt_float_to_e8m0(value, __NV_SATFINITE, cudaRoundPosInf);
    const auto ours = e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, value);
    ASSERT_EQ(int{ours}, int{theirs}) << std::hexfloat << value;
  });
}

#else

TEST(CudaHeaders, are_compared_where_installed) {
  GTEST_SKIP() << "no CUDA toolkit on this machine: its headers were not compared";
}

#endif

}  // namespace
}  // namespace microscale
