// Model folders for tests: made of random weights, read back tensor by tensor.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_folder.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/shard_index.hpp"
#include "formats/half.hpp"
#include "microscale/checkpoint.hpp"
#include "microscale/error.hpp"
#include "support.hpp"

namespace microscale::testing {

struct TestTensor {
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const TestTensor&) const = default;
};

inline std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

/// From values, rounded to the type (F32, F16 or BF16).
inline TestTensor tensor_of(StoredType type, std::vector<std::int64_t> shape,
                            const std::vector<float>& values) {
  TestTensor tensor{type, std::move(shape), {}};
  for (const float value : values) {
    if (type == StoredType::f32) {
      tensor.bytes.append(reinterpret_cast<const char*>(&value), 4);
    } else {
      const std::uint16_t half =
          type == StoredType::f16 ? float_to_f16(value) : float_to_bf16(value);
      tensor.bytes.append(reinterpret_cast<const char*>(&half), 2);
    }
  }
  return tensor;
}

/// Normal with deviation `size`; other types than floats get random bytes.
inline TestTensor random_tensor(StoredType type, std::vector<std::int64_t> shape, unsigned seed,
                                float size = 0.02f) {
  std::mt19937 random(seed);
  const auto count = static_cast<std::size_t>(element_count(shape));
  if (type != StoredType::f32 && type != StoredType::f16 && type != StoredType::bf16) {
    TestTensor tensor{type, shape, {}};
    const auto bytes = stored_bytes(type, shape);
    const unsigned count_of_bytes = type == StoredType::f8_e4m3 ? 0x7F : 0x80;  // without NaN
    for (std::uint64_t i = 0; i < bytes.value(); ++i)
      tensor.bytes += static_cast<char>(random() % count_of_bytes);
    return tensor;
  }
  std::normal_distribution<float> normal(0.0f, size);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return tensor_of(type, std::move(shape), values);
}

using TestTensors = std::map<std::string, TestTensor>;

inline void write_safetensors(const std::filesystem::path& path, const TestTensors& tensors) {
  std::vector<PlannedTensor> planned;
  for (const auto& [name, tensor] : tensors) planned.push_back({name, tensor.type, tensor.shape});
  const auto layout = plan_safetensors(planned);
  ASSERT_TRUE(succeeds(layout));
  std::string file = layout.value().header;
  for (const TensorEntry& entry : layout.value().tensors) file += tensors.at(entry.name).bytes;
  write_file(path, file);
}

/// A model in one file, or in several with an index.
struct TestModel {
  std::vector<TestTensors> shards{1};
  std::string config = R"({"model_type": "llama", "hidden_size": 64})";
  std::map<std::string, std::string> other_files;

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    ShardIndex index;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : "model-0000" + std::to_string(i + 1) + "-of-0000" +
                                         std::to_string(shards.size()) + ".safetensors";
      write_safetensors(folder / name, shards[i]);
      for (const auto& entry : shards[i]) index.weight_map[entry.first] = name;
    }
    if (shards.size() > 1) write_file(folder / shard_index_name, write_shard_index(index));
    if (!config.empty()) write_file(folder / "config.json", config);
    for (const auto& [name, text] : other_files) write_file(folder / name, text);
  }
};

/// All tensors of a folder, through the strict reader.
inline TestTensors read_tensors(const std::filesystem::path& folder) {
  TestTensors tensors;
  const auto model = open_model_folder(folder);
  EXPECT_TRUE(succeeds(model));
  if (!model) return tensors;
  for (const ModelTensor& tensor : model.value().tensors) {
    TestTensor& read = tensors[tensor.name()];
    read.type = tensor.entry->type;
    read.shape = tensor.entry->shape;
    read.bytes.resize(tensor.entry->bytes());
    auto* bytes = reinterpret_cast<std::uint8_t*>(read.bytes.data());
    EXPECT_TRUE(succeeds(model.value().shards[tensor.shard].file.read_at(
        tensor.entry->begin, {bytes, read.bytes.size()})));
  }
  return tensors;
}

/// Every file of a folder by relative name.
inline std::map<std::string, std::string> read_folder(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
    }
  }
  return files;
}

/// Asserts that `call` throws Error of this code with `phrase` in its message.
template <class Call>
void expect_error(ErrorCode code, const std::string& phrase, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << phrase;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), std::string(to_string(code))) << error.what();
    EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos)
        << "said: " << error.what() << "\nwanted: " << phrase;
  }
}

}  // namespace microscale::testing
