#include "checkpoint/importance.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::fails_with;
using testing::succeeds;
using testing::tensor_of;

class ImportanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::sample_model().write(folder / "in");
    plan = take(make_model_plan(testing::options_for(folder, Format::nvfp4)));
  }

  Result<Importance> open(const testing::TestTensors& tensors) {
    testing::write_safetensors(folder / "importance.safetensors", tensors);
    return Importance::open(folder / "importance.safetensors", plan);
  }

  const std::string q = attention + "q_proj";
  testing::TemporaryFolder folder;
  ModelPlan plan;
};

TEST_F(ImportanceTest, gives_any_piece_of_a_vector) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>(i));
  const auto importance = open({{q, tensor_of(StoredType::f32, {64}, values)},
                                {"unrelated", tensor_of(StoredType::f32, {3}, {1, 2, 3})}});
  ASSERT_TRUE(succeeds(importance));
  EXPECT_TRUE(importance.value().has(q));
  EXPECT_FALSE(importance.value().has(attention + "k_proj"));
  EXPECT_FALSE(importance.value().has("unrelated"));
  std::vector<float> piece(16);
  EXPECT_TRUE(succeeds(importance.value().read(q, 32, piece)));
  EXPECT_EQ(piece, std::vector<float>(values.begin() + 32, values.begin() + 48));
}

TEST_F(ImportanceTest, names_vectors_of_no_module) {
  const auto vector = tensor_of(StoredType::f32, {64}, std::vector<float>(64, 1.0f));
  const auto importance = open({{q, vector},
                                {attention + "q_prj", vector},
                                {"lm_head", tensor_of(StoredType::f32, {1}, {1})}});
  ASSERT_TRUE(succeeds(importance));
  EXPECT_EQ(importance.value().idle(), std::vector<std::string>{attention + "q_prj"})
      << "the head is a module, though it is kept";
}

TEST_F(ImportanceTest, refuses_a_vector_of_another_type_or_length) {
  EXPECT_TRUE(
      fails_with(open({{q, tensor_of(StoredType::f32, {63}, std::vector<float>(63, 1.0f))}}),
                 "must be F32 of shape [64]"));
  EXPECT_TRUE(
      fails_with(open({{q, tensor_of(StoredType::bf16, {64}, std::vector<float>(64, 1.0f))}}),
                 "must be F32 of shape [64]"));
}

TEST_F(ImportanceTest, refuses_a_file_that_fits_no_module) {
  EXPECT_TRUE(fails_with(open({{q + ".weight", tensor_of(StoredType::f32, {1}, {1})}}),
                         "has the name of a module to be quantized"));
}

TEST_F(ImportanceTest, refuses_numbers_that_are_no_weights) {
  for (const float bad :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(64, 1.0f);
    values[40] = bad;
    const auto importance = open({{q, tensor_of(StoredType::f32, {64}, values)}});
    ASSERT_TRUE(succeeds(importance));
    std::vector<float> piece(32);
    EXPECT_TRUE(succeeds(importance.value().read(q, 0, piece)));
    EXPECT_TRUE(fails_with(importance.value().read(q, 32, piece), "at column 40"));
  }
}

}  // namespace
}  // namespace microscale
