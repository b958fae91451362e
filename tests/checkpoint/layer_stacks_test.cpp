#include "checkpoint/layer_stacks.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(LayerStacks, are_told_by_their_names) {
  for (const char* stack : {"model.layers", "transformer.h", "gpt_neox.layers"}) {
    EXPECT_TRUE(is_main_stack(stack)) << stack;
  }
  EXPECT_FALSE(is_main_stack("visual.blocks"));
  EXPECT_TRUE(names_language_model("model.language_model.layers"));
  EXPECT_FALSE(names_language_model("vision_model.layers"));
  EXPECT_TRUE(is_diffusion_stack("transformer_blocks"));
  EXPECT_TRUE(is_diffusion_stack("model.diffusion_model.double_blocks"));
  EXPECT_FALSE(is_diffusion_stack("model.layers"));
}

}  // namespace
}  // namespace microscale
