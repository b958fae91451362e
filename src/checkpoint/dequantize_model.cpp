// dequantize_model: a quantized folder expanded to dense weights under the original names, shard by
// shard, piece by piece. What was not quantized is copied as it is. Experts that were split stay
// split, but in families of which transformers reads them as one tensor only.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/coded_input.hpp"
#include "checkpoint/completeness.hpp"
#include "checkpoint/config_contradictions.hpp"
#include "checkpoint/conversion_report.hpp"
#include "checkpoint/decode_check.hpp"
#include "checkpoint/dense_output.hpp"
#include "checkpoint/file_names.hpp"
#include "checkpoint/joined_experts.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/loader_steps.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/shard_index.hpp"
#include "checkpoint/verify_model.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr const char* operation = "dequantize";
constexpr std::size_t copy_buffer = 1 << 20;  // bytes

StoredType stored_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return StoredType::f16;
    case DType::bf16:
      return StoredType::bf16;
    case DType::f32:
      break;
  }
  return StoredType::f32;
}

using Dropped = std::map<std::string, std::string, std::less<>>;  // tensor -> why

// Tensors that are no part of a dense model: what a calibration left, and input scales.
Dropped find_dropped(const QuantizedFolder& folder, const Classifier& classifier) {
  Dropped dropped;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.stored) continue;
    Verdict verdict = classifier.judge(*tensor.stored->entry);
    if (verdict.kind == TensorKind::leftover) dropped[tensor.name] = std::move(verdict.reason);
    if (verdict.kind == TensorKind::kv_scale) {
      dropped[tensor.name] = "scale of a quantized key-value cache, which a dense model has not";
    }
  }
  for (const QuantizedModule& module : folder.modules) {
    if (module.input_scale) dropped[module.input_scale->name()] = "scale of quantized activations";
  }
  return dropped;
}

// One file of the output: what it holds and where each tensor of it goes.
struct DenseShard {
  std::string name;
  bool side = false;  // beside the model: not in the index
  SafetensorsLayout layout;
  std::vector<const LogicalTensor*> tensors;  // as layout.tensors
};

// A file beside the model in which nothing changes, to be copied as it is.
bool stays(const QuantizedFolder& folder, std::size_t shard, const Dropped& dropped) {
  return folder.model.shards[shard].side &&
         std::none_of(folder.tensors.begin(), folder.tensors.end(),
                      [&](const LogicalTensor& tensor) {
                        if (tensor.main_part().shard != shard) return false;
                        return tensor.coded() || dropped.contains(tensor.name);
                      });
}

// A tensor goes into the file that has the name of the one its codes were in.
std::vector<DenseShard> plan_shards(const QuantizedFolder& folder, const Dropped& dropped,
                                    DType dtype) {
  std::vector<std::vector<const LogicalTensor*>> homes(folder.model.shards.size());
  for (const LogicalTensor& tensor : folder.tensors) {
    if (dropped.contains(tensor.name)) continue;
    homes[tensor.main_part().shard].push_back(&tensor);
  }
  std::vector<DenseShard> shards;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const bool side = folder.model.shards[i].side;
    if (stays(folder, i, dropped)) continue;
    // Held nothing but scales. In a numbered set a hole would look like a lost file.
    const bool numbered = is_numbered_shard(folder.model.shards[i].name);
    if (homes[i].empty() && (side || (!folder.model.index_name.empty() && !numbered))) continue;
    std::vector<PlannedTensor> planned;
    std::map<std::string_view, const LogicalTensor*> by_name;
    for (const LogicalTensor* tensor : homes[i]) {
      const StoredType type = tensor->coded() ? stored_type(dtype) : tensor->stored->entry->type;
      planned.push_back({tensor->name, type, tensor->shape});
      by_name[tensor->name] = tensor;
    }
    DenseShard shard{
        folder.model.shards[i].name, side, take(plan_safetensors(std::move(planned))), {}};
    for (const TensorEntry& entry : shard.layout.tensors)
      shard.tensors.push_back(by_name[entry.name]);
    shards.push_back(std::move(shard));
  }
  return shards;
}

