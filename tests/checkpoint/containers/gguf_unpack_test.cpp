#include "checkpoint/containers/gguf_unpack.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/gguf_blocks.hpp"

namespace microscale {
namespace {

using testing::Bytes;

// Blocks of every byte, unpacked and decoded as our format, against the reader of GGUF's values.
TEST(GgufUnpack, blocks_stand_for_the_values_that_llama_cpp_gives_them) {
  for (const GgufType type : {GgufType::mxfp4, GgufType::nvfp4}) {
    const GgufTypeInfo& facts = info(type);
    const Format format = format_of_gguf(type).value();
    const std::int64_t count = 200;
    // Any scale that is no NaN elsewhere; of NVFP4 also with a sign, and 0x7F.
    Bytes blocks = testing::random_bytes(count * facts.bytes, 5);
    for (std::size_t i = 0; i < blocks.size() && type == GgufType::mxfp4; i += 17) {
      blocks[i] = static_cast<std::uint8_t>(i / 17 + 2);
    }
    for (std::uint8_t& byte : blocks) byte = byte == 0xFF ? 0x7F : byte;
    Bytes codes(static_cast<std::size_t>(count * facts.block / 2));
    Bytes scales(static_cast<std::size_t>(count * facts.block / info(format).block));
    ASSERT_TRUE(unpack_gguf_blocks(type, blocks, codes, scales));
    std::vector<float> wanted(codes.size() * 2), found(wanted.size());
    decode_gguf_blocks(type, blocks, wanted);
    decode_blocks({.format = format}, codes, scales, DType::f32, found.data());
    EXPECT_EQ(found, wanted);
  }
}

TEST(GgufUnpack, tells_a_scale_that_is_nan_elsewhere) {
  Bytes blocks = testing::random_bytes(17 * 3, 9, 0, 100);
  Bytes codes(48), scales(3);
  EXPECT_TRUE(unpack_gguf_blocks(GgufType::mxfp4, blocks, codes, scales));
  blocks[17] = 0xFF;
  EXPECT_FALSE(unpack_gguf_blocks(GgufType::mxfp4, blocks, codes, scales));
  testing::Bytes four(4);
  blocks.assign(36, 0x40);
  EXPECT_TRUE(unpack_gguf_blocks(GgufType::nvfp4, blocks, codes, four));
  blocks[3] = 0xFF;
  EXPECT_FALSE(unpack_gguf_blocks(GgufType::nvfp4, blocks, codes, four));
}

TEST(GgufUnpack, knows_two_types) {
  EXPECT_EQ(format_of_gguf(GgufType::mxfp4), Format::mxfp4);
  EXPECT_EQ(format_of_gguf(GgufType::nvfp4), Format::nvfp4);
  EXPECT_EQ(format_of_gguf(GgufType::q4_k), std::nullopt);
}

}  // namespace
}  // namespace microscale
