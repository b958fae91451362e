#include "checkpoint/containers/block_weight.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::succeeds;
using testing::TemporaryFolder;

// Values [first, first + count) of a weight as floats.
std::vector<float> decoded(const StoredWeight& weight, std::int64_t first, std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * weight.value_bytes()));
  EXPECT_TRUE(succeeds(weight.decode(first, count, bytes)));
  std::vector<float> values(static_cast<std::size_t>(count));
  decode_dense(weight.facts().type, bytes, values);
  return values;
}

TEST(BlockWeight, module_has_the_values_that_piece_by_piece_reading_has) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    TemporaryFolder place;
    testing::small_llama(format).write(place.path());
    const QuantizedFolder folder = take(open_quantized_folder(place.path()));
    const auto weight = weight_of_module(folder.modules[0], folder.model);
    EXPECT_EQ(weight->name(), folder.modules[0].name + ".weight");
    EXPECT_EQ(weight->facts().type, format == Format::nvfp4 ? StoredType::f32 : StoredType::bf16);
    EXPECT_EQ(weight->bytes(), folder.modules[0].bytes());
    PieceData data;
    ASSERT_TRUE(
        succeeds(read_piece(folder, {folder.find(weight->name()), 0, weight->elements()}, data)));
    EXPECT_EQ(decoded(*weight, 0, weight->elements()), data.values);
    // Not at a block's beginning, not to its end.
    const std::vector<float> middle(data.values.begin() + 37, data.values.begin() + 37 + 1001);
    EXPECT_EQ(decoded(*weight, 37, 1001), middle);
  }
}

TEST(BlockWeight, divides_where_multiplying_would_give_other_values) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  for (float divisor = 4000.0f;; divisor += 1.0f) {
    model.at(name + "_global_scale").bytes = testing::bytes_of(divisor);
    TemporaryFolder place;
    model.write(place.path());
    const QuantizedFolder folder = take(open_quantized_folder(place.path()));
    const QuantizedModule& module = *folder.find(name)->module;
    if (!module.must_divide) continue;
    const auto weight = weight_of_module(module, folder.model);
    EXPECT_EQ(weight->blocks()->divisor, divisor);
    PieceData data;
    ASSERT_TRUE(succeeds(read_piece(folder, {folder.find(name), 0, weight->elements()}, data)));
    EXPECT_EQ(decoded(*weight, 0, weight->elements()), data.values);
    for (std::size_t i = 0; i < data.values.size(); ++i) {
      const std::uint8_t code = data.codes[i / 2] >> (i % 2 * 4) & 15;
      const float magnitudes[]{0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
      const std::uint8_t scale = data.scales[i / 16];
      const float step = std::ldexp(scale >> 3 ? 1.0f + static_cast<float>(scale & 7) / 8
                                               : static_cast<float>(scale & 7) / 8,
                                    scale >> 3 ? (scale >> 3) - 7 : -6) /
                         divisor;
      ASSERT_EQ(data.values[i], (code & 8 ? -1 : 1) * magnitudes[code & 7] * step) << i;
    }
    break;
  }
}

// What a cast measures: scales without codes, in every container that has blocks along its rows.
TEST(BlockWeight, scales_are_read_alone) {
  for (const testing::CodedModel& coded :
       {testing::comfyui_model(), testing::deepseek_v4_model()}) {
    const testing::TemporaryFolder place;
    coded.model.write(place.path());
    const QuantizedFolder folder = take(open_quantized_folder(place.path()));
    int compared = 0;
    for (const auto& weight : folder.weights) {
      if (!weight->blocks()) continue;
      const FormatInfo& format = info(weight->blocks()->format);
      for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5} * format.block}) {
        const std::int64_t count = weight->elements() - first;
        testing::Bytes codes(static_cast<std::size_t>(code_bytes(format, count)));
        testing::Bytes scales(static_cast<std::size_t>(count / format.block)), alone = scales;
        ASSERT_TRUE(testing::succeeds(weight->read_blocks(first, count, codes, scales)));
        ASSERT_TRUE(testing::succeeds(weight->read_blocks(first, count, {}, alone)));
        EXPECT_EQ(alone, scales) << weight->name() << " from " << first;
        ++compared;
      }
    }
    EXPECT_GE(compared, 4);
  }
}

}  // namespace
}  // namespace microscale
