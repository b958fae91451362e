// A small gpt-oss as transformers writes it: all experts of a layer in one tensor.
#pragma once

#include "sample_model.hpp"

namespace microscale::testing {

inline constexpr std::int64_t experts = 3, hidden = 64, inner = 96;
inline const std::string layer = "model.layers.0.", moe = layer + "mlp.experts.";

inline TestModel gpt_oss() {
  TestModel model;
  model.shards.resize(1);
  TestTensors& tensors = model.shards[0];
  tensors["model.embed_tokens.weight"] = random_tensor(StoredType::bf16, {50, hidden}, 1);
  tensors["lm_head.weight"] = random_tensor(StoredType::bf16, {50, hidden}, 2);
  for (const std::string part : {"q", "k", "v", "o"}) {
    tensors[layer + "self_attn." + part + "_proj.weight"] =
        random_tensor(StoredType::bf16, {64, hidden}, 3);
  }
  tensors[layer + "mlp.router.weight"] = random_tensor(StoredType::bf16, {experts, hidden}, 4);
  tensors[layer + "mlp.router.bias"] = random_tensor(StoredType::bf16, {experts}, 5);
  tensors[moe + "gate_up_proj"] = random_tensor(StoredType::bf16, {experts, hidden, 2 * inner}, 6);
  tensors[moe + "gate_up_proj_bias"] = random_tensor(StoredType::bf16, {experts, 2 * inner}, 7);
  tensors[moe + "down_proj"] = random_tensor(StoredType::bf16, {experts, inner, hidden}, 8);
  tensors[moe + "down_proj_bias"] = random_tensor(StoredType::bf16, {experts, hidden}, 9);
  tensors["model.norm.weight"] = random_tensor(StoredType::bf16, {hidden}, 10);
  model.config = R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
                     "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
                     "num_local_experts": 3, "vocab_size": 50})";
  return model;
}

}  // namespace microscale::testing
