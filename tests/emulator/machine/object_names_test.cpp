#include "emulator/machine/object_names.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::vector<Finding> findings_of(const std::string& text) {
  Memory memory;
  const Module module(memory, text);
  const std::uint64_t x = memory.allocate(64, "x");
  LaunchRequest request = shaped(1, 1);
  request.kernel = "k";
  request.arguments = arguments(x);
  return launch(memory, module, request).findings;
}

TEST(ObjectNames, are_of_buffers_and_of_the_modules_variables) {
  const auto beyond = findings_of(entry("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+64];"));
  ASSERT_EQ(beyond.size(), 1u);
  EXPECT_EQ(beyond[0].object, "x + 64");
  EXPECT_EQ(beyond[0].access, "reads");
  EXPECT_NE(to_sentence(beyond[0]).find("[x + 64]"), std::string::npos);
  const auto before = findings_of(entry("ld.param.u64 %rd1, [p]; st.global.u32 [%rd1+-4], 1;"));
  EXPECT_EQ(before.at(0).object, "x - 4");
  EXPECT_EQ(before.at(0).access, "writes");
  const auto variable =
      findings_of(entry("mov.u64 %rd1, _ZN3one4coefE; ld.global.u32 %r1, [%rd1+16];",
                        ".global .align 4 .b8 _ZN3one4coefE[16];"));
  EXPECT_EQ(variable.at(0).object, "coef + 16");
}

TEST(ObjectNames, are_of_arrays_in_shared_memory) {
  const auto unwritten =
      findings_of(entry(".shared .align 4 .b8 _ZZ1kE3one[32]; .shared .align 4 .b8 two[32];\n"
                        "mov.u32 %r2, two; ld.shared.u32 %r1, [%r2+8]; mov.u32 %r2, _ZZ1kE3one; "
                        "st.shared.u32 [%r2], %r1;"));
  ASSERT_EQ(unwritten.size(), 1u);
  EXPECT_EQ(unwritten[0].object, "two + 8");
}

TEST(ObjectNames, are_none_where_nothing_is_near) {
  const auto null = findings_of(entry("mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];"));
  EXPECT_EQ(null.at(0).object, "");
  const auto far = findings_of(entry("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+1048576];"));
  EXPECT_EQ(far.at(0).object, "");
}

}  // namespace
}  // namespace microscale::emulator
