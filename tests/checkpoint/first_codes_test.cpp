#include "checkpoint/first_codes.hpp"

#include <gtest/gtest.h>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::SmallModel;

std::optional<std::string> found(const SmallModel& model) {
  const testing::TemporaryFolder folder;
  model.write(folder.path());
  return first_codes(take(open_quantized_folder(folder.path())));
}

TEST(FirstCodes, are_named_with_what_they_show) {
  EXPECT_EQ(found(testing::small_llama(Format::mxfp4)),
            "'model.layers.0.mlp.down_proj.weight_packed' is mxfp4");
  SmallModel other;
  other.add("a.qweight", StoredType::i32, {2, 2}, testing::Bytes(16, 1));
  EXPECT_EQ(found(other), "'a.qweight' shows GPTQ, AWQ or AutoRound (qweight, qzeros, scales)");
}

TEST(FirstCodes, a_dense_model_has_none) {
  SmallModel dense;
  dense.add_floats("a.weight", {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(found(dense), std::nullopt);
}

}  // namespace
}  // namespace microscale
