// Every golden vector through the reference quantizer, byte for byte. Where a tool's own result is
// undefined behaviour, or code that no container could hold, `departure` names the blocks and what
// we write instead.
#include "formats/compat.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "formats/golden.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "seam/kernel_table.hpp"

namespace microscale {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

const std::vector<golden::Case>& cases() {
  static const std::vector<golden::Case> all = golden::read_cases();
  return all;
}

/// The elements of a case in memory as its type, and as FP32.
struct Input {
  std::vector<std::uint16_t> narrow;
  std::vector<float> values;
  TensorView view;
};

Input make_input(const golden::Case& from) {
  Input input;
  input.narrow.assign(from.bits.begin(), from.bits.end());
  for (const std::uint32_t bits : from.bits)
    input.values.push_back(from.dtype == DType::f32 ? std::bit_cast<float>(bits)
                           : from.dtype == DType::bf16
                               ? bf16_to_float(static_cast<std::uint16_t>(bits))
                               : f16_to_float(static_cast<std::uint16_t>(bits)));
  const void* data = from.dtype == DType::f32 ? static_cast<const void*>(input.values.data())
                                              : input.narrow.data();
  input.view = {data, from.dtype, 1, 32, 32};
  return input;
}

struct Bytes {
  std::vector<std::uint8_t> scales, codes;  // one code per byte
};

std::vector<std::uint8_t> unpack(std::span<const std::uint8_t> packed, int code_bits) {
  std::vector<std::uint8_t> codes;
  for (std::size_t i = 0; i < 32; ++i)
    codes.push_back(code_bits == 8 ? packed[i] : packed[i / 2] >> (i % 2 * 4) & 15);
  return codes;
}

// With the tool's own global number, which the public call derives from the input.
Bytes quantize_with(const Input& input, Format format, const Numerics& numerics, float global) {
  const FormatInfo& type = info(format);
  QuantizeLines call;
  call.input = input.view.data;
  call.input_type = input.view.dtype;
  call.input_stride = 32;
  call.lines = 1;
  call.blocks = 32 / type.block;
  call.format = format;
  call.numerics = numerics;
  call.tool_global = global;
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(code_bytes(type, 32)));
  Bytes out{std::vector<std::uint8_t>(static_cast<std::size_t>(call.blocks)), {}};
  call.codes = packed.data();
  call.scales = out.scales.data();
  call.code_stride = static_cast<std::int64_t>(packed.size());
  call.scale_stride = call.blocks;
  reference_kernels.quantize(call);
  out.codes = unpack(packed, type.code_bits);
  return out;
}

QuantizeOptions as_tool(const TensorView& input, Format format, Compat compat) {
  QuantizeOptions options;
  options.input = input;
  options.format = format;
  options.numerics = numerics_for(compat, format);
  return options;
}

struct Range {
  float amax = 0;  // NaN left out
  bool has_nan = false;
};

Range range_of(std::span<const float> values) {
  Range range;
  for (const float value : values) {
    range.has_nan = range.has_nan || std::isnan(value);
    if (std::fabs(value) > range.amax) range.amax = std::fabs(value);
  }
  return range;
}

