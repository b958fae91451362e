// The products of block-scaled operands as assembled for sm_120f: nothing spilled, two thread
// blocks a multiprocessor, and a main loop of which at least a quarter multiplies.
#include <gtest/gtest.h>

#include <optional>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/block_scaled/args.hpp"
#include "emulator/occupancy.hpp"
#include "sass/counts.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "sass/images.hpp"
#include "sass/loops.hpp"

namespace microscale::testing {
namespace {

std::vector<const cuda::KernelImage*> images() { return images_named("matmul_block_scaled_"); }

/// The shortest loop that has matrix instructions.
std::optional<Loop> main_loop(const sass::Function& kernel) {
  return shortest_loop(
      kernel, [](const auto& one) { return sass::class_of(one.opcode) == sass::Class::matrix; });
}

TEST(BlockScaledProductSass, multiplies_in_a_quarter_of_the_main_loop_or_more) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int kernels = 0;
  for (const cuda::KernelImage* image : images())
    for (const sass::Function& kernel : sass::disassemble(image->cubin.bytes()).functions) {
      const auto loop = main_loop(kernel);
      ASSERT_TRUE(loop) << kernel.name;
      EXPECT_EQ(loop->wanted, 64) << kernel.name;
      EXPECT_LE(loop->instructions, 4 * loop->wanted) << kernel.name;
      EXPECT_GT(loop->instructions, loop->wanted + 16) << kernel.name << ": too few to be true";
      RecordProperty(kernel.name, loop->instructions);
      ++kernels;
    }
  EXPECT_EQ(kernels, 14);  // seven pairs, each whole and split
}

TEST(BlockScaledProductSass, spills_nothing_and_leaves_room_for_a_second_block) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  int looked_at = 0;
  for (const cuda::KernelImage* image : images()) {
    EXPECT_EQ(image->architecture, "sm_120f");
    for (const sass::CubinKernel& kernel : sass::kernels_of(image->cubin.bytes())) {
      EXPECT_EQ(kernel.local, 0) << kernel.name;
      for (const emulator::MultiprocessorLimits& gpu : emulator::known_gpus()) {
        if (gpu.major != 12) continue;
        const emulator::Occupancy held = emulator::occupancy(
            gpu, {kernel.registers, kernel.shared_bytes, cuda::block_scaled::threads});
        EXPECT_EQ(held.blocks, cuda::block_scaled::resident_blocks)
            << kernel.name << " on " << gpu.name;
        ++looked_at;
      }
    }
  }
  EXPECT_GE(looked_at, 14);
}

}  // namespace
}  // namespace microscale::testing
