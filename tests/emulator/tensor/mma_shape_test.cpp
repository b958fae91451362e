// Spellings of mma and wgmma: what is understood, what is refused and why.
#include <gtest/gtest.h>

#include <string>

#include "emulator/tensor/wgmma.hpp"
#include "microscale/error.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t dot = text.find('.');
    words.push_back(text.substr(0, dot));
    text.remove_prefix(dot == std::string_view::npos ? text.size() : dot + 1);
  }
  return words;
}

tensor::MmaShape parse(std::string_view text) { return tensor::mma_shape(split(text)); }

std::string refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MmaShape, every_spelling_is_read_back) {
  for (const tensor::MmaShape& shape : hopper_mma_shapes()) {
    const std::string text = spelling(shape);
    EXPECT_EQ(parse(std::string_view(text).substr(4)), shape) << text;
  }
}

TEST(MmaShape, small_integers_bits_and_doubles_are_read_back) {
  for (const char* text :
       {"m8n8k4.row.col.f64.f64.f64.f64", "m16n8k16.row.col.rz.f64.f64.f64.f64",
        "m8n8k16.row.col.s32.u8.s8.s32", "m8n8k32.row.col.satfinite.s32.s4.u4.s32",
        "m16n8k64.row.col.s32.u4.u4.s32", "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        "m16n8k256.row.col.s32.b1.b1.s32.and.popc"})
    EXPECT_EQ(spelling(parse(text)), std::string("mma.sync.aligned.") + text);
  for (const char* text :
       {"m8n8k8.row.col.f64.f64.f64.f64", "m8n8k4.row.col.f32.f64.f64.f32",
        "m8n8k32.row.col.s32.s8.s8.s32", "m8n8k16.row.col.s32.s4.s4.s32",
        "m16n8k32.row.col.s32.s4.s8.s32", "m8n8k128.row.col.s32.b1.b1.s32",
        "m8n8k128.row.col.satfinite.s32.b1.b1.s32.xor.popc", "m16n8k16.row.col.rz.f32.f16.f16.f32",
        "m8n8k16.row.col.f32.f16.f16.f32"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(MmaShape, block_scaled_kinds_and_their_defaults) {
  const char* nv =
      "sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32."
      "ue4m3";
  EXPECT_EQ(parse(nv).scale_vector, 4);
  EXPECT_EQ(a_registers(parse(nv)), 4);
  EXPECT_EQ(b_registers(parse(nv)), 2);
  EXPECT_EQ(parse("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0").scale_vector,
            2);
  EXPECT_EQ(
      parse("m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e3m2.e2m1.f32.ue8m0").scale_vector, 1);
}

TEST(MmaShape, refuses_what_the_assembler_refuses) {
  const std::string mx8 = "m16n8k32.row.col.kind::mxf8f6f4.block_scale";
  const std::string mx4 = "m16n8k64.row.col.kind::mxf4.block_scale";
  const std::string nv4 = "m16n8k64.row.col.kind::mxf4nvf4.block_scale";
  EXPECT_NE(refusal(mx8 + ".scale_vec::2X.f32.e4m3.e4m3.f32.ue8m0"), "");
  EXPECT_NE(refusal(mx8 + ".scale_vec::1X.f32.e4m3.e4m3.f32.ue4m3"), "");
  EXPECT_NE(refusal(mx4 + ".scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0"), "");
  EXPECT_NE(refusal(nv4 + ".scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3"), "");
  EXPECT_NE(refusal(nv4 + ".f32.e2m1.e2m1.f32.ue4m3"), "");
  EXPECT_EQ(refusal(nv4 + ".scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"), "");
  EXPECT_NE(refusal("m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32.ue8m0"), "");
  EXPECT_NE(refusal("m16n8k64.row.col.kind::mxf4.f32.e2m1.e2m1.f32.ue8m0"), "");
  EXPECT_NE(refusal("m16n8k32.row.col.f32.e2m1.e2m1.f32"), "");
  EXPECT_NE(refusal("m16n8k32.row.col.f32.f16.f16.f32"), "");
  EXPECT_NE(refusal("m8n8k4.row.col.f32.f16.f16.f32"), "");
  EXPECT_NE(refusal("m16n8k16.row.col.f32.bf16.f16.f32"), "");
  EXPECT_NE(refusal("m16n8k16.row.col.f16.bf16.bf16.f16"), "");
  EXPECT_NE(refusal("m16n8k16.row.col.f32.f16.f16"), "");
  EXPECT_NE(refusal("m16n8kx.row.col.f32.f16.f16.f32"), "");
  EXPECT_NE(refusal("m16n8k16.row.col.satfinite.f32.f16.f16.f32"), "");
  EXPECT_NE(refusal("m16n8k16.row.col.sp.f32.f16.f16.f32").find(".sp"), std::string::npos);
}

TEST(WgmmaShape, reads_and_refuses) {
  const auto wgmma = [](std::string_view text) { return tensor::wgmma_shape(split(text)); };
  const tensor::WgmmaShape shape = wgmma("mma_async.sync.aligned.m64n192k32.f32.e4m3.e5m2");
  EXPECT_EQ(shape.n, 192);
  EXPECT_EQ(shape.k(), 32);
  EXPECT_EQ(shape.d_registers(), 96);
  EXPECT_EQ(wgmma("m64n8k16.f16.f16.f16").d_registers(), 2);
  for (const char* text :
       {"m64n12k16.f32.f16.f16", "m64n8k32.f32.f16.f16", "m64n264k16.f32.f16.f16",
        "m64n8k16.f32.f16.bf16", "m64n8k16.f16.bf16.bf16", "m64n8k32.f32.s8.s8",
        "m64n8k32.f32.e2m1.e2m1", "m64n8k16.f32.f16"})
    EXPECT_THROW(wgmma(text), Error) << text;
}

}  // namespace
}  // namespace microscale::testing
