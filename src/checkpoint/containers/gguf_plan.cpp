#include "checkpoint/containers/gguf_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_set>

#include "checkpoint/containers/gguf_names.hpp"
#include "checkpoint/containers/gguf_shapes.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

constexpr std::uint64_t most_experts = 1 << 16;

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

// Tensors that stand for something else than weights, by the name of what they belong to.
struct Companions {
  std::map<std::string, const GgufFile::Tensor*, std::less<>> scales;  // weight -> its scale
  std::vector<const GgufFile::Tensor*> left_out;  // scales of activations, rotary frequencies
  std::unordered_set<const GgufFile::Tensor*> all;
};

bool is_rotary_table(std::string_view name) {
  return name == "rope_freqs.weight" || name.ends_with(".rope_freqs.weight") ||
         name.ends_with(".attn_rot_embd");
}

Companions find_companions(const GgufFile& file) {
  Companions found;
  for (const GgufFile::Tensor& tensor : file.tensors) {
    const std::string_view name = tensor.name();
    if (name.ends_with(".input_scale") || is_rotary_table(name)) {
      found.left_out.push_back(&tensor);
      found.all.insert(&tensor);
    } else if (name.ends_with(".scale")) {
      const std::string weight = std::string(name.substr(0, name.size() - 6)) + ".weight";
      if (!file.find(weight)) continue;
      found.scales[weight] = &tensor;
      found.all.insert(&tensor);
    }
  }
  return found;
}

std::int64_t elements_of(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dimension : shape) elements *= dimension;
  return elements;
}

// One source, or one for each expert.
class Planner {
 public:
  explicit Planner(const GgufFile& file) : file_(file), companions_(find_companions(file)) {
    if (const GgufValue* value = file.value("general.architecture")) {
      plan_.architecture = value->text().value_or("");
    }
  }

  Result<GgufPlan> plan() {
    if (Status known = decide(); !known) return known.failure();
    for (std::size_t part = 0; part < file_.parts.size(); ++part) {
      for (const GgufTensor& entry : file_.parts[part].header.tensors) {
        const GgufFile::Tensor& tensor = *file_.find(entry.name);
        if (companions_.all.contains(&tensor)) continue;
        if (Status added = add(tensor); !added) return added.failure();
      }
    }
    tell_left_out();
    return std::move(plan_);
  }

 private:
  // Whether this is a model whose every tensor has a name at Hugging Face; says why not.
  Status decide() {
    plan_.is_model = false;
    const std::string& architecture = plan_.architecture;
    const auto bare = [&](const std::string& why) {
      plan_.notices.push_back(why +
                              ": its tensors keep the names that they have in the file, and "
                              "no config.json or tokenizer is written");
      return success();
    };
    if (architecture.empty()) return bare("the file names no architecture");
    if (!has_gguf_names(architecture)) {
      return bare(fmt::format("models of the architecture {} are not read as model folders",
                              in_quotes(architecture)));
    }
    const auto heads = gguf_model_number(file_, "attention.head_count");
    if (!heads || *heads < 1) return bare("the file does not say how many heads attention has");
    heads_ = static_cast<std::int64_t>(*heads);
    kv_heads_ = static_cast<std::int64_t>(
        gguf_model_number(file_, "attention.head_count_kv").value_or(*heads));
    for (const GgufFile::Tensor& tensor : file_.tensors) {
      if (companions_.all.contains(&tensor)) continue;
      const auto name = hugging_face_name(architecture, tensor.name());
      if (!name) {
        return bare(fmt::format("tensor {} is not one of a {} model", in_quotes(tensor.name()),
                                architecture));
      }
      if (Status fits = check(tensor, *name); !fits) return fits;
    }
    plan_.is_model = true;
    return check_gguf_shapes(file_, architecture);
  }

  Status check(const GgufFile::Tensor& tensor, const GgufName& name) const {
    const auto& shape = tensor.entry->shape;
    const bool bias = tensor.name().ends_with(".bias");
    const std::size_t dimensions = bias ? 2 : 3;
    if (name.experts &&
        (shape.size() != dimensions || static_cast<std::uint64_t>(shape[0]) > most_experts)) {
      return bad(fmt::format("tensor {} has {} dimensions, and {} of experts have {}",
                             in_quotes(tensor.name()), shape.size(), bias ? "biases" : "weights",
                             dimensions));
    }
    if (!name.query && !name.key) return success();
    const std::int64_t heads = name.query ? heads_ : kv_heads_;
    if (shape.empty() || heads < 1 || shape[0] % (2 * heads) != 0) {
      return bad(
          fmt::format("tensor {} has {} rows, which are not {} heads of an even number of "
                      "rows; the file's head counts contradict it",
                      in_quotes(tensor.name()), shape.empty() ? 0 : shape[0], heads));
    }
    return success();
  }

