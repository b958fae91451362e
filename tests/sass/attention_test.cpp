// The kernels that decode from a cache and those that append to it, as assembled for Hopper:
// nothing spilled, and instructions an element of the main loop within what memory's speed leaves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "sass/main_path.hpp"

namespace microscale::testing {
namespace {

/// What a turn of a kernel's loop adds: a thread's way with four turns' work less that with three.
int loop_instructions(const sass::Function& kernel, const sass::Work& once,
                      const sass::Work& each) {
  const auto way = [&](int turns) {
    sass::Work work = once;
    work.load_bytes += turns * each.load_bytes;
    work.store_bytes += turns * each.store_bytes;
    work.converted += turns * each.converted;
    const auto path = sass::main_path(kernel, work);
    return path ? path->instructions : -1;
  };
  const int three = way(3), four = way(4);
  return three < 0 || four < 0 ? -1 : four - three;
}

class HopperAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
    ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  }
  static sass::Function kernel(const std::string& file, const std::string& name) {
    for (const cuda::KernelImage& image : cuda::kernel_images())
      if (image.file == file && image.architecture == "sm_90a")
        for (const sass::Function& function : sass::disassemble(image.cubin.bytes()).functions)
          if (function.name == name) return function;
    return {};
  }
};

TEST_F(HopperAttention, decodes_in_few_instructions_an_element) {
  // Of 32 tokens, d = 128; what asks for the next ones, every 64 (8-bit codes: 32), is not in it.
  struct Kernel {
    const char* format;
    double most;              // instructions an element
    const char* tokens = "";  // DecodeTokens
    int rows = 8;
  };
  constexpr int products = 34;  // of 4 or 8 rows: half of each product, and two that add up
  constexpr int elements = 2 * 32 * 128 / 32;
  for (const Kernel& k : {Kernel{"nvfp4", 2.7},
                          {"mxfp4", 2.5},
                          {"mxfp8", 2.7},
                          {"fp8", 1.7},
                          {"nvfp4", 2.7, "_records"},
                          {"mxfp4", 2.5, "_records"},
                          {"nvfp4", 2.5, "", 4},
                          {"nvfp4", 2.5, "_records", 4}}) {
    const std::string name = std::string("attention_decode_") + k.format, file = name + k.tokens;
    const sass::Function function =
        kernel(file, fmt::format("{}_128_{}{}", name, k.rows, k.tokens));
    ASSERT_FALSE(function.code.empty()) << file;
    sass::Work once, each;
    once.evidence = {{"HMMA", "16816", 1}};
    each.converted = products;
    const int instructions = loop_instructions(function, once, each);
    const double an_element = static_cast<double>(instructions) / elements;
    RecordProperty(fmt::format("{}_{}{}", k.format, k.rows, k.tokens), instructions);
    EXPECT_LE(an_element, k.most) << file << ": " << instructions << " for 32 tokens";
    EXPECT_GT(an_element, 1) << file << ": too few to be true";
  }
}

TEST_F(HopperAttention, appends_in_few_instructions_an_element) {
  struct Kernel {
    const char* format;
    int code_bytes, scale_bytes;  // a lane's of a turn
    std::vector<sass::Evidence> evidence;
    double most;
  };
  for (const Kernel& k : {Kernel{"nvfp4", 16, 4, {{"FMUL", "SAT", 1}}, 15.2},
                          {"mxfp4", 16, 4, {{"VIMNMX3", "U16x2", 2}}, 11.5},
                          {"mxfp8", 32, 4, {{"F2FP", "E4M3", 2}}, 10.7},
                          {"fp8", 32, 0, {{"F2FP", "E4M3", 2}}, 5.8}}) {
    const std::string file = std::string("append_kv_") + k.format;
    const sass::Function function =
        kernel(file, std::string("append_kv_registers_") + k.format + "_bf16_plain");
    ASSERT_FALSE(function.code.empty()) << file;
    sass::Work once, each;
    once.evidence = k.evidence;
    each.load_bytes = 64;
    each.store_bytes = k.code_bytes + k.scale_bytes;
    each.converted = 32;
    const int instructions = loop_instructions(function, once, each);
    const double an_element = instructions / 32.0;
    EXPECT_LE(an_element, k.most) << k.format << ": " << instructions << " a turn";
    EXPECT_GT(an_element, 4) << k.format << ": too few to be true";
  }
}

TEST_F(HopperAttention, transforms_keys_in_few_instructions_an_element) {
  const sass::Function function = kernel("append_kv_nvfp4", "append_kv_halves_nvfp4_bf16_plain");
  ASSERT_FALSE(function.code.empty());
  sass::Work once, each;
  once.evidence = {{"FMUL", "SAT", 1}, {"SHFL", "BFLY", 1}};
  each.load_bytes = 64 + 128 + 64;  // of keys, cosines and sines, means
  each.store_bytes = 20;
  each.converted = 32 + 32 + 6;  // elements; partners in Hadamard's runs, in blocks and scale words
  const double an_element = loop_instructions(function, once, each) / 32.0;
  EXPECT_LE(an_element, 27);
  EXPECT_GT(an_element, 18) << "too few to be true";
}

TEST_F(HopperAttention, spills_nothing) {
  int looked_at = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images())
    if (image.architecture == "sm_90a" && image.file.starts_with("attention_decode_"))
      for (const sass::CubinKernel& kernel : sass::kernels_of(image.cubin.bytes())) {
        ++looked_at;
        EXPECT_EQ(kernel.local, 0) << kernel.name;
      }
  EXPECT_EQ(looked_at, 59);
}

}  // namespace
}  // namespace microscale::testing