// Counts bytes and asks the caller whether to go on.
class Reporter {
 public:
  Reporter(const ProgressCallback& progress, std::int64_t total)
      : progress_(progress), own_(total), total_(total) {}

  // For work that comes before, with a total of its own.
  ProgressCallback before() {
    if (!progress_) return {};
    return [this](std::int64_t done, std::int64_t total, std::string_view item) {
      done_ = done;
      total_ = own_ + total;
      return progress_(done_, total_, item);
    };
  }

  void add(std::int64_t bytes, std::string_view item) {
    done_ += bytes;
    if (progress_ && !progress_(done_, total_, item)) {
      throw Error(ErrorCode::interrupted,
                  fmt::format("{}: stopped; run the same command again to start over", operation));
    }
  }

 private:
  const ProgressCallback& progress_;
  std::int64_t own_;
  std::int64_t total_;
  std::int64_t done_ = 0;
};

struct Worker {
  PieceData data;
  std::vector<std::uint8_t> dense;
};

// Reads one piece, expands it if it is quantized, writes it where it belongs, and hashes it.
std::int64_t convert_piece(const QuantizedFolder& folder, const Piece& piece, std::size_t tensor,
                           const TensorEntry& entry, DType dtype, const OutputFile& file,
                           TensorHashes& hashes, Worker& worker) {
  const bool expand = piece.tensor->coded();
  take(expand ? read_piece_as(folder, piece, dtype, worker.data, worker.dense)
              : read_piece_bytes(folder, piece, worker.data));
  const std::vector<std::uint8_t>& bytes = expand ? worker.dense : worker.data.codes;
  const auto bits = static_cast<std::uint64_t>(bits_per_element(entry.type));
  const std::uint64_t at = static_cast<std::uint64_t>(piece.first) / 8 * bits;
  take(file.write_at(entry.begin + at, bytes));
  hashes.add(tensor, at, bytes, [&](std::uint64_t place, std::span<std::uint8_t> out) {
    take(file.read_at(entry.begin + place, out));
  });
  return static_cast<std::int64_t>(bytes.size());
}

HashedFile write_shard(const QuantizedFolder& folder, const DenseShard& shard, DType dtype,
                       const fs::path& output, int threads, Reporter& reporter) {
  OutputFile file = take(OutputFile::create(output / shard.name, shard.layout.file_size));
  const auto* header = reinterpret_cast<const std::uint8_t*>(shard.layout.header.data());
  take(file.write_at(0, {header, shard.layout.header.size()}));
  std::vector<Piece> pieces;
  std::vector<std::size_t> tensor_of;  // of each piece
  std::vector<std::uint64_t> lengths;
  for (std::size_t i = 0; i < shard.tensors.size(); ++i) {
    lengths.push_back(shard.layout.tensors[i].bytes());
    for (const Piece& piece : pieces_of(*shard.tensors[i])) {
      pieces.push_back(piece);
      tensor_of.push_back(i);
    }
  }
  TensorHashes hashes(std::move(lengths));
  const int workers = threads > 0 ? threads : available_cores();
  std::vector<Worker> scratch(static_cast<std::size_t>(workers));
  compute_in_order<std::int64_t>(
      static_cast<std::int64_t>(pieces.size()), workers,
      [&](std::int64_t i, int worker) {
        const auto at = static_cast<std::size_t>(i);
        return convert_piece(folder, pieces[at], tensor_of[at], shard.layout.tensors[tensor_of[at]],
                             dtype, file, hashes, scratch[static_cast<std::size_t>(worker)]);
      },
      [&](std::int64_t i, std::int64_t& bytes) {
        reporter.add(bytes, pieces[static_cast<std::size_t>(i)].tensor->name);
      });
  take(file.commit());
  HashedFile hashed{shard.name, &shard.layout.tensors, {}};
  for (std::size_t i = 0; i < hashes.size(); ++i) hashed.hashes.push_back(hashes.of(i));
  return hashed;
}

void write_index(const std::vector<DenseShard>& shards, const fs::path& path) {
  ShardIndex index;
  index.total_size = 0;
  for (const DenseShard& shard : shards) {
    if (shard.side) continue;
    for (const TensorEntry& entry : shard.layout.tensors) {
      index.weight_map[entry.name] = shard.name;
      *index.total_size += entry.bytes();
    }
  }
  take(write_file_atomically(path, write_shard_index(index)));
}

}  // namespace

