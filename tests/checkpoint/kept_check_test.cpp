#include "checkpoint/kept_check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/value_hash.hpp"
#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

class KeptCheck : public ::testing::Test {
 protected:
  KeptCheck() : codes_(tile_elements), scales_(tile_elements / 16) {
    testing::gpt_oss_model().model.write(place_ / "in");
    options_.input = place_ / "in";
    options_.output = place_ / "out";
    options_.container = Container::modelopt;
    before_ = convert_model(options_).hash_before;
  }

  std::uint64_t hash() {
    const ModelPlan plan = take(make_model_plan(take(options_for(options_))));
    std::size_t modules = 0;
    const TileHashes written(plan);  // by another run
    const std::uint64_t sum =
        hash_of_output(plan, {options_.output, written}, {{{}, codes_, scales_}},
                       [&](std::string_view) { ++modules; });
    EXPECT_EQ(modules, 9u);
    return sum;
  }

  TemporaryFolder place_;
  ConvertModelOptions options_;
  std::uint64_t before_ = 0;
  std::vector<std::uint8_t> codes_, scales_;
};

TEST_F(KeptCheck, what_was_written_has_the_hash_of_what_was_read) { EXPECT_EQ(hash(), before_); }

TEST_F(KeptCheck, notices_a_code_that_changed) {
  const auto path = options_.output / "model-1.safetensors";
  std::string bytes = testing::read_file(path);
  const auto header = take(read_safetensors_header(take(InputFile::open(path))));
  for (const TensorEntry& entry : header.tensors) {
    if (entry.name.ends_with("experts.1.up_proj.weight")) bytes[entry.begin + 100] ^= 0x10;
  }
  testing::write_file(path, bytes);
  EXPECT_NE(hash(), before_);
}

// Each expert is a tile. What is said of the tiles is what a run has written, or the opposite.
TEST(KeptCheckOfManyTiles, reads_a_sixteenth_unless_all_of_it_is_asked_for) {
  constexpr std::int64_t experts = 80, tiles = 3 * experts;
  TemporaryFolder place;
  testing::CodedModel coded = testing::gpt_oss_model(experts);
  coded.model.write(place / "in");
  ConvertModelOptions options;
  options.input = place / "in";
  options.output = place / "out";
  options.container = Container::compressed_tensors;
  const std::uint64_t wanted = convert_model(options).hash_before;
  const ModelPlan plan = take(make_model_plan(take(options_for(options))));
  std::vector<std::uint8_t> codes(tile_elements), scales(tile_elements / 16);
  std::int64_t read = 0;
  const auto hash = [&](const TileHashes& written, bool read_back = false) {
    read = 0;
    return hash_of_output(plan, {options.output, written, read_back}, {{{}, codes, scales}},
                          [&](std::string_view) { ++read; });
  };
  EXPECT_EQ(hash(TileHashes(plan)), wanted) << "as after --resume";
  EXPECT_EQ(read, tiles);

  TileHashes written(plan), scaled(plan), wrong(plan);
  const QuantizedFolder folder = take(open_quantized_folder(options.input));
  for (std::uint32_t shard = 0; shard < plan.shards.size(); ++shard) {
    for (std::uint32_t i = 0; i < plan.shards[shard].matrices.size(); ++i) {
      const QuantizedMatrix& matrix = plan.shards[shard].matrices[i];
      const Tile tile = TileGrid(matrix.slice.rows, matrix.slice.cols).tile(0);
      const std::int64_t elements = tile.elements();
      const auto its_codes = std::span(codes).first(static_cast<std::size_t>(elements / 2));
      const auto its_scales = std::span(scales).first(static_cast<std::size_t>(elements / 32));
      take(plan.tensors[matrix.tensor].source->weight->read_block_tile(matrix.slice, tile,
                                                                       its_codes, its_scales));
      const BlockCoding coding = matrix.kept->written;
      const std::uint64_t each = hash_of_tile(matrix.slice, tile, coding, its_codes, its_scales);
      const Unit unit{Unit::Kind::quantize, shard, i, 0};
      written.set(unit, coding, each);
      wrong.set(unit, coding, each + 1);
      scaled.set(unit, {.format = coding.format, .multiplier = 2.0f}, each);
    }
  }
  EXPECT_EQ(hash(written), wanted);
  EXPECT_GE(read, 64);
  EXPECT_LT(read, tiles / 2);
  EXPECT_EQ(hash(written, true), wanted);
  EXPECT_EQ(read, tiles);
  EXPECT_EQ(hash(scaled), wanted) << "the reader decodes it otherwise, so it is read";
  EXPECT_EQ(read, tiles);
  expect_error(ErrorCode::io, "does not have the values that were written", [&] { hash(wrong); });
}

TEST_F(KeptCheck, names_a_weight_that_is_not_there) {
  for (const char* name : {"model-1.safetensors", "model.safetensors.index.json"}) {
    std::string bytes = testing::read_file(options_.output / name);
    for (std::size_t at = 0;
         (at = bytes.find("experts.1.up_proj.weight", at)) != std::string::npos;) {
      bytes[at + 8] = '7';
    }
    testing::write_file(options_.output / name, bytes);
  }
  expect_error(ErrorCode::io, "experts.1.up_proj", [&] { hash(); });
}

}  // namespace
}  // namespace microscale
