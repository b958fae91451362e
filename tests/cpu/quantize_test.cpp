// Every vector table gives the reference's codes and scales, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "cpu/compare.hpp"
#include "cpu/inputs.hpp"
#include "formats/nvfp4.hpp"

namespace microscale {
namespace {

using test::Input;
using test::Placement;
using test::vector_tables;

constexpr Format covered[] = {Format::mxfp4,      Format::nvfp4,      Format::mxfp6_e2m3,
                              Format::mxfp6_e3m2, Format::mxfp8_e4m3, Format::mxfp8_e5m2,
                              Format::mxint8};
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};

// Runs all tables on an input as one line, whole groups and a rest.
void check(const Input& input, QuantizeLines call, std::int64_t offset = 0) {
  const auto bytes = test::to_bytes(input);
  test::Bytes memory(static_cast<std::int64_t>(bytes.size()), offset);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  call.input = memory.data();
  call.input_type = input.type;
  const auto count = static_cast<std::int64_t>(input.bits.size());
  for (const KernelTable* table : vector_tables()) ASSERT_TRUE(table->supports_quantize(call));
  ASSERT_TRUE(test::same_blocks(vector_tables(), call, {.blocks = count / info(call.format).block}))
      << to_string(input.type) << ' ' << input.name << " g " << call.global_scale;
}

QuantizeLines call_of(Format format, ScaleRule rule, float g = 1.0f) {
  QuantizeLines call;
  call.format = format;
  call.numerics.scale_rule = rule;
  call.global_scale = g;
  return call;
}

class CpuQuantize : public ::testing::Test {
 protected:
  void SetUp() override {
    if (vector_tables().empty()) GTEST_SKIP() << "this machine has no AVX2";
  }
};

TEST_F(CpuQuantize, mx_equals_the_reference_for_every_rule_type_and_kind_of_input) {
  for (DType type : types) {
    for (const Input& input : test::inputs(type, 1 << 15))
      for (Format format : covered)
        if (format != Format::nvfp4)
          for (ScaleRule rule : scale_rules(format)) check(input, call_of(format, rule));
    const Input each = test::each_as_amax(type, 1);
    for (Format format : {Format::mxfp4, Format::mxfp6_e2m3, Format::mxfp6_e3m2, Format::mxfp8_e4m3,
                          Format::mxfp8_e5m2, Format::mxint8})
      for (ScaleRule rule : {ScaleRule::rceil, ScaleRule::even_down, ScaleRule::search})
        check(each, call_of(format, rule));
  }
}

TEST_F(CpuQuantize, nvfp4_equals_the_reference_for_every_rule_type_and_global_scale) {
  for (DType type : types) {
    for (const Input& input : test::inputs(type, 1 << 13)) {
      for (ScaleRule rule : scale_rules(Format::nvfp4)) {
        if (rule == ScaleRule::full && input.bits.size() > 20000) continue;
        check(input, call_of(Format::nvfp4, rule, 0.0003f));
        check(input, call_of(Format::nvfp4, rule, 1.0f));
      }
    }
    for (ScaleRule rule : {ScaleRule::nearest, ScaleRule::four_over_six})
      check(test::each_as_amax(type, 1), call_of(Format::nvfp4, rule, 0x1.234p-9f));
    check(test::each_as_amax(type, 3), call_of(Format::nvfp4, ScaleRule::search, 0x1.234p-9f));
  }
}

TEST_F(CpuQuantize, nvfp4_equals_the_reference_under_extreme_global_scales) {
  for (float g :
       {0x1p-149f, 0x1.8p-140f, 0x1p-126f, 0x1p-100f, 0x1p60f, 0x1p120f, 0x1.fffffcp127f}) {
    for (DType type : types) {
      for (const Input& input : test::inputs(type, 1 << 12)) {
        for (ScaleRule rule : {ScaleRule::nearest, ScaleRule::search, ScaleRule::four_over_six_mae})
          if (input.bits.size() < 60000 || rule == ScaleRule::nearest)
            check(input, call_of(Format::nvfp4, rule, g));
      }
    }
  }
}

// Under every scale code, all numbers from below the first step between two codes to the largest.
TEST_F(CpuQuantize, nvfp4_changes_codes_where_the_reference_does_under_every_scale) {
  for (DType type : {DType::bf16, DType::f16}) {
    for (float g : {1.0f, 1.0f / 168, 0x1.234p-9f, 0x1p-99f, 0x1.fcp99f}) {
      if (type == DType::f16 && (g > 100 || g < 0.001f)) continue;
      Input input{"steps under every scale", type, {}};
      for (int code = 1; code <= nvfp4_max_scale; ++code) {
        const float step = nvfp4_step(static_cast<std::uint8_t>(code), g);
        const std::uint32_t largest = test::to_bits(6.0f * step, type);
        for (std::uint32_t bits = test::to_bits(0.2f * step, type); bits < largest;) {
          input.bits.push_back(largest);  // gives the block this scale
          for (int i = 1; i < 16; ++i, ++bits)
            input.bits.push_back(std::min(bits, largest) | (i % 3 == 0 ? 0x8000u : 0));
        }
      }
      check(input, call_of(Format::nvfp4, ScaleRule::nearest, g));
    }
  }
}

// Blocks a vector apart share a lane; a NaN between them must not make the kernel forget the first.
TEST_F(CpuQuantize, nvfp4_saturates_blocks_whose_lane_meets_a_nan_later) {
  for (std::size_t lanes : {8u, 16u}) {
    Input input{"saturated, NaN, small", DType::f32, {}};
    for (std::size_t i = 0; i < 64 * 16; ++i) {
      const std::size_t turn = i / 16 / lanes;
      const float value = turn == 0 ? 143.0f : turn == 1 ? NAN : 1.0f;
      input.bits.push_back(std::bit_cast<std::uint32_t>(i % 2 ? -value : value));
    }
    check(input, call_of(Format::nvfp4, ScaleRule::nearest, 0x1p-9f));
  }
}

TEST_F(CpuQuantize, weights_steer_every_search_as_in_the_reference) {
  std::mt19937 random(11);
  std::vector<float> weights(std::size_t{1} << 17);
  for (float& w : weights)
    w = random() % 8 == 0 ? 0.0f : static_cast<float>(random() % 1000) * 0.37f;
  for (DType type : types) {
    for (const Input& input : test::inputs(type, 1 << 12)) {
      for (Format format : covered) {
        for (ScaleRule rule : scale_rules(format)) {
          if (rule == ScaleRule::full && input.bits.size() > 20000) continue;
          for (float g : {0.001f, 0x1p-140f}) {
            QuantizeLines call = call_of(format, rule, g);
            call.weights = weights.data();
            check(input, call);
          }
        }
      }
    }
  }
}

TEST_F(CpuQuantize, every_shape_stride_and_misalignment_gives_the_same_bytes) {
  for (DType type : types) {
    const Input input = test::of_values("ramp", type, 5 * 20 * 40, [](int i) {
      return static_cast<float>(i * 37 % 101 - 50) * (i / 16 % 5 == 4 ? 0.0f : 0.125f);
    });
    const auto bytes = test::to_bytes(input);
    for (std::int64_t offset : {0, 1, 3}) {
      test::Bytes memory(static_cast<std::int64_t>(bytes.size()), offset * size_of(type));
      std::memcpy(memory.data(), bytes.data(), bytes.size());
      for (Format format : covered) {
        for (std::int64_t lines : {0, 1, 3}) {
          for (std::int64_t blocks : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17}) {
            for (std::int64_t gap : {0, 5}) {
              for (ScaleRule rule : {scale_rules(format).front(), scale_rules(format).back()}) {
                QuantizeLines call = call_of(format, rule, 0.01f);
                call.input = memory.data();
                call.input_type = type;
                ASSERT_TRUE(test::same_blocks(vector_tables(), call,
                                              {lines, blocks, gap, 2 * gap / 3, offset}))
                    << lines << " x " << blocks << " gap " << gap << " offset " << offset;
              }
            }
          }
        }
      }
    }
  }
}

