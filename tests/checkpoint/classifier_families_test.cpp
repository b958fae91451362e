// Every tensor of every family in tests/checkpoint/families, judged, quantized and verified.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "checkpoint/convert.hpp"
#include "checkpoint/verify_model.hpp"
#include "families.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::Family;
using testing::FamilyTensor;
using testing::TemporaryFolder;
using testing::TestModel;

// Quantized already, and decoded: what quantize makes of them is looked at like the others.
const std::set<std::string> decoded_here{"deepseek_v4_hub", "gpt_oss_mxfp4", "llama_fp8_block"};

class Families : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    family = testing::family_called(GetParam());
    model = testing::model_of(family, 1);
    model.write(folder / "in");
    options = testing::options_for(folder, Format::nvfp4, 1);
    options.numerics.scale_rule = ScaleRule::nearest;
  }

  bool quantized_already() const {
    return std::any_of(family.tensors.begin(), family.tensors.end(), is_quantized);
  }

  static bool is_quantized(const FamilyTensor& tensor) { return tensor.verdict == "quantized"; }

  // For scripts/model_families.py renew.
  void hand_out(const std::map<std::string, std::string>& verdicts) const {
    const char* place = std::getenv("MICROSCALE_FAMILIES_OUT");
    if (!place) return;
    std::ofstream file(std::filesystem::path(place) / (family.name + ".tsv"));
    for (const auto& [name, verdict] : verdicts) file << verdict << '\t' << name << '\n';
  }

  Family family;
  TestModel model;
  TemporaryFolder folder;
  QuantizeModelOptions options;
};

TEST_P(Families, every_tensor_has_its_verdict) {
  const ModelFolder opened = take(open_model_folder(options.input));
  const Classifier classifier = take(classify_model(opened));
  std::map<std::string, std::string> verdicts;
  bool refused = false;
  for (const ModelTensor& tensor : opened.tensors) {
    const bool quantized = classifier.judge(*tensor.entry).kind == TensorKind::quantized;
    refused |= quantized;
    if (quantized) verdicts[tensor.name()] = "quantized";
  }
  if (refused) {
    for (const ModelTensor& tensor : opened.tensors) verdicts.try_emplace(tensor.name(), "dense");
  } else {
    for (const TensorTreatment& tensor : take(make_model_plan(options)).tensors) {
      verdicts[tensor.entry->name] = testing::verdict_of(tensor);
    }
  }
  hand_out(verdicts);
  for (const FamilyTensor& tensor : family.tensors) {
    EXPECT_EQ(verdicts.at(tensor.name), tensor.verdict) << tensor.name;
  }
}

TEST_P(Families, output_is_verified_and_whole) {
  if (quantized_already() && !decoded_here.contains(GetParam())) {
    testing::expect_error(ErrorCode::bad_input, "quantized already",
                          [&] { quantize_model(options); });
    return;
  }
  const ModelPlan plan = take(make_model_plan(options));
  const bool nothing = std::none_of(plan.shards.begin(), plan.shards.end(),
                                    [](const ShardPlan& shard) { return !shard.matrices.empty(); });
  if (nothing) {
    testing::expect_error(ErrorCode::bad_input, "would be quantized",
                          [&] { quantize_model(options); });
    return;
  }
  convert_model(options);
  for (const Finding& finding : verify_checkpoint(options.output, {.threads = 1}).findings) {
    if (finding.rule == "no-config") continue;  // some families have none at all
    ADD_FAILURE() << finding.rule << " " << finding.tensor << ": " << finding.message;
  }
  for (const std::string& problem :
       testing::account(plan, testing::read_as_dense(plan, model.shards[0]),
                        testing::read_tensors(options.output))) {
    ADD_FAILURE() << problem;
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Families, ::testing::ValuesIn(testing::family_names()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace microscale
