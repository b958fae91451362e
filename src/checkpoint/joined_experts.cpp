#include "checkpoint/joined_experts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "checkpoint/classifier.hpp"
#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/column_weight.hpp"
#include "checkpoint/dense_view.hpp"
#include "checkpoint/joined_experts_names.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/tensor_name.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

// A weight or bias of one expert.
struct Part {
  DenseTensor tensor;
  std::unique_ptr<StoredWeight> owned;
};

// What stands in one joined tensor: the parts of each expert in turn.
struct Parts {
  std::vector<Part> list;
  std::int64_t each = 1;  // of an expert: gate and up, or one
  bool interleaved = false;

  // Output feature `line`, counted through all experts: its part, and the row there.
  const DenseTensor& find(std::int64_t line, std::int64_t& row) const {
    const std::int64_t rows = list.front().tensor.entry.shape[0], outputs = rows * each;
    const std::int64_t output = line % outputs;
    row = interleaved ? output / each : output % rows;
    const std::int64_t part = interleaved ? output % each : output / rows;
    return list[static_cast<std::size_t>(line / outputs * each + part)].tensor;
  }
};

// Elements of a part as BF16 or F32, `size` bytes each.
Status read_values(const DenseTensor& part, std::int64_t first, std::int64_t count,
                   std::int64_t size, std::uint8_t* out) {
  constexpr std::int64_t chunk = 2048;
  const DType from = *dense_type(part.entry.type), to = size == 2 ? DType::bf16 : DType::f32;
  const std::int64_t from_size = size_of(from);
  if (from == to) {
    return part.read(static_cast<std::uint64_t>(first * size),
                     {out, static_cast<std::size_t>(count * size)});
  }
  alignas(float) std::array<std::uint8_t, chunk * sizeof(float)> values;
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t some = std::min(chunk, count - done);
    Status read = part.read(static_cast<std::uint64_t>((first + done) * from_size),
                            std::span(values).first(static_cast<std::size_t>(some * from_size)));
    if (!read) return read;
    for (std::int64_t i = 0; i < some; ++i) {
      store_dense(load_dense(values.data(), from, i), out, to, done + i);
    }
  }
  return success();
}

class JoinedWeights final : public ColumnWeight {
 public:
  JoinedWeights(WeightFacts facts, Parts parts)
      : ColumnWeight(std::move(facts)), parts_(std::move(parts)) {
    part_.rows = parts_.list.front().tensor.entry.shape[0];
    part_.cols = part_.row_step = inputs();
    for (const Part& part : parts_.list) {
      const StoredWeight* weight = part.tensor.weight;
      const auto coding = weight ? weight->coding_of(part_) : std::nullopt;
      const bool same = coding && (&part == &parts_.list.front() || coding_ == coding);
      coding_ = same ? coding : std::nullopt;
      if (!same) break;
    }
  }

 private:
  std::optional<BlockCoding> coding_of_lines() const override { return coding_; }

  Status decode_line(std::int64_t line, std::int64_t input, std::int64_t count,
                     std::uint8_t* out) const override {
    std::int64_t row = 0;
    const DenseTensor& part = parts_.find(line, row);
    return read_values(part, row * inputs() + input, count, value_bytes(), out);
  }

  Status read_line(std::int64_t line, std::int64_t input, std::int64_t count,
                   std::span<std::uint8_t> codes, std::span<std::uint8_t> scales) const override {
    std::int64_t row = 0;
    const DenseTensor& part = parts_.find(line, row);
    return part.weight->read_block_tile(part_, {row, 1, input, count}, codes, scales);
  }

  Parts parts_;
  MatrixSlice part_;  // any of them, whole
  std::optional<BlockCoding> coding_;
};

// Parts of [outputs, inputs] one behind the other, which is how [experts, outputs, inputs] has
// them.
class StackedWeights final : public StoredWeight {
 public:
  StackedWeights(WeightFacts facts, Parts parts)
      : StoredWeight(std::move(facts)), parts_(std::move(parts)) {
    const auto& shape = parts_.list.front().tensor.entry.shape;
    part_elements_ = shape[0] * shape[1];
  }

  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = (first + done) / part_elements_;
      const std::int64_t at = (first + done) % part_elements_;
      const std::int64_t some = std::min(count - done, part_elements_ - at);
      Status read = read_values(parts_.list[static_cast<std::size_t>(part)].tensor, at, some,
                                value_bytes(), out.data() + done * value_bytes());
      if (!read) return read;
      done += some;
    }
    return success();
  }

 private:
  Parts parts_;
  std::int64_t part_elements_ = 1;
};

class JoinedBiases final : public StoredWeight {
 public:
  JoinedBiases(WeightFacts facts, Parts parts)
      : StoredWeight(std::move(facts)), parts_(std::move(parts)) {}

