// Which processor a conversion gets, with and without a GPU.
#include "checkpoint/tile_quantizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "support/matrices.hpp"
#include "support/paths.hpp"

namespace microscale {
namespace {

template <class Call>
void expect_error(ErrorCode code, const std::string& words, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(TileQuantizer, is_the_host_unless_gpus_are_named) {
  const QuantizeModelOptions options;
  EXPECT_EQ(computed_on(options), "the CPU");
  const auto quantizer = open_quantizers(options)(0, {1000, 200, 30});
  const TileBuffers buffers = quantizer->buffers();
  EXPECT_EQ(buffers.input.size(), 1000u);
  EXPECT_EQ(buffers.codes.size(), 200u);
  EXPECT_EQ(buffers.scales.size(), 30u);
  const auto matrix = test::gaussian(DType::bf16, 4, 64);
  const QuantizeOptions tile{.input = matrix.view(), .format = Format::nvfp4, .tensor_amax = 0.5f};
  BlockTensor wanted = quantize(tile);
  const auto codes = buffers.codes.first(128), scales = buffers.scales.first(16);
  EXPECT_EQ(quantizer->quantize(tile, codes, scales), wanted.global_scale);
  EXPECT_TRUE(std::equal(codes.begin(), codes.end(), wanted.codes().begin()));
  EXPECT_TRUE(std::equal(scales.begin(), scales.end(), wanted.scales().begin()));
}

// Stands in for a GPU: takes tiles without importance weights, and gives bytes that no tile has.
struct SomeGpu final : TileQuantizer {
  explicit SomeGpu(int& taken) : taken(taken) {}
  TileBuffers buffers() override { return {input, codes, scales}; }
  float quantize(const QuantizeOptions&, std::span<std::uint8_t> to,
                 std::span<std::uint8_t>) override {
    ++taken;
    std::ranges::fill(to, std::uint8_t{0xEE});
    return 3.0f;
  }
  int& taken;
  std::vector<std::uint8_t> input = std::vector<std::uint8_t>(1000), codes = input, scales = input;
};

TEST(TileQuantizer, leaves_to_the_host_what_a_gpu_does_not_offer) {
  int taken = 0;
  const auto quantizer = with_host_for_the_rest(
      std::make_unique<SomeGpu>(taken), [](const QuantizeOptions& options) -> std::string_view {
        return options.weights.empty() ? "" : "no weights";
      });
  const auto matrix = test::gaussian(DType::f32, 8, 64);
  const std::vector<float> weights(64, 2.0f);
  QuantizeOptions options{.input = matrix.view(), .format = Format::mxfp4, .weights = weights};
  BlockTensor wanted = quantize(options);
  const TileBuffers buffers = quantizer->buffers();
  const auto codes = buffers.codes.first(256), scales = buffers.scales.first(16);
  EXPECT_EQ(quantizer->quantize(options, codes, scales), wanted.global_scale);
  EXPECT_TRUE(std::equal(codes.begin(), codes.end(), wanted.codes().begin()));
  EXPECT_TRUE(std::equal(scales.begin(), scales.end(), wanted.scales().begin()));
  EXPECT_EQ(taken, 0);
  options.weights = {};
  EXPECT_EQ(quantizer->quantize(options, codes, scales), 3.0f);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(codes[0], 0xEE);
}

TEST(TileQuantizer, says_what_is_wrong_with_a_gpu_that_is_not_there) {
  QuantizeModelOptions options;
  options.gpus = {1000};
  const bool some = cuda::device_count() > 0;
  const ErrorCode code = some ? ErrorCode::invalid_argument : ErrorCode::unsupported;
  const std::string words = some ? "there is no GPU 1000" : cuda::unavailable_reason();
  expect_error(code, words, [&] { open_quantizers(options); });
  expect_error(code, words, [&] { computed_on(options); });
  expect_error(code, words, [&] {
    options.input = testing::test_data() + "/checkpoint";
    quantize_model(options);
  });
}

TEST(TileQuantizer, names_the_gpus_and_what_falls_back) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
  QuantizeModelOptions options;
  options.gpus = {0};
  EXPECT_EQ(computed_on(options).rfind("GPU 0 (", 0), 0u) << computed_on(options);
  options.importance = "weights.safetensors";
  EXPECT_NE(computed_on(options).find("importance weights on the CPU"), std::string::npos);
  options.numerics.compat = Compat::torchao;
  EXPECT_EQ(computed_on(options).rfind("the CPU, with the same bytes: ", 0), 0u);
}

}  // namespace
}  // namespace microscale
