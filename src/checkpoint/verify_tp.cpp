// Tensor parallelism: an engine cuts each layer into N parts, some by rows, some by columns. Which
// cuts leave blocks, packed bytes and heads whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/scaled_weight.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using Names = std::span<const std::string_view>;

// As vLLM and SGLang build them: by rows what reads the residual stream, by columns what writes it.
constexpr std::array<std::string_view, 32> by_rows{"q_proj",
                                                   "k_proj",
                                                   "v_proj",
                                                   "qkv_proj",
                                                   "query",
                                                   "key",
                                                   "value",
                                                   "q_lin",
                                                   "k_lin",
                                                   "v_lin",
                                                   "wq",
                                                   "wk",
                                                   "wv",
                                                   "c_attn",
                                                   "query_key_value",
                                                   "gate_proj",
                                                   "up_proj",
                                                   "gate_up_proj",
                                                   "w1",
                                                   "w3",
                                                   "fc1",
                                                   "dense_h_to_4h",
                                                   "c_fc",
                                                   "q_b_proj",
                                                   "kv_b_proj",
                                                   "wq_b",
                                                   "in_proj_qkv",
                                                   "in_proj_qkvz",
                                                   "in_proj_z",
                                                   "in_proj_ba",
                                                   "in_proj_a",
                                                   "in_proj_b"};
constexpr std::array<std::string_view, 11> by_columns{
    "o_proj", "out_proj", "down_proj", "w2",      "wo",  "dense_4h_to_h",
    "fc2",    "c_proj",   "dense",     "out_lin", "wo_b"};
// Each part has all of them.
constexpr std::array<std::string_view, 13> whole{
    "q_a_proj", "kv_a_proj_with_mqa", "wq_a", "wkv_a",   "wkv_a_with_mqa",   "gate", "router",
    "eh_proj",  "shared_expert_gate", "wkv",  "lm_head", "fused_qkv_a_proj", "score"};

constexpr std::int64_t most_parts = 64;
// The least that a thread block of Marlin takes, as vLLM has it; other kernels take less.
constexpr std::int64_t tile_rows = 64, tile_columns = 128;

std::int64_t whole_number(const nlohmann::ordered_json& config, const char* key) {
  const auto* inner = member(config, "text_config");
  for (const auto* object : {&config, inner && inner->is_object() ? inner : &config}) {
    const auto* value = member(*object, key);
    if (value && value->is_number_unsigned()) return value->get<std::int64_t>();
  }
  return 0;
}

// A quantized layer, whatever its container. Blocks of 1 are no obstacle to a cut.
struct Layer {
  std::string name;
  const ModelTensor* codes = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t block_rows = 1, block_cols = 1;
  std::string coding;  // "nvfp4"

  explicit Layer(const QuantizedModule& module)
      : name(module.name),
        codes(module.codes),
        rows(module.rows),
        cols(module.cols),
        block_cols(info(module.format).block),
        coding(info(module.format).name) {}

  explicit Layer(const LogicalTensor& tensor)
      : name(module_of(tensor.name)),
        codes(&tensor.main_part()),
        rows(tensor.shape[0]),
        cols(tensor.shape[1]),
        coding(tensor.coding_name().substr(0, tensor.coding_name().find(','))) {
    if (const ScaleGrid* grid = grid_of(*tensor.weight)) {
      // A scale for the whole side goes with each part.
      if (grid->block_rows < rows) block_rows = grid->block_rows;
      if (grid->block_cols < cols) block_cols = grid->block_cols;
    } else if (const auto blocks = tensor.blocks()) {
      block_cols = info(blocks->format).block;
    }
  }
};

std::vector<Layer> layers_of(const QuantizedFolder& folder) {
  std::vector<Layer> layers(folder.modules.begin(), folder.modules.end());
  for (const LogicalTensor& tensor : folder.tensors) {
    if (tensor.weight && !tensor.slice && tensor.shape.size() == 2) layers.emplace_back(tensor);
  }
  std::sort(layers.begin(), layers.end(),
            [](const Layer& a, const Layer& b) { return a.name < b.name; });
  return layers;
}

class TensorParallel {
 public:
  explicit TensorParallel(const QuantizedFolder& folder) : layers_(layers_of(folder)) {
    if (!folder.model.config_text) return;
    const auto config = parse_config(*folder.model.config_text);
    if (!config || !config.value().is_object()) return;
    heads_ = whole_number(config.value(), "num_attention_heads");
    kv_heads_ = whole_number(config.value(), "num_key_value_heads");
  }

  const std::vector<Layer>& layers() const { return layers_; }

  // What keeps the module from being cut into `parts`; empty: nothing.
  std::string problem(const Layer& module, std::int64_t parts) const {
    const std::string_view leaf = leaf_of(module.name);
    if (is_one_of(leaf, by_columns)) return columns_problem(module, parts);
    if (!is_one_of(leaf, by_rows)) return "";
    if (leaf == "k_proj" || leaf == "v_proj") return kv_problem(module, parts);
    if (leaf == "q_proj" && heads_ > 0 && heads_ % parts != 0) {
      return fmt::format("its {} heads cannot be shared among {}", heads_, parts);
    }
    return rows_problem(module, parts);
  }