/// The scale we write for a block that the tool gives no defined bytes; nothing for all others.
/// docs/formats/compat.md gives the reason of each.
std::optional<int> departure(const std::string& stem, const Range& block, float global) {
  const bool infinite = block.amax == infinity;
  const auto starts = [&](const char* text) { return stem.rfind(text, 0) == 0; };
  // NaN, infinity and numbers beyond the scale are converted to an integer.
  if (starts("compressed_tensors_mx")) {
    if (block.has_nan) return 255;
    if (infinite) return 254;
    if (block.amax >= 0x1.cp127f) return stem == "compressed_tensors_mxfp4" ? 253 : 247;
  }
  if (stem == "modelopt_mxfp4" && (block.has_nan || infinite)) return block.has_nan ? 255 : 254;
  if (stem == "vllm_mxfp8_e4m3" && block.has_nan) return 255;
  // The codes of a NaN come from such a conversion; the sign of its scale is the processor's.
  if (stem == "compressed_tensors_nvfp4" && (block.has_nan || (infinite && global == 0)))
    return 127;
  // Python, where the C code takes the largest number that is not NaN and negative bytes are
  // undefined.
  if (stem == "gguf_mxfp4") {
    if (infinite) return 254;
    if (block.amax > 0 && block.has_nan) return std::ilogb(block.amax) - 2 + 127;
    if (block.amax > 0 && block.amax < 0x1p-125f) return 0;
  }
  // Values, not codes: NaN in each element, for which MXINT8 has no code but 0.
  if (starts("microxcaling") && stem != "microxcaling_mxint8" && (block.has_nan || infinite))
    return 255;
  return std::nullopt;
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, tool_and_reference_give_the_same_bytes) {
  const std::string stem = GetParam();
  golden::File file = golden::read_file(stem);
  ASSERT_GT(file.lines.size(), 90u);
  const Format format = parse_format(file.header["format"]).value();
  const Compat compat = parse_compat(file.header["tool"]).value();
  Numerics numerics = numerics_for(compat, format);
  if (compat != Compat::torchao) {
    EXPECT_EQ(to_string(numerics.scale_rule), file.header["rule"]);
  }
  numerics.scale_rule = parse_scale_rule(file.header["rule"]).value();
  ASSERT_TRUE(follows_tool(numerics, format));
  const auto block = static_cast<std::size_t>(info(format).block);

  int wrong = 0;
  for (const golden::Line& line : file.lines) {
    const golden::Case& from = cases().at(static_cast<std::size_t>(line.number));
    const Input input = make_input(from);
    const Bytes ours = quantize_with(input, format, numerics, line.global);
    std::ostringstream where;
    where << stem << ", case " << line.number << " (" << from.name << ", " << to_string(from.dtype)
          << ", tensor magnitude " << line.amax << ")";
    for (std::size_t b = 0; b < line.scales.size() && wrong < 10; ++b) {
      const auto values = std::span(input.values).subspan(b * block, block);
      const auto our_codes = std::span(ours.codes).subspan(b * block, block);
      const auto tool_codes = std::span(line.codes).subspan(b * block, block);
      const bool same = ours.scales[b] == line.scales[b] &&
                        std::equal(our_codes.begin(), our_codes.end(), tool_codes.begin());
      if (const auto scale = departure(stem, range_of(values), line.global)) {
        EXPECT_EQ(int{ours.scales[b]}, *scale) << where.str() << " block " << b << ", a departure";
        EXPECT_FALSE(same) << where.str() << " block " << b << " departs from the tool no longer";
        wrong += same || ours.scales[b] != *scale;
        continue;
      }
      wrong += !same;
      EXPECT_EQ(int{ours.scales[b]}, int{line.scales[b]}) << where.str() << " scale of block " << b;
      for (std::size_t i = 0; i < block; ++i) {
        if (our_codes[i] == tool_codes[i]) continue;
        ADD_FAILURE() << where.str() << " element " << b * block + i << " = " << values[i]
                      << ": code " << int{our_codes[i]} << ", the tool's " << int{tool_codes[i]};
        break;
      }
    }
    if (format == Format::nvfp4 && file.header["convention"] != "none") {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(tool_global(compat, line.amax, from.dtype).own),
                std::bit_cast<std::uint32_t>(line.global))
          << where.str();
    }
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Compat, Golden,
    ::testing::Values(
        "torchao_mxfp4_floor", "torchao_mxfp4_ceil", "torchao_mxfp4_even", "torchao_mxfp4_rceil",
        "torchao_mxfp8_e4m3_floor", "torchao_mxfp8_e4m3_ceil", "torchao_mxfp8_e4m3_even",
        "torchao_mxfp8_e4m3_rceil", "torchao_mxfp8_e5m2_floor", "torchao_mxfp8_e5m2_rceil",
        "torchao_mxfp6_e2m3_floor", "torchao_mxfp6_e3m2_floor", "torchao_nvfp4",
        "torchao_nvfp4_single_level", "compressed_tensors_mxfp4", "compressed_tensors_mxfp8_e4m3",
        "compressed_tensors_nvfp4", "modelopt_mxfp4", "modelopt_mxfp8_e4m3", "modelopt_nvfp4",
        "gguf_mxfp4", "llama_cpp_mxfp4", "llama_cpp_nvfp4", "transformer_engine_mxfp8_e4m3",
        "transformer_engine_mxfp8_e5m2", "transformer_engine_nvfp4", "flashinfer_mxfp4",
        "flashinfer_mxfp8_e4m3", "flashinfer_nvfp4", "vllm_mxfp4", "vllm_mxfp8_e4m3", "vllm_nvfp4",
        "microxcaling_mxfp4", "microxcaling_mxfp8_e4m3", "microxcaling_mxfp8_e5m2",
        "microxcaling_mxfp6_e2m3", "microxcaling_mxfp6_e3m2", "microxcaling_mxint8"),
    [](const auto& test) { return std::string(test.param); });