// Large outputs go past the cache where they begin at a whole vector; blocks that only the
// reference knows lie among them.
TEST_F(CpuQuantize, large_outputs_at_any_address_have_the_same_bytes) {
  const std::int64_t blocks = 9001;
  const Input input = test::of_values(
      "ramp with infinities", DType::bf16, static_cast<int>(blocks) * 32, [](int i) {
        return i % 40009 == 11 ? INFINITY : static_cast<float>(i * 37 % 101 - 50) * 0.125f;
      });
  const auto bytes = test::to_bytes(input);
  for (Format format : covered)
    for (std::int64_t offset : {0, 1, 16, 31, 32, 63}) {
      QuantizeLines call = call_of(format, scale_rules(format).front(), 0.01f);
      call.input = bytes.data();
      call.input_type = DType::bf16;
      EXPECT_TRUE(test::same_blocks(vector_tables(), call, {.blocks = blocks, .offset = offset}))
          << info(format).name << " offset " << offset;
    }
}

TEST_F(CpuQuantize, nan_and_infinity_follow_the_policies_of_the_call) {
  for (NanPolicy nan : {NanPolicy::propagate, NanPolicy::drop}) {
    for (InfPolicy inf : {InfPolicy::saturate, InfPolicy::nan_block}) {
      for (Format format : covered) {
        for (ScaleRule rule : scale_rules(format)) {
          if (rule == ScaleRule::full) continue;
          QuantizeLines call = call_of(format, rule, 0.01f);
          call.numerics.nan = nan;
          call.numerics.inf = inf;
          check(test::specials(DType::bf16), call);
          check(test::specials(DType::f32), call);
        }
      }
    }
  }
}

