// The products of one row as assembled for Blackwell: within their register budget, nothing
// spilled, 32 bytes a load, codes converted by hardware straight from the bytes of a register, and
// a loop of at most two instructions an element.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "sass/images.hpp"

namespace microscale::testing {
namespace {

constexpr int most_registers = 128;  // four blocks of 128 threads a multiprocessor

std::vector<const cuda::KernelImage*> images() { return images_named("matmul_vector"); }

TEST(VectorProductSass, keeps_its_register_budget) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  EXPECT_EQ(images().size(), 2u);
  for (const cuda::KernelImage* image : images())
    for (const sass::CubinKernel& kernel : sass::kernels_of(image->cubin.bytes())) {
      EXPECT_EQ(kernel.local, 0) << kernel.name << " of " << image->architecture;
      EXPECT_LE(kernel.registers, most_registers) << kernel.name << " of " << image->architecture;
    }
}

TEST(VectorProductSass, converts_four_rows_of_64_elements_in_two_instructions_an_element) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int loops = 0;
  for (const cuda::KernelImage* image : images())
    for (const sass::Function& kernel : sass::disassemble(image->cubin.bytes()).functions) {
      int conversions = 0, loads = 0;
      for (std::size_t i = 0; i < kernel.code.size(); ++i) {
        const sass::Instruction& each = kernel.code[i];
        conversions += sass::has_modifier(each.opcode, "E2M1");
        loads += each.base() == "LDG" && sass::has_modifier(each.opcode, "256");
        // A lane's 4 x 64 elements a turn; the branch that ends the program goes to itself.
        if (each.target < 0 || each.target >= static_cast<int>(i)) continue;
        const int instructions = static_cast<int>(i) - each.target + 1;
        if (instructions < 256) continue;
        ++loops;
        EXPECT_LE(instructions, 2 * 4 * 64) << kernel.name << " of " << image->architecture;
      }
      EXPECT_GE(conversions, 5 * 32) << kernel.name;  // four rows' and a's
      EXPECT_GE(loads, 5) << kernel.name;
    }
  EXPECT_EQ(loops, 6);  // k = 2048 is one turn
}

}  // namespace
}  // namespace microscale::testing
