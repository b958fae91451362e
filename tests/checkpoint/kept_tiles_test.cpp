#include "checkpoint/kept_tiles.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::TemporaryFolder;

// Scales that no value lies under: in one block, and in more than are looked at one by one.
TEST(KeptTiles, scales_of_zeros_do_not_make_the_global_scale_larger) {
  for (const std::size_t zeros : {1, 9}) {
    SCOPED_TRACE(zeros);
    TemporaryFolder place;
    CodedModel coded = testing::gpt_oss_model();
    auto& scales = coded.model.at("model.layers.0.mlp.experts.down_proj_scales").bytes;
    auto& blocks = coded.model.at("model.layers.0.mlp.experts.down_proj_blocks").bytes;
    for (std::size_t i = 0; i < zeros; ++i) {
      scales[i] = static_cast<std::uint8_t>(200 + i);
      for (std::size_t j = 0; j < 16; ++j) blocks[i * 16 + j] = j % 2 ? 0x80 : 0;
    }
    coded.model.write(place / "oss");
    ConvertModelOptions options;
    options.input = place / "oss";
    options.output = place / "mo";
    options.container = Container::modelopt;
    options.exact = true;
    EXPECT_TRUE(convert_model(options).same_values());
  }
}

}  // namespace
}  // namespace microscale
