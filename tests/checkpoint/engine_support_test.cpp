#include "checkpoint/engine_support.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

EngineAnswer answer_of(const CheckpointScheme& scheme, std::string_view engine, Hardware hardware) {
  for (const EngineAnswer& answer : engines_for(scheme)) {
    if (answer.engine == engine && answer.hardware == hardware) return answer;
  }
  ADD_FAILURE() << engine;
  return {};
}

TEST(EngineSupport, answers_for_every_engine_and_place_with_a_source) {
  for (const bool modelopt : {false, true}) {
    for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      for (const bool activations : {false, true}) {
        const auto answers = engines_for({modelopt, format, activations});
        EXPECT_EQ(answers.size(), 25u);
        for (const EngineAnswer& answer : answers) {
          EXPECT_EQ(answer.source.empty(), answer.support == Support::unknown) << answer.engine;
        }
      }
    }
  }
}

TEST(EngineSupport, says_what_engines_do_with_what_quantize_writes) {
  const CheckpointScheme ours{false, Format::nvfp4, false};
  EXPECT_EQ(answer_of(ours, "vLLM", Hardware::hopper).support, Support::weight_only);
  EXPECT_EQ(answer_of(ours, "vLLM", Hardware::cpu).support, Support::refuses);
  EXPECT_EQ(answer_of(ours, "transformers", Hardware::cpu).support, Support::emulation);
  EXPECT_EQ(answer_of(ours, "llama.cpp", Hardware::cpu).support, Support::conversion);
  EXPECT_EQ(answer_of({false, Format::mxfp4, false}, "llama.cpp", Hardware::cpu).support,
            Support::refuses);
  const CheckpointScheme w4a4{false, Format::nvfp4, true};
  EXPECT_EQ(answer_of(w4a4, "vLLM", Hardware::blackwell_datacenter).support, Support::native);
  EXPECT_EQ(answer_of(w4a4, "vLLM", Hardware::ampere).support, Support::weight_only);
  EXPECT_EQ(answer_of(w4a4, "SGLang", Hardware::hopper).support, Support::refuses);
  EXPECT_EQ(answer_of({true, Format::mxfp4, false}, "vLLM", Hardware::hopper).support,
            Support::refuses);
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    const CheckpointScheme dynamic{false, format, true};
    EXPECT_EQ(answer_of(dynamic, "vLLM", Hardware::blackwell_consumer).support, Support::native);
    EXPECT_EQ(answer_of(dynamic, "vLLM", Hardware::hopper).support, Support::weight_only);
  }
}

TEST(EngineSupport, reads_the_schemes_off_a_folder) {
  testing::SmallModel model = testing::small_llama(Format::mxfp8_e4m3);
  auto config = nlohmann::ordered_json::parse(model.config);
  const auto schemes_of = [&] {
    const testing::TemporaryFolder path;
    model.write(path.path());
    const QuantizedFolder folder = take(open_quantized_folder(path.path()));
    const auto parsed = take(parse_quantization_config(config.dump()));
    return schemes_in(folder, parsed ? &*parsed : nullptr);
  };
  ASSERT_EQ(schemes_of().size(), 1u);
  EXPECT_EQ(in_words(schemes_of()[0]), "mxfp8_e4m3 weights, compressed-tensors");
  auto& group = config["quantization_config"]["config_groups"]["group_0"];
  group["input_activations"] = group["weights"];
  group["input_activations"]["dynamic"] = true;
  EXPECT_EQ(in_words(schemes_of()[0]), "mxfp8_e4m3 weights and activations, compressed-tensors");
}

TEST(EngineSupport, knows_layers_in_fp8) {
  const auto config_of = [](bool activations) {
    return std::string(R"({"quantization_config": {"quant_method": "compressed-tensors",
      "format": "float-quantized", "quantization_status": "compressed", "config_groups": {"group_0":
      {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
       "input_activations": )") +
           (activations ? R"({"num_bits": 8, "type": "float", "dynamic": true})" : "null") + "}}}}";
  };
  const testing::TemporaryFolder path;
  testing::fp8_llama({.name = "weight_scale", .block_rows = 1, .block_cols = 0})
      .model.write(path.path());
  const QuantizedFolder folder = take(open_quantized_folder(path.path()));
  const auto scheme_of = [&](bool activations) {
    const auto config = take(parse_quantization_config(config_of(activations)));
    const auto schemes = schemes_in(folder, &*config);
    EXPECT_EQ(schemes.size(), 1u);
    return schemes.front();
  };
  EXPECT_EQ(in_words(scheme_of(false)), "FP8 E4M3, one scale per row weights, compressed-tensors");
  EXPECT_EQ(answer_of(scheme_of(false), "vLLM", Hardware::hopper).support, Support::weight_only);
  EXPECT_EQ(answer_of(scheme_of(true), "vLLM", Hardware::hopper).support, Support::native);
  EXPECT_EQ(answer_of(scheme_of(true), "vLLM", Hardware::ampere).support, Support::weight_only);
  EXPECT_EQ(answer_of(scheme_of(true), "transformers", Hardware::cpu).support, Support::emulation);
  EXPECT_EQ(answer_of(scheme_of(true), "llama.cpp", Hardware::cpu).support, Support::unknown)
      << "what is said of block formats does not hold for FP8";
  // Of a container that the table does not speak about nothing is known.
  const auto other = schemes_in(folder, nullptr);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(in_words(other[0]), "FP8 E4M3, one scale per row");
  for (const EngineAnswer& answer : engines_for(other[0])) {
    EXPECT_EQ(answer.support, Support::unknown) << answer.engine;
  }
}

}  // namespace
}  // namespace microscale
