// The bytes of scales and codes: what would decode to NaN, to a wrong sign, or lose a block; and
// dense tensors that hold no numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "checkpoint/scale_outliers.hpp"
#include "checkpoint/verify_model.hpp"
#include "checkpoint/weight_reader.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

// No trained weight is that large, but one read with its global scale upside down is: magnitudes
// near 1 then become about 2688^2.
constexpr double suspicious_magnitude = 1e4;

// Nor as small as a whole: FP8 with a scale that was lost.
constexpr double vanishing_magnitude = 1e-20;
// An E8M0 byte: what it stands for, 2^-127, is no normal number, and kernels take it for 0.
constexpr std::uint8_t e8m0_zero = 0;
constexpr int e8m0_bias = 127;

enum Rule : std::size_t {
  scale_nan,
  scale_negative,
  scale_zero,
  scale_small,
  scale_large,
  code_nan,
  not_finite
};
constexpr std::size_t rule_count = 7;

// How often a rule is broken, and where first (block index for scales, element index otherwise).
struct Tally {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::uint8_t byte = 0;

  void add(std::int64_t at, std::uint8_t value = 0) {
    if (count++ == 0) {
      first = at;
      byte = value;
    }
  }
};

struct PieceResult {
  std::array<Tally, rule_count> tallies;
  std::uint8_t largest_scale = 0;  // of the valid ones
  float largest_value = 0;         // magnitude, of weights that are computed and finite

  void merge(const PieceResult& next) {
    largest_scale = std::max(largest_scale, next.largest_scale);
    largest_value = std::max(largest_value, next.largest_value);
    for (std::size_t rule = 0; rule < rule_count; ++rule) {
      if (next.tallies[rule].count == 0) continue;
      const std::int64_t before = tallies[rule].count;
      if (before == 0) tallies[rule] = next.tallies[rule];
      tallies[rule].count = before + next.tallies[rule].count;
    }
  }
};

// Codes of zero are 0 and -0: all bits but the signs are clear.
bool all_codes_zero(const std::uint8_t* codes, std::int64_t bytes, int code_bits) {
  const int magnitude = code_bits == 4 ? 0x77 : 0x7F;
  return std::all_of(codes, codes + bytes,
                     [&](std::uint8_t byte) { return (byte & magnitude) == 0; });
}

void check_e4m3_scales(const PieceData& data, std::int64_t first_block, int bytes_per_block,
                       PieceResult& result) {
  for (std::size_t i = 0; i < data.scales.size(); ++i) {
    const std::uint8_t scale = data.scales[i];
    const std::int64_t block = first_block + static_cast<std::int64_t>(i);
    if ((scale & 0x7F) == 0x7F) {
      result.tallies[scale_nan].add(block, scale);
    } else if (scale & 0x80) {
      result.tallies[scale_negative].add(block, scale);
    } else if (scale == 0) {
      const std::uint8_t* codes = data.codes.data() + i * static_cast<std::size_t>(bytes_per_block);
      if (!all_codes_zero(codes, bytes_per_block, 4)) result.tallies[scale_zero].add(block, scale);
    } else {
      result.largest_scale = std::max(result.largest_scale, scale);
    }
  }
}

void check_e8m0_scales(const PieceData& data, const FormatInfo& format, std::int64_t first_block,
                       std::int64_t blocks_per_row, PieceResult& result) {
  find_scale_outliers(data.scales, data.codes, format, first_block, blocks_per_row,
                      [&](std::size_t i, bool larger) {
                        result.tallies[larger ? scale_large : scale_small].add(
                            first_block + static_cast<std::int64_t>(i), data.scales[i]);
                      });
  const std::int64_t bytes = code_bytes(format, format.block);
  for (std::size_t i = 0; i < data.scales.size(); ++i) {
    const std::int64_t block = first_block + static_cast<std::int64_t>(i);
    if (data.scales[i] == e8m0_nan) {
      result.tallies[scale_nan].add(block, e8m0_nan);
    } else if (data.scales[i] == e8m0_zero) {
      const std::uint8_t* codes = data.codes.data() + static_cast<std::int64_t>(i) * bytes;
      if (!all_codes_zero(codes, bytes, format.code_bits)) {
        result.tallies[scale_zero].add(block, e8m0_zero);
      }
    } else {
      result.largest_scale = std::max(result.largest_scale, data.scales[i]);
    }
  }
}

