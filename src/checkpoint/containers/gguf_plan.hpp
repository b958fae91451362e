// What a GGUF file stands for: the tensors of a model folder, each with the blocks that hold it and
// what has to be undone, or, where that is not known, the file's own tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_file.hpp"
#include "core/result.hpp"

namespace microscale {

/// One dense tensor and where its values are.
struct GgufSource {
  std::string name;
  std::vector<std::int64_t> shape;
  GgufType type = GgufType::f32;
  std::size_t part = 0;     // of the file
  std::uint64_t begin = 0;  // bytes from the start of that part; whole rows from there on
  std::uint64_t bytes = 0;
  std::int64_t head_rows = 0;   // rows of a head in rotary order, to be sorted back; 0: none are
  bool plus_one = false;        // 1 was added to every value
  float scale = 1.0f;           // NVFP4: what every value is multiplied by
  std::vector<float> scales{};  // the same for each matrix of [experts, rows, cols]; empty: `scale`

  /// Whether the bytes of the file are those of the dense tensor.
  bool as_stored() const;
};

struct GgufPlan {
  std::string architecture;          // general.architecture; empty: none is said
  bool is_model = false;             // named as Hugging Face names them; else as in the file
  std::vector<GgufSource> sources;   // in the order of the parts, and within each of the file
  std::vector<std::string> notices;  // one sentence each
};

/// Of a shape [experts, rows, cols] the experts, of any other 1.
std::int64_t gguf_matrices(std::span<const std::int64_t> shape);

/// Reads nothing but scales. Fails where scales contradict tensors, or tensors the metadata.
Result<GgufPlan> plan_gguf(const GgufFile& file);

/// The scales of a weight from its tensor "*.scale": one, or `experts` numbers that are not all
/// equal.
Result<std::vector<float>> read_gguf_scales(const GgufFile& file, const GgufFile::Tensor& tensor,
                                            std::int64_t experts);

/// A number of the model's metadata ("attention.head_count" of "llama.attention.head_count").
std::optional<double> gguf_model_number(const GgufFile& file, const std::string& key);

/// Where row `row` of the dense tensor is in the file, counted in rows.
std::int64_t stored_row(const GgufSource& source, std::int64_t row);

/// Values [first, first + out.size()) in row-major order, exact in FP32.
Status read_gguf_values(const InputFile& file, const GgufSource& source, std::int64_t first,
                        std::span<float> out);

}  // namespace microscale
