#include "checkpoint/layer_groups.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/verify_model.hpp"
#include "model_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::fails_with;
using testing::mlp;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;
using testing::TestTensors;

using Names = std::vector<std::string>;

class LayerGroups : public ::testing::Test {
 protected:
  LayerGroups() { model.shards.resize(1); }
  void add(const std::string& module, std::vector<std::int64_t> shape) {
    model.shards[0][module + ".weight"] = random_tensor(StoredType::bf16, std::move(shape), ++seed);
  }
  Result<ModelPlan> plan(const std::vector<UseFormat>& use) {
    model.write(folder / "in");
    options = testing::options_for(folder, Format::nvfp4, 1);
    options.use = use;
    return make_model_plan(options);
  }
  std::vector<LayerGroup> groups(const std::vector<UseFormat>& use) {
    return layer_groups(take(plan(use)), options);
  }

  TestModel model;
  TemporaryFolder folder;
  QuantizeModelOptions options;
  unsigned seed = 0;
};

TEST_F(LayerGroups, layers_that_are_all_alike_are_the_class) {
  model = testing::sample_model();
  for (const WeightFormat format : {WeightFormat::nvfp4, WeightFormat::fp8}) {
    const auto all = groups({{"*", format}});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].targets, Names{"Linear"});
    EXPECT_EQ(all[0].scheme.format, format);
  }
}

TEST_F(LayerGroups, layers_of_several_formats_are_named_once_with_their_fused_names) {
  model = testing::sample_model();
  const auto all = groups({{mlp + "*", WeightFormat::fp8}, {"*.o_proj", WeightFormat::mxfp8}});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].scheme.format, WeightFormat::fp8);
  EXPECT_EQ(all[0].targets,
            (Names{mlp + "down_proj", mlp + "gate_proj", mlp + "gate_up_proj", mlp + "up_proj"}));
  EXPECT_EQ(all[1].targets, Names{attention + "o_proj"});
  EXPECT_EQ(all[2].scheme.format, WeightFormat::nvfp4);
  EXPECT_EQ(all[2].targets, (Names{attention + "k_proj", attention + "q_proj",
                                   attention + "qkv_proj", attention + "v_proj"}));
}

TEST_F(LayerGroups, experts_of_a_layer_are_one_expression_whatever_the_path_before_it) {
  model.config = R"({"model_type": "small"})";
  for (const char* layer : {"0", "1"}) {
    const std::string path = "model.language_model.layers." + std::string(layer) + ".mlp.";
    for (const char* expert : {"0", "1"}) {
      for (const char* leaf : {".gate_proj", ".up_proj", ".down_proj"}) {
        add(path + "experts." + expert + leaf, {64, 64});
      }
    }
    add(path + "shared_expert.down_proj", {64, 64});
  }
  const auto all = groups({{"*.layers.1.*.experts.*", WeightFormat::mxfp4}});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].targets, Names{R"(re:.*\.layers\.1\.mlp\.experts\..*)"});
  EXPECT_EQ(all[1].targets, (Names{"model.language_model.layers.0.mlp.shared_expert.down_proj",
                                   "model.language_model.layers.1.mlp.shared_expert.down_proj",
                                   R"(re:.*\.layers\.0\.mlp\.experts\..*)"}));
}

TEST_F(LayerGroups, what_engines_run_as_one_layer_gets_one_format) {
  model = testing::sample_model();
  EXPECT_TRUE(fails_with(plan({{"*.q_proj", WeightFormat::fp8}}), "--use gives the fused group"));
  EXPECT_TRUE(fails_with(plan({{"*.no_such", WeightFormat::fp8}}),
                         "no layer gets its format by --use '*.no_such'"));
  EXPECT_TRUE(fails_with(plan({{"*", WeightFormat::fp8}, {"*.o_proj", WeightFormat::mxfp8}}),
                         "an earlier --use takes them all"));
}

TEST_F(LayerGroups, experts_of_a_layer_get_one_format) {
  for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
    add(std::string("model.layers.0.mlp.experts.0.") + leaf, {64, 64});
    add(std::string("model.layers.0.mlp.experts.1.") + leaf, {64, 64});
  }
  EXPECT_TRUE(fails_with(plan({{"*.down_proj", WeightFormat::fp8}}),
                         "--use gives the experts of 'model.layers.0.mlp.experts'"));
}

// The whole way: bytes at any thread count, and that verify finds each layer in its group.
TEST_F(LayerGroups, a_mixed_model_is_written_and_verified) {
  model = testing::sample_model();
  // down_proj has rows of 40 elements: no whole blocks, but FP8 takes them
  const std::vector<UseFormat> use{{"*.down_proj", WeightFormat::fp8},
                                   {"*.gate_proj", WeightFormat::mxfp4},
                                   {"*.up_proj", WeightFormat::mxfp4},
                                   {"*.o_proj", WeightFormat::mxfp8}};
  const ModelPlan planned = take(plan(use));
  EXPECT_EQ(formats_in(planned), (std::vector{WeightFormat::nvfp4, WeightFormat::mxfp4,
                                              WeightFormat::mxfp8, WeightFormat::fp8}));
  const Conversion conversion = convert_model(options);
  EXPECT_EQ(conversion.report.format, "nvfp4 and mxfp4 and mxfp8 and fp8");
  const TestTensors output = testing::read_tensors(options.output);
  EXPECT_EQ(output.at(mlp + "down_proj.weight").type, StoredType::f8_e4m3);
  EXPECT_EQ(output.at(mlp + "down_proj.weight_scale").type, StoredType::bf16);
  EXPECT_EQ(output.at(mlp + "down_proj.weight_scale").shape, (std::vector<std::int64_t>{64, 1}));
  EXPECT_EQ(output.at(mlp + "up_proj.weight_packed").shape, (std::vector<std::int64_t>{7, 32}));
  EXPECT_FALSE(output.contains(mlp + "up_proj.weight_global_scale"));
  EXPECT_EQ(output.at(attention + "o_proj.weight_scale").type, StoredType::u8);
  EXPECT_TRUE(output.contains(attention + "q_proj.weight_global_scale"));
  for (const TensorReport& tensor : conversion.report.tensors) {
    EXPECT_EQ(tensor.measured(), tensor.treatment != "copied") << tensor.name;
  }
  const VerifyReport report = verify_checkpoint(options.output, {});
  EXPECT_EQ(report.errors(), 0) << (report.findings.empty() ? "" : report.findings[0].message);

  const auto config =
      take(parse_quantization_config(testing::read_file(options.output / "config.json")));
  EXPECT_EQ(config->problems, Names());
  const ModuleExpectations expectations(*config);
  for (const TensorTreatment& tensor : planned.tensors) {
    if (tensor.decision.treatment != Treatment::quantize) continue;
    const std::string module = tensor.entry->name.substr(0, tensor.entry->name.size() - 7);
    const Expectation found = expectations.of(module, true);
    ASSERT_TRUE(found.group) << module;
    EXPECT_FALSE(found.rival) << module;
    EXPECT_EQ(found.group->format, blocks_of(tensor.format)) << module;
  }
  options.output = folder / "again";
  options.threads = 3;
  convert_model(options);
  EXPECT_EQ(testing::read_folder(folder / "again"), testing::read_folder(folder / "out"));
}

}  // namespace
}  // namespace microscale
