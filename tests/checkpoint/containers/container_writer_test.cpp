#include "checkpoint/containers/container_writer.hpp"

#include <gtest/gtest.h>

#include "microscale/quantize.hpp"

namespace microscale {
namespace {

TEST(ContainerWriter, has_a_name_that_is_read_back) {
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    EXPECT_EQ(parse_container(to_string(container)), container);
  }
  EXPECT_EQ(parse_container("gguf"), std::nullopt);
}

TEST(ContainerWriter, global_scales_divide_or_multiply) {
  const ContainerWriter& divisors = writer_of(Container::compressed_tensors);
  const ContainerWriter& multipliers = writer_of(Container::modelopt);
  for (const float amax : {1e-30f, 0.013f, 6.0f, 1e30f}) {
    const float multiplier = nvfp4_global_scale(amax);
    EXPECT_EQ(multipliers.global_scale(multiplier), multiplier);
    EXPECT_EQ(1.0f / divisors.global_scale(multiplier), multiplier);
  }
  EXPECT_EQ(divisors.input_scale(3.0), 896.0f);
  EXPECT_EQ(multipliers.input_scale(2688.0 * 4), 4.0f);
}

}  // namespace
}  // namespace microscale