void check_scales(const PieceData& data, const FormatInfo& format, std::int64_t first_block,
                  std::int64_t blocks_per_row, PieceResult& result) {
  if (format.e8m0_scale)
    return check_e8m0_scales(data, format, first_block, blocks_per_row, result);
  check_e4m3_scales(data, first_block, static_cast<int>(code_bytes(format, format.block)), result);
}

// Bytes of a tensor from `at` on, into its hash.
void add_bytes(const QuantizedFolder& folder, const ModelTensor& tensor, std::int64_t at,
               std::span<const std::uint8_t> bytes, TensorHashes& hashes) {
  const ModelFolder& model = folder.model;
  hashes.add(static_cast<std::size_t>(&tensor - model.tensors.data()),
             static_cast<std::uint64_t>(at), bytes,
             [&](std::uint64_t place, std::span<std::uint8_t> out) {
               take(model.shards[tensor.shard].file.read_at(tensor.entry->begin + place, out));
             });
}

// All bytes of a weight of another container, whose pieces do not lie side by side.
void add_parts(const QuantizedFolder& folder, const StoredWeight& weight, TensorHashes& hashes) {
  std::vector<std::uint8_t> bytes;
  for (const ModelTensor* part : weight.facts().parts) {
    for (std::uint64_t at = 0; at < part->entry->bytes(); at += bytes.size()) {
      bytes.resize(std::min<std::uint64_t>(part->entry->bytes() - at, 1 << 20));
      take(folder.model.shards[part->shard].file.read_at(part->entry->begin + at, bytes));
      add_bytes(folder, *part, static_cast<std::int64_t>(at), bytes, hashes);
    }
  }
}

void add_piece(const QuantizedFolder& folder, const Piece& piece, const PieceData& data,
               TensorHashes& hashes) {
  if (const QuantizedModule* module = piece.tensor->module) {
    const FormatInfo& format = info(module->format);
    add_bytes(folder, *module->codes, code_bytes(format, piece.first), data.codes, hashes);
    add_bytes(folder, *module->scales, piece.first / format.block, data.scales, hashes);
    for (const ModelTensor* small : {module->global_scale, module->input_scale}) {
      if (!small || piece.first > 0) continue;
      std::vector<std::uint8_t> bytes(small->entry->bytes());
      take(folder.model.shards[small->shard].file.read_at(small->entry->begin, bytes));
      add_bytes(folder, *small, 0, bytes, hashes);
    }
    return;
  }
  if (const StoredWeight* weight = piece.tensor->weight) {
    if (piece.first == 0) add_parts(folder, *weight, hashes);
    return;
  }
  const int bits = bits_per_element(piece.tensor->stored->entry->type);
  add_bytes(folder, *piece.tensor->stored, piece.first / 8 * bits, data.codes, hashes);
}

PieceResult check_piece(const QuantizedFolder& folder, const Piece& piece, PieceData& data,
                        TensorHashes* hashes) {
  PieceResult result;
  const QuantizedModule* module = piece.tensor->module;
  if (!has_values(*piece.tensor)) {
    take(read_piece_bytes(folder, piece, data));
    add_piece(folder, piece, data, *hashes);
    return result;
  }
  if (!module) {
    take(read_piece(folder, piece, data));
    if (hashes) add_piece(folder, piece, data, *hashes);
    for (std::size_t i = 0; i < data.values.size(); ++i) {
      if (!std::isfinite(data.values[i])) {
        result.tallies[not_finite].add(piece.first + static_cast<std::int64_t>(i));
      } else if (piece.tensor->weight) {
        result.largest_value = std::max(result.largest_value, std::fabs(data.values[i]));
      }
    }
    if (const auto coding = piece.tensor->blocks()) {
      const FormatInfo& format = info(coding->format);
      const std::int64_t cols = piece.tensor->shape.empty() ? 1 : piece.tensor->shape.back();
      check_scales(data, format, piece.first / format.block,
                   std::max<std::int64_t>(1, cols / format.block), result);
    }
    return result;
  }
  take(read_piece_bytes(folder, piece, data));
  if (hashes) add_piece(folder, piece, data, *hashes);
  const FormatInfo& format = info(module->format);
  check_scales(data, format, piece.first / format.block, module->cols / format.block, result);
  if (format.element == Element::e4m3) {
    for (std::size_t i = 0; i < data.codes.size(); ++i) {
      if (E4M3::is_nan(data.codes[i])) {
        result.tallies[code_nan].add(piece.first + static_cast<std::int64_t>(i), data.codes[i]);
      }
    }
  }
  return result;
}

