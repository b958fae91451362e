// Every vector table decodes every code under every scale as the reference does.
#include <gtest/gtest.h>

#include "cpu/compare.hpp"
#include "cpu/inputs.hpp"

namespace microscale {
namespace {

using test::vector_tables;

constexpr Format covered[] = {Format::mxfp4,      Format::nvfp4,      Format::mxfp6_e2m3,
                              Format::mxfp6_e3m2, Format::mxfp8_e4m3, Format::mxfp8_e5m2,
                              Format::mxint8};
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};

class CpuDequantize : public ::testing::Test {
 protected:
  void SetUp() override {
    if (vector_tables().empty()) GTEST_SKIP() << "this machine has no AVX2";
  }
};

// Blocks of random codes, several for every scale byte; in every second all FP8 codes are normal
// numbers.
void fill_codes(const FormatInfo& format, std::int64_t blocks, std::vector<std::uint8_t>& codes,
                std::vector<std::uint8_t>& scales) {
  std::mt19937 random(3);
  codes.resize(static_cast<std::size_t>(code_bytes(format, blocks * format.block)));
  scales.resize(static_cast<std::size_t>(blocks));
  const std::size_t block_codes = codes.size() / scales.size();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(random());
    if (i / block_codes % 2 == 0) continue;
    if ((codes[i] & 0x78) == 0) codes[i] |= 0x40;
    if ((codes[i] & 0x7C) == 0x7C) codes[i] &= 0xFB;
  }
  for (std::size_t b = 0; b < scales.size(); ++b)
    scales[b] = static_cast<std::uint8_t>(b / 3 % 256);
}

TEST_F(CpuDequantize, every_scale_and_code_decodes_as_in_the_reference) {
  for (Format format : covered) {
    const FormatInfo& facts = info(format);
    std::vector<std::uint8_t> codes, scales;
    const std::int64_t blocks = 256 * 3 * 5 + 3;
    fill_codes(facts, blocks, codes, scales);
    for (DType type : types) {
      for (float g : {1.0f, 0.00037f, 0x1p-149f, 0x1p-126f, 0x1p-20f, 0x1p15f, 0x1.fffffep127f}) {
        DequantizeLines call;
        call.codes = codes.data();
        call.scales = scales.data();
        call.code_stride = static_cast<std::int64_t>(codes.size());
        call.scale_stride = blocks;
        call.format = format;
        call.output_type = type;
        call.global_scale = g;
        for (const KernelTable* table : vector_tables())
          EXPECT_TRUE(test::same_values(*table, call, {.blocks = blocks}))
              << to_string(table->backend) << " g " << g;
        if (facts.e8m0_scale) break;  // no global scale
      }
    }
  }
}

TEST_F(CpuDequantize, every_shape_stride_and_misalignment_gives_the_same_values) {
  for (Format format : covered) {
    const FormatInfo& facts = info(format);
    std::vector<std::uint8_t> codes, scales;
    fill_codes(facts, 3 * 25, codes, scales);
    for (std::uint8_t& scale : scales) scale = static_cast<std::uint8_t>(120 + scale % 8);
    for (DType type : types) {
      for (std::int64_t lines : {0, 1, 3}) {
        for (std::int64_t blocks : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17}) {
          for (std::int64_t gap : {0, 3}) {
            for (std::int64_t offset : {0, 1}) {
              DequantizeLines call;
              call.codes = codes.data() + offset;
              call.scales = scales.data() + offset;
              call.code_stride = code_bytes(facts, blocks * facts.block) + gap;
              call.scale_stride = blocks + gap;
              call.format = format;
              call.output_type = type;
              call.global_scale = 0.02f;
              for (const KernelTable* table : vector_tables())
                ASSERT_TRUE(test::same_values(
                    *table, call,
                    {.lines = lines, .blocks = blocks, .output_gap = gap, .offset = offset}))
                    << to_string(table->backend) << ' ' << lines << " x " << blocks;
            }
          }
        }
      }
    }
  }
}

// Large outputs go past the cache where they begin at a whole vector.
TEST_F(CpuDequantize, large_outputs_at_any_address_have_the_same_values) {
  const std::int64_t blocks = 4099;
  for (Format format : covered) {
    const FormatInfo& facts = info(format);
    std::vector<std::uint8_t> codes, scales;
    fill_codes(facts, blocks, codes, scales);
    for (DType type : types)
      for (std::int64_t offset : {0, 1, 4, 7, 8, 15}) {
        DequantizeLines call;
        call.codes = codes.data();
        call.scales = scales.data();
        call.code_stride = code_bytes(facts, blocks * facts.block);
        call.scale_stride = blocks;
        call.format = format;
        call.output_type = type;
        call.global_scale = 0.02f;
        for (const KernelTable* table : vector_tables())
          EXPECT_TRUE(test::same_values(*table, call, {.blocks = blocks, .offset = offset}))
              << to_string(table->backend) << ' ' << facts.name << " offset " << offset;
      }
  }
}

TEST_F(CpuDequantize, no_format_is_without_a_kernel) {
  for (const KernelTable* table : vector_tables())
    for (Format format : covered) {
      DequantizeLines call;
      call.format = format;
      EXPECT_TRUE(table->supports_dequantize(call)) << info(format).name;
    }
}

}  // namespace
}  // namespace microscale
