// Attention by block-scaled matrix instructions as assembled for sm_120f: nothing spilled, the
// blocks that were planned on a multiprocessor, and how much of the main loop multiplies.
//
// The main path of the loop is the way through it with every product and copy, that is when no
// row's largest score rises. A scheduler issues one instruction a cycle, and at the published rates
// a tensor core takes 16 cycles for a product of block-scaled codes, 32 for one of 16 x 8 x 16 in
// FP16 with sums in FP32: a loop is bound by its products where these take more cycles than it has
// instructions.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/device/kernel_images.hpp"
#include "emulator/occupancy.hpp"
#include "sass/counts.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "sass/images.hpp"

namespace microscale::testing {
namespace {

std::vector<const cuda::KernelImage*> images() { return images_named("attention_block_scaled_"); }

struct Loop {
  int instructions = 0, scaled = 0, half = 0, copies = 0;
  int products() const { return scaled + half; }
  int product_cycles() const { return 16 * scaled + 32 * half; }
};

bool is_work(const sass::Instruction& each) {
  return sass::class_of(each.opcode) == sass::Class::matrix || each.base() == "LDGSTS";
}

Loop path_through(const sass::Function& kernel, std::size_t first, std::size_t last) {
  Loop loop;
  for (std::size_t at = first; at <= last; ++at) {
    const sass::Instruction& each = kernel.code[at];
    ++loop.instructions;
    loop.copies += each.base() == "LDGSTS";
    if (each.base() == "HMMA")
      ++loop.half;
    else if (sass::class_of(each.opcode) == sass::Class::matrix)
      ++loop.scaled;
    const auto target = static_cast<std::size_t>(std::max(each.target, 0));
    if (target > at && target <= last &&
        std::none_of(kernel.code.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                     kernel.code.begin() + static_cast<std::ptrdiff_t>(target), is_work))
      at = target - 1;
  }
  return loop;
}

/// Of the backward branches whose loop multiplies and copies, the one with the shortest way.
std::optional<Loop> main_loop(const sass::Function& kernel) {
  std::optional<Loop> best;
  for (std::size_t i = 0; i < kernel.code.size(); ++i) {
    const int target = kernel.code[i].target;
    if (target < 0 || target > static_cast<int>(i)) continue;
    const Loop loop = path_through(kernel, static_cast<std::size_t>(target), i);
    if (loop.products() > 0 && loop.copies > 0 && (!best || loop.instructions < best->instructions))
      best = loop;
  }
  return best;
}

/// A kernel's name, taken apart: <values>_<keys>_<d>_<terms>.
struct Kernel {
  bool along_tokens, exact, paged, q8;
  int d, terms;
  explicit Kernel(std::string name) {
    name = name.substr(std::string("attention_block_scaled_").size());
    along_tokens = name.starts_with("tokens");
    exact = name.starts_with("exact");
    paged = name.find("paged") != name.npos;
    q8 = name.find("mxfp8") != name.npos;
    terms = name.back() - '0';
    d = std::stoi(name.substr(name.find_last_of('_', name.size() - 3) + 1));
  }
  /// Of 16 rows and 64 keys.
  int scaled() const {
    const int scores = 8 * d / (q8 ? 32 : 64), own = d / 8;
    return scores * terms + (along_tokens ? own * terms : 0);
  }
  int half() const { return along_tokens ? 0 : d / 8 * 4 * (exact ? 1 : terms); }
  int blocks() const { return d == 256 && (!along_tokens || terms == 2) ? 1 : 2; }
  /// What is multiplied of the main path, at least. Along tokens there is one product for each
  /// score of a lane at d = 128 and half as many at 64, so the softmax's own instructions keep it
  /// low.
  double share() const {
    if (along_tokens) return d == 64 ? 0.05 : d == 128 ? 0.09 : 0.14;
    const double plain = d == 64    ? 0.11
                         : d == 128 ? (exact ? 0.16 : 0.14)
                         : !exact   ? 0.21
                                    : (terms == 2 ? 0.25 : 0.24);
    return paged ? 0.82 * plain : plain;
  }
};

TEST(BlockAttentionSass, multiplies_as_much_as_the_softmax_leaves_room_for) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int kernels = 0;
  for (const cuda::KernelImage* image : images())
    for (const sass::Function& kernel : sass::disassemble(image->cubin.bytes()).functions) {
      const Kernel name(kernel.name);
      const auto loop = main_loop(kernel);
      ASSERT_TRUE(loop) << kernel.name;
      const int sixteens =
          cuda::attention::block_scaled::block_rows_of(name.d, name.terms, name.along_tokens) /
          (16 * cuda::attention::block_scaled::warps_of(name.d, name.along_tokens));
      EXPECT_EQ(loop->scaled, sixteens * name.scaled()) << kernel.name;
      EXPECT_EQ(loop->half, sixteens * name.half()) << kernel.name;
      EXPECT_GE(loop->products(), name.share() * loop->instructions) << kernel.name;
      if (!name.along_tokens || name.d > 64) {
        EXPECT_LT(loop->instructions, loop->product_cycles()) << kernel.name;
      }
      RecordProperty(kernel.name, loop->instructions);
      ++kernels;
    }
  EXPECT_EQ(kernels, 40);
}

TEST(BlockAttentionSass, spills_nothing_and_holds_the_blocks_that_are_planned) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  int looked_at = 0;
  for (const cuda::KernelImage* image : images()) {
    EXPECT_EQ(image->architecture, "sm_120f");
    for (const sass::CubinKernel& kernel : sass::kernels_of(image->cubin.bytes())) {
      EXPECT_EQ(kernel.local, 0) << kernel.name;
      const Kernel name(kernel.name);
      const bool mx = kernel.name.find("mx") != kernel.name.npos;
      const int row = name.d * (name.q8 ? 8 : 4) / 8, block = mx ? 32 : 16;
      const std::int64_t shared =
          cuda::attention::block_scaled::shared_of(name.d, row, (name.d / block + 3) / 4,
                                                   name.terms, name.along_tokens)
              .bytes();
      EXPECT_LE(shared, 99 * 1024) << kernel.name;
      for (const emulator::MultiprocessorLimits& gpu : emulator::known_gpus()) {
        if (gpu.major != 12) continue;
        const emulator::Occupancy held = emulator::occupancy(
            gpu, {kernel.registers, shared,
                  cuda::attention::block_scaled::threads_of(name.d, name.along_tokens)});
        EXPECT_GE(held.blocks, name.blocks()) << kernel.name << " on " << gpu.name;
        ++looked_at;
      }
    }
  }
  EXPECT_GE(looked_at, 40);
}

}  // namespace
}  // namespace microscale::testing
