#include "microscale/error.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::string refusal(const std::string& code) {
  Memory memory;
  const Module module(memory, entry(code));
  try {
    module.info("k");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Binder, refuses_what_does_not_fit_and_names_the_line) {
  EXPECT_NE(refusal("add.u32 %r1, %rd1, 3;")
                .find("line 8: add.u32 takes register %rd1 of 64 bits as .u32"),
            std::string::npos)
      << refusal("add.u32 %r1, %rd1, 3;");
  EXPECT_NE(refusal("add.ftz.u32 %r1, %r1, 3;"), "accepted");
  EXPECT_NE(refusal("frobnicate.u32 %r1, %r1;").find("line 8"), std::string::npos);
  EXPECT_NE(refusal("add.u32 %r1, %r1;"), "accepted");
  EXPECT_EQ(refusal("add.u32 %r1, %r1, 3;"), "accepted");
}

}  // namespace
}  // namespace microscale::emulator
