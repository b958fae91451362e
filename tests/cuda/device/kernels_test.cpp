// What the library carries: every kernel for every architecture, made of the instructions that keep
// results bit for bit the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/quantize/choose.hpp"
#include "cuda/quantize/args.hpp"
#include "fake_device.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr std::string_view architectures[] = {"sm_90a", "sm_100f", "sm_120f"};

std::string text_of(const KernelImage& image) {
  const auto ptx = image.ptx.bytes();
  return {reinterpret_cast<const char*>(ptx.data()), ptx.size()};
}

// mul, add, sub, fma, div, sqrt and rcp of floats name their rounding; nothing is approximate or
// flushes subnormals. The exponentials, logarithms and reciprocals of attention may (`softmax`).
bool is_loose(std::string_view instruction, bool softmax) {
  constexpr std::string_view of_softmax[] = {"ex2.approx.ftz.f32", "lg2.approx.ftz.f32",
                                             "rcp.approx.ftz.f32"};
  if (softmax && std::ranges::find(of_softmax, instruction) != std::end(of_softmax)) return false;
  if (instruction.find(".approx") != instruction.npos ||
      instruction.find(".ftz") != instruction.npos)
    return true;
  constexpr std::string_view rounded[] = {"mul", "add", "sub", "fma", "div", "sqrt", "rcp"};
  constexpr std::string_view types[] = {"f16", "bf16", "f32", "f64"};
  for (std::size_t dot;
       (dot = instruction.find('.')) != instruction.npos;) {  // red.global.add.f32, too
    const std::string_view part = instruction.substr(0, dot);
    instruction.remove_prefix(dot + 1);
    if (std::ranges::find(rounded, part) != std::end(rounded) &&
        std::ranges::any_of(types,
                            [&](std::string_view type) { return instruction.starts_with(type); }))
      return true;
  }
  return false;
}

// The first such instruction of a PTX text, or "". By hand: a regular expression takes a minute for
// all images.
std::string_view first_loose_instruction(std::string_view text, bool softmax) {
  constexpr std::string_view of_names = "abcdefghijklmnopqrstuvwxyz0123456789_.:";
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find_first_not_of(of_names, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (word.find('.') != word.npos && is_loose(word, softmax)) return word;
  }
  return "";
}

class Kernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
};

// `general` is offered for all formats or for none.
std::vector<std::string_view> offered_modes() {
  std::vector<std::string_view> modes(kernel_modes.begin(), kernel_modes.end());
  bool general = false;
  for (const KernelImage& image : kernel_images())
    general |= image.entries.find("_general_") != image.entries.npos;
  if (!general) std::erase(modes, "general");
  return modes;
}

// The entry points of images that some architecture has not.
std::set<std::string> of_some_architectures() {
  std::map<std::string_view, int> architectures_of;
  for (const KernelImage& image : kernel_images()) ++architectures_of[image.file];
  std::set<std::string> names;
  for (const KernelImage& image : kernel_images()) {
    if (architectures_of[image.file] == std::ssize(architectures)) continue;
    for (std::string_view name : names_in(image)) names.emplace(name);
  }
  return names;
}

