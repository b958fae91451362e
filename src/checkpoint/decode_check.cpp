#include "checkpoint/decode_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "checkpoint/json.hpp"
#include "checkpoint/verify_model.hpp"
#include "checkpoint/verify_scales.hpp"
#include "checkpoint/weight_reader.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

// The largest value the scales of a module allow; NaN ones do not count.
Result<double> largest_possible(const QuantizedFolder& folder, const QuantizedModule& module) {
  const ModelTensor& scales = *module.scales;
  const InputFile& file = folder.model.shards[scales.shard].file;
  std::vector<std::uint8_t> bytes;
  std::uint8_t largest = 0;
  for (std::uint64_t at = scales.entry->begin; at < scales.entry->end; at += bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(scales.entry->end - at, 1 << 20));
    if (Status read = file.read_at(at, bytes); !read) return read.failure();
    for (const std::uint8_t byte : bytes) {
      const bool nan = info(module.format).e8m0_scale ? byte == e8m0_nan : (byte & 0x7F) == 0x7F;
      const std::uint8_t size = info(module.format).e8m0_scale ? byte : byte & 0x7F;
      if (!nan) largest = std::max(largest, size);
    }
  }
  const double code = with_codec(info(module.format).element, [](auto codec) {
    return static_cast<double>(codec.decode(codec.max_code));
  });
  return info(module.format).e8m0_scale ? code * static_cast<double>(decode_e8m0(largest))
                                        : code * static_cast<double>(E4M3::decode(largest)) *
                                              static_cast<double>(module.multiplier);
}

constexpr double largest_f16 = 65504;

bool becomes_infinite(float value) {
  return !std::isnan(value) && std::isinf(f16_to_float(float_to_f16(value)));
}

// Values of one weight that F16 has no number for.
std::int64_t count_infinite(const QuantizedFolder& folder, const LogicalTensor& tensor) {
  PieceData data;
  std::int64_t count = 0;
  for (const Piece& piece : pieces_of(tensor)) {
    take(read_piece(folder, piece, data));
    count += std::count_if(data.values.begin(), data.values.end(), becomes_infinite);
  }
  return count;
}

Status check_range(const QuantizedFolder& folder, int threads) {
  std::vector<const LogicalTensor*> large;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (tensor.weight) large.push_back(&tensor);
    if (!tensor.module) continue;
    const auto largest = largest_possible(folder, *tensor.module);
    if (!largest) return largest.failure();
    if (largest.value() > largest_f16) large.push_back(&tensor);
  }
  std::int64_t total = 0;
  const LogicalTensor* first = nullptr;
  compute_in_order<std::int64_t>(
      static_cast<std::int64_t>(large.size()), threads,
      [&](std::int64_t i, int) {
        return count_infinite(folder, *large[static_cast<std::size_t>(i)]);
      },
      [&](std::int64_t i, std::int64_t& count) {
        if (count > 0 && !first) first = large[static_cast<std::size_t>(i)];
        total += count;
      });
  if (total == 0) return success();
  return Failure{
      ErrorCode::bad_input,
      fmt::format("dequantize: {} {} 65504, the largest number of f16 (the first in {}); "
                  "use --dtype bf16 or f32",
                  total, total == 1 ? "value exceeds" : "values exceed", in_quotes(first->name))};
}

// The manifest's findings: what is spoiled must not become a model that looks whole.
Status refuse_changed(const Findings& findings) {
  const auto is_error = [](const Finding& finding) { return finding.severity == Severity::error; };
  const auto first = std::find_if(findings.begin(), findings.end(), is_error);
  if (first == findings.end()) return success();
  const auto more = std::count_if(first + 1, findings.end(), is_error);
  return Failure{ErrorCode::bad_input,
                 fmt::format("dequantize: the model is not what was written: {}{}", first->message,
                             more > 0 ? fmt::format(" (and {} more; run verify)", more) : "")};
}

// Modules by the tool whose marks they show.
using Foreign = std::map<QuantizingTool, std::set<std::string>>;

std::string describe(QuantizingTool tool, const std::set<std::string>& modules) {
  const std::string more =
      modules.size() > 1 ? fmt::format(" and {} more", modules.size() - 1) : "";
  return fmt::format("{}{}: {}, which is not decoded here", in_quotes(*modules.begin()), more,
                     to_string(tool));
}

}  // namespace

Status check_decodable(const QuantizedFolder& folder, const Classifier& classifier) {
  Foreign foreign;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.stored) continue;
    const Verdict verdict = classifier.judge(*tensor.stored->entry);
    if (verdict.kind == TensorKind::quantized) foreign[*verdict.tool].insert(verdict.module);
  }
  // Of the tools that write what is decoded here, verify says what is wrong.
  const bool damaged = !folder.unusable.empty();
  std::string text;
  const QuantizingTool* advice = nullptr;
  for (const auto& [tool, modules] : foreign) {
    if (is_decoded(tool) && damaged) continue;
    text += (text.empty() ? "" : "; ") + describe(tool, modules);
    if (!advice) advice = &tool;
  }
  if (text.empty() && !damaged) return success();
  if (text.empty()) {
    text = folder.unusable.front().message;
    if (folder.unusable.size() > 1) {
      text += fmt::format(" (and {} more problems; run verify)", folder.unusable.size() - 1);
    }
  } else {
    if (folder.quantized()) {
      text += fmt::format("; the other {} quantized layers can be decoded",
                          folder.modules.size() + folder.weights.size());
    }
    text += fmt::format("; {}", way_to_dense(*advice));
  }
  return Failure{ErrorCode::bad_input,
                 fmt::format("dequantize: '{}': {}", folder.model.opened.string(), text)};
}

Status check_values(const QuantizedFolder& folder, const DequantizeModelOptions& options,
                    const ProgressCallback& progress) {
  Findings findings;
  const auto manifest = read_manifest(folder.model.root, findings);
  if (Status readable = refuse_changed(findings); !readable) return readable;
  Status scales = refuse_bad_scales(folder.model, folder.weights, "dequantize");
  if (!scales) return scales;
  if (manifest || !options.allow_nan) {
    std::optional<TensorHashes> hashes;
    if (manifest) hashes.emplace(lengths_of(folder.model));
    Findings changed;
    verify_values(folder, options.threads, progress, findings, hashes ? &*hashes : nullptr);
    if (manifest) verify_manifest(folder.model, *manifest, *hashes, changed);
    if (Status whole = refuse_changed(changed); !whole) return whole;
  }
  if (!options.allow_nan) {
    const auto is_nan = [](const Finding& finding) {
      return finding.rule == "scale-not-finite" || finding.rule == "code-not-finite" ||
             finding.rule == "value-not-finite";
    };
    const auto first = std::find_if(findings.begin(), findings.end(), is_nan);
    if (first != findings.end()) {
      const auto count = std::count_if(findings.begin(), findings.end(), is_nan);
      const std::string more =
          count > 1 ? fmt::format(" ({} more tensors hold NaN; run verify)", count - 1) : "";
      return Failure{ErrorCode::bad_input,
                     fmt::format("dequantize: {}, or pass --allow-nan to write NaN there{}",
                                 first->message, more)};
    }
  }
  return options.dtype == DType::f16 ? check_range(folder, options.threads) : success();
}

}  // namespace microscale
