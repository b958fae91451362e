// Small model folders, dense and quantized, made by hand for the tests of what reads them. Every
// tensor can be changed before the folder is written.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/shard_index.hpp"
#include "checkpoint/support.hpp"
#include "formats/half.hpp"
#include "microscale/quantize.hpp"

namespace microscale::testing {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Bytes bytes_of(float value) { return bytes_of(std::vector<float>{value}); }

/// Normally distributed, times `sigma`; the same for the same seed.
inline std::vector<float> gaussian(std::int64_t count, unsigned seed, float sigma = 0.02f) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    float sum = 0;  // of twelve uniform numbers: near enough, and the same with every library
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(generator()) * 0x1p-32f;
    value = (sum - 6) * sigma;
  }
  return values;
}

struct StoredTensor {
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;
  Bytes bytes;
};

class SmallModel {
 public:
  /// By file name, then by tensor name.
  std::map<std::string, std::map<std::string, StoredTensor>> shards;
  std::string config;  // empty: no config.json
  std::map<std::string, std::string> files;
  SafetensorsMetadata metadata = pytorch_metadata;

  void add(const std::string& name, StoredType type, std::vector<std::int64_t> shape, Bytes bytes,
           const std::string& shard = "model.safetensors") {
    shards[shard][name] = {type, std::move(shape), std::move(bytes)};
  }

  void add_floats(const std::string& name, std::vector<std::int64_t> shape,
                  const std::vector<float>& values,
                  const std::string& shard = "model.safetensors") {
    add(name, StoredType::f32, std::move(shape), bytes_of(values), shard);
  }

  /// The tensors of a quantized layer, with the values quantized as they are.
  void add_quantized(const std::string& module, Format format, std::int64_t rows, std::int64_t cols,
                     const std::vector<float>& values, std::optional<float> global_scale = {},
                     const std::string& shard = "model.safetensors") {
    const BlockTensor quantized =
        quantize({.input = {.data = values.data(),
                            .dtype = DType::f32,
                            .rows = rows,
                            .cols = cols,
                            .row_stride = cols},
                  .format = format,
                  .global_scale = global_scale ? GlobalScale(*global_scale) : GlobalScale()});
    const LayerTensors layer = compressed_layer(format, module, rows, cols);
    const auto put = [&](const PlannedTensor& tensor, std::span<const std::uint8_t> bytes) {
      add(tensor.name, tensor.type, tensor.shape, Bytes(bytes.begin(), bytes.end()), shard);
    };
    put(layer.codes, quantized.codes());
    put(layer.scales, quantized.scales());
    if (!layer.global_scale.name.empty()) {
      put(layer.global_scale, bytes_of(stored_global_scale(quantized.global_scale)));
    }
  }

  StoredTensor& at(const std::string& name) {
    for (auto& [file, tensors] : shards) {
      if (tensors.contains(name)) return tensors[name];
    }
    throw std::out_of_range(name);
  }

  void remove(const std::string& name) {
    for (auto& [file, tensors] : shards) tensors.erase(name);
  }

  void rename(const std::string& from, const std::string& to) {
    for (auto& [file, tensors] : shards) {
      if (auto node = tensors.extract(from)) {
        node.key() = to;
        tensors.insert(std::move(node));
      }
    }
  }

  void write(const std::filesystem::path& folder) const {
    ShardIndex index;
    for (const auto& [file, tensors] : shards) {
      std::vector<PlannedTensor> planned;
      for (const auto& [name, tensor] : tensors) {
        planned.push_back({name, tensor.type, tensor.shape});
        index.weight_map[name] = file;
      }
      const auto layout = plan_safetensors(planned, metadata);
      ASSERT_TRUE(succeeds(layout));
      std::string contents = layout.value().header;
      for (const TensorEntry& entry : layout.value().tensors) {
        const Bytes& bytes = tensors.at(entry.name).bytes;
        ASSERT_EQ(bytes.size(), entry.bytes()) << entry.name;
        contents.append(bytes.begin(), bytes.end());
      }
      write_file(folder / file, contents);
    }
    if (shards.size() > 1) write_file(folder / shard_index_name, write_shard_index(index));
    if (!config.empty()) write_file(folder / "config.json", config);
    for (const auto& [name, contents] : files) write_file(folder / name, contents);
  }
};

inline const std::vector<std::string> attention_layers{"q_proj", "k_proj", "v_proj"};

/// One layer of a Llama 64 wide: q, k, v (fused, with one global scale), gate, up and down
/// quantized; embedding, norm and head dense, the head ignored by name.
inline SmallModel small_llama(Format format) {
  SmallModel model;
  const float shared = nvfp4_global_scale(0.125f);
  const std::optional<float> global =
      format == Format::nvfp4 ? std::optional(shared) : std::nullopt;
  const std::string layer = "model.layers.0.";
  unsigned seed = 1;
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    model.add_quantized(layer + name, format, 64, 64, gaussian(64 * 64, seed++), global);
  }
  model.add_floats("model.embed_tokens.weight", {16, 64}, gaussian(16 * 64, seed++));
  model.add_floats("lm_head.weight", {16, 64}, gaussian(16 * 64, seed++));
  model.add_floats("model.norm.weight", {64}, std::vector<float>(64, 1.0f));
  model.config =
      with_quantization_config("{\"model_type\": \"llama\"}", format, {"lm_head"}).value();
  return model;
}

}  // namespace microscale::testing
