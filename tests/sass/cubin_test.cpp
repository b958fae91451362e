// The kernels of a cubin as the ELF file has them, against nvdisasm's listing of it.
#include "sass/cubin.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/kernel_images.hpp"
#include "microscale/error.hpp"
#include "sass/counts.hpp"
#include "sass/disassemble.hpp"

namespace microscale::testing {
namespace {

/// One cubin of each kind of architecture, with spills, calls and shared memory among them.
class Cubin : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Cubin, counts_as_nvdisasm_does) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int seen = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (image.file != GetParam().first || image.architecture != GetParam().second) continue;
    const auto kernels = sass::kernels_of(image.cubin.bytes());
    const sass::Listing listing = sass::disassemble(image.cubin.bytes());
    ASSERT_EQ(kernels.size(), listing.functions.size());
    for (const sass::Function& function : listing.functions) {
      const auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const auto& each) {
        return each.name == function.name;
      });
      ASSERT_NE(kernel, kernels.end()) << function.name;
      const sass::Counts counts = sass::count(function);
      EXPECT_EQ(kernel->instructions, counts.instructions) << function.name;
      EXPECT_EQ(kernel->registers, function.registers) << function.name;
      EXPECT_EQ(kernel->shared_bytes, function.shared_bytes) << function.name;
      EXPECT_EQ(kernel->local, counts.local_loads + counts.local_stores) << function.name;
      EXPECT_EQ(kernel->calls, counts.calls) << function.name;
      ++seen;
    }
  }
  EXPECT_GT(seen, 3);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Cubin,
                         ::testing::Values(std::pair{"fused_hadamard", "sm_90a"},
                                           std::pair{"grouped_mxfp8_e4m3", "sm_100f"},
                                           std::pair{"quantize_columns_general", "sm_120f"}),
                         [](const auto& info) {
                           return std::string(info.param.first) + "_" + info.param.second;
                         });

TEST(Cubins, that_are_none_are_refused) {
  const auto code_of = [](const std::string& bytes) {
    try {
      sass::kernels_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::interrupted;
  };
  EXPECT_EQ(code_of(""), ErrorCode::bad_input);
  EXPECT_EQ(code_of("text"), ErrorCode::bad_input);
  if (cuda::kernel_images().empty()) return;
  const auto cubin = cuda::kernel_images().front().cubin.bytes();
  for (std::size_t size = 6; size < cubin.size() / 2; size += cubin.size() / 50)
    EXPECT_EQ(code_of({cubin.begin(), cubin.begin() + static_cast<std::ptrdiff_t>(size)}),
              ErrorCode::bad_input)
        << size;
}

}  // namespace
}  // namespace microscale::testing
