#include "checkpoint/stray_weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

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

void sort_in(ModelFolder& model, const std::string& name) {
  if (name.starts_with("consolidated")) {
    return leave_out(model, name, "the same weights under the names of Mistral's format");
  }
  auto file = InputFile::open(model.root / name);
  if (!file) return leave_out(model, name, "cannot be read: " + file.failure().message);
  auto header = read_safetensors_header(file.value());
  if (!header) {
    return leave_out(model, name,
                     "no readable safetensors file: " +
                         bare(header.failure().message, (model.root / name).string()));
  }
  const std::vector<TensorEntry>& tensors = header.value().tensors;
  const auto known = std::count_if(tensors.begin(), tensors.end(), [&](const TensorEntry& tensor) {
    return model.find(tensor.name) != nullptr;
  });
  if (known == static_cast<std::ptrdiff_t>(tensors.size())) {
    return leave_out(model, name,
                     tensors.empty() ? no_tensors : "its tensors are in the model already");
  }
  if (known > 0) {
    const auto again = std::find_if(tensors.begin(), tensors.end(), [&](const TensorEntry& tensor) {
      return model.find(tensor.name) != nullptr;
    });
    model.notices.push_back(
        fmt::format("{} is no file of the model, but holds {} of its tensors too ({} is one), "
                    "beside others; it is taken along as it is",
                    in_quotes(name), known, in_quotes(again->name)));
  }
  model.strays.push_back({name, std::move(file.value()), std::move(header.value()), true});
  model.other_files.emplace_back(name);
}

}  // namespace

void sort_stray_weights(ModelFolder& model, const std::vector<std::string>& names) {
  for (const std::string& name : names) sort_in(model, name);
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
          "quantize: '{}' is an adapter (LoRA), not a model; merge it into its base model "
          "first (peft: merge_and_unload, then save_pretrained), or quantize the base model "
          "and serve the adapter beside it",
          model.opened.string())};
}

}  // namespace microscale