TEST_F(Kernels, every_name_exists_on_every_architecture) {
  for (std::string_view architecture : architectures) {
    for (std::string_view format : kernel_formats) {
      for (std::string_view dtype : kernel_dtypes) {
        const std::string pair = std::string(format) + "_" + std::string(dtype);
        for (std::string_view mode : offered_modes())
          for (std::string_view layout : kernel_layouts)
            EXPECT_TRUE(has_kernel(architecture, "quantize_" + pair + "_" + std::string(mode) +
                                                     "_" + std::string(layout)))
                << architecture << ' ' << pair << ' ' << mode << ' ' << layout;
        for (const char* name : {"quantize_columns_", "quantize_both_"})
          for (const char* mode : {"_plain", "_search"})
            EXPECT_TRUE(has_kernel(architecture, name + pair + mode)) << architecture << pair;
        EXPECT_TRUE(has_kernel(architecture, "quantize_columns_" + pair + "_general"))
            << architecture << ' ' << pair;
        for (std::string_view producer : fused_producers)
          for (std::string_view mode : {"plain", "search"})
            EXPECT_TRUE(has_kernel(architecture, "fused_" + std::string(producer) + "_" + pair +
                                                     "_" + std::string(mode)))
                << architecture << ' ' << producer << ' ' << pair << ' ' << mode;
        EXPECT_TRUE(has_kernel(architecture, "dequantize_" + pair)) << architecture << ' ' << pair;
        EXPECT_TRUE(has_kernel(architecture, "quantize_small_" + pair))
            << architecture << ' ' << pair;
        EXPECT_TRUE(has_kernel(architecture, "abs_max_" + std::string(dtype))) << architecture;
      }
    }
    for (const char* name : {"global_scale", "repack_to_tiled", "repack_to_rows"})
      EXPECT_TRUE(has_kernel(architecture, name)) << architecture << ' ' << name;
  }
  EXPECT_FALSE(has_kernel("sm_90a", "quantize"));
  EXPECT_FALSE(has_kernel("sm_80", "global_scale"));
}

TEST_F(Kernels, names_are_listed_once_and_the_same_for_every_architecture) {
  std::set<std::string> own = of_some_architectures();
  // What Hopper has kernels of its own for (cmake/kernels.cmake).
  for (const char* kind : {"nvfp4_packed_unit", "nvfp4_packed_scaled", "mxfp4_packed_scaled",
                           "mxfp8_e4m3_packed_scaled", "mxfp8_e5m2_packed_scaled"}) {
    const std::string name = "matmul_fallback_" + std::string(kind) + "_16";
    for (std::string_view architecture : architectures)
      EXPECT_EQ(has_kernel(architecture, name), architecture != "sm_90a") << name;
    own.insert(name);
  }
  std::vector<std::string> common;
  for (std::string_view architecture : architectures) {
    std::vector<std::string> names = kernel_names(architecture);
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    std::erase_if(names, [&](const std::string& name) { return own.contains(name); });
    if (common.empty()) common = names;
    EXPECT_EQ(names, common) << architecture;
  }
  EXPECT_GT(common.size(), 300u);
  EXPECT_TRUE(kernel_names("sm_80").empty());
}

TEST_F(Kernels, images_are_elf_and_ptx_of_their_architecture) {
  std::map<std::string_view, int> files;
  for (const KernelImage& image : kernel_images()) ++files[image.file];
  for (const KernelImage& image : kernel_images()) {
    const bool shared_ptx = files[image.file] > 1;
    const auto cubin = image.cubin.bytes();
    ASSERT_GT(cubin.size(), 64u) << image.file;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(cubin.data()), 4),
              "\x7F"
              "ELF")
        << image.file;
    std::string target(image.architecture);
    if (shared_ptx && target == "sm_120f") target = "sm_100f";  // the PTX of both Blackwells
    EXPECT_NE(text_of(image).find(".target " + target), std::string::npos) << image.file;
  }
  for (const auto& [file, count] : files)
    EXPECT_TRUE(count == 1 || count == 3 || (count == 2 && file == "matmul_vector")) << file;
}

TEST_F(Kernels, no_instruction_is_approximate_or_may_be_fused) {
  // In attention no two machines' softmax agree to the bit anyway, and docs/attention.md has its
  // error in its bound.
  for (const KernelImage& image : kernel_images()) {
    const std::string text = text_of(image);
    EXPECT_EQ(first_loose_instruction(text, image.file.starts_with("attention_")), "")
        << image.file << ' ' << image.architecture;
  }
}

