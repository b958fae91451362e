#include "checkpoint/containers/containers.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"

namespace microscale {
namespace {

using testing::TemporaryFolder;

TEST(Containers, take_each_tensor_once_and_leave_the_others) {
  testing::CodedModel coded = testing::fp8_llama();
  testing::add_gpt_oss_experts(coded, "model.layers.1.mlp.experts.down_proj", 2, 64, 64, 3);
  TemporaryFolder place;
  coded.model.write(place.path());
  const ModelFolder model = take(open_model_folder(place.path()));
  ContainerScan scan(model, false);
  find_stored_weights(scan);
  EXPECT_EQ(scan.unusable, Findings());
  ASSERT_EQ(scan.weights.size(), 8u);
  std::size_t parts = 0;
  for (std::size_t i = 0; i < scan.weights.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(scan.weights[i - 1]->name(), scan.weights[i]->name());
    }
    parts += scan.weights[i]->facts().parts.size();
    for (const ModelTensor* part : scan.weights[i]->facts().parts) {
      EXPECT_TRUE(scan.taken(*part));
      EXPECT_EQ(scan.find(part->name()), nullptr);
    }
  }
  std::size_t left = 0;
  for (const ModelTensor& tensor : model.tensors) left += scan.find(tensor.name()) == &tensor;
  EXPECT_EQ(parts + left, model.tensors.size());
  EXPECT_EQ(left, 2u) << "embedding and norm";
}

TEST(Containers, a_tensor_that_was_refused_is_offered_to_no_other) {
  testing::CodedModel coded = testing::fp8_llama();
  TemporaryFolder place;
  coded.model.write(place.path());
  const ModelFolder model = take(open_model_folder(place.path()));
  ContainerScan scan(model, false);
  const ModelTensor* weight = model.find("model.layers.0.mlp.up_proj.weight");
  scan.report("wrong-shape", *weight, "it is odd", {weight});
  EXPECT_EQ(scan.find(weight->name()), nullptr);
  EXPECT_FALSE(scan.taken(*weight));
  find_stored_weights(scan);
  EXPECT_EQ(scan.weights.size(), 6u);
  EXPECT_NE(scan.unusable.at(0).message.find("up_proj.weight': it is odd"), std::string::npos);
}

}  // namespace
}  // namespace microscale
