// Shell completion: the bash script in a real bash; the others as text.
#include <gtest/gtest.h>

#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

/// What bash offers for the last of `words`, in one line.
std::string offered(const std::string& words, const std::string& folder = "/") {
  const Outcome outcome =
      bash("source <(\"$microscale\" completion bash)\ncd '" + folder + "'\nCOMP_WORDS=(" + words +
           "); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()\n"
           "_microscale 2>&1\necho \"${COMPREPLY[*]}\"");
  EXPECT_EQ(outcome.err, "");
  return outcome.out.substr(0, outcome.out.size() - 1);
}

TEST(BashCompletion, offers_commands_first) {
  EXPECT_EQ(
      offered("microscale ''"),
      "quantize convert dequantize inspect verify repair compare explain ptx bench sass completion "
      "version");
  EXPECT_EQ(offered("microscale qu"), "quantize");
  EXPECT_EQ(offered("microscale --"), "--help --version");
}

TEST(BashCompletion, offers_the_options_of_the_command) {
  EXPECT_EQ(offered("microscale quantize --re"), "--resume --report");
  EXPECT_EQ(offered("microscale dequantize --d"), "--dtype");
  EXPECT_EQ(offered("microscale verify --re"), "");
}

TEST(BashCompletion, offers_the_choices_of_an_option) {
  EXPECT_EQ(offered("microscale quantize m --format nv"), "nvfp4");
  EXPECT_EQ(offered("microscale quantize --format = mxfp6"), "mxfp6_e2m3 mxfp6_e3m2");
  EXPECT_EQ(offered("microscale quantize --format ="),
            "mxfp4 nvfp4 mxfp8 mxfp8_e4m3 mxfp8_e5m2 mxfp6_e2m3 mxfp6_e3m2 mxint8");
  EXPECT_EQ(offered("microscale explain --scale-rule four"), "four_over_six four_over_six_mae");
  EXPECT_EQ(offered("microscale explain --rounding st"), "stochastic");
  EXPECT_EQ(offered("microscale explain --compat llama"), "llama.cpp");
  EXPECT_EQ(offered("microscale dequantize m --dtype f"), "f16 f32");
  EXPECT_EQ(offered("microscale quantize m --device c"), "cpu cuda cuda:0 cuda:all");
  EXPECT_EQ(offered("microscale bench ''"), "quantize matmul attention");
  EXPECT_EQ(offered("microscale bench matmul --backend a"), "all amx avx512 avx2");
  EXPECT_EQ(offered("microscale completion ''"), "bash zsh fish");
  EXPECT_EQ(offered("microscale quantize --threads ''"), "");
}

TEST(BashCompletion, offers_files_with_blanks_whole) {
  const Outcome made = bash("cd \"$(mktemp -d)\" && mkdir 'a model' && touch 'a file' && pwd");
  const std::string folder = made.out.substr(0, made.out.size() - 1);
  EXPECT_EQ(offered("microscale quantize a", folder).size(), std::string("a model a file").size());
  const Outcome counted =
      bash("source <(\"$microscale\" completion bash); cd '" + folder +
           "'; COMP_WORDS=(microscale quantize m -o 'a '); COMP_CWORD=4; _microscale 2>/dev/null; "
           "echo ${#COMPREPLY[@]}");
  EXPECT_EQ(counted.out, "2\n");
  bash("rm -r '" + folder + "'");
}

TEST(Completion, scripts_name_every_command) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = microscale({"completion", shell});
    EXPECT_EQ(outcome.code, 0);
    for (const char* word : {"quantize", "dequantize", "inspect", "verify", "compare", "explain",
                             "bench", "sass", "max-memory", "four_over_six", "transformer-engine"})
      EXPECT_NE(outcome.out.find(word), std::string::npos) << shell << " lacks " << word;
  }
  EXPECT_EQ(microscale({"completion", "zsh"}).out.rfind("#compdef microscale\n", 0), 0u);
}

}  // namespace
}  // namespace microscale::testing
