// Adapters for tests, as peft saves them.
#pragma once

#include <filesystem>
#include <string>

#include "model_builder.hpp"

namespace microscale::testing {

struct TestAdapter {
  TestTensors tensors;
  std::string config =
      R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "use_rslora": false,
          "use_dora": false, "fan_in_fan_out": false, "modules_to_save": null,
          "rank_pattern": {}, "alpha_pattern": {}})";

  /// For a weight [outputs, inputs] of `module`.
  TestAdapter& add(const std::string& module, std::int64_t outputs, std::int64_t inputs,
                   unsigned seed, std::int64_t rank = 4, StoredType type = StoredType::f32) {
    const std::string name = "base_model.model." + module;
    tensors[name + ".lora_A.weight"] = random_tensor(type, {rank, inputs}, seed, 0.3f);
    tensors[name + ".lora_B.weight"] = random_tensor(type, {outputs, rank}, seed + 100, 0.2f);
    return *this;
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_safetensors(folder / "adapter_model.safetensors", tensors);
    if (!config.empty()) write_file(folder / "adapter_config.json", config);
  }
};

}  // namespace microscale::testing
