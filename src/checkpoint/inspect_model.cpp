#include "checkpoint/inspect_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "checkpoint/completeness.hpp"
#include "checkpoint/config_contradictions.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::size_t shown_values = 32;

// What the bytes of a tensor stand for whose type is known, but not its values; null for others.
const GgufSource* undecoded_source(const QuantizedFolder& folder, const std::string& name) {
  const auto& sources = folder.model.gguf_sources;
  const auto found = std::find_if(sources.begin(), sources.end(), [&](const GgufSource& source) {
    return !info(source.type).has_decoder && source.name == name;
  });
  return found == sources.end() ? nullptr : &*found;
}

TensorSummary summarize(const QuantizedFolder& folder, const LogicalTensor& tensor) {
  TensorSummary summary;
  summary.name = tensor.name;
  summary.shape = tensor.shape;
  summary.elements = tensor.elements();
  summary.bytes = tensor.bytes();
  const ModelShard& shard = folder.model.shards[tensor.main_part().shard];
  summary.file = shard.file.path().filename().string();
  summary.format = tensor.coding_name();
  summary.quantized = tensor.coded();
  const auto coding = tensor.blocks();
  if (coding && !info(coding->format).e8m0_scale) summary.global_scale = coding->multiplier;
  if (const GgufSource* source = tensor.stored ? undecoded_source(folder, tensor.name) : nullptr) {
    summary.format = fmt::format("GGUF {}", info(source->type).name);
    summary.shape = source->shape;
    summary.elements = std::accumulate(source->shape.begin(), source->shape.end(), std::int64_t{1},
                                       std::multiplies<>());
    summary.quantized = true;
  }
  return summary;
}

// Of one piece, or of all pieces so far.
struct Statistics {
  float smallest = INFINITY, largest = -INFINITY;
  std::int64_t zeros = 0, non_finite = 0;
  double squares = 0;
  CodeHistogram scale_codes{}, element_codes{};

  void look_at(const std::vector<float>& values) {
    for (const float value : values) {
      if (!std::isfinite(value)) {
        ++non_finite;
        continue;
      }
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
      zeros += value == 0;
      squares += static_cast<double>(value) * value;
    }
  }

  void merge(const Statistics& next) {
    smallest = std::min(smallest, next.smallest);
    largest = std::max(largest, next.largest);
    zeros += next.zeros;
    non_finite += next.non_finite;
    squares += next.squares;
    for (std::size_t code = 0; code < scale_codes.size(); ++code) {
      scale_codes[code] += next.scale_codes[code];
      element_codes[code] += next.element_codes[code];
    }
  }
};

BlockDetail first_block_of(const BlockCoding& coding, const PieceData& data) {
  const FormatInfo& format = info(coding.format);
  BlockDetail block;
  block.scale_code = data.scales.front();
  block.scale = scale_value(coding.format, block.scale_code);
  if (!format.e8m0_scale) block.scale *= coding.multiplier;
  for (int i = 0; i < format.block; ++i) {
    const auto at = static_cast<std::size_t>(i);
    block.codes.push_back(format.code_bits == 8
                              ? data.codes[at]
                              : static_cast<std::uint8_t>(data.codes[at / 2] >> (at % 2 * 4) & 15));
    block.values.push_back(data.values[at]);
  }
  return block;
}

}  // namespace

ModelSummary summarize_model(const QuantizedFolder& folder) {
  ModelSummary summary;
  summary.files = folder.model.shards.size();
  summary.notes = folder.model.sentences();
  for (std::string& text : config_contradictions(folder)) summary.notes.push_back(std::move(text));
  for (const Gap& gap : find_gaps(folder.model)) {
    summary.notes.push_back(sentence_of(gap));
  }
  summary.metadata = folder.model.gguf_metadata;
  for (const Finding& finding : folder.unusable) summary.notes.push_back(finding.message);
  for (const LogicalTensor& tensor : folder.tensors) {
    summary.tensors.push_back(summarize(folder, tensor));
    const TensorSummary& one = summary.tensors.back();
    summary.bytes += one.bytes;
    summary.elements += one.elements;
    if (!one.quantized) continue;
    summary.quantized_bytes += one.bytes;
    summary.quantized_elements += one.elements;
  }
  return summary;
}

TensorDetail inspect_tensor(const QuantizedFolder& folder, const LogicalTensor& tensor, int threads,
                            const ProgressCallback& progress) {
  TensorDetail detail;
  detail.summary = summarize(folder, tensor);
  detail.has_values = has_values(tensor);
  if (!detail.has_values) return detail;
  const auto coding = tensor.blocks();
  if (coding) detail.blocks = tensor.elements() / info(coding->format).block;

  const std::vector<Piece> pieces = pieces_of(tensor);
  const int workers = threads > 0 ? threads : available_cores();
  std::vector<PieceData> scratch(static_cast<std::size_t>(workers));
  Statistics total;
  compute_in_order<Statistics>(
      static_cast<std::int64_t>(pieces.size()), workers,
      [&](std::int64_t i, int worker) {
        const Piece& piece = pieces[static_cast<std::size_t>(i)];
        PieceData& data = scratch[static_cast<std::size_t>(worker)];
        take(read_piece(folder, piece, data));
        Statistics statistics;
        statistics.look_at(data.values);
        if (coding) {
          count_codes(data, coding->format, statistics.scale_codes, statistics.element_codes);
        }
        if (i == 0) {  // one worker only
          const std::size_t count = std::min(shown_values, data.values.size());
          detail.first_values.assign(data.values.begin(),
                                     data.values.begin() + static_cast<std::ptrdiff_t>(count));
          if (coding) detail.first_block = first_block_of(*coding, data);
        }
        return statistics;
      },
      [&](std::int64_t i, Statistics& statistics) {
        total.merge(statistics);
        const auto all = static_cast<std::int64_t>(pieces.size());
        if (progress && !progress(i + 1, all, tensor.name)) {
          throw Error(ErrorCode::interrupted, "inspect: stopped before the whole tensor was read");
        }
      });
  const std::int64_t finite = tensor.elements() - total.non_finite;
  if (finite > 0) {
    detail.smallest = total.smallest;
    detail.largest = total.largest;
    detail.mean_square = total.squares / static_cast<double>(finite);
  }
  detail.zeros = total.zeros;
  detail.non_finite = total.non_finite;
  detail.scale_codes = total.scale_codes;
  detail.element_codes = total.element_codes;
  return detail;
}

float element_value(Format format, std::uint8_t code) {
  return with_codec(info(format).element, [&](auto codec) { return codec.decode(code); });
}

float scale_value(Format format, std::uint8_t code) {
  return info(format).e8m0_scale ? decode_e8m0(code) : E4M3::decode(code);
}

}  // namespace microscale
