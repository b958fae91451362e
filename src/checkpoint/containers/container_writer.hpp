// What a quantized layer is on disk: its tensors, what its scales hold, and the files that tell
// loaders. One class for each container that quantize writes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/tile.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// Files that describe quantized layers.
struct Descriptions {
  std::string config;                                       // text of config.json
  std::vector<std::pair<std::string, std::string>> others;  // names and texts beside it
};

/// Where the parts of a matrix begin, in bytes from the start of its output file.
struct LayerPlaces {
  std::uint64_t codes = 0, scales = 0, global_scale = 0, input_scale = 0;
  std::int64_t head_rows = 0;  // GGUF: rows of a head that go into rotary order; 0: all stay
};

/// A tile of a matrix [rows, cols] in one of the block formats, row by row as BlockTensor has it
/// (low nibble: the even element). A writer may use up the bytes: swap nibbles where they lie.
struct CodedTile {
  Format format = Format::nvfp4;
  std::int64_t rows = 0, cols = 0;
  Tile tile;  // begins and ends at blocks
  std::span<std::uint8_t> codes, scales;
};

/// Bytes from `at` on of the output file.
using WriteBytes = std::function<void(std::uint64_t at, std::span<const std::uint8_t> bytes)>;

/// Where a tile goes. `update` hands `length` bytes from `at` on, as other tiles have left them (0
/// at first), to `change` and writes what it makes of them; of one file that is written alone.
struct TileOutput {
  WriteBytes write;
  std::function<void(std::uint64_t at, std::uint64_t length,
                     const std::function<void(std::span<std::uint8_t>)>& change)>
      update{};
};

class ContainerWriter {
 public:
  virtual ~ContainerWriter() = default;

  /// Success, or why the container cannot hold what the options ask for.
  virtual Status check(const QuantizeModelOptions& options) const = 0;

  /// Whether loaders of the container take weights of this format.
  virtual bool holds(WeightFormat) const { return true; }

  /// Why it cannot hold the weight [rows, cols] of a layer, whose rows are whole blocks; empty: it
  /// can.
  virtual std::string obstacle(WeightFormat, std::int64_t /*rows*/, std::int64_t /*cols*/) const {
    return {};
  }

  /// Of the weight [rows, cols] of `module`; cols is a multiple of the block.
  virtual LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                             std::int64_t cols) const = 0;

  /// Of the weights [experts, rows, cols] of a container that keeps them in one tensor; they lie
  /// one behind the other in each of these.
  virtual LayerTensors experts(const LayerScheme& scheme, std::string_view module,
                               std::int64_t experts, std::int64_t rows, std::int64_t cols) const;

  /// Puts codes and scales where loaders look for them. Every byte of both tensors is written once
  /// by the tiles of a matrix together, padding too. `scratch` may be grown to the bytes of the
  /// tile. From many threads at once. By default both lie row by row.
  virtual void write_tile(const CodedTile& tile, const LayerPlaces& places,
                          std::vector<std::uint8_t>& scratch, const TileOutput& output) const;

  /// Whether global scales divide. They hold 1 / (decode multiplier) then, else the multiplier.
  virtual bool stores_divisors() const = 0;

  /// `config_text` of the input (empty: none). `ignore`: the linear layers left as they are, names
  /// or "re:" and an expression. `modules`: the quantized ones. At least one group.
  virtual Result<Descriptions> describe(std::string_view config_text,
                                        const std::vector<LayerGroup>& groups,
                                        const std::vector<std::string>& ignore,
                                        const std::vector<std::string>& modules) const = 0;

  /// What the tensor of a global scale holds.
  float global_scale(float decode_multiplier) const {
    return stores_divisors() ? 1.0f / decode_multiplier : decode_multiplier;
  }
  /// What the tensor of an input's scale holds, for the largest magnitude.
  float input_scale(WeightFormat format, double amax) const {
    const double range = format == WeightFormat::nvfp4 ? 2688.0 : 448.0;
    return static_cast<float>(stores_divisors() ? range / amax : amax / range);
  }
};

const ContainerWriter& writer_of(Container container);

}  // namespace microscale
