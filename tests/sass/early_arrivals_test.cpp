// Rings in shared memory as assembled for Hopper: a warp that has read a stage arrives at its
// barrier, and a warp that waits there writes the stage. For the assembler an arrival reads no
// register, so nothing but the kernel's own code makes it wait for reads; and while copies of other
// warps fill the way to shared memory, reads wait in line and an arrival does not.
#include <gtest/gtest.h>

#include <string_view>

#include "cuda/device/kernel_images.hpp"
#include "sass/cubin.hpp"

namespace microscale::testing {
namespace {

/// Nothing waits for what is read of a stage beside its products (factors, what is in a tile of K),
/// but the products are waited for between that and the arrival, hundreds of cycles, and no warp
/// fills the way to shared memory with copies. To wait for it as well took 1.3 to 1.7 %.
bool waits_for_products(std::string_view kernel) {
  return kernel.starts_with("matmul_expanded_fp8") || kernel.starts_with("attention_prefill_");
}

TEST(EarlyArrivals, there_are_none_at_the_barrier_of_a_stage) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  int kernels = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (image.architecture != "sm_90a") continue;
    for (const sass::CubinKernel& kernel : sass::kernels_of(image.cubin.bytes())) {
      ++kernels;
      if (!waits_for_products(kernel.name)) {
        EXPECT_EQ(kernel.early_arrivals, 0) << kernel.name;
      }
    }
  }
  EXPECT_GT(kernels, 300);
}

}  // namespace
}  // namespace microscale::testing
