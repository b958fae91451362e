#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "layouts/row_major.hpp"
#include "microscale/error.hpp"
#include "microscale/tensor.hpp"

namespace microscale {
namespace {

TEST(BlockShape, counts_bytes_of_both_axes) {
  const BlockShape across{.rows = 3, .cols = 64, .format = Format::mxfp4};
  EXPECT_EQ(across.code_bytes(), 96);
  EXPECT_EQ(across.scale_bytes(), 6);
  const BlockShape down{
      .rows = 64, .cols = 3, .format = Format::mxfp8_e4m3, .axis = BlockAxis::rows};
  EXPECT_EQ(down.lines(), 3);
  EXPECT_EQ(down.code_bytes(), 192);
  EXPECT_EQ(down.scale_bytes(), 6);
}

TEST(BlockShape, an_incomplete_block_counts_as_a_whole_one) {
  const BlockShape shape{.rows = 2, .cols = 33, .format = Format::nvfp4};
  EXPECT_EQ(shape.blocks_per_line(), 3);
  EXPECT_EQ(shape.code_bytes_per_line(), 24);
  EXPECT_EQ(shape.scale_bytes(), row_major::bytes(2, 3));
}

TEST(BlockTensor, owns_zeroed_bytes_of_the_shape_s_sizes) {
  const BlockShape shape{
      .rows = 130, .cols = 64, .format = Format::mxfp4, .layout = Layout::tiled_128x4};
  const BlockTensor tensor(shape);
  EXPECT_EQ(tensor.codes().size(), 130u * 32);
  EXPECT_EQ(tensor.scales().size(), 1024u);
  for (std::uint8_t byte : tensor.scales()) ASSERT_EQ(byte, 0);
  EXPECT_EQ(tensor.view().shape, shape);
}

TEST(BlockTensor, too_large_a_shape_is_an_error_that_says_so) {
  constexpr std::int64_t one = 1;
  for (const auto& [rows, cols] : {std::pair{one << 31, one << 31},
                                   {one << 59, one << 20},
                                   {one << 20, one << 59},
                                   {std::int64_t{0}, one << 62}}) {
    const BlockShape shape{.rows = rows, .cols = cols, .format = Format::mxfp4};
    try {
      BlockTensor tensor(shape);
      ADD_FAILURE() << rows << " x " << cols << " was allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_NE(std::string(error.what()).find(std::to_string(rows) + " x " + std::to_string(cols)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(BlockShape, of_negative_sizes_is_an_error) {
  for (const BlockShape& shape :
       {BlockShape{.rows = -10, .cols = 32}, BlockShape{.rows = 10, .cols = -32}}) {
    try {
      BlockTensor tensor(shape);
      ADD_FAILURE() << "allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("must not be negative"), std::string::npos)
          << error.what();
    }
    EXPECT_THROW(shape.code_bytes(), Error);
    EXPECT_THROW(shape.scale_bytes(), Error);
  }
}

}  // namespace
}  // namespace microscale