// What the rules say about one tensor, once all of it has been seen.
class TensorVerdict {
 public:
  /// `manifest`: whether one tells damage from what was written.
  TensorVerdict(const QuantizedFolder& folder, const LogicalTensor& tensor, bool manifest,
                Findings& findings)
      : folder_(folder), tensor_(tensor), manifest_(manifest), findings_(findings) {}

  void report(const PieceResult& result) {
    if (!tensor_.module) {
      const Tally& tally = result.tallies[not_finite];
      const std::int64_t cols = tensor_.shape.empty() ? 1 : tensor_.shape.back();
      if (tensor_.weight) {
        add(Severity::error, "value-not-finite", tensor_.main_part(), tally, cols, "column",
            fmt::format("the value that codes and scales ({}) stand for is NaN or infinite; "
                        "download or quantize the model again",
                        tensor_.weight->facts().description));
        check_largest(result.largest_value);
        if (const auto coding = tensor_.blocks()) {
          const std::int64_t blocks = cols / info(coding->format).block;
          check_zero(result, coding->format, scales_of(*tensor_.weight), blocks);
          check_outliers(result, scales_of(*tensor_.weight), blocks);
        }
      } else {
        add(Severity::warning, "not-finite", *tensor_.stored, tally, cols, "column",
            "the value is NaN or infinite; check the original model");
      }
      return;
    }
    const QuantizedModule& module = *tensor_.module;
    const std::int64_t blocks = module.cols / info(module.format).block;
    const auto byte = [&](Rule rule) { return result.tallies[rule].byte; };
    add(Severity::error, "scale-not-finite", *module.scales, result.tallies[scale_nan], blocks,
        "block",
        fmt::format("the scale is NaN (0x{:02X}), so the whole block is; quantize the model again",
                    byte(scale_nan)));
    add(Severity::error, "scale-negative", *module.scales, result.tallies[scale_negative], blocks,
        "block",
        fmt::format(
            "the scale is negative (0x{:02X}), and loaders expect none; quantize the model again",
            byte(scale_negative)));
    check_zero(result, module.format, *module.scales, blocks);
    check_outliers(result, *module.scales, blocks);
    add(Severity::error, "code-not-finite", *module.codes, result.tallies[code_nan], module.cols,
        "column",
        fmt::format("the code is NaN (0x{:02X}); quantize the model again", byte(code_nan)));
    check_magnitude(result.largest_scale);
  }

 private:
  void add(Severity severity, std::string_view rule, const ModelTensor& at, const Tally& tally,
           std::int64_t per_row, const char* unit, const std::string& text) {
    if (tally.count == 0) return;
    const std::string more =
        tally.count > 1 ? fmt::format(" ({} more in this tensor)", tally.count - 1) : "";
    findings_.push_back(make_finding(severity, rule, folder_.file_of(at), at.name(),
                                     fmt::format("row {}, {} {}: {}{}", tally.first / per_row, unit,
                                                 tally.first % per_row, text, more)));
  }

  // Its second part, unless they lie among the codes (GGUF).
  static const ModelTensor& scales_of(const StoredWeight& weight) {
    const auto& parts = weight.facts().parts;
    return *parts[parts.size() > 1 ? 1 : 0];
  }

  void check_zero(const PieceResult& result, Format format, const ModelTensor& scales,
                  std::int64_t blocks) {
    const char* zero = info(format).e8m0_scale ? "2^-127, which kernels take for zero," : "zero";
    // A scale of a model whose weights are that small: what was to be written, if it is unchanged.
    const bool meant = manifest_ && info(format).e8m0_scale;
    add(meant ? Severity::warning : Severity::error, "scale-zero", scales,
        result.tallies[scale_zero], blocks, "block",
        fmt::format("the scale is {} but codes of the block are not, so their values are lost; "
                    "quantize the model again",
                    zero));
  }

