// Every type against the values that the gguf package gave (tests/golden/gguf_blocks.txt).
#include "checkpoint/containers/gguf_blocks.hpp"
#include "support/paths.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace microscale {
namespace {

struct GoldenBlock {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> values;  // bits
};

// By the type's name.
std::multimap<std::string, GoldenBlock> golden_blocks() {
  std::ifstream file(testing::test_data() + "/golden/gguf_blocks.txt");
  std::multimap<std::string, GoldenBlock> blocks;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, bytes, values;
    words >> name >> bytes >> values;
    if (values.empty() || name == "version" || name == "#") continue;
    GoldenBlock block;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      block.bytes.push_back(static_cast<std::uint8_t>(std::stoul(bytes.substr(i, 2), nullptr, 16)));
    }
    for (std::size_t i = 0; i < values.size(); i += 8) {
      block.values.push_back(
          static_cast<std::uint32_t>(std::stoul(values.substr(i, 8), nullptr, 16)));
    }
    blocks.emplace(name, std::move(block));
  }
  return blocks;
}

std::vector<float> decode(GgufType type, const std::vector<std::uint8_t>& bytes) {
  const GgufTypeInfo& facts = info(type);
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(facts.bytes) *
                            static_cast<std::size_t>(facts.block));
  decode_gguf_blocks(type, bytes, values);
  return values;
}

TEST(GgufBlocks, values_are_those_of_the_gguf_package_bit_for_bit) {
  const auto blocks = golden_blocks();
  std::size_t types = 0;
  for (const GgufTypeInfo& type : all_gguf_types()) {
    if (!type.has_decoder || type.type == GgufType::f32 || type.type == GgufType::q8_k) continue;
    ++types;
    const auto [begin, end] = blocks.equal_range(type.name);
    ASSERT_NE(begin, end) << type.name << " has no golden block";
    std::vector<std::uint8_t> bytes;  // all blocks, one behind the other
    std::vector<std::uint32_t> wanted;
    for (auto block = begin; block != end; ++block) {
      ASSERT_EQ(block->second.bytes.size(), static_cast<std::size_t>(type.bytes)) << type.name;
      ASSERT_EQ(block->second.values.size(), static_cast<std::size_t>(type.block)) << type.name;
      bytes.insert(bytes.end(), block->second.bytes.begin(), block->second.bytes.end());
      wanted.insert(wanted.end(), block->second.values.begin(), block->second.values.end());
    }
    const std::vector<float> values = decode(type.type, bytes);
    ASSERT_EQ(values.size(), wanted.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), wanted[i]) << type.name << " at " << i;
    }
  }
  EXPECT_EQ(types, 16u);
}

TEST(GgufBlocks, f32_is_copied) {
  const std::vector<float> values{1.5f, -0.0f, INFINITY};
  std::vector<std::uint8_t> bytes(12);
  std::memcpy(bytes.data(), values.data(), 12);
  EXPECT_EQ(decode(GgufType::f32, bytes), values);
  EXPECT_TRUE(decode(GgufType::f32, {}).empty());
}

// Its scale is FP32; the gguf package does not decode it.
TEST(GgufBlocks, q8_k_is_a_float_times_bytes) {
  std::vector<std::uint8_t> block(292);
  const float d = 0.375f;
  std::memcpy(block.data(), &d, 4);
  for (int i = 0; i < 256; ++i)
    block[static_cast<std::size_t>(4 + i)] = static_cast<std::uint8_t>(i);
  const std::vector<float> values = decode(GgufType::q8_k, block);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)],
              0.375f * static_cast<float>(static_cast<std::int8_t>(i)));
  }
}

// What llama.cpp makes of scales at the edge: E8M0's two smallest, its 0xFF, E4M3's 0x7F and sign.
TEST(GgufBlocks, odd_scales_of_mxfp4_and_nvfp4) {
  const auto mxfp4_one = [](std::uint8_t scale) {
    std::vector<std::uint8_t> block(17, 0x22);  // the code of 1
    block[0] = scale;
    return decode(GgufType::mxfp4, block)[0];
  };
  EXPECT_EQ(mxfp4_one(0), 0x1p-127f);
  EXPECT_EQ(mxfp4_one(1), 0x1p-126f);
  EXPECT_EQ(mxfp4_one(127), 1.0f);
  EXPECT_EQ(mxfp4_one(255), INFINITY);
  const auto nvfp4_one = [](std::uint8_t scale) {
    std::vector<std::uint8_t> block(36, 0x22);
    block[0] = scale;
    return decode(GgufType::nvfp4, block)[0];
  };
  EXPECT_EQ(nvfp4_one(0), 0.0f);
  EXPECT_EQ(nvfp4_one(1), 0x1p-9f);
  EXPECT_EQ(nvfp4_one(0x38), 1.0f);
  EXPECT_EQ(nvfp4_one(0x7E), 448.0f);
  EXPECT_EQ(nvfp4_one(0x7F), 0.0f);
  EXPECT_EQ(nvfp4_one(0xB8), 1.0f);
  EXPECT_EQ(nvfp4_one(0xFF), 480.0f);
}

TEST(GgufBlocks, a_scale_that_is_nan_gives_nan) {
  std::vector<std::uint8_t> block(18, 0x11);
  block[0] = 0xFF;
  block[1] = 0x7F;
  for (const float value : decode(GgufType::q4_0, block)) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace microscale
