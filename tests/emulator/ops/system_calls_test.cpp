// vprintf, __assertfail, malloc and free, which PTX only declares.
#include "emulator/ops/system_calls.hpp"

#include "emulator/run_ptx.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

const std::string declared =
    ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    ".extern .func (.param .b64 r) malloc (.param .b64 a);\n"
    ".extern .func free (.param .b64 a);\n"
    ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
    ".param .b64 e);\n";

std::string text_variable(const std::string& name, const std::string& text) {
  std::string bytes;
  for (const char each : text) bytes += std::to_string(static_cast<int>(each)) + ", ";
  return ".global .align 1 .b8 " + name + "[" + std::to_string(text.size() + 1) + "] = {" + bytes +
         "0};\n";
}

// Calls `function` with 64-bit registers (%r..: 32-bit ones), whose result is left in %rd20.
std::string call(const std::string& function, const std::vector<std::string>& arguments,
                 int result_bits = 0) {
  std::string before = "{ .reg .b32 unused;\n", names;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string bits = arguments[i].starts_with("%rd") ? "64" : "32";
    const std::string name = "param" + std::to_string(i);
    before += ".param .b" + bits + " " + name + "; st.param.b" + bits + " [" + name + "], " +
              arguments[i] + ";\n";
    names += (i ? ", " : "") + name;
  }
  if (!result_bits) return before + "call.uni " + function + ", (" + names + ");\n}\n";
  const std::string bits = std::to_string(result_bits);
  return before + ".param .b" + bits + " back; call.uni (back), " + function + ", (" + names +
         ");\nld.param.b" + bits + (result_bits == 64 ? " %rd20" : " %r20") + ", [back];\n}\n";
}

TEST(SystemCalls, printf_prints_what_each_lane_says) {
  const std::string text =
      entry(own_word +
                ".local .align 8 .b8 args[16];\n"
                "setp.gt.u32 %p1, %r50, 1; @%p1 bra END;\n"
                "mov.u64 %rd1, args; cvta.local.u64 %rd2, %rd1; st.local.u32 [%rd1], %r50;\n"
                "mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [%rd1+8], %fd1;\n"
                "mov.u64 %rd3, format; cvta.global.u64 %rd4, %rd3;\n" +
                call("vprintf", {"%rd4", "%rd2"}, 32) + "st.global.u32 [%rd32], %r20;\nEND:",
            declared + text_variable("format", "lane %d: %.2f\n"));
  const Ran ran = launch_words(text, {9, 9}, shaped(1, 32));
  EXPECT_EQ(ran.report.printed, "lane 0: 1.50\nlane 1: 1.50\n");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{2, 2}));
  EXPECT_TRUE(ran.report.findings.empty()) << ran.findings();
}

TEST(SystemCalls, a_printf_of_what_is_not_there_is_a_finding) {
  const std::string text = entry(
      "mov.u64 %rd4, 64; mov.u64 %rd2, 0;\n" + call("vprintf", {"%rd4", "%rd2"}, 32), declared);
  const Ran ran = launch_words(text, {0}, shaped(1, 1));
  EXPECT_EQ(ran.count(FindingKind::out_of_bounds), 1) << ran.findings();
  EXPECT_FALSE(ran.report.completed);
}

TEST(SystemCalls, an_assertion_that_does_not_hold_names_its_place) {
  const std::string text =
      entry(own_word +
                "setp.lt.u32 %p1, %r50, 30; @%p1 bra END;\n"
                "mov.u64 %rd1, what; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, file; "
                "cvta.global.u64 %rd4, %rd3; mov.u64 %rd5, function; cvta.global.u64 %rd6, %rd5; "
                "mov.u32 %r1, 14; mov.u64 %rd7, 1;\n" +
                call("__assertfail", {"%rd2", "%rd4", "%r1", "%rd6", "%rd7"}) + "END:",
            declared + text_variable("what", "i < n") + text_variable("file", "scale.cu") +
                text_variable("function", "void scale(float *)"));
  const Ran ran = launch_words(text, {0}, shaped(1, 32));
  ASSERT_EQ(ran.report.findings.size(), 1u) << ran.findings();
  EXPECT_EQ(ran.report.findings[0].kind, FindingKind::assertion);
  EXPECT_EQ(ran.report.findings[0].message,
            "assert(i < n) does not hold for lanes 30-31, at scale.cu:14 in void scale(float *)");
  EXPECT_FALSE(ran.report.completed);
}

std::string heap_kernel(const std::string& bytes, const std::string& rest) {
  return entry(own_word + "mov.u64 %rd1, " + bytes + ";\n" + call("malloc", {"%rd1"}, 64) + rest,
               declared);
}

TEST(SystemCalls, malloc_gives_each_lane_memory_of_its_own) {
  const Ran ran = launch_words(heap_kernel("16",
                                           "st.u32 [%rd20+12], %r50; ld.u32 %r1, [%rd20+12]; "
                                           "st.global.u32 [%rd32], %r1;\n" +
                                               call("free", {"%rd20"})),
                               std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_TRUE(ran.report.findings.empty()) << ran.findings();
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], i);
}

TEST(SystemCalls, what_malloc_gave_has_red_zones_and_begins_unwritten) {
  const auto ran = [](const std::string& code) {
    return launch_words(heap_kernel("16", code), {0}, shaped(1, 1));
  };
  EXPECT_EQ(ran("st.u32 [%rd20+16], %r50;").count(FindingKind::out_of_bounds), 1);
  EXPECT_EQ(
      ran("ld.u32 %r1, [%rd20]; st.u32 [%rd20+4], %r1;").count(FindingKind::uninitialised_memory),
      1);
  const Ran freed = ran(call("free", {"%rd20"}) + "st.u32 [%rd20], %r50;");
  EXPECT_NE(freed.findings().find("in 16 bytes that free has given back"), std::string::npos)
      << freed.findings();
  const Ran twice = ran(call("free", {"%rd20"}) + call("free", {"%rd20"}));
  EXPECT_EQ(twice.count(FindingKind::misuse), 1) << twice.findings();
  EXPECT_TRUE(ran("mov.u64 %rd20, 0;" + call("free", {"%rd20"})).report.findings.empty());
}

TEST(SystemCalls, malloc_gives_null_where_the_heap_has_not_that_much) {
  const Ran ran =
      launch_words(heap_kernel("8388609", "st.global.u64 [%rd32], %rd20;"), {7, 7}, shaped(1, 1));
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{0, 0}));
  EXPECT_TRUE(ran.report.findings.empty()) << ran.findings();
}

TEST(SystemCalls, other_declared_functions_are_refused) {
  Memory memory;
  const Module module(memory, entry("call.uni elsewhere, ();", ".extern .func elsewhere ();\n"));
  try {
    module.info("k");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("'elsewhere' is declared without a body"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace microscale::emulator