  // Part by part: each is read as one run and put where its rows go.
  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    constexpr std::int64_t chunk = 1024;
    const std::int64_t outputs = facts().shape[1], rows = outputs / parts_.each;
    const std::int64_t size = value_bytes();
    alignas(float) std::array<std::uint8_t, chunk * sizeof(float)> values;
    const std::int64_t begin = first / outputs * parts_.each;
    const std::int64_t end = ((first + count - 1) / outputs + 1) * parts_.each;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t step = parts_.interleaved ? parts_.each : 1;
      const std::int64_t half = at % parts_.each;
      const std::int64_t base =
          at / parts_.each * outputs + (parts_.interleaved ? half : half * rows);
      for (std::int64_t row = 0; row < rows; row += chunk) {
        const std::int64_t some = std::min(chunk, rows - row);
        const DenseTensor& part = parts_.list[static_cast<std::size_t>(at)].tensor;
        if (Status read = read_values(part, row, some, size, values.data()); !read) return read;
        for (std::int64_t i = 0; i < some; ++i) {
          const std::int64_t place = base + (row + i) * step - first;
          if (place < 0 || place >= count) continue;
          std::copy_n(values.data() + i * size, size, out.data() + place * size);
        }
      }
    }
    return success();
  }

 private:
  Parts parts_;
};

// The experts of one layer: parts by projection and expert.
struct Layer {
  std::array<std::map<std::int64_t, LogicalTensor*>, expert_projections.size()> weights, biases;
  std::int64_t experts = 0;
};

class Joiner {
 public:
  Joiner(QuantizedFolder& folder, const ExpertLayout& layout, std::int64_t experts,
         std::string_view operation)
      : folder_(folder), layout_(layout), experts_(experts), operation_(operation) {
    for (auto& weight : folder.weights) owners_[weight.get()] = &weight;
  }

  Status join() {
    std::map<std::string, Layer, std::less<>> layers;
    for (LogicalTensor& tensor : folder_.tensors) {
      const auto name = expert_name_of(tensor.name);
      if (!name) continue;
      if (name->expert >= most_experts) return refuse(tensor.name, "has no number of an expert");
      Layer& layer = layers[std::string(name->module)];
      (name->bias ? layer.biases : layer.weights)[name->projection][name->expert] = &tensor;
      layer.experts = std::max(layer.experts, name->expert + 1);
    }
    for (auto& [module, layer] : layers) {
      layer.experts = std::max(layer.experts, std::min(experts_, most_experts));
      if (Status joined = join_layer(module, layer); !joined) return joined;
    }
    finish();
    return success();
  }

 private:
  static constexpr std::int64_t most_experts = 1 << 16;

  Failure refuse(std::string_view tensor, const std::string& why) const {
    return {
        ErrorCode::bad_input,
        fmt::format("{}: {} {}; transformers reads the experts of this family as one tensor for "
                    "each layer, which cannot be made: download or convert the model again",
                    operation_, in_quotes(tensor), why)};
  }

  Failure lacks(const std::string& module, std::int64_t expert, std::size_t projection,
                std::string_view ending) const {
    return refuse(fmt::format("{}.{}.{}{}", module, expert, expert_projections[projection], ending),
                  "is missing");
  }

  Status join_layer(const std::string& module, Layer& layer) {
    const bool biased = std::any_of(layer.biases.begin(), layer.biases.end(),
                                    [](const auto& each) { return !each.empty(); });
    constexpr std::size_t gate = 0, down = 2;
    for (const std::size_t first : {gate, down}) {
      const std::string name = module + (first == gate ? ".gate_up_proj" : ".down_proj");
      if (Status joined = join_part(module, name, layer, layer.weights, first, false); !joined) {
        return joined;
      }
      if (!biased) continue;
      Status joined = join_part(module, name + "_bias", layer, layer.biases, first, true);
      if (!joined) return joined;
    }
    return success();
  }

  template <class ByProjection>
  Status join_part(const std::string& module, const std::string& name, const Layer& layer,
                   ByProjection& found, std::size_t first, bool bias) {
    const std::size_t last = first == 0 ? 1 : first;
    std::vector<LogicalTensor*> tensors;
    for (std::int64_t expert = 0; expert < layer.experts; ++expert) {
      for (std::size_t projection = first; projection <= last; ++projection) {
        const auto at = found[projection].find(expert);
        if (at == found[projection].end()) {
          return lacks(module, expert, projection, bias ? ".bias" : ".weight");
        }
        const LogicalTensor& tensor = *at->second;
        const auto& shape = tensors.empty() ? tensor.shape : tensors.front()->shape;
        if (tensor.shape != shape || shape.size() != (bias ? 1u : 2u) || tensor.elements() == 0) {
          return refuse(tensor.name,
                        fmt::format("has the shape [{}], which is not that of its "
                                    "siblings, {} dimension{}",
                                    fmt::join(tensor.shape, ", "), bias ? 1 : 2, bias ? "" : "s"));
        }
        if (tensor.stored && !dense_type(tensor.stored->entry->type)) {
          return refuse(tensor.name, fmt::format("is of type {}, which is not decoded here",
                                                 to_string(tensor.stored->entry->type)));
        }
        tensors.push_back(at->second);
      }
    }
    add(name, tensors, static_cast<std::int64_t>(last - first + 1), bias);
    return success();
  }

