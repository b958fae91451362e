#include "checkpoint/containers/gguf_weight.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

class GgufWeightTest : public ::testing::Test {
 protected:
  // A weight of one row: the bytes of `type`.
  std::vector<std::uint8_t> decode(GgufSource source, const std::string& bytes,
                                   StoredType wanted_type) {
    write_file(folder_ / "x", bytes);
    const InputFile file = take(InputFile::open(folder_ / "x"));
    source.name = "w";
    source.bytes = bytes.size();
    const TensorEntry entry{"w", StoredType::u8, {}, 0, bytes.size()};
    const ModelTensor codes{0, &entry};
    const GgufWeight weight(source, codes, file);
    EXPECT_EQ(weight.facts().type, wanted_type);
    EXPECT_EQ(weight.facts().description, std::string("GGUF ") + info(source.type).name);
    EXPECT_EQ(weight.bytes(), bytes.size());
    std::vector<std::uint8_t> out(
        static_cast<std::size_t>(weight.elements() * weight.value_bytes()));
    weight.will_need(0, weight.elements());
    EXPECT_TRUE(succeeds(weight.decode(0, weight.elements(), out)));
    return out;
  }
  static std::vector<std::uint8_t> bytes_of(const std::string& text) {
    return {text.begin(), text.end()};
  }

  const TemporaryFolder folder_;
};

TEST_F(GgufWeightTest, values_are_f32_where_bf16_does_not_hold_them) {
  GgufSource source;
  source.type = GgufType::q8_0;
  source.shape = {1, 32};
  std::vector<float> wanted;
  for (int code = -16; code < 16; ++code) wanted.push_back(static_cast<float>(code) / 64);
  EXPECT_EQ(decode(source, q8_0_blocks(1), StoredType::f32), bytes_of(float_bytes(wanted)));
}

TEST_F(GgufWeightTest, values_of_4_bit_floats_are_bf16) {
  GgufSource source;
  source.type = GgufType::mxfp4;
  source.shape = {32};
  std::string wanted;
  for (int i = 0; i < 32; ++i) wanted += little_endian<std::uint16_t>(0x3F80);
  EXPECT_EQ(decode(source, std::string(1, 127) + std::string(16, '\x22'), StoredType::bf16),
            bytes_of(wanted));
  source.type = GgufType::nvfp4;
  source.shape = {64};
  EXPECT_EQ(decode(source, std::string(4, 0x38) + std::string(32, '\x22'), StoredType::bf16),
            bytes_of(wanted + wanted));
}

TEST_F(GgufWeightTest, a_scale_of_the_tensor_takes_f32) {
  GgufSource source;
  source.type = GgufType::nvfp4;
  source.shape = {64};
  source.scale = 0.1f;
  EXPECT_EQ(decode(source, std::string(4, 0x38) + std::string(32, '\x22'), StoredType::f32),
            bytes_of(float_bytes(std::vector<float>(64, 0.1f))));
}

TEST_F(GgufWeightTest, long_tensors_are_decoded_in_pieces) {
  GgufSource source;
  source.type = GgufType::q8_0;
  source.shape = {1000, 32};
  const auto values = decode(source, q8_0_blocks(1000), StoredType::f32);
  for (std::size_t i = 0; i < 32000; i += 997) {
    float value = 0;
    std::memcpy(&value, values.data() + 4 * i, 4);
    EXPECT_EQ(value, (static_cast<float>(i % 32) - 16) / 64);
  }
}

}  // namespace
}  // namespace microscale
