#include "checkpoint/containers/gguf_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/containers/gguf_config.hpp"
#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/containers/gguf_tokenizer.hpp"
#include "checkpoint/shard_index.hpp"
#include "report/utf8.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t shown_bytes = 80;  // of a metadata value
constexpr std::size_t shown_elements = 6;

StoredType stored_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return StoredType::f32;
    case GgufType::f16:
      return StoredType::f16;
    case GgufType::bf16:
      return StoredType::bf16;
    case GgufType::f64:
      return StoredType::f64;
    case GgufType::i8:
      return StoredType::i8;
    case GgufType::i16:
      return StoredType::i16;
    case GgufType::i32:
      return StoredType::i32;
    case GgufType::i64:
      return StoredType::i64;
    default:
      return StoredType::u8;
  }
}

// Characters of `text`, not too many; what is none becomes U+FFFD.
std::string shortened(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (shown.size() >= shown_bytes) return shown + "...";
    const CodePoint point = decode_utf8(text, at);
    shown += point.valid ? text.substr(at, point.bytes) : "\xEF\xBF\xBD";
    at += point.bytes;
  }
  return shown;
}

std::string shard_name(std::size_t part, std::size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", part + 1, count);
}

TensorEntry entry_of(const GgufSource& source) {
  const std::uint64_t end = source.begin + source.bytes;
  if (source.as_stored())
    return {source.name, stored_type(source.type), source.shape, source.begin, end};
  return {
      source.name, StoredType::u8, {static_cast<std::int64_t>(source.bytes)}, source.begin, end};
}

void add_tensors(ModelFolder& model, GgufPlan& plan) {
  for (GgufSource& source : plan.sources) {
    if (source.bytes == 0) {  // there is nothing to compute
      source = {source.name, source.shape, GgufType::f32, source.part, source.begin, 0};
    }
    model.shards[source.part].header.tensors.push_back(entry_of(source));
    if (!source.as_stored()) model.gguf_sources.push_back(std::move(source));
  }
  for (std::size_t part = 0; part < model.shards.size(); ++part) {
    auto& entries = model.shards[part].header.tensors;
    std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.name < b.name;
    });
    for (const TensorEntry& entry : entries) model.tensors.push_back({part, &entry});
  }
  std::sort(model.tensors.begin(), model.tensors.end(),
            [](const ModelTensor& a, const ModelTensor& b) { return a.name() < b.name(); });
}

// What llama.cpp keeps in the one file and a folder in several.
Status add_files(ModelFolder& model, const GgufFile& file) {
  auto config = gguf_config(file);
  if (!config) return config.failure();
  model.config_text = std::move(config.value());
  model.made_files.push_back({"generation_config.json", gguf_generation_config(file)});
  auto tokenizer = gguf_tokenizer(file);
  if (!tokenizer) {
    model.notices.push_back("no tokenizer.json is written: " + tokenizer.failure().message);
    return success();
  }
  model.made_files.push_back({"tokenizer.json", std::move(tokenizer.value().tokenizer)});
  model.made_files.push_back({"tokenizer_config.json", std::move(tokenizer.value().config)});
  for (std::string& notice : tokenizer.value().notices) model.notices.push_back(std::move(notice));
  return success();
}

}  // namespace

Result<ModelFolder> open_gguf_model(const fs::path& path) {
  auto opened = open_gguf(path);
  if (!opened) return opened.failure();
  GgufFile& file = opened.value();
  const auto of_file = [&](const Failure& failure) {
    return Failure{failure.code, fmt::format("'{}': {}", path.string(), failure.message)};
  };
  auto plan = plan_gguf(file);
  if (!plan) return of_file(plan.failure());
  ModelFolder model;
  model.opened = path;
  model.is_gguf = true;
  model.root = path.has_parent_path() ? path.parent_path() : fs::path(".");
  model.notices = std::move(plan.value().notices);
  if (plan.value().is_model) {
    model.remarks.push_back(
        fmt::format("a GGUF file of llama.cpp, a {} model: tensors, "
                    "config.json and tokenizer are those of Hugging Face",
                    plan.value().architecture));
    if (Status added = add_files(model, file); !added) return of_file(added.failure());
  }
  for (const auto& [key, value] : file.parts.front().header.metadata) {
    model.gguf_metadata.emplace_back(key, shortened(value.shown(shown_elements)));
  }
  if (file.parts.size() > 1) model.index_name = shard_index_name;
  for (std::size_t part = 0; part < file.parts.size(); ++part) {
    SafetensorsHeader header;
    header.metadata = {{"format", "pt"}};
    header.data_start = file.parts[part].header.data_start;
    model.shards.push_back(
        {shard_name(part, file.parts.size()), std::move(file.parts[part].file), std::move(header)});
  }
  add_tensors(model, plan.value());
  return model;
}

}  // namespace microscale