  // Of E8M0 alone. Under a manifest they are what was to be written, or another hash tells.
  void check_outliers(const PieceResult& result, const ModelTensor& scales, std::int64_t blocks) {
    if (manifest_) return;
    for (const Rule rule : {scale_small, scale_large}) {
      const Tally& tally = result.tallies[rule];
      add(Severity::warning, "scale-outlier", scales, tally, blocks, "block",
          fmt::format("the scale, 2^{}, is more than 2^{} times {} than those of the blocks around "
                      "it; if no weight of the original is like that (`verify --source`), it was "
                      "damaged: download or quantize the model again",
                      tally.byte - e8m0_bias, outlier_powers - 1,
                      rule == scale_small ? "smaller" : "larger"));
    }
  }

  // Of a weight of another container, by its values.
  void check_largest(float largest) {
    const bool vanishes = largest > 0 && static_cast<double>(largest) < vanishing_magnitude;
    if (!vanishes && static_cast<double>(largest) <= suspicious_magnitude) return;
    const ModelTensor& at = tensor_.main_part();
    findings_.push_back(make_finding(
        Severity::warning, "magnitude", folder_.file_of(at), tensor_.name,
        fmt::format("its largest value is {}, which no trained model has; its scales may be lost, "
                    "or stored as their reciprocals",
                    format_number(static_cast<double>(largest)))));
  }

  void check_magnitude(std::uint8_t largest_scale) {
    const QuantizedModule& module = *tensor_.module;
    const FormatInfo& format = info(module.format);
    double largest = format.element == Element::e4m3 ? E4M3::max_value : E2M1::max_value;
    largest *= format.e8m0_scale
                   ? decode_e8m0(largest_scale)
                   : E4M3::decode(largest_scale) * static_cast<double>(module.multiplier);
    if (largest <= suspicious_magnitude) return;
    const ModelTensor& at = module.global_scale ? *module.global_scale : *module.scales;
    const std::string advice =
        module.global_scale ? fmt::format("; the global scale {} may be stored as its reciprocal",
                                          module.stored_global)
                            : "; its scales may have another bias";
    findings_.push_back(
        make_finding(Severity::warning, "magnitude", folder_.file_of(at), at.name(),
                     fmt::format("weights may be as large as {}, which no trained model "
                                 "has{}",
                                 format_number(largest), advice)));
  }

  const QuantizedFolder& folder_;
  const LogicalTensor& tensor_;
  bool manifest_;
  Findings& findings_;
};

}  // namespace

void verify_values(const QuantizedFolder& folder, int threads, const ProgressCallback& progress,
                   Findings& findings, TensorHashes* hashes) {
  std::vector<Piece> pieces;
  std::int64_t total = 0, done = 0;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!has_values(tensor) && !hashes) continue;
    for (const Piece& piece : pieces_of(tensor)) pieces.push_back(piece);
    total += static_cast<std::int64_t>(tensor.bytes());
  }
  const int workers = threads > 0 ? threads : available_cores();
  std::vector<PieceData> scratch(static_cast<std::size_t>(workers));
  PieceResult whole;
  const auto advance = [&](std::int64_t bytes, std::string_view item) {
    done += bytes;
    if (progress && !progress(done, total, item)) {
      throw Error(ErrorCode::interrupted, "verify: stopped before everything was checked");
    }
  };
  advance(0, "");
  compute_in_order<PieceResult>(
      static_cast<std::int64_t>(pieces.size()), workers,
      [&](std::int64_t i, int worker) {
        return check_piece(folder, pieces[static_cast<std::size_t>(i)],
                           scratch[static_cast<std::size_t>(worker)], hashes);
      },
      [&](std::int64_t i, PieceResult& result) {
        const LogicalTensor& tensor = *pieces[static_cast<std::size_t>(i)].tensor;
        whole.merge(result);
        const auto next = static_cast<std::size_t>(i) + 1;
        if (next < pieces.size() && pieces[next].tensor == &tensor) return;
        TensorVerdict(folder, tensor, hashes != nullptr, findings).report(whole);
        whole = {};
        advance(static_cast<std::int64_t>(tensor.bytes()), tensor.name);
      });
}

}  // namespace microscale
