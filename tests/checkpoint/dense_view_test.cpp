#include "checkpoint/dense_view.hpp"

#include <gtest/gtest.h>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::succeeds;
using testing::TemporaryFolder;

TEST(DenseView, shows_the_dense_model_in_the_order_of_the_files) {
  TemporaryFolder place;
  testing::SmallModel model = testing::small_llama(Format::mxfp4);
  model.add_floats("model.extra.weight", {4, 4}, testing::gaussian(16, 9), "second.safetensors");
  model.write(place.path());
  QuantizedFolder folder = take(open_quantized_folder(place.path()));
  const DenseView view = dense_view_of(folder);
  const ModelFolder moved = std::move(folder.model);  // its files stay where they are
  EXPECT_TRUE(view.computed());
  ASSERT_EQ(view.tensors.size(), 10u);
  for (std::size_t i = 1; i < view.tensors.size(); ++i) {
    const DenseTensor &a = view.tensors[i - 1], &b = view.tensors[i];
    EXPECT_TRUE(a.shard < b.shard || (a.shard == b.shard && a.entry.begin < b.entry.begin));
  }
  EXPECT_EQ(view.find("model.layers.0.self_attn.q_proj.weight_packed"), nullptr);
  const DenseTensor* weight = view.find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->entry.type, StoredType::bf16);
  EXPECT_EQ(weight->entry.shape, (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(weight->entry.bytes(), 64u * 64 * 2);
  EXPECT_EQ(weight->stored_bytes(), 64u * 32 + 64 * 2);
  std::vector<std::uint8_t> all(weight->entry.bytes()), part(64);
  ASSERT_TRUE(succeeds(weight->read(0, all)));
  ASSERT_TRUE(succeeds(weight->read(128, part)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 128));
  const MatrixSlice slice{"q", 64, 64, 0, 64, 1};
  ASSERT_TRUE(succeeds(weight->read_tile(slice, {1, 1, 0, 32}, part, {})));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 128));

  const DenseTensor* extra = view.find("model.extra.weight");
  ASSERT_NE(extra, nullptr);
  EXPECT_EQ(extra->weight, nullptr);
  EXPECT_EQ(moved.shards[extra->shard].name, "second.safetensors");
  part.resize(32);
  ASSERT_TRUE(succeeds(extra->read(32, part)));
  EXPECT_TRUE(
      std::equal(part.begin(), part.end(), model.at("model.extra.weight").bytes.begin() + 32));
}

TEST(DenseView, computed_weights_that_are_kept_are_bf16) {
  TemporaryFolder place;
  testing::small_llama(Format::nvfp4).write(place.path());
  QuantizedFolder folder = take(open_quantized_folder(place.path()));
  const DenseView view = dense_view_of(folder);
  const DenseTensor& weight = *view.find("model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(weight.entry.type, StoredType::f32);
  EXPECT_EQ(copied_type(weight), StoredType::bf16);
  EXPECT_EQ(copied_bytes(weight), 64u * 64 * 2);
  std::vector<std::uint8_t> values(64 * 64 * 4), copied(128), scratch;
  ASSERT_TRUE(succeeds(weight.read(0, values)));
  ASSERT_TRUE(succeeds(read_copied(weight, 256, copied, scratch)));
  for (std::size_t i = 0; i < 64; ++i) {
    float value = 0;
    std::uint16_t bits = 0;
    std::memcpy(&value, values.data() + (128 + i) * 4, 4);
    std::memcpy(&bits, copied.data() + i * 2, 2);
    EXPECT_EQ(bits, float_to_bf16(value));
  }
  const DenseTensor& norm = *view.find("model.norm.weight");
  EXPECT_EQ(copied_type(norm), StoredType::f32);
  EXPECT_EQ(copied_bytes(norm), norm.entry.bytes());
}

}  // namespace
}  // namespace microscale