  // Whether the parts are too small for the tiles of a kernel, where the whole is not; empty: no.
  std::string tile_problem(const Layer& module, std::int64_t parts) const {
    const std::string_view leaf = leaf_of(module.name);
    const bool columns = is_one_of(leaf, by_columns);
    if (!columns && (!is_one_of(leaf, by_rows) || copied_heads(leaf, parts))) return "";
    const std::int64_t tile = columns ? tile_columns : tile_rows;
    const std::int64_t all = columns ? module.cols : module.rows;
    if (all % parts != 0 || all % tile != 0 || all / parts % tile == 0) return "";
    return fmt::format(
        "cut into {} it has {} {} a part, which is no multiple of {}: kernels with tiles of that "
        "size (Marlin's, among others) pad the part, or refuse it",
        parts, all / parts, columns ? "columns" : "rows", tile);
  }

  bool unpadded(std::int64_t parts) const {
    return std::all_of(layers_.begin(), layers_.end(),
                       [&](const Layer& module) { return tile_problem(module, parts).empty(); });
  }

  bool knows(const Layer& module) const {
    const std::string_view leaf = leaf_of(module.name);
    return is_one_of(leaf, by_rows) || is_one_of(leaf, by_columns) || is_one_of(leaf, whole);
  }

  bool works(std::int64_t parts) const {
    return std::all_of(layers_.begin(), layers_.end(),
                       [&](const Layer& module) { return problem(module, parts).empty(); });
  }

 private:
  static std::string rows_problem(const Layer& module, std::int64_t parts) {
    if (module.rows % parts != 0) {
      return fmt::format("its {} rows cannot be cut into {} equal parts", module.rows, parts);
    }
    const std::int64_t own = module.rows / parts;
    if (parts == 1 || own % module.block_rows == 0) return "";
    return fmt::format(
        "cut into {} it has {} rows a part, which is no multiple of the {} that a "
        "scale holds for",
        parts, own, module.block_rows);
  }

  bool copied_heads(std::string_view leaf, std::int64_t parts) const {
    return (leaf == "k_proj" || leaf == "v_proj") && kv_heads_ > 0 && parts > kv_heads_;
  }

  // More parts than heads get copies of them.
  std::string kv_problem(const Layer& module, std::int64_t parts) const {
    if (kv_heads_ <= 0) return rows_problem(module, parts);
    const bool fits = parts <= kv_heads_ ? kv_heads_ % parts == 0 : parts % kv_heads_ == 0;
    if (fits) return "";
    return fmt::format("its {} key-value heads cannot be shared among {}", kv_heads_, parts);
  }

  static std::string columns_problem(const Layer& module, std::int64_t parts) {
    if (module.cols % parts != 0) {
      return fmt::format("its {} columns cannot be cut into {} equal parts", module.cols, parts);
    }
    const std::int64_t own = module.cols / parts;
    if (parts == 1 || own % module.block_cols == 0) return "";
    return fmt::format(
        "cut into {} it has {} columns a part, which is no multiple of the {} block of {}", parts,
        own, module.coding, module.block_cols);
  }

  std::vector<Layer> layers_;
  std::int64_t heads_ = 0, kv_heads_ = 0;
};

}  // namespace

ParallelAnswer verify_tp(const QuantizedFolder& folder, int degree, Findings& findings) {
  const TensorParallel parallel(folder);
  ParallelAnswer answer;
  answer.degree = degree;
  if (parallel.layers().empty()) return answer;
  for (std::int64_t parts = 1; parts <= std::max<std::int64_t>(most_parts, degree); ++parts) {
    if (!parallel.works(parts)) continue;
    answer.works.push_back(static_cast<int>(parts));
    if (parallel.unpadded(parts)) answer.unpadded.push_back(static_cast<int>(parts));
  }
  int largest = 0;
  for (const int parts : answer.works) largest = parts <= degree ? parts : largest;
  answer.largest = largest;
  for (const Layer& module : parallel.layers()) {
    if (!parallel.knows(module)) answer.unknown.push_back(module.name);
    const std::string problem = parallel.problem(module, degree);
    if (problem.empty()) {
      const std::string tiles = parallel.tile_problem(module, degree);
      if (tiles.empty()) continue;
      findings.push_back(make_finding(Severity::warning, "tp-tile", folder.file_of(*module.codes),
                                      module.name, tiles));
      continue;
    }
    findings.push_back(make_finding(
        Severity::error, "tp-cut", folder.file_of(*module.codes), module.name,
        fmt::format("{}; the largest degree up to {} at which all layers stay whole is {}", problem,
                    degree, largest)));
  }
  return answer;
}

}  // namespace microscale
