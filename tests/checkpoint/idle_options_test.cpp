#include "checkpoint/idle_options.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::mlp;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::tensor_of;

class IdleOptions : public ::testing::Test {
 protected:
  IdleOptions() : options_(testing::options_for(folder_, Format::nvfp4)) {
    testing::sample_model().write(folder_ / "in");
  }

  // What a plan with changed options says that one without does not.
  std::vector<std::string> news(const std::function<void(QuantizeModelOptions&)>& change) {
    std::vector<std::string> usual = plan_quantize_model(options_).notices;
    QuantizeModelOptions changed = options_;
    change(changed);
    std::vector<std::string> notices = plan_quantize_model(changed).notices;
    std::erase_if(notices, [&](const std::string& text) {
      return std::find(usual.begin(), usual.end(), text) != usual.end();
    });
    return notices;
  }

  void refused(const std::string& phrase,
               const std::function<void(QuantizeModelOptions&)>& change) {
    QuantizeModelOptions changed = options_;
    change(changed);
    testing::expect_error(ErrorCode::invalid_argument, phrase,
                          [&] { plan_quantize_model(changed); });
  }

  TemporaryFolder folder_;
  QuantizeModelOptions options_;
};

using Texts = std::vector<std::string>;

TEST_F(IdleOptions, an_order_of_experts_wants_experts_in_one_tensor) {
  const auto halves = [](QuantizeModelOptions& options) { options.experts = ExpertOrder::halves; };
  refused("--experts has no effect: the model has no gate and up of experts in one tensor", halves);
  testing::TestModel model;
  const std::string experts = "model.layers.0.mlp.experts.";
  model.shards[0][experts + "gate_up_proj"] = random_tensor(StoredType::bf16, {2, 128, 64}, 1);
  model.shards[0][experts + "down_proj"] = random_tensor(StoredType::bf16, {2, 64, 64}, 2);
  model.shards[0][attention + "o_proj.weight"] = random_tensor(StoredType::bf16, {64, 64}, 3);
  options_.input = folder_ / "experts";
  model.write(options_.input);
  QuantizeModelOptions settled = options_;
  halves(settled);
  EXPECT_NO_THROW(plan_quantize_model(settled));
  refused("'model.layers.0.mlp.experts.gate_up_proj' is kept as it is (ignored by '*.experts.*')",
          [&](QuantizeModelOptions& options) {
            halves(options);
            options.ignore = {"*.experts.*"};
          });
}

TEST_F(IdleOptions, a_rule_wants_layers_that_follow_it) {
  const auto with = [](std::vector<UseFormat> use, const Numerics& numerics) {
    return [=](QuantizeModelOptions& options) {
      options.use = use;
      options.numerics = numerics;
    };
  };
  Numerics four, away, ocp;
  four.scale_rule = ScaleRule::four_over_six;  // of NVFP4 alone
  away.rounding = Rounding::nearest_away;
  refused("--scale-rule has no effect: all layers become fp8",
          with({{"*", WeightFormat::fp8}}, four));
  refused("--rounding has no effect", with({{"*", WeightFormat::fp8}}, away));
  refused("--scale-rule four_over_six has no effect: no layer becomes nvfp4, and mxfp8",
          with({{"*", WeightFormat::mxfp8}}, four));
  EXPECT_EQ(news(with({{"*.o_proj", WeightFormat::mxfp8}}, four)),
            Texts{"layers in mxfp8_e4m3 follow the scale rule search, as that format has no rule "
                  "four_over_six"});
  EXPECT_EQ(news(with({{"*.o_proj", WeightFormat::fp8}}, four)), Texts());
  EXPECT_EQ(news(with({{"*", WeightFormat::fp8}}, {})), Texts());
  EXPECT_EQ(news(with({{"*.o_proj", WeightFormat::mxfp8}}, away)), Texts());
}

TEST_F(IdleOptions, what_is_said_of_inputs_wants_layers_of_that_format) {
  refused("--activations dynamic has no effect: all layers become nvfp4",
          [](QuantizeModelOptions& options) {
            options.format = Format::mxfp8_e4m3;
            options.use = {{"*", WeightFormat::nvfp4}};
            options.activations = Activations::dynamic;
          });
  testing::write_file(folder_ / "x.json", "{}");
  refused("--input-scales has no effect: no layer becomes nvfp4",
          [&](QuantizeModelOptions& options) {
            options.use = {{"*", WeightFormat::mxfp8}};
            options.input_scales = folder_ / "x.json";
          });
}

TEST_F(IdleOptions, numbers_of_inputs_want_modules_of_the_model) {
  std::string text =
      R"({"model.layers.0.mlp.gate": 1, "lm_head": 1, "model.layers.0.mlp.up_prj": 1)";
  for (const TensorPlan& tensor : plan_quantize_model(options_).tensors) {
    if (tensor.treatment != Treatment::quantize) continue;
    text += ", \"" + tensor.name.substr(0, tensor.name.size() - 7) + "\": 1.5";
  }
  testing::write_file(folder_ / "x.json", text + "}");
  const Texts told =
      news([&](QuantizeModelOptions& options) { options.input_scales = folder_ / "x.json"; });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("1 of the numbers is of no layer of the model, the first "
                         "'model.layers.0.mlp.up_prj'; check the spelling"),
            std::string::npos)
      << told[0];
}

TEST_F(IdleOptions, importance_wants_modules_of_the_model_and_says_how_many_it_has) {
  const auto vector = tensor_of(StoredType::f32, {64}, std::vector<float>(64, 1.0f));
  testing::write_safetensors(folder_ / "x.safetensors", {{attention + "q_proj", vector},
                                                         {attention + "q_prj", vector},
                                                         {attention + "kproj", vector}});
  const Texts told =
      news([&](QuantizeModelOptions& options) { options.importance = folder_ / "x.safetensors"; });
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].find("has importance for 1 of "), std::string::npos) << told[0];
  EXPECT_NE(told[1].find("2 of its vectors name no layer of the model, the first"),
            std::string::npos)
      << told[1];
}

TEST_F(IdleOptions, patterns_for_what_is_not_there_are_named) {
  const auto ignoring = [](const std::string& pattern) {
    return [=](QuantizeModelOptions& options) { options.ignore = {pattern}; };
  };
  EXPECT_EQ(news(ignoring("vision_tower")),
            Texts{"--ignore 'vision_tower' matches nothing; what has such a name is kept in any "
                  "case"});
  EXPECT_EQ(news(ignoring("lm_head")), Texts()) << "kept by default, and there";
  EXPECT_EQ(news(ignoring("*.o_proj")), Texts());
}

TEST_F(IdleOptions, permissions_and_adapters_that_are_not_needed_are_told) {
  EXPECT_EQ(news([](QuantizeModelOptions& options) { options.allow_incomplete = true; }),
            Texts{"--allow-incomplete was not needed: nothing is missing"});
}

}  // namespace
}  // namespace microscale
