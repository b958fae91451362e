// A checkpoint opened for reading: its tensors where the files are mapped into memory, without a
// copy.
//
//   const CheckpointFile model("demo/nvfp4");
//   const CheckpointTensor* w = model.find("encoder.layer.0.output.dense.weight");
//   matmul({.a = x, .b = *w->blocks, .d = y});
//
// Pages are read when they are first touched. A file that another program shortens meanwhile kills
// the process that reads it, as any mapping does; the converter of checkpoint.hpp maps nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "microscale/tensor.hpp"

namespace microscale {

/// A tensor as the model knows it: a quantized layer's parts are one, under the original name.
struct CheckpointTensor {
  std::string name;  ///< "model.layers.0.mlp.up_proj.weight"
  std::string
      dtype;  ///< as stored ("BF16", "F32", ...), or the format of a quantized one ("nvfp4")
  std::vector<std::int64_t> shape;  ///< of the values, also of packed ones; empty for a scalar
  std::string file;                 ///< that holds it, or its codes
  /// A dense tensor's bytes, row-major, little-endian; a quantized one's codes.
  std::span<const std::uint8_t> bytes;
  /// A quantized tensor, row-major scales; NVFP4's global scale is a multiplier, whichever way the
  /// file stores it.
  std::optional<BlockTensorView> blocks;
  /// The file's divisor is one whose reciprocal decodes a last bit differently for some block scale
  /// (microscale writes none such).
  bool multiplier_rounded = false;
};

/// Owns the mappings; what its tensors point to lives as long as it does. Moves, does not copy.
class CheckpointFile {
 public:
  /// A model folder, or one .safetensors file, dense or quantized. Reads headers and global scales.
  /// Throws Error: io where it cannot be read, bad_input where it is no whole checkpoint.
  explicit CheckpointFile(const std::filesystem::path& path);
  CheckpointFile(CheckpointFile&&) noexcept;
  CheckpointFile& operator=(CheckpointFile&&) noexcept;
  ~CheckpointFile();

  std::span<const CheckpointTensor> tensors() const;  ///< by name
  /// By the original name ("P.weight"), or that of the layer ("P"); null if there is none.
  const CheckpointTensor* find(std::string_view name) const;

 private:
  struct Opened;
  std::unique_ptr<const Opened> opened_;
};

}  // namespace microscale
