// An adapter as peft saves it: which weights it changes, by which pairs of small matrices, and by
// what these are multiplied. Anything in it that is not that is refused by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// W + factor * B A, where A is [rank, inputs] and B [outputs, rank]; W is [outputs, inputs], or
/// the other way round (`transposed`).
struct LoraPair {
  std::string module;  // as the adapter names it, without "base_model.model."
  TensorEntry a, b;    // of F32, BF16 or F16
  std::int64_t rank = 0;
  double factor = 0;  // alpha / rank (or its square root), times the weight that the user gave
  bool transposed = false;
};

struct LoraAdapter {
  std::filesystem::path path;   // as named
  double weight = 1;            // as named
  InputFile file;               // of the tensors
  std::string config_text;      // adapter_config.json
  std::vector<LoraPair> pairs;  // by module; every tensor of the file is in one
};

/// `use.path` is a folder with adapter_config.json and adapter_model.safetensors, or that file.
/// Fails on other kinds of adapters (DoRA, embeddings, biases, whole modules to be replaced, ...),
/// on ranks that contradict the configuration, and on halves of pairs.
Result<LoraAdapter> open_lora_adapter(const LoraUse& use);

}  // namespace microscale
