// Misspelled, missing and malformed words: exit code 2, one sentence, the nearest right name.
#include <gtest/gtest.h>

#include <algorithm>

#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

struct Mistake {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(Usage, mistakes_exit_with_2_and_say_what_was_meant) {
  const std::vector<Mistake> mistakes = {
      {{}, "no command given; choose one of quantize"},
      {{"quantise"}, "microscale: no command 'quantise' (did you mean quantize?)"},
      {{"--versio"}, "unexpected option '--versio' (did you mean --version?)"},
      {{"quantize"}, "microscale quantize: "},
      {{"quantize", "m", "-o", "x"}, "--format is required"},
      {{"quantize", "m", "-o", "x", "--format", "nvfp5"},
       "'nvfp5' (did you mean nvfp4?); choose one of mxfp4, nvfp4"},
      {{"quantize", "m", "--fromat", "nvfp4"},
       "unexpected option '--fromat' (did you mean --format?)"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--max-memory", "3X"},
       "--max-memory got '3X'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--max-memory", "0"},
       "--max-memory got '0'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--threads", "many"},
       "--threads got 'many'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--device", "cudo"},
       "--device got 'cudo' (did you mean cuda?); it takes cpu, cuda, cuda:N or cuda:all"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--device", "cuda:-1"},
       "--device got 'cuda:-1'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--lora", "style:0,8"},
       "--lora got 'style:0,8'; it takes ADAPTER or ADAPTER:WEIGHT"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--lora", ":1"}, "--lora got ':1'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--lora", "a:nan"}, "--lora got 'a:nan'"},
      {{"convert", "m", "-o", "x"}, "--to is required"},
      {{"convert", "m", "-o", "x", "--to", "modelop"},
       "--to does not know 'modelop' (did you mean modelopt?)"},
      {{"dequantize", "m", "-o", "x", "--dtype", "bf61"}, "'bf61' (did you mean bf16?)"},
      {{"verify", "m", "--threads", "-1"}, "--threads got '-1'; it takes an integer from 0"},
      {{"compare", "a", "b", "--max-mse", "low"}, "--max-mse got 'low'"},
      {{"inspect", "a", "b", "c"}, "unexpected argument 'c'"},
      {{"completion", "tcsh"}, "choose one of bash, zsh, fish"},
      {{"explain", "1", "--scale-rule", "flor"}, "'flor' (did you mean floor?)"},
      {{"explain", "1", "--scale-rule", "nearest"},
       "nearest is not defined for mxfp4; choose one of search"},
      {{"explain", "1", "--rounding", "nearest-evn"}, "(did you mean nearest_even?)"},
      {{"explain", "1", "--compat", "Torch-AO"}, "(did you mean torchao?)"},
      {{"explain", "1", "--compat", "ocp", "--format", "nvfp4"}, "ocp has no nvfp4"},
      {{"explain", "1", "--global-scale", "2"}, "--global-scale is for nvfp4"},
      {{"explain", "1", "--global-scale", "-2", "--format", "nvfp4"}, "above 0"},
      {{"explain", "1", "--seed", "-1"}, "--seed got"},
      {{"explain", "1", "--seed", "0"}, "--seed has no effect on rounding nearest_even"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--rounding", "toward_zero", "--seed",
        "3"},
       "--seed has no effect on rounding toward_zero; leave it out, or add --rounding stochastic"},
      {{"explain", "1", "--compare", "--scale-rule", "floor"},
       "--compare shows every scale rule and rounding"},
      {{"verify", "m", "--tp", "0"}, "--tp got '0'; it takes an integer from 1"},
      {{"explain", "1", "abc"}, "'abc'"},
      {{"explain", "1", "--regs", "3"},
       "--regs is of explain occupancy; leave it out of explain block"},
      {{"explain", "block", "1", "--probe"}, "--probe is of explain mma"},
      {{"explain", "occupancy", "--regs", "3", "--threads", "4", "--svg", "x.svg"},
       "--svg is of explain mma; leave it out of explain occupancy"},
      {{"explain", "mma", "mxf4", "m16n8k64", "--compare"}, "--compare is of explain block"},
      {{"explain", "occupancy", "--regs", "32", "--threads", "-64"}, "--threads got '-64'"},
      {{"explain", "1e39"}, "beyond the largest FP32"},
  };
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = microscale(mistake.arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.rfind("microscale", 0), 0u) << outcome.err;
    EXPECT_NE(outcome.err.find(mistake.says), std::string::npos)
        << outcome.err << "wanted " << mistake.says;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Usage, a_seed_is_for_what_rounds_at_random) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--rounding", "stochastic"}, {"--compare"}, {"--compare", "--compat", "ocp"}}) {
    std::vector<std::string> arguments{"explain", "1", "0.3", "--seed", "5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(microscale(arguments).code, 0) << more.front();
  }
}

TEST(Usage, a_name_near_nothing_gets_no_suggestion) {
  EXPECT_EQ(microscale({"explain", "1", "--format", "posit"}).err.find("did you mean"),
            std::string::npos);
}

}  // namespace
}  // namespace microscale::testing
