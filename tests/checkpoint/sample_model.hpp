// A small model with everything the recipe distinguishes, and what conversion tests do with it.
#pragma once

#include "model_builder.hpp"

namespace microscale::testing {

inline const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";

// Two shards with everything the recipe distinguishes; q/k/v and gate/up are spread over both.
inline TestModel sample_model() {
  TestModel model;
  model.shards.resize(2);
  TestTensors& one = model.shards[0];
  TestTensors& two = model.shards[1];
  one["model.embed_tokens.weight"] = random_tensor(StoredType::bf16, {50, 64}, 1);
  one[attention + "q_proj.weight"] = random_tensor(StoredType::bf16, {96, 64}, 2, 0.5f);
  two[attention + "k_proj.weight"] = random_tensor(StoredType::f16, {32, 64}, 3, 0.1f);
  two[attention + "v_proj.weight"] = random_tensor(StoredType::f32, {33, 64}, 4, 2.0f);
  one[attention + "q_proj.bias"] = random_tensor(StoredType::bf16, {96}, 5);
  one[attention + "o_proj.weight"] = random_tensor(StoredType::f32, {64, 96}, 6);
  one[mlp + "gate_proj.weight"] = random_tensor(StoredType::bf16, {7, 64}, 7);
  two[mlp + "up_proj.weight"] = random_tensor(StoredType::bf16, {7, 64}, 8);
  two[mlp + "down_proj.weight"] = random_tensor(StoredType::bf16, {64, 40}, 9);
  two[mlp + "gate.weight"] = random_tensor(StoredType::bf16, {4, 64}, 10);
  one["model.norm.weight"] = random_tensor(StoredType::bf16, {64}, 11);
  one["model.scalar"] = random_tensor(StoredType::f32, {}, 12);
  two["model.empty.weight"] = random_tensor(StoredType::bf16, {0, 64}, 13);
  two["model.nothing"] = random_tensor(StoredType::i64, {3, 0}, 14);
  two["model.position_ids"] = random_tensor(StoredType::i64, {1, 12}, 15);
  two["lm_head.weight"] = random_tensor(StoredType::bf16, {50, 64}, 16);
  model.other_files["tokenizer.json"] = "{\"a\": 1}";
  model.other_files["1_Pooling/config.json"] = "{}";
  model.other_files["empty.txt"] = "";
  return model;
}

/// The elements of a float tensor.
inline std::vector<float> values_of(const TestTensor& tensor) {
  std::vector<float> values;
  const auto count = static_cast<std::size_t>(testing::element_count(tensor.shape));
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.type == StoredType::f32) {
      float value;
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
      values.push_back(value);
    } else {
      std::uint16_t half;
      std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
      values.push_back(tensor.type == StoredType::f16 ? f16_to_float(half) : bf16_to_float(half));
    }
  }
  return values;
}

/// From "in" to "out" of a folder.
inline QuantizeModelOptions options_for(const TemporaryFolder& folder, Format format,
                                        int threads = 2) {
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  options.format = format;
  options.threads = threads;
  return options;
}

}  // namespace microscale::testing
