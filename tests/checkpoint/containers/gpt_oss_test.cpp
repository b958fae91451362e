#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::TemporaryFolder;

const std::string experts = "model.layers.0.mlp.experts.";

QuantizedFolder opened(const CodedModel& coded, const TemporaryFolder& place) {
  coded.model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

TEST(GptOss, blocks_are_the_dense_models_experts_with_input_features_first) {
  const CodedModel coded = testing::gpt_oss_model();
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  testing::expect_values(folder, coded);
  const LogicalTensor* gate_up = folder.find(experts + "gate_up_proj");
  ASSERT_NE(gate_up, nullptr);
  EXPECT_EQ(gate_up->shape, (std::vector<std::int64_t>{3, 64, 192}));
  EXPECT_EQ(gate_up->bytes(), 3u * 192 * 64 / 2 + 3 * 192 * 2);
  EXPECT_EQ(gate_up->weight->facts().type, StoredType::bf16);
  EXPECT_EQ(folder.find(experts + "gate_up_proj_scales"), gate_up) << "by the name of a part";
}

TEST(GptOss, slices_of_experts_have_the_values_of_the_dense_tensor) {
  const CodedModel coded = testing::gpt_oss_model();
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  const StoredWeight& weight = *folder.find(experts + "gate_up_proj")->weight;
  const std::vector<float>& values = coded.values.at(experts + "gate_up_proj");
  std::vector<std::uint8_t> scratch(tile_scratch_bytes);
  for (const std::int64_t expert : {0, 2}) {
    for (const std::int64_t half : {0, 1}) {  // gate, up: even and odd output features
      const MatrixSlice slice{"e", 96, 64, expert * 64 * 192 + half, 2, 192};
      for (const Tile tile : {Tile{0, 96, 0, 64}, Tile{5, 7, 32, 32}, Tile{9, 1, 3, 40}}) {
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tile.elements() * 2));
        ASSERT_TRUE(testing::succeeds(weight.read_tile(slice, tile, bytes, scratch)));
        std::vector<float> read(static_cast<std::size_t>(tile.elements()));
        decode_dense(StoredType::bf16, bytes, read);
        for (std::int64_t row = 0; row < tile.rows; ++row) {
          for (std::int64_t col = 0; col < tile.cols; ++col) {
            const std::int64_t element = slice.element(tile.row + row, tile.col + col);
            ASSERT_EQ(read[static_cast<std::size_t>(row * tile.cols + col)],
                      values[static_cast<std::size_t>(element)]);
          }
        }
      }
    }
  }
}

TEST(GptOss, parts_that_are_not_whole_are_named) {
  CodedModel coded = testing::gpt_oss_model();
  coded.model.remove(experts + "down_proj_scales");
  TemporaryFolder first;
  const QuantizedFolder without = opened(coded, first);
  ASSERT_EQ(without.unusable.size(), 1u);
  EXPECT_NE(without.unusable[0].message.find("its scales down_proj_scales are missing"),
            std::string::npos);
  EXPECT_EQ(without.weights.size(), 1u);
  coded = testing::gpt_oss_model();
  coded.model.at(experts + "down_proj_scales") = {StoredType::u8, {3, 64, 2}, testing::Bytes(384)};
  TemporaryFolder second;
  const QuantizedFolder odd = opened(coded, second);
  ASSERT_EQ(odd.unusable.size(), 1u);
  EXPECT_NE(odd.unusable[0].message.find("U8 [3, 64, 3, 16] and U8 [3, 64, 2]"), std::string::npos)
      << odd.unusable[0].message;
}

TEST(GptOss, scales_without_blocks_and_blocks_beside_the_dense_weight_are_named) {
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  const auto problem = [](const testing::CodedModel& coded) {
    const testing::TemporaryFolder place;
    coded.model.write(place.path());
    const QuantizedFolder folder = take(open_quantized_folder(place.path()));
    return folder.unusable.size() == 1 ? folder.unusable[0].message : std::string();
  };
  testing::CodedModel coded = testing::gpt_oss_model();
  coded.model.remove(name + "_blocks");
  EXPECT_EQ(problem(coded), "model-2.safetensors: '" + name +
                                "_scales': its blocks down_proj_blocks are missing; download the "
                                "model again");
  coded = testing::gpt_oss_model();
  coded.model.add_floats(name, {3, 96, 64}, std::vector<float>(3 * 96 * 64), "model-1.safetensors");
  EXPECT_EQ(problem(coded), "model-1.safetensors: '" + name +
                                "': the model has blocks of the same weight too, so which of them "
                                "counts is unclear; remove one of them");
}

}  // namespace
}  // namespace microscale
