// A language model of one layer as a GGUF file, its tokenizer and all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_builder.hpp"

namespace microscale::testing {

/// Rows * cols values 0, 1, 2, ... plus `first`, as F32.
inline std::string counting(std::int64_t count, float first) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return float_bytes(values);
}

/// `count` blocks of Q8_0: scale 1 / 64 and codes -16, -15, ... 15.
inline std::string q8_0_blocks(std::int64_t count) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    bytes += little_endian<std::uint16_t>(0x2400);
    for (int code = -16; code < 16; ++code) bytes += static_cast<char>(code);
  }
  return bytes;
}

/// Metadata of such a model: 1 layer, 64 columns, 4 heads of 16 and 2 key-value heads.
inline GgufBuilder small_metadata(const std::string& architecture) {
  GgufBuilder builder;
  builder.value("general.architecture", gguf_text(architecture));
  const auto number = [&](const std::string& key, std::uint32_t value) {
    builder.value(architecture + "." + key, gguf_u32(value));
  };
  number("block_count", 1);
  number("context_length", 512);
  number("embedding_length", 64);
  number("feed_forward_length", 96);
  number("attention.head_count", 4);
  number("attention.head_count_kv", 2);
  builder.value(architecture + ".attention.layer_norm_rms_epsilon",
                gguf_number(GgufValueType::f32, 1e-5f));
  return builder;
}

/// Byte-level BPE over six tokens, the last of them a control token.
inline GgufBuilder& add_small_tokenizer(GgufBuilder& builder, const std::string& pre) {
  std::string types;
  for (const std::int32_t type : {1, 1, 1, 1, 4, 3}) types += little_endian(type);
  builder.value("tokenizer.ggml.model", gguf_text("gpt2"));
  builder.value("tokenizer.ggml.pre", gguf_text(pre));
  builder.value("tokenizer.ggml.tokens", gguf_texts({"a", "b", "ab", "\xC4\xA0", "<u>", "<end>"}));
  builder.value("tokenizer.ggml.token_type", gguf_array(GgufValueType::i32, 6, types));
  builder.value("tokenizer.ggml.merges", gguf_texts({"a b"}));
  builder.value("tokenizer.ggml.eos_token_id", gguf_u32(5));
  return builder;
}

/// Tensors of one layer: Q8_0 weights, F32 norms.
inline GgufBuilder& add_small_tensors(GgufBuilder& builder) {
  const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    builder.tensor(name, GgufType::q8_0, {cols, rows},
                   q8_0_blocks(static_cast<std::int64_t>(rows * cols / 32)));
  };
  const auto norm = [&](const std::string& name) {
    builder.tensor(name, GgufType::f32, {64}, counting(64, 1));
  };
  matrix("token_embd.weight", 6, 64);
  norm("output_norm.weight");
  norm("blk.0.attn_norm.weight");
  norm("blk.0.ffn_norm.weight");
  matrix("blk.0.attn_q.weight", 64, 64);
  matrix("blk.0.attn_k.weight", 32, 64);
  matrix("blk.0.attn_v.weight", 32, 64);
  matrix("blk.0.attn_output.weight", 64, 64);
  matrix("blk.0.ffn_gate.weight", 96, 64);
  matrix("blk.0.ffn_up.weight", 96, 64);
  matrix("blk.0.ffn_down.weight", 64, 96);
  return builder;
}

}  // namespace microscale::testing
