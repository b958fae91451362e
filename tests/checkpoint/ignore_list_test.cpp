#include "checkpoint/ignore_list.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace microscale {
namespace {

using Names = std::vector<std::string>;

TensorTreatment treatment(const TensorEntry& entry, Treatment what) {
  TensorTreatment result;
  result.entry = &entry;
  result.decision.treatment = what;
  result.decision.linear = entry.shape.size() == 2;
  if (entry.shape.size() > 2) result.verdict.kind = TensorKind::experts;
  return result;
}

// Of tensors [16, 32] (names that end in "3d": [2, 16, 32]); those that begin with '+' are
// quantized.
Names list_of(const Names& names) {
  std::vector<TensorEntry> entries;
  entries.reserve(names.size());
  std::vector<TensorTreatment> treatments;
  for (std::string name : names) {
    const bool quantized = name.starts_with('+');
    if (quantized) name.erase(0, 1);
    TensorEntry& entry = entries.emplace_back();
    entry.shape = {16, 32};
    if (name.ends_with(" 3d")) {
      name.erase(name.size() - 3);
      entry.shape = {2, 16, 32};
    }
    entry.name = name;
    treatments.push_back(treatment(entry, quantized ? Treatment::quantize : Treatment::copy));
  }
  return ignored_modules(treatments);
}

TEST(IgnoreList, names_the_linear_layers_left_and_the_head) {
  EXPECT_EQ(list_of({"+layers.0.mlp.up_proj.weight", "layers.0.mlp.gate.weight"}),
            (Names{"layers.0.mlp.gate", "lm_head"}));
  EXPECT_EQ(list_of({"+lm_head.weight", "layers.0.mlp.gate.weight"}), (Names{"layers.0.mlp.gate"}));
}

TEST(IgnoreList, has_one_pattern_for_what_holds_nothing_quantized) {
  EXPECT_EQ(
      list_of({"+model.layers.0.up_proj.weight", "model.tower.a.weight", "model.tower.b.c.weight"}),
      (Names{"lm_head", "model.tower.a", "model.tower.b.c", "re:model\\.tower\\..*"}));
}

TEST(IgnoreList, names_the_layer_that_engines_fuse) {
  EXPECT_EQ(list_of({"+l.0.o_proj.weight", "l.0.q_proj.weight", "l.0.k_proj.weight",
                     "l.0.v_proj.weight"}),
            (Names{"l.0.k_proj", "l.0.q_proj", "l.0.qkv_proj", "l.0.v_proj", "lm_head"}));
}

TEST(IgnoreList, names_experts_their_module_and_all_in_it) {
  EXPECT_EQ(list_of({"+m.up_proj.weight", "m.experts.gate_up_proj 3d"}),
            (Names{"lm_head", "m.experts", "m.experts.gate_up_proj", "re:m\\.experts\\..*"}));
  EXPECT_EQ(
      list_of({"+layers.0.attn.weight", "layers.0.moe.input_linear.weight 3d"}),
      (Names{"layers.0.moe", "layers.0.moe.input_linear", "lm_head", "re:layers\\.0\\.moe\\..*"}));
}

TEST(IgnoreList, escapes_what_means_something_to_an_expression) {
  EXPECT_EQ(list_of({"+a.x.weight", "b+(c).d.weight", "b+(c).e.weight"}).back(),
            "re:b\\+\\(c\\)\\..*");
}

}  // namespace
}  // namespace microscale