TEST(LooseInstruction, is_found_anywhere_in_a_text) {
  const char* const right =
      "add.rn.f32 %f1, %f2, %f3;\n@%p1 mul.rn.bf16x2 %r1, %r2, %r3; {add.s32 %r1, %r2, 3;}\n"
      "fma.rn.f64 %d1, %d2, %d3, %d4; mul.wide.u32 %rd1, %r1, 4; mad.lo.s32 %r1, %r2, %r3, %r4;\n";
  EXPECT_EQ(first_loose_instruction(right, false), "");
  for (const char* loose :
       {"add.f32", "mul.bf16x2", "fma.f16", "sub.f64", "div.f32", "sqrt.approx.f32",
        "fma.rn.ftz.f32", "rcp.f64", "red.global.add.f32", "ex2.approx.ftz.f32"}) {
    EXPECT_EQ(first_loose_instruction(std::string(right) + '\t' + loose + " %f1, %f2;\n", false),
              loose);
    EXPECT_EQ(first_loose_instruction(std::string("@%p1 ") + loose + " %f1;\n" + right, false),
              loose);
  }
  EXPECT_EQ(first_loose_instruction("{ex2.approx.ftz.f32 %f1, %f2;}", true), "");
  EXPECT_EQ(first_loose_instruction("ex2.approx.f32 %f1, %f2;", true), "ex2.approx.f32");
}

// But for some kernels' bulk copies of weights that no kernel in flight writes
// (cuda/block/grid_order.cuh).
TEST_F(Kernels, each_waits_for_the_grid_before_it) {
  const std::regex early("^matmul_(few_rows|in_registers)_"),
      copy(
          "cp\\.async\\.bulk[^;]*L2\\.global|"
          "cp\\.async\\.bulk[^;]*shared::cluster"
          "\\.global");
  for (const KernelImage& image : kernel_images()) {
    const std::string text = text_of(image);
    std::size_t entry = text.find(".entry ");
    ASSERT_NE(entry, text.npos) << image.file;
    for (std::size_t next; entry != text.npos; entry = next) {
      next = text.find(".entry ", entry + 1);
      std::string body = text.substr(entry, next - entry);
      if (std::regex_search(image.file.begin(), image.file.end(), early))
        body = std::regex_replace(body, copy, "");
      EXPECT_LT(body.find("griddepcontrol.wait;"), body.find(".global."))
          << image.file << ' ' << image.architecture << ": " << body.substr(7, body.find('(') - 7);
    }
  }
}

TEST_F(Kernels, blackwell_converts_to_fp4_in_hardware_and_hopper_has_no_such_instruction) {
  const std::string instruction = "cvt.rn.satfinite.e2m1x2";
  int found = 0;
  for (const KernelImage& image : kernel_images()) {
    if (image.file != "quantize_mxfp4" && image.file != "quantize_nvfp4" &&
        image.file != "quantize_columns_mxfp4" && image.file != "quantize_columns_nvfp4")
      continue;
    ++found;
    EXPECT_EQ(text_of(image).find(instruction) != std::string::npos, image.architecture != "sm_90a")
        << image.file << ' ' << image.architecture;
  }
  EXPECT_EQ(found, 12);
}

DeviceInfo gpu(int major, int minor) {
  DeviceInfo device;
  device.major = major;
  device.minor = minor;
  return device;
}

TEST(KernelArchitecture, follows_the_compute_capability) {
  EXPECT_EQ(architecture_of(gpu(9, 0)), "sm_90a");
  EXPECT_EQ(architecture_of(gpu(10, 3)), "sm_100f");
  EXPECT_EQ(architecture_of(gpu(12, 1)), "sm_120f");
  EXPECT_EQ(architecture_of(gpu(8, 9)), "");
}

TEST(KernelArchitecture, an_older_gpu_is_refused_by_name) {
  test::FakeDevice device(8, 9);
  try {
    load_kernel(device, "abs_max_f32", "abs_max");
    FAIL() << "a kernel was found for compute capability 8.9";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("compute capability 8.9"), std::string::npos)
        << error.what();
  }
}

TEST(CallTicket, is_a_number_that_no_other_call_has) {
  constexpr int calls = 10000;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < calls; ++i) seen.insert(next_ticket());
  EXPECT_EQ(seen.size(), calls);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace microscale::cuda
