#include "checkpoint/tensor_name.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(TensorName, is_split_into_module_leaf_and_parent) {
  EXPECT_EQ(module_of("a.b.weight"), "a.b");
  EXPECT_EQ(module_of("a.b.bias"), "a.b.bias");
  EXPECT_EQ(module_of(".weight"), ".weight");
  EXPECT_EQ(leaf_of("a.b"), "b");
  EXPECT_EQ(leaf_of("b"), "b");
  EXPECT_EQ(parent_of("a.b.c"), "a.b");
  EXPECT_EQ(parent_of("c"), "");
  EXPECT_EQ(parts_of("a..b"), (std::vector<std::string_view>{"a", "", "b"}));
}

TEST(TensorName, outermost_repeated_layer_counts) {
  const std::string name = "model.layers.3.mlp.blocks.7.up_proj";
  EXPECT_EQ(repeated_layer_of(name),
            (RepeatedLayer{"model.layers", 3, "model.layers.3", "mlp.blocks.7.up_proj"}));
  EXPECT_EQ(repeated_layer_of("transformer.h.11.attn.c_attn.weight")->number, 11);
  EXPECT_EQ(repeated_layer_of("single_transformer_blocks.0.proj_out.weight")->stack,
            "single_transformer_blocks");
}

TEST(TensorName, numbers_elsewhere_are_no_layers) {
  for (const char* name : {"mlp1.0.weight", "model.layers.weight", "model.layers.3",
                           "model.layers.x.up_proj", "experts.3.up_proj.weight", "h.-1.a", ""}) {
    EXPECT_FALSE(repeated_layer_of(name)) << name;
  }
}

}  // namespace
}  // namespace microscale
