// What the program says about kernels where it was built without the tools for them.
#include "../../tools/microscale/kernel_commands_absent.cpp"

#include <gtest/gtest.h>

namespace microscale {

class Console {};

namespace {

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

TEST(KernelCommandsAbsent, EachIsRefusedByNameWithTheWayToGetIt) {
  Console console;
  const std::vector<std::pair<std::string, std::string>> refusals{
      {"ptx profile", refusal([&] { run_ptx("profile", "a.ptx", {}, 0, console); })},
      {"explain mma", refusal([&] { run_explain_mma({}, {}, console); })},
      {"explain occupancy", refusal([&] { run_explain_occupancy({}, {}, console); })},
      {"sass", refusal([&] { run(SassCommand{}, console); })},
      {"bench", refusal([&] { run_bench({}, 0, console); })}};
  for (const auto& [name, text] : refusals) {
    EXPECT_TRUE(text.starts_with(name + ": ")) << text;
    EXPECT_NE(text.find("`make` builds them"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace microscale
