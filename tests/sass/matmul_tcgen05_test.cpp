// The products out of tensor memory as assembled for sm_100f: nothing spilled, and main loops of
// the warps that copy and multiply that leave their schedulers time
// (docs/performance/blackwell.md).
#include <gtest/gtest.h>

#include <optional>
#include <string_view>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/tcgen05/args.hpp"
#include "sass/counts.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "sass/images.hpp"
#include "sass/loops.hpp"

namespace microscale::testing {
namespace {

/// The shortest loop that has an instruction whose name begins so.
std::optional<Loop> loop_with(const sass::Function& kernel, std::string_view opcode) {
  return shortest_loop(kernel, [&](const auto& one) { return one.opcode.starts_with(opcode); });
}

TEST(TensorProductSass, leaves_the_schedulers_of_copying_and_multiplying_warps_time) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int kernels = 0;
  for (const cuda::KernelImage* image : images_named("matmul_tcgen05_")) {
    if (image->file.ends_with("_crossed")) continue;  // mxfp8's but for a bit
    for (const sass::Function& kernel : sass::disassemble(image->cubin.bytes()).functions) {
      if (!kernel.name.starts_with("matmul_")) continue;  // what the assembler adds
      const auto multiply =
          loop_with(kernel, kernel.name.find("mxfp8") != std::string::npos ? "UTCQMMA" : "UTCOMMA");
      const auto copy = loop_with(kernel, "UTMALDG");
      ASSERT_TRUE(multiply && copy) << kernel.name;
      EXPECT_EQ(multiply->wanted, cuda::tcgen05::stage_steps) << kernel.name;
      EXPECT_LE(multiply->instructions, 104) << kernel.name;
      EXPECT_GT(multiply->instructions, 40) << kernel.name << ": too few to be true";
      EXPECT_LE(copy->instructions, 70) << kernel.name;
      EXPECT_GT(copy->instructions, 20) << kernel.name << ": too few to be true";
      RecordProperty(kernel.name + "_multiply", multiply->instructions);
      RecordProperty(kernel.name + "_copy", copy->instructions);
      ++kernels;
    }
  }
  EXPECT_EQ(kernels, 4 * 3);  // pairs of formats, shapes of tiles
}

TEST(TensorProductSass, spills_nothing) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  int looked_at = 0;
  for (const cuda::KernelImage* image : images_named("matmul_tcgen05_")) {
    EXPECT_EQ(image->architecture, "sm_100f");
    for (const sass::CubinKernel& kernel : sass::kernels_of(image->cubin.bytes())) {
      EXPECT_EQ(kernel.local, 0) << kernel.name;
      ++looked_at;
    }
  }
  EXPECT_GE(looked_at, 6 * 3);
}

}  // namespace
}  // namespace microscale::testing