DequantizedModel dequantize_model(const DequantizeModelOptions& options,
                                  const ProgressCallback& progress) {
  const auto& [input, output, dtype, threads, allow_nan] = options;
  QuantizedFolder folder = take(open_quantized_folder(input));
  const ModelFolder& model = folder.model;
  if (const auto file = unfinished_run(model)) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{}: '{}' is unfinished ('{}' is there); finish it first (quantize --resume)",
                    operation, input.string(), *file));
  }
  take(check_file_names(model, operation));
  const Classifier classifier = take(classify_model(model));
  take(refuse_loader_steps(model, operation));
  take(check_decodable(folder, classifier));
  if (!folder.quantized() && !model.is_gguf) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{}: '{}' holds no quantized weights; name a folder that `quantize` wrote",
                    operation, input.string()));
  }
  std::vector<std::string> contradictions = config_contradictions(folder);
  // The manifest speaks of the tensors that are stored.
  const QuantizedFolder stored = take(open_quantized_folder(input));
  take(join_experts(folder, operation));
  const Dropped dropped = find_dropped(folder, classifier);
  std::vector<fs::path> copied = model.other_files;
  for (std::size_t i = 0; i < model.shards.size(); ++i) {
    if (stays(folder, i, dropped)) copied.emplace_back(model.shards[i].name);
  }
  std::string config;
  if (model.config_text) config = take(dense_config(*model.config_text, dtype));
  const std::vector<DenseShard> shards = plan_shards(folder, dropped, dtype);
  std::uint64_t needed = config.size() + model.made_bytes(), tensor_bytes = 0;
  for (const DenseShard& shard : shards) {
    needed += shard.layout.file_size;
    tensor_bytes += shard.layout.file_size - shard.layout.header.size();
  }
  std::error_code error;
  for (const fs::path& file : copied) {
    const auto size = fs::file_size(model.root / file, error);
    if (!error) needed += size;
  }
  Reporter reporter(progress, static_cast<std::int64_t>(tensor_bytes));
  take(check_dense_output(model, fs::is_directory(input, error), output));
  take(check_values(stored, options, reporter.before()));
  ManifestContents manifest;
  take(begin_dense_output(model, fs::is_directory(input, error), output, needed));
  if (allow_nan) reporter.add(0, "");  // else reading has said so already
  for (const DenseShard& shard : shards) {
    manifest.files.push_back(write_shard(folder, shard, dtype, output, threads, reporter));
  }
  if (!model.index_name.empty()) write_index(shards, output / model.index_name);
  std::vector<std::uint8_t> buffer(copy_buffer);
  for (const fs::path& file : copied) {
    if (file == modelopt_config) continue;
    manifest.other_files[file.string()] =
        take(copy_into_place(model.root / file, output / file, buffer));
  }
  for (const MadeFile& file : model.made_files) {
    take(write_file_atomically(output / file.name, file.text));
  }
  take(write_file_atomically(output / manifest_name, manifest_text(manifest, tool_name())));
  if (model.config_text) take(write_file_atomically(output / "config.json", config));
  take(finish_dense_output(output));
  DequantizedModel result;
  for (const auto& [name, reason] : dropped) result.left_out.push_back({name, reason});
  for (const LeftOutFile& file : model.left_out_files) {
    result.left_out.push_back({file.path.string(), file.reason});
  }
  if (std::find(model.other_files.begin(), model.other_files.end(), modelopt_config) !=
      model.other_files.end()) {
    result.left_out.push_back({modelopt_config, "describes quantization only"});
  }
  result.notices = model.sentences();
  for (std::string& text : contradictions) result.notices.push_back(std::move(text));
  if (auto apart = experts_left_apart(folder)) result.notices.push_back(std::move(*apart));
  Findings unreadable;
  if (!read_manifest(model.root, unreadable)) {
    for (const Finding& finding : unreadable) result.notices.push_back(finding.message);
  }
  for (const Gap& gap : find_gaps(model)) result.notices.push_back(sentence_of(gap));
  return result;
}

}  // namespace microscale
