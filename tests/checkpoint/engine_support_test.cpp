#include "checkpoint/engine_support.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

EngineAnswer answer_of(const CheckpointScheme& scheme, std::string_view engine, Place place) {
  for (const EngineAnswer& answer : engines_for(scheme)) {
    if (answer.engine == engine && answer.place == place) return answer;
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
  EXPECT_EQ(answer_of(ours, "vLLM", Place::hopper).support, Support::weight_only);
  EXPECT_EQ(answer_of(ours, "vLLM", Place::cpu).support, Support::refuses);
  EXPECT_EQ(answer_of(ours, "transformers", Place::cpu).support, Support::emulation);
  EXPECT_EQ(answer_of(ours, "llama.cpp", Place::cpu).support, Support::conversion);
  EXPECT_EQ(answer_of({false, Format::mxfp4, false}, "llama.cpp", Place::cpu).support,
            Support::refuses);
  const CheckpointScheme w4a4{false, Format::nvfp4, true};
  EXPECT_EQ(answer_of(w4a4, "vLLM", Place::blackwell_datacenter).support, Support::native);
  EXPECT_EQ(answer_of(w4a4, "vLLM", Place::ampere).support, Support::weight_only);
  EXPECT_EQ(answer_of(w4a4, "SGLang", Place::hopper).support, Support::refuses);
  EXPECT_EQ(answer_of({true, Format::mxfp4, false}, "vLLM", Place::hopper).support,
            Support::refuses);
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    const CheckpointScheme dynamic{false, format, true};
    EXPECT_EQ(answer_of(dynamic, "vLLM", Place::blackwell_consumer).support, Support::native);
    EXPECT_EQ(answer_of(dynamic, "vLLM", Place::hopper).support, Support::weight_only);
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

}  // namespace
}  // namespace microscale
