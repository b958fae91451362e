// A model folder as the weights it stands for: each quantized module (codes, scales, global scale)
// is one tensor under the name of the original weight; every other tensor is itself. A dense folder
// is one without quantized modules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/finding.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// A linear layer `name` whose weight [rows, cols] is stored as codes and scales. Which tensors
/// hold them tells the format, not config.json, so a single file can be read by itself.
struct QuantizedModule {
  std::string name;
  Format format = Format::nvfp4;
  std::int64_t rows = 0;
  std::int64_t cols = 0;                      // a multiple of the block
  const ModelTensor* codes = nullptr;         // U8 [rows, cols / 2]; MXFP8: F8_E4M3 [rows, cols]
  const ModelTensor* scales = nullptr;        // F8_E4M3 or U8 [rows, cols / block]
  const ModelTensor* global_scale = nullptr;  // NVFP4: F32, one element
  const ModelTensor* input_scale = nullptr;   // of the activations; only handed on
  bool stores_divisor = false;  // the file holds 1 / g (compressed-tensors) and not g (ModelOpt)
  float stored_global = 1.0f;   // as in the file
  float multiplier = 1.0f;      // g: value = code * (scale * g)
  /// The file's divisor is one that quantize would not write: scale / divisor and scale * g differ
  /// in the last bit for some scale. Readers then divide, as compressed-tensors does.
  bool must_divide = false;

  /// Of everything that stands for the weight, in the file.
  std::uint64_t bytes() const;
};

/// A linear layer that is quantized in a way that is not decoded here.
struct ForeignModule {
  std::string name;
  std::string scheme;                  // in words: "FP8 with scales of type F32"
  const ModelTensor* codes = nullptr;  // its largest part
};

/// A tensor as the model knows it. Exactly one of `stored`, `module` and `weight` is set.
struct LogicalTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  const ModelTensor* stored = nullptr;
  const QuantizedModule* module = nullptr;
  const StoredWeight* weight = nullptr;  // of another container
  const MatrixSlice* slice = nullptr;    // only this part of `stored` or `weight`: one expert

  std::int64_t elements() const;  // the shape's product, 1 for a scalar
  std::uint64_t bytes() const;
  /// Quantized, in whatever container.
  bool coded() const { return module || weight; }
  /// Where codes and scales are those of one of our formats (of a slice they are not).
  std::optional<BlockCoding> blocks() const;
  /// In words: "nvfp4", "FP8 E4M3, one scale per row"; of a dense tensor the stored type, "BF16".
  std::string coding_name() const;
  /// What holds it: the tensor itself, or its codes.
  const ModelTensor& main_part() const;
};

struct QuantizedFolder {
  ModelFolder model;
  std::vector<QuantizedModule> modules;                // by name
  std::vector<std::unique_ptr<StoredWeight>> weights;  // of other containers, by name
  std::vector<LogicalTensor> tensors;  // by name; what is left of an unusable module is among them
  std::vector<ForeignModule> foreign;  // by name; their tensors are in `tensors`, one by one
  /// Nothing of it is on the disk yet: global scales are not known, and no tensor can be read.
  bool planned = false;
  /// Why tensors that look like parts of a quantized module do not make one.
  Findings unusable;

  QuantizedFolder() = default;
  QuantizedFolder(QuantizedFolder&&) = default;
  QuantizedFolder& operator=(QuantizedFolder&&) = default;

  /// Whether some weight is quantized in a way that is decoded here.
  bool quantized() const { return !modules.empty() || !weights.empty(); }

  /// By the original name ("P.weight"), else by that of a part ("P.weight_scale") or of the module.
  const LogicalTensor* find(std::string_view name) const;
  /// Layers that are no `modules`: foreign ones, and those of `weights` in their words.
  std::vector<ForeignModule> other_modules() const;
  const std::string& file_of(const ModelTensor& tensor) const {
    return model.shards[tensor.shard].name;
  }
};

/// Opens the folder or file and sorts its tensors. Reads headers and global scales only. Fails as
/// open_model_folder does; modules that are not whole are listed in `unusable`.
Result<QuantizedFolder> open_quantized_folder(const std::filesystem::path& path);

/// As above, and fails when a module is unusable or foreign: for operations that need all of the
/// weights.
Result<QuantizedFolder> open_whole_quantized_folder(const std::filesystem::path& path);

/// As open_quantized_folder, from a model that is open already. `planned`: only its headers exist;
/// `side_weights`: files beside the model are looked into.
Result<QuantizedFolder> sort_quantized_folder(ModelFolder model, bool planned = false,
                                              bool side_weights = true);

}  // namespace microscale