  void add(const std::string& name, const std::vector<LogicalTensor*>& tensors, std::int64_t each,
           bool bias) {
    Parts parts;
    parts.each = each;
    parts.interleaved = layout_.interleaved && each > 1;
    WeightFacts facts;
    facts.name = name;
    facts.type = StoredType::bf16;
    facts.exact = true;
    facts.transposed = !bias && layout_.transposed;
    for (LogicalTensor* tensor : tensors) {
      parts.list.push_back(take_part(*tensor));
      const DenseTensor& part = parts.list.back().tensor;
      if (part.entry.type != StoredType::bf16) facts.type = StoredType::f32;
      if (part.weight) {
        facts.exact &= part.weight->facts().exact;
        const auto& of_part = part.weight->facts().parts;
        facts.parts.insert(facts.parts.end(), of_part.begin(), of_part.end());
      } else {
        facts.parts.push_back(tensor->stored);
      }
    }
    const DenseTensor& first = parts.list.front().tensor;
    facts.description =
        first.weight ? first.weight->facts().description : std::string(to_string(first.entry.type));
    if (facts.exact) facts.copied = copied_type(first);
    const auto experts = static_cast<std::int64_t>(tensors.size()) / each;
    const auto& shape = tensors.front()->shape;
    facts.shape = bias                 ? std::vector{experts, shape[0] * each}
                  : layout_.transposed ? std::vector{experts, shape[1], shape[0] * each}
                                       : std::vector{experts, shape[0] * each, shape[1]};
    if (bias) {
      made_.push_back(std::make_unique<JoinedBiases>(std::move(facts), std::move(parts)));
    } else if (!layout_.transposed) {
      made_.push_back(std::make_unique<StackedWeights>(std::move(facts), std::move(parts)));
    } else {
      made_.push_back(std::make_unique<JoinedWeights>(std::move(facts), std::move(parts)));
    }
  }

  // The tensor is marked as used up by its empty name.
  Part take_part(LogicalTensor& tensor) {
    Part part;
    const ModelTensor& main = tensor.main_part();
    if (tensor.module) {
      part.owned = weight_of_module(*tensor.module, folder_.model);
    } else if (tensor.weight) {
      part.owned = std::move(*owners_.at(tensor.weight));
    }
    part.tensor = {main.shard, *main.entry, &folder_.model.shards[main.shard].file,
                   part.owned.get()};
    if (part.owned) {
      part.tensor.entry.type = part.owned->facts().type;
      part.tensor.entry.shape = part.owned->facts().shape;
    }
    tensor.name.clear();
    return part;
  }

  void finish() {
    std::erase(folder_.weights, nullptr);
    std::erase_if(folder_.tensors, [](const LogicalTensor& tensor) { return tensor.name.empty(); });
    for (auto& weight : made_) {
      folder_.tensors.push_back(
          {weight->name(), weight->facts().shape, nullptr, nullptr, weight.get()});
      folder_.weights.push_back(std::move(weight));
    }
    std::sort(folder_.weights.begin(), folder_.weights.end(),
              [](const auto& a, const auto& b) { return a->name() < b->name(); });
    std::sort(folder_.tensors.begin(), folder_.tensors.end(),
              [](const LogicalTensor& a, const LogicalTensor& b) { return a.name < b.name; });
  }

  QuantizedFolder& folder_;
  const ExpertLayout& layout_;
  std::int64_t experts_;
  std::string_view operation_;
  std::unordered_map<const StoredWeight*, std::unique_ptr<StoredWeight>*> owners_;
  std::vector<std::unique_ptr<StoredWeight>> made_;
};

}  // namespace

Status join_experts(QuantizedFolder& folder, std::string_view operation) {
  if (!folder.unusable.empty() || !folder.foreign.empty()) return success();
  const auto facts = read_model_facts(folder.model.config_text.value_or("{}"));
  if (!facts) return facts.failure();
  auto layout = joined_layout_of(facts.value().model_type);
  if (!layout) layout = joined_layout_of(facts.value().text_model_type);
  if (!layout) return success();
  return Joiner(folder, *layout, facts.value().experts.value_or(0), operation).join();
}

}  // namespace microscale
