// The kernels of a cubin as the ELF file has them, against nvdisasm's listing of it.
#include "sass/cubin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/device/kernel_images.hpp"
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

/// The two words of instructions: an opcode with a predicate that is always true, the scoreboard in
/// which a read ends (7: none), those that it waits for.
struct Words {
  std::vector<std::uint8_t> bytes;
  Words& add(std::uint64_t opcode, unsigned ends_in, unsigned waits_for, std::uint64_t high = 0) {
    high |= std::uint64_t{ends_in} << 46 | std::uint64_t{waits_for} << 52;
    for (const std::uint64_t word : {opcode | 7u << 12, high})
      for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
    return *this;
  }
  Words& read(unsigned ends_in) { return add(0x984, ends_in, 0); }
  Words& read_matrices(unsigned ends_in) { return add(0x83b, ends_in, 0); }
  Words& multiply(unsigned waits_for) { return add(0x23c, 7, waits_for); }
  Words& arrive(unsigned waits_for = 0) { return add(0x9a7, 7, waits_for, 1u << 20); }
  Words& expect_bytes() { return add(0x9a7, 7, 0); }
  Words& exit() { return add(0x94d, 7, 0); }
  Words& branch() { return add(0x947, 7, 0, 7u << 23); }
  Words& branch_if_divergent() { return add(0x947, 7, 0, 7u << 23 | 1u << 27); }
  int early() const { return sass::early_arrivals(bytes); }
};

TEST(EarlyArrivals, are_those_that_do_not_wait_for_reads) {
  EXPECT_EQ(Words().read(0).arrive().early(), 1);
  EXPECT_EQ(Words().read_matrices(2).arrive().arrive().early(), 2);
  EXPECT_EQ(Words().read(0).multiply(1).arrive().early(), 0);
  EXPECT_EQ(Words().read(0).arrive(1).early(), 0);
  EXPECT_EQ(Words().read(0).branch().arrive().early(), 0);
  EXPECT_EQ(Words().read(0).branch_if_divergent().arrive().early(), 1);
  // In turn: with one, those in front of it.
  EXPECT_EQ(Words().read(0).read_matrices(1).multiply(1).arrive().early(), 1);
  EXPECT_EQ(Words().read(0).read_matrices(1).multiply(2).arrive().early(), 0);
  EXPECT_EQ(Words().read(0).expect_bytes().early(), 0);
  EXPECT_EQ(Words().read(0).exit().arrive().early(), 0);
  EXPECT_EQ(Words().read(7).arrive(0x3f).early(), 1);
  EXPECT_EQ(Words().read(7).read(0).multiply(1).arrive().early(), 0);
  EXPECT_EQ(Words().read(0).read(7).multiply(1).arrive().early(), 1);
}

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
