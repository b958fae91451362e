#include "checkpoint/stray_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "checkpoint/classifier.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

constexpr std::string_view mistral_name = "consolidated";

void leave_out(ModelFolder& model, const std::string& name, std::string reason) {
  model.left_out_files.push_back({name, std::move(reason)});
}

// Without the path with which failures begin.
std::string bare(const std::string& message, const std::string& path) {
  const std::string start = "'" + path + "'";
  if (!message.starts_with(start)) return message;
  const std::size_t rest = message.find_first_not_of(": ", start.size());
  return rest == std::string::npos ? message : message.substr(rest);
}

double elements_of(const std::vector<TensorEntry>& tensors) {
  double elements = 0;
  for (const TensorEntry& tensor : tensors) {
    elements += 8.0 * static_cast<double>(tensor.bytes()) / bits_per_element(tensor.type);
  }
  return elements;
}

double elements_of(const ModelFolder& model) {
  double elements = 0;
  for (const ModelShard& shard : model.shards) elements += elements_of(shard.header.tensors);
  return elements;
}

// Whether a tensor begins and ends with the same bytes in both.
bool same_bytes(const InputFile& one, const TensorEntry& a, const InputFile& other,
                const TensorEntry& b) {
  constexpr std::uint64_t piece = 4096;
  if (a.type != b.type || a.bytes() != b.bytes()) return false;
  const std::uint64_t length = std::min(piece, a.bytes());
  std::vector<std::uint8_t> left(length), right(length);
  for (const std::uint64_t at : {std::uint64_t{0}, a.bytes() - length}) {
    const bool read =
        one.read_at(a.begin + at, left).ok() && other.read_at(b.begin + at, right).ok();
    if (!read || left != right) return false;
  }
  return true;
}