TEST(Compat, public_call_gives_the_tool_bytes_for_a_tensor_of_its_own_magnitude) {
  for (const char* stem : {"compressed_tensors_nvfp4", "torchao_nvfp4", "modelopt_nvfp4",
                           "transformer_engine_nvfp4", "vllm_nvfp4"}) {
    golden::File file = golden::read_file(stem);
    const Compat compat = parse_compat(file.header["tool"]).value();
    int checked = 0;
    for (const golden::Line& line : file.lines) {
      const Input input = make_input(cases().at(static_cast<std::size_t>(line.number)));
      const Range range = range_of(input.values);
      if (range.has_nan || range.amax != line.amax || !(range.amax < infinity)) continue;
      const BlockTensor out = quantize(as_tool(input.view, Format::nvfp4, compat));
      const auto codes = unpack(out.codes(), 4);
      EXPECT_TRUE(std::equal(line.scales.begin(), line.scales.end(), out.scales().begin()))
          << stem << " case " << line.number;
      EXPECT_EQ(codes, line.codes) << stem << " case " << line.number;
      const double expected =
          file.header["convention"] == "decode" ? double{line.global} : 1.0 / double{line.global};
      if (range.amax > 0x1p-90f && range.amax < 0x1p90f) {
        EXPECT_NEAR(out.global_scale / expected, 1.0, 0x1p-22) << stem << " case " << line.number;
      }
      ++checked;
    }
    EXPECT_GT(checked, 60) << stem;
  }
}

TEST(Compat, profile_is_left_when_a_rounding_or_foreign_rule_is_chosen_over_it) {
  Numerics numerics = numerics_for(Compat::torchao, Format::mxfp4);
  EXPECT_TRUE(follows_tool(numerics, Format::mxfp4));
  numerics.scale_rule = ScaleRule::rceil;
  EXPECT_TRUE(follows_tool(numerics, Format::mxfp4));
  numerics.scale_rule = ScaleRule::search;
  EXPECT_FALSE(follows_tool(numerics, Format::mxfp4));
  numerics = numerics_for(Compat::modelopt, Format::mxfp4);
  numerics.rounding = Rounding::nearest_even;
  EXPECT_FALSE(follows_tool(numerics, Format::mxfp4));
  EXPECT_FALSE(follows_tool(numerics_for(Compat::ocp, Format::mxfp4), Format::mxfp4));
  EXPECT_FALSE(follows_tool(Numerics{}, Format::nvfp4));
}

TEST(Compat, numerics_for_refuses_a_format_the_tool_lacks) {
  EXPECT_THROW(numerics_for(Compat::ocp, Format::nvfp4), Error);
  EXPECT_THROW(numerics_for(Compat::transformer_engine, Format::mxfp4), Error);
  EXPECT_THROW(numerics_for(Compat::llama_cpp, Format::mxfp8_e4m3), Error);
  EXPECT_THROW(numerics_for(Compat::modelopt, Format::mxfp6_e2m3), Error);
  EXPECT_THROW(numerics_for(Compat::torchao, Format::mxint8), Error);
}

TEST(Compat, tool_backend_is_the_reference_whatever_else_the_machine_has) {
  const std::vector<float> values(64, 1.25f);
  const TensorView view{values.data(), DType::f32, 2, 32, 32};
  const QuantizeOptions options = as_tool(view, Format::mxfp4, Compat::llama_cpp);
  const BlockTensor any = quantize(options);
  const BlockTensor slow = quantize(options, {.backend = Backend::reference});
  EXPECT_TRUE(std::equal(any.codes().begin(), any.codes().end(), slow.codes().begin()));
  EXPECT_EQ(any.scales()[0], 125);       // 2^-2: 1.25 is 5 of them,
  EXPECT_EQ(int{any.codes()[0]}, 0x66);  // a tie between 4 and 6, toward zero
}

}  // namespace
}  // namespace microscale
