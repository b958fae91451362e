#include "checkpoint/choice_groups.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/choose_formats.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::mlp;
using testing::options_for;
using testing::random_tensor;
using testing::succeeds;
using testing::TemporaryFolder;

QuantizeModelOptions with_budget(const TemporaryFolder& folder) {
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.budget.bits = 6;
  return take(with_menu(options));
}

std::vector<ChoiceGroup> groups_of(const QuantizeModelOptions& options) {
  return take(choice_groups(take(make_model_plan(options)), options));
}

const ChoiceGroup& named(const std::vector<ChoiceGroup>& groups, const std::string& name) {
  for (const ChoiceGroup& group : groups)
    if (group.facts.name == name) return group;
  throw std::out_of_range(name);
}

const std::string qkv = attention + "{q_proj,k_proj,v_proj}", o = attention + "o_proj";

TEST(ChoiceGroups, are_what_engines_run_as_one) {
  const TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const auto groups = groups_of(with_budget(folder));
  ASSERT_EQ(groups.size(), 3u);  // down, K = 40, is kept
  EXPECT_EQ(named(groups, qkv).facts.layers, 3);
  EXPECT_EQ(named(groups, qkv).facts.weights, (96 + 32 + 33) * 64);
  EXPECT_EQ(named(groups, o).facts.layers, 1);
  EXPECT_EQ(named(groups, mlp + "{gate_proj,up_proj}").facts.layers, 2);
}

// Bytes by line are those that the whole conversion writes.
TEST(ChoiceGroups, know_the_bytes_of_every_format) {
  const TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    QuantizeModelOptions options = options_for(folder, Format::nvfp4);
    options.container = container;
    options.budget.bits = 6;
    options = take(with_menu(options));
    for (std::size_t line = 0; line < options.budget.menu.size(); ++line) {
      SCOPED_TRACE(menu_name(options.budget.menu[line]));
      FormatChoice choice{"", options.budget.menu, 0, false, {}};
      std::int64_t wanted = 0, scalars = 0;
      for (const ChoiceGroup& group : groups_of(options)) {
        choice.groups.push_back(group.facts);
        choice.groups.back().chosen = line;
        wanted += group.facts.bytes[line];
        if (options.budget.menu[line] == MenuFormat(WeightFormat::nvfp4))
          scalars += 4 * group.facts.layers;
      }
      QuantizeModelOptions all = options;
      all.choice = choice;
      std::int64_t bytes = 0;
      for (const TensorPlan& tensor : take(make_model_plan(all)).summary.tensors) {
        if (tensor.name.ends_with("proj.weight") && !tensor.name.starts_with(mlp + "down"))
          bytes += tensor.bytes_after;
      }
      EXPECT_EQ(bytes, wanted + scalars);
    }
  }
}

TEST(ChoiceGroups, hold_all_experts_of_a_layer_together) {
  const TemporaryFolder folder;
  testing::TestModel model;
  auto& tensors = model.shards[0];
  for (const std::string expert : {"0", "1"}) {
    for (const std::string part : {"gate_proj", "up_proj", "down_proj"}) {
      tensors[mlp + "experts." + expert + "." + part + ".weight"] =
          random_tensor(StoredType::bf16, {64, 64}, 1);
    }
  }
  tensors["model.layers.1.mlp.experts.gate_up_proj"] =
      random_tensor(StoredType::bf16, {2, 128, 64}, 2);
  tensors["model.layers.1.mlp.experts.down_proj"] = random_tensor(StoredType::bf16, {2, 64, 64}, 3);
  model.config = R"({"model_type": "qwen3_moe", "hidden_size": 64, "moe_intermediate_size": 64,
                     "num_experts": 2})";
  model.write(folder / "in");
  QuantizeModelOptions options = with_budget(folder);
  options.allow_incomplete = true;
  const auto groups = groups_of(options);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].facts.name, "model.layers.0.mlp.experts");
  EXPECT_EQ(groups[0].facts.layers, 6);
  EXPECT_EQ(groups[1].facts.name, "model.layers.1.mlp.experts");
  EXPECT_EQ(groups[1].facts.layers, 6);
  EXPECT_EQ(groups[0].facts.bytes, groups[1].facts.bytes);
}

TEST(ChoiceGroups, leave_out_formats_that_blocks_do_not_fit) {
  const TemporaryFolder folder;
  testing::TestModel model;
  model.shards[0][attention + "o_proj.weight"] = random_tensor(StoredType::bf16, {64, 48}, 1);
  model.write(folder / "in");
  const QuantizeModelOptions options = with_budget(folder);
  const auto groups = groups_of(options);
  ASSERT_EQ(groups.size(), 1u);
  const auto& errors = groups[0].facts.errors;  // nvfp4, mxfp4, mxfp8, fp8, bf16
  ASSERT_EQ(errors.size(), 5u);
  EXPECT_TRUE(std::isfinite(errors[0]) && std::isfinite(errors[3]) && std::isfinite(errors[4]));
  EXPECT_TRUE(std::isinf(errors[1]) && std::isinf(errors[2])) << "K = 48 is no multiple of 32";
}

TEST(ChoiceGroups, leave_layers_that_use_names_their_format) {
  const TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.budget = {.bits = 6, .bytes = {}, .menu = {WeightFormat::nvfp4, std::nullopt}};
  options.use = {{"*.o_proj", WeightFormat::mxfp8}};
  options = take(with_menu(options));
  EXPECT_EQ(lines_of(options),
            (std::vector<MenuFormat>{WeightFormat::nvfp4, std::nullopt, WeightFormat::mxfp8}));
  const auto groups = groups_of(options);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_FALSE(named(groups, qkv).fixed);
  EXPECT_TRUE(named(groups, o).fixed);
  EXPECT_TRUE(std::isinf(named(groups, qkv).facts.errors[2])) << "that line is of the others";
  EXPECT_TRUE(std::isinf(named(groups, o).facts.errors[0]));
  EXPECT_TRUE(std::isinf(named(groups, o).facts.errors[1]));
}

}  // namespace
}  // namespace microscale
