#include "checkpoint/model_facts.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(ModelFacts, reads_the_top_level) {
  const ModelFacts facts = take(read_model_facts(
      R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
          "vocab_size": 129280})"));
  EXPECT_EQ(facts.model_type, "deepseek_v3");
  EXPECT_EQ(facts.hidden_size, 7168);
  EXPECT_EQ(facts.layers, 61);
  EXPECT_EQ(facts.vocab_size, 129280);
  EXPECT_FALSE(facts.multimodal || facts.diffusion || facts.swiglu_limit);
  EXPECT_FALSE(facts.quantized_by);
}

TEST(ModelFacts, falls_back_to_the_text_config) {
  const ModelFacts facts = take(read_model_facts(
      R"({"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 4096}})"));
  EXPECT_EQ(facts.model_type, "llava");
  EXPECT_EQ(facts.hidden_size, 4096);
}

TEST(ModelFacts, finds_the_language_model_of_several_parts) {
  const ModelFacts facts = take(read_model_facts(
      R"({"thinker_config": {"text_config": {"model_type": "x", "num_hidden_layers": 5}}})"));
  EXPECT_EQ(facts.text_model_type, "x");
  EXPECT_EQ(facts.layers, 5);
}

TEST(ModelFacts, sees_who_quantized_the_weights) {
  EXPECT_EQ(
      take(read_model_facts(R"({"quantization_config": {"quant_method": "fp8"}})")).quantized_by,
      "fp8");
  EXPECT_EQ(take(read_model_facts(R"({"text_config": {"quantization_config": {"bits": 4}}})"))
                .quantized_by,
            "quantization_config");
  EXPECT_FALSE(take(read_model_facts(R"({"quantization_config": null})")).quantized_by);
}

TEST(ModelFacts, takes_values_of_the_wrong_kind_for_unknown) {
  const ModelFacts facts = take(read_model_facts(
      R"({"model_type": 3, "hidden_size": "big", "num_hidden_layers": -1, "text_config": []})"));
  EXPECT_EQ(facts.model_type, "");
  EXPECT_FALSE(facts.hidden_size);
  EXPECT_FALSE(facts.layers);
}

TEST(ModelFacts, tells_models_of_several_parts) {
  const ModelFacts facts = take(read_model_facts(
      R"({"architectures": ["A", "B"], "vision_config": {}, "swiglu_limit": 7.0,
          "text_config": {"model_type": "inner"}, "quantization": {"bits": 4}})"));
  EXPECT_EQ(facts.architectures, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(facts.text_model_type, "inner");
  EXPECT_TRUE(facts.multimodal && facts.swiglu_limit);
  EXPECT_EQ(facts.quantized_by, "quantization");
  EXPECT_TRUE(take(read_model_facts(R"({"_class_name": "FluxTransformer2DModel"})")).diffusion);
}

TEST(ModelFacts, leaves_the_number_of_layers_open_where_the_decoder_has_its_own) {
  EXPECT_FALSE(take(read_model_facts(R"({"num_hidden_layers": 2, "decoder_layers": 4})")).layers);
}

TEST(ModelFacts, tells_experts_and_uneven_layers) {
  EXPECT_EQ(take(read_model_facts(R"({"text_config": {"num_local_experts": 8}})")).experts, 8);
  EXPECT_FALSE(take(read_model_facts("{}")).experts);
  EXPECT_TRUE(take(read_model_facts(R"({"num_kv_shared_layers": 15})")).shared_keys);
  EXPECT_TRUE(take(read_model_facts(R"({"text_config": {"attention_k_eq_v": true}})")).shared_keys);
  EXPECT_FALSE(take(read_model_facts(R"({"num_kv_shared_layers": 0})")).shared_keys);
  EXPECT_TRUE(take(read_model_facts(R"({"block_configs": []})")).uneven_layers);
}

TEST(ModelFacts, whole_numbers_are_understood_however_they_are_written) {
  for (const char* number : {"3", "3.0", R"("3")", "0.3e1"}) {
    const std::string config = std::string(R"({"num_hidden_layers": )") + number + "}";
    EXPECT_EQ(take(read_model_facts(config)).layers, 3) << number;
  }
  for (const char* number : {"3.5", R"("3x")", R"("")", "-1", "true", "1e300"}) {
    const std::string config = std::string(R"({"num_hidden_layers": )") + number + "}";
    EXPECT_FALSE(take(read_model_facts(config)).layers) << number;
  }
}

}  // namespace
}  // namespace microscale