TEST_F(CpuQuantize, rounds_stochastically_as_the_reference_does) {
  for (DType type : types)
    for (const Input& input : test::inputs(type, 1 << 12))
      for (Format format : covered)
        for (ScaleRule rule :
             {info(format).e8m0_scale ? ScaleRule::rceil : ScaleRule::nearest, ScaleRule::search}) {
          QuantizeLines call = call_of(format, rule, format == Format::nvfp4 ? 0.0003f : 1.0f);
          call.numerics.rounding = Rounding::stochastic;
          call.numerics.seed = 0x123456789ABCDEF0;
          check(input, call);
          call.numerics.nan = NanPolicy::drop;
          call.numerics.inf = InfPolicy::nan_block;
          check(input, call);
        }
}

// Elements along a row, down a column, far apart; an odd first one; keys that change on the way.
TEST_F(CpuQuantize, random_bits_go_by_the_place_of_an_element) {
  constexpr std::int64_t lines = 3, blocks = 37;
  for (Format format : {Format::nvfp4, Format::mxfp8_e5m2, Format::mxint8}) {
    const auto count = static_cast<std::uint64_t>(blocks * info(format).block);
    QuantizeLines call =
        call_of(format, info(format).e8m0_scale ? ScaleRule::floor : ScaleRule::nearest, 0.01f);
    call.numerics.rounding = Rounding::stochastic;
    std::vector<float> values(lines * count);
    std::mt19937 random(7);
    std::normal_distribution<float> gaussian;
    for (float& x : values) x = gaussian(random);
    call.input = values.data();
    for (const std::uint64_t step : {1u, 2u, 3u, 4096u, 4097u, (1u << 27) - 1, 1u << 27})
      for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7},
                                        (std::uint64_t{1} << 33) - 100, std::uint64_t{5} << 40}) {
        call.index_step = step;
        call.first_index = first;
        call.index_line_stride = step == 1 ? count : 1;
        EXPECT_TRUE(test::same_blocks(vector_tables(), call, {.lines = lines, .blocks = blocks}))
            << info(format).name << ", step " << step << " from " << first;
      }
  }
}

TEST_F(CpuQuantize, options_without_a_kernel_are_refused) {
  for (const KernelTable* table : vector_tables()) {
    QuantizeLines call = call_of(Format::mxfp4, ScaleRule::floor);
    EXPECT_TRUE(table->supports_quantize(call));
    call.numerics.rounding = Rounding::toward_zero;
    EXPECT_FALSE(table->supports_quantize(call));
    call = call_of(Format::mxfp4, ScaleRule::floor);
    call.numerics.zero_code = ZeroCode::positive;
    EXPECT_FALSE(table->supports_quantize(call));
    EXPECT_FALSE(table->supports_quantize(call_of(Format::nvfp4, ScaleRule::search, 0.0f)));
  }
}

}  // namespace
}  // namespace microscale
