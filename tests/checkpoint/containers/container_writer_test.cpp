#include "checkpoint/containers/container_writer.hpp"

#include <gtest/gtest.h>

#include <map>

#include "microscale/quantize.hpp"

namespace microscale {
namespace {

TEST(ContainerWriter, has_a_name_that_is_read_back) {
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    EXPECT_EQ(parse_container(to_string(container)), container);
  }
  EXPECT_EQ(parse_container("onnx"), std::nullopt);
}

TEST(ContainerWriter, global_scales_divide_or_multiply) {
  const ContainerWriter& divisors = writer_of(Container::compressed_tensors);
  const ContainerWriter& multipliers = writer_of(Container::modelopt);
  for (const float amax : {1e-30f, 0.013f, 6.0f, 1e30f}) {
    const float multiplier = nvfp4_global_scale(amax);
    EXPECT_EQ(multipliers.global_scale(multiplier), multiplier);
    EXPECT_EQ(1.0f / divisors.global_scale(multiplier), multiplier);
  }
  EXPECT_EQ(divisors.input_scale(WeightFormat::nvfp4, 3.0), 896.0f);
  EXPECT_EQ(multipliers.input_scale(WeightFormat::nvfp4, 2688.0 * 4), 4.0f);
}

TEST(ContainerWriter, tiles_lie_row_by_row_unless_a_container_says_otherwise) {
  std::vector<std::uint8_t> codes(2 * 32), scales(2 * 4), scratch;
  std::map<std::uint64_t, std::size_t> written;  // where, how many
  writer_of(Container::modelopt)
      .write_tile(
          {Format::nvfp4, 10, 64, {.row = 3, .rows = 2, .col = 0, .cols = 64}, codes, scales},
          {.codes = 1000, .scales = 5000}, scratch,
          {[&](std::uint64_t at, std::span<const std::uint8_t> bytes) {
            written[at] = bytes.size();
          }});
  const std::map<std::uint64_t, std::size_t> wanted{{1000 + 3 * 32, 64}, {5000 + 3 * 4, 8}};
  EXPECT_EQ(written, wanted);
}

}  // namespace
}  // namespace microscale