// The first and the last values, or nothing where the type is none of floats.
std::optional<std::vector<float>> some_values(const InputFile& file, const TensorEntry& entry) {
  constexpr std::int64_t piece = 1024;
  const auto type = dense_type(entry.type);
  if (!type) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(size_of(*type));
  const auto count = static_cast<std::int64_t>(entry.bytes() / size);
  const auto length = static_cast<std::uint64_t>(std::min(piece, count)) * size;
  std::vector<float> values;
  std::vector<std::uint8_t> bytes(length);
  std::vector<float> some(length / size);
  for (const std::uint64_t at : {entry.begin, entry.end - length}) {
    if (!file.read_at(at, bytes)) return std::nullopt;
    decode_dense(entry.type, bytes, some);
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

// Whether a tensor begins and ends with the same values in both, as far as their types can hold
// them.
bool same_values(const InputFile& one, const TensorEntry& a, const InputFile& other,
                 const TensorEntry& b) {
  if (a.type == b.type) return same_bytes(one, a, other, b);
  constexpr float coarsest = 1.0f / 128, least = 1e-6f;  // of BF16, and of F16 near 0
  const auto left = some_values(one, a), right = some_values(other, b);
  return left && right && left->size() == right->size() &&
         std::equal(left->begin(), left->end(), right->begin(), [&](float x, float y) {
           return x == y || (std::isnan(x) && std::isnan(y)) ||
                  std::fabs(x - y) <= coarsest * std::fabs(x) + least;
         });
}

// Of a file whose tensors the model has all, with equal shapes.
std::string why_again(const ModelFolder& model, const InputFile& file,
                      const std::vector<TensorEntry>& tensors) {
  bool same_types = true, same = true;
  for (const TensorEntry& tensor : tensors) {
    const ModelTensor& own = *model.find(tensor.name);
    same_types &= tensor.type == own.entry->type;
    same &= same_values(file, tensor, model.shards[own.shard].file, *own.entry);
  }
  if (same) {
    return same_types ? "its tensors are in the model already"
                      : "the model's tensors in another element type";
  }
  return fmt::format(
      "the model's tensors with other values{}: an average of the weights (EMA), or "
      "another version of the model",
      same_types ? "" : ", in another element type");
}

// Of files with about as many elements as the model under the names of Mistral's format: rows of
// queries and keys lie in another order there, all else is equal.
std::string why_mistral(const ModelFolder& model, const InputFile& file,
                        const std::vector<TensorEntry>& tensors) {
  std::multimap<std::vector<std::int64_t>, const ModelTensor*> by_shape;
  for (const ModelTensor& own : model.tensors) by_shape.emplace(own.entry->shape, &own);
  std::size_t same = 0;
  for (const TensorEntry& tensor : tensors) {
    const auto [begin, end] = by_shape.equal_range(tensor.shape);
    same += std::any_of(begin, end, [&](const auto& own) {
      const ModelTensor& other = *own.second;
      return same_values(file, tensor, model.shards[other.shard].file, *other.entry);
    });
  }
  return 2 * same >= tensors.size()
             ? "the same weights under the names of Mistral's format"
             : "about as many weights as the model has under the names of Mistral's format, with "
               "other values: another version of the model";
}

// Whether the file is one of the model's numbered ones by its name. An empty one of these is taken
// along: without it the others would seem to lack one.
bool is_of_the_set(const ModelFolder& model, const std::string& name) {
  const auto own = numbered_name(name);
  return own && std::any_of(model.shards.begin(), model.shards.end(), [&](const ModelShard& shard) {
           const auto other = numbered_name(shard.name);
           return other && other->base == own->base && other->count == own->count;
         });
}

// The same base with another count: left over from another download.
bool is_of_another_set(const ModelFolder& model, const std::string& name) {
  const auto own = numbered_name(name);
  return own && std::any_of(model.shards.begin(), model.shards.end(), [&](const ModelShard& shard) {
           const auto other = numbered_name(shard.name);
           return other && other->base == own->base && other->count != own->count;
         });
}

// `mistral`: the model once more under the names of Mistral's format.
void sort_in(ModelFolder& model, const std::string& name, bool mistral) {
  auto file = InputFile::open(model.root / name);
  if (!file) return leave_out(model, name, "cannot be read: " + file.failure().message);
  auto header = read_safetensors_header(file.value());
  if (!header) {
    return leave_out(model, name,
                     "no readable safetensors file: " +
                         bare(header.failure().message, (model.root / name).string()));
  }
  const std::vector<TensorEntry>& tensors = header.value().tensors;
  if (tensors.empty() && !is_of_the_set(model, name)) return leave_out(model, name, no_tensors);
  if (mistral) {
    return leave_out(model, name, why_mistral(model, file.value(), tensors));
  }
  const TensorEntry* again = nullptr;
  std::size_t known = 0;
  bool same_shapes = true;
  for (const TensorEntry& tensor : tensors) {
    const ModelTensor* own = model.find(tensor.name);
    if (!own) continue;
    if (known++ == 0) again = &tensor;
    same_shapes &= own->entry->shape == tensor.shape;
  }
  if (known == tensors.size() && same_shapes && known > 0) {
    return leave_out(model, name, why_again(model, file.value(), tensors));
  }
  if (known > 0) {
    model.notices.push_back(fmt::format(
        "{} is no file of the model, but holds {} of its tensors too ({} is one), {}; it is taken "
        "along as it is",
        in_quotes(name), known, in_quotes(again->name),
        known < tensors.size() ? "beside others" : "in other shapes"));
  }
  if (is_of_another_set(model, name)) {
    model.notices.push_back(fmt::format(
        "{} is by its name one of another number of files than the model's; none of its tensors is "
        "in the model, and it is taken along as it is",
        in_quotes(name)));
  }
  model.strays.push_back({name, std::move(file.value()), std::move(header.value()), true});
  model.other_files.emplace_back(name);
}

// Whether the files called so are the model once more: about as many elements, under other names.
bool is_mistral_copy(const ModelFolder& model, const std::vector<std::string>& names) {
  constexpr double least = 0.75, most = 1.33;  // a head that is tied in one and not in the other
  double elements = 0;
  for (const std::string& name : names) {
    if (!name.starts_with(mistral_name)) continue;
    const auto file = InputFile::open(model.root / name);
    const auto header = file ? read_safetensors_header(file.value()) : file.failure();
    if (header) elements += elements_of(header.value().tensors);
  }
  const double own = elements_of(model);
  return elements >= least * own && elements <= most * own;
}

}  // namespace

void sort_stray_weights(ModelFolder& model, const std::vector<std::string>& names) {
  const bool mistral = is_mistral_copy(model, names);
  for (const std::string& name : names) {
    sort_in(model, name, mistral && name.starts_with(mistral_name));
  }
}

void include_side_weights(ModelFolder& model) {
  std::vector<ModelShard> apart;
  for (ModelShard& stray : model.strays) {
    const std::vector<TensorEntry>& tensors = stray.header.tensors;
    const bool known = std::any_of(tensors.begin(), tensors.end(), [&](const TensorEntry& tensor) {
      return model.find(tensor.name) != nullptr;
    });
    if (known) {
      apart.push_back(std::move(stray));
      continue;
    }
    std::erase(model.other_files, std::filesystem::path(stray.name));
    for (const TensorEntry& entry : tensors) model.tensors.push_back({model.shards.size(), &entry});
    model.shards.push_back(std::move(stray));
    std::sort(model.tensors.begin(), model.tensors.end(),
              [](const ModelTensor& a, const ModelTensor& b) { return a.name() < b.name(); });
  }
  model.strays = std::move(apart);
}

bool is_adapter(const ModelShard& file) {
  const std::vector<TensorEntry>& tensors = file.header.tensors;
  return file.name.starts_with("adapter_model") ||
         (!tensors.empty() &&
          std::all_of(tensors.begin(), tensors.end(), [](const TensorEntry& tensor) {
            return tensor.name.find("lora_") != std::string::npos ||
                   tensor.name.ends_with(".alpha");
          }));
}

Status refuse_adapter(const ModelFolder& model) {
  if (!std::all_of(model.shards.begin(), model.shards.end(), is_adapter)) return success();
  return Failure{
      ErrorCode::bad_input,
      fmt::format(
          "quantize: '{}' is an adapter (LoRA), not a model; name its base model, and the adapter "
          "with --lora to have it added, or serve the adapter beside the quantized base model",
          model.opened.string())};
}

}  // namespace microscale
