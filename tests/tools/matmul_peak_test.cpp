// The kernels that measure Hopper's matrix units multiply what they say they do, and the emulator
// finds no fault with them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "formats/random.hpp"
#include "matmul_peak.hpp"
#include "microscale/emulator.hpp"

namespace microscale::cuda {
namespace {

using namespace emulator;

constexpr int rounds = 2, row_bytes = 128;

std::string peak_ptx() {
  if (bench_images().empty()) return {};
  const auto ptx = bench_images().front().ptx.bytes();
  return {ptx.begin(), ptx.end()};
}

// Byte `at` of row `row` of the matrix that begins at word `first`: chunks of 16 bytes are
// swizzled.
std::uint8_t byte_of(std::uint32_t first, int row, int at) {
  const int swizzled = row * row_bytes + ((at / 16) ^ (row % 8)) * 16 + at % 16;
  const std::uint32_t word = mix32(first + static_cast<std::uint32_t>(swizzled) / 4) & 0xBFBFBFBFu;
  return static_cast<std::uint8_t>(word >> (8 * (swizzled % 4)));
}

double value_of(std::uint32_t first, int row, int k, bool f16) {
  if (!f16) return E4M3::decode(byte_of(first, row, k));
  return f16_to_float(
      static_cast<std::uint16_t>(byte_of(first, row, 2 * k) | byte_of(first, row, 2 * k + 1) << 8));
}

// What thread `t` of a warpgroup holds of d, added up.
double wanted_sum(int t, bool f16) {
  double sum = 0;
  for (int i = 0; i < 64; ++i) {
    const int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
    const int col = 8 * (i / 4) + 2 * (t % 4) + i % 2;
    for (int k = 0; k < (f16 ? 64 : 128); ++k)
      sum += rounds * value_of(0, row, k, f16) * value_of(64 * row_bytes / 4, col, k, f16);
  }
  return sum;
}

TEST(MatmulPeak, multiplies_all_of_its_matrices_in_every_round) {
  const std::string text = peak_ptx();
  if (text.empty()) GTEST_SKIP() << "this build carries no kernels for sm_90a alone";
  emulator::Memory memory;
  const emulator::Module module(memory, text);
  for (const bool f16 : {true, false}) {
    struct Parameter {
      std::uint64_t output;
      std::int32_t rounds, padding;
    } parameter{memory.allocate(4 * matmul_peak_threads), rounds, 0};
    LaunchRequest request{};
    request.kernel = f16 ? "matmul_peak_f16" : "matmul_peak_e4m3";
    request.block = {matmul_peak_threads};
    request.arguments = arguments(parameter);
    const auto report = launch(memory, module, request);
    for (const Finding& finding : report.findings) ADD_FAILURE() << to_sentence(finding);
    std::vector<float> sums(matmul_peak_threads);
    memory.read(sums.data(), parameter.output, 4 * sums.size());
    for (const int t : {0, 1, 37, 127}) {
      EXPECT_NEAR(sums[static_cast<std::size_t>(t)], wanted_sum(t, f16), 0.5) << t;
      EXPECT_EQ(sums[static_cast<std::size_t>(t)], sums[static_cast<std::size_t>(t + 128)]) << t;
    }
  }
}

}  // namespace
}  // namespace microscale::cuda