  Status add(const GgufFile::Tensor& tensor) {
    const GgufTensor& entry = *tensor.entry;
    GgufSource source;
    source.name = entry.name;
    source.shape = entry.shape;
    source.type = entry.type;
    source.part = tensor.part;
    source.begin = entry.begin;
    source.bytes = entry.bytes();
    GgufName name;
    if (plan_.is_model) {
      name = *hugging_face_name(plan_.architecture, entry.name);
      source.name = name.name;
      source.plus_one = name.plus_one;
      if (name.query) source.head_rows = entry.shape[0] / heads_;
      if (name.key) source.head_rows = entry.shape[0] / kv_heads_;
    }
    const std::int64_t experts = name.experts ? entry.shape[0] : 1;
    std::vector<float> scales{1.0f};
    if (const auto found = companions_.scales.find(entry.name); found != companions_.scales.end()) {
      auto read = read_gguf_scales(file_, *found->second, gguf_matrices(entry.shape));
      if (!read) return read.failure();
      scales = std::move(read.value());
    }
    if (!name.experts) {
      if (scales.size() == 1) {
        source.scale = scales.front();
      } else {
        source.scales = std::move(scales);
      }
      plan_.sources.push_back(std::move(source));
      return success();
    }
    if (scales.size() == 1) scales.resize(static_cast<std::size_t>(experts), scales.front());
    source.shape.erase(source.shape.begin());
    source.bytes = experts ? entry.bytes() / static_cast<std::uint64_t>(experts) : 0;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      source.name = fmt::format(fmt::runtime(name.name), expert);
      source.scale = scales[static_cast<std::size_t>(expert)];
      plan_.sources.push_back(source);
      source.begin += source.bytes;
    }
    return success();
  }

  void tell_left_out() {
    std::size_t activations = 0;
    for (const GgufFile::Tensor* tensor : companions_.left_out) {
      activations += tensor->name().ends_with(".input_scale");
    }
    if (activations > 0) {
      plan_.notices.push_back(
          fmt::format("{} scales of quantized activations (*.input_scale) are "
                      "left out",
                      activations));
    }
  }

  const GgufFile& file_;
  const Companions companions_;
  GgufPlan plan_;
  std::int64_t heads_ = 1, kv_heads_ = 1;
};

}  // namespace

std::int64_t gguf_matrices(std::span<const std::int64_t> shape) {
  return shape.size() == 3 ? shape[0] : 1;
}

bool GgufSource::as_stored() const {
  const bool plain = head_rows == 0 && !plus_one && scale == 1.0f && scales.empty();
  return plain && info(type).block == 1;
}

Result<GgufPlan> plan_gguf(const GgufFile& file) { return Planner(file).plan(); }

Result<std::vector<float>> read_gguf_scales(const GgufFile& file, const GgufFile::Tensor& tensor,
                                            std::int64_t experts) {
  const std::int64_t count = elements_of(tensor.entry->shape);
  if (tensor.entry->type != GgufType::f32 || (count != 1 && count != experts)) {
    return bad(
        fmt::format("tensor {} is a scale of type {} with {} elements, and F32 with 1 or {} "
                    "is wanted; make the file again",
                    in_quotes(tensor.name()), info(tensor.entry->type).name, count, experts));
  }
  std::vector<float> scales(static_cast<std::size_t>(count));
  const std::span<std::uint8_t> bytes{reinterpret_cast<std::uint8_t*>(scales.data()),
                                      scales.size() * sizeof(float)};
  if (Status read = read_gguf(file, tensor, 0, bytes); !read) return read.failure();
  const bool equal =
      std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) == scales.end();
  if (equal && !scales.empty()) scales.resize(1);
  return scales;
}

std::optional<double> gguf_model_number(const GgufFile& file, const std::string& key) {
  const GgufValue* architecture = file.value("general.architecture");
  if (!architecture || !architecture->text()) return std::nullopt;
  const GgufValue* value = file.value(std::string(*architecture->text()) + "." + key);
  return value ? value->number() : std::nullopt;
}

}  // namespace microscale
