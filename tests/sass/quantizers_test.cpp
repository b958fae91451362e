// The kernels of this build for Blackwell, as assembled: the hardware's conversions are in them,
// and a quantizer takes at most 12 instructions an element. Compiling for plain sm_100 or sm_120 in
// place of the families sm_100f and sm_120f would silently give neither.
#include "sass/quantizers.hpp"

#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "sass/counts.hpp"
#include "sass/disassemble.hpp"
#include "sass/listings.hpp"

namespace microscale::testing {
namespace {

constexpr double most_instructions = 12;  // for each code written

struct Image {
  std::string file, architecture;
};

void PrintTo(const Image& image, std::ostream* out) {
  *out << image.file << "." << image.architecture;
}

/// The listing of one of the library's cubins. Without nvdisasm the test fails: it must not pass by
/// not looking.
class Blackwell : public ::testing::TestWithParam<Image> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
    ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
    for (const cuda::KernelImage& image : cuda::kernel_images())
      if (image.file == GetParam().file && image.architecture == GetParam().architecture)
        listing_ = sass::disassemble(image.cubin.bytes());
    ASSERT_FALSE(listing_.functions.empty()) << "no such kernel image";
  }

  sass::Listing listing_;
};

TEST_P(Blackwell, converts_in_hardware_in_at_most_12_instructions_an_element) {
  const bool fp4 = GetParam().file.find("fp4") != std::string::npos;
  int looked_at = 0;
  for (const sass::Function& kernel : listing_.functions) {
    const sass::Counts counts = sass::count(kernel);
    EXPECT_GE(fp4 ? counts.fp4_conversions : counts.fp8_conversions, 16) << kernel.name;
    if (!sass::thread_work(kernel.name, listing_.architecture)) continue;  // not of mode plain
    ++looked_at;
    const auto cost = sass::thread_cost(kernel, listing_.architecture);
    ASSERT_TRUE(cost) << kernel.name
                      << ": on no path does a thread load, convert and store what it should";
    EXPECT_LE(cost->a_code, most_instructions) << kernel.name << ": `microscale sass "
                                               << GetParam().architecture << "` shows of what kind";
    EXPECT_GT(cost->a_code, 3) << kernel.name << ": too few to be true";
  }
  EXPECT_GE(looked_at, 3);
}

std::vector<Image> images() {
  std::vector<Image> all;
  for (const char* architecture : {"sm_100f", "sm_120f"})
    for (const char* operation : {"quantize", "quantize_columns", "grouped"})
      for (const char* format : {"mxfp4", "nvfp4", "mxfp8_e4m3", "mxfp8_e5m2"})
        all.push_back({std::string(operation) + "_" + format, architecture});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Blackwell, ::testing::ValuesIn(images()), [](const auto& info) {
  return info.param.file + "_" + info.param.architecture;
});

TEST(ThreadWork, is_known_for_every_plain_quantizer) {
  const auto rows = sass::thread_work("quantize_mxfp4_bf16_plain_rows", "sm_100");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->elements, 32);
  EXPECT_EQ(rows->tiles, 1);
  EXPECT_EQ(rows->work.load_bytes, 64);
  EXPECT_EQ(rows->work.store_bytes, 17);
  EXPECT_EQ(rows->work.evidence.at(0).modifier, "E2M1");
  const auto both = sass::thread_work("quantize_both_mxfp8_e5m2_f32_plain", "sm_120");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->elements, 32);
  EXPECT_EQ(both->codes, 64);
  EXPECT_EQ(both->work.load_bytes, 128);
  EXPECT_EQ(both->work.evidence.at(0).modifier, "E5M2");
}

TEST(ThreadCost, is_that_of_all_tiles) {
  // Set-up, a barrier, and a loop of one tile: 64 bytes in, 16 bytes of codes and a scale byte out.
  std::string code = line_of(0, "S2R R0, SR_TID.X") + line_of(16, "BAR.SYNC 0x0") + ".L_x_0:\n";
  int at = 2;
  const auto add = [&](int count, const char* text) {
    for (int i = 0; i < count; ++i) code += line_of(16 * at++, text);
  };
  add(4, "LDG.E.128 R4, desc[UR4][R2.64]");
  add(16, "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, R2, RZ");
  add(4, "STG.E desc[UR4][R2.64], R4");
  add(1, "STG.E.U8 desc[UR4][R2.64], R4");
  add(1, "@P0 BRA `(.L_x_0)");
  add(1, "EXIT");
  for (const auto& [name, tiles] :
       {std::pair{"quantize_mxfp4_bf16_plain_rows", 1}, {"quantize_nvfp4_bf16_plain_rows", 2}}) {
    const auto cost =
        sass::thread_cost(sass::parse_listing(nvdisasm_text(name, code)).functions[0], "sm_100");
    ASSERT_TRUE(cost) << name;
    EXPECT_EQ(cost->instructions, 2 + 26 * tiles + 1) << name;
    EXPECT_EQ(cost->an_element, cost->instructions / (32 * tiles)) << name;
    EXPECT_EQ(cost->path.code.size(), 29u) << name;
  }
}

TEST(ThreadWork, is_unknown_where_it_depends_on_the_data) {
  for (const char* kernel :
       {"quantize_mxfp4_bf16_search_rows", "quantize_mxfp4_bf16_general_rows",
        "fused_rms_norm_nvfp4_bf16_plain", "repack_to_tiled", "quantize_mxfp6_bf16_plain_rows",
        "quantize_mxfp4_f64_plain_rows", "", "quantize"})
    EXPECT_FALSE(sass::thread_work(kernel, "sm_100")) << kernel;
}

}  // namespace
}  // namespace microscale::testing
