#include "microscale/error.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::string problem(const std::string& text) {
  Memory memory;
  const Module module(memory, text);
  try {
    module.info("k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Decode, a_function_that_calls_itself_may_have_no_arrays) {
  EXPECT_EQ(problem(entry("call.uni f;", ".func f { call.uni f; ret; }\n")), "");
  EXPECT_NE(problem(entry("call.uni f;", ".func f { .local .b8 a[16]; call.uni f; ret; }\n"))
                .find("f can call itself and has arrays in local memory"),
            std::string::npos);
}

TEST(Decode, what_the_target_lacks_is_refused) {
  const std::string code = ".reg .b8 %b; cvt.rn.satfinite.e2m1x2.f32 %b, 0f3F800000, 0f3F800000;";
  EXPECT_EQ(problem(entry(code)), "");
  EXPECT_NE(problem(entry(code, "", "sm_90a")), "");
}

TEST(Decode, a_parameter_access_outside_the_parameters_is_refused) {
  EXPECT_NE(problem(entry("ld.param.u64 %rd1, [p+4];")).find("outside the parameters"),
            std::string::npos);
  EXPECT_NE(problem(entry("st.param.u64 [p], %rd1;")), "");
}

TEST(Decode, nothing_is_known_of_other_kernels) {
  Memory memory;
  const Module module(memory, entry(""));
  EXPECT_EQ(module.kernels(), std::vector<std::string>{"k"});
  EXPECT_THROW(module.info("other"), Error);
  EXPECT_EQ(module.info("k").argument_bytes, 8);
}

}  // namespace
}  // namespace microscale::emulator
