#include "checkpoint/containers/gguf_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_parts = 99'999;

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

Result<GgufPart> open_part(const fs::path& path) {
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  auto header = read_gguf_header(file.value());
  if (!header) return header.failure();
  return GgufPart{std::move(file.value()), std::move(header.value())};
}

// Of how many parts a file says it is one: 1 where it says nothing.
Result<std::uint64_t> count_of(const GgufPart& part) {
  const GgufValue* value = part.header.find("split.count");
  if (!value) return std::uint64_t{1};
  const auto count = value->whole();
  if (count && *count <= most_parts) return std::max<std::uint64_t>(*count, 1);
  return bad(
      fmt::format("'{}': its split.count is {}, which is no number of parts; download or "
                  "make the file again",
                  part.file.path().string(), in_quotes(value->shown())));
}

std::string ending(std::uint64_t number, std::uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// What the names of all parts begin with; nothing where this one's name is not that of a part.
std::optional<std::string> prefix_of(const std::string& name, std::uint64_t count) {
  const std::size_t length = ending(0, count).size();
  if (name.size() <= length) return std::nullopt;
  const std::string last = name.substr(name.size() - length);
  const bool digits =
      std::all_of(last.begin() + 1, last.begin() + 6, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || last.substr(6) != ending(0, count).substr(6)) return std::nullopt;
  return name.substr(0, name.size() - length);
}

Status check_part(const GgufPart& part, std::uint64_t number, std::uint64_t count) {
  const auto said = count_of(part);
  if (!said) return said.failure();
  const GgufValue* value = part.header.find("split.no");
  if (said.value() == count && value && value->whole() == number) return success();
  return bad(
      fmt::format("'{}' says that it is part {} of {}, not {} of {} as its name does; "
                  "download the parts of one model again",
                  part.file.path().string(),
                  value && value->whole() ? fmt::format("{}", *value->whole() + 1) : "?",
                  said.value(), number + 1, count));
}

// Opens the `count` parts of which `first` is one.
Result<std::vector<GgufPart>> open_parts(const fs::path& path, std::uint64_t count) {
  const auto prefix = prefix_of(path.filename().string(), count);
  if (!prefix) {
    return bad(
        fmt::format("'{}' is one of {} parts, and the others are looked for by its name, "
                    "which does not end in '{}' or the like; give the parts the names that "
                    "they were published under",
                    path.string(), count, ending(0, count)));
  }
  std::vector<GgufPart> parts;
  for (std::uint64_t number = 0; number < count; ++number) {
    const fs::path name = path.parent_path() / (*prefix + ending(number, count));
    std::error_code error;
    if (!fs::exists(name, error)) {
      return bad(
          fmt::format("'{}' is one of {} parts, and '{}' is missing; download it into the "
                      "same folder",
                      path.string(), count, name.filename().string()));
    }
    auto part = open_part(name);
    if (!part) return part.failure();
    if (Status right = check_part(part.value(), number, count); !right) return right.failure();
    parts.push_back(std::move(part.value()));
  }
  return parts;
}

Status collect_tensors(GgufFile& model) {
  for (std::size_t part = 0; part < model.parts.size(); ++part) {
    for (const GgufTensor& entry : model.parts[part].header.tensors) {
      model.tensors.push_back({part, &entry});
    }
  }
  std::sort(model.tensors.begin(), model.tensors.end(), [](const auto& a, const auto& b) {
    return a.name() != b.name() ? a.name() < b.name() : a.part < b.part;
  });
  const auto twice =
      std::adjacent_find(model.tensors.begin(), model.tensors.end(),
                         [](const auto& a, const auto& b) { return a.name() == b.name(); });
  if (twice != model.tensors.end()) {
    return bad(
        fmt::format("tensor {} is in two parts, '{}' and '{}'; download the parts of one "
                    "model again",
                    in_quotes(twice->name()), model.parts[twice->part].file.path().string(),
                    model.parts[(twice + 1)->part].file.path().string()));
  }
  const GgufValue* stated = model.value("split.tensors.count");
  if (model.parts.size() > 1 && stated && stated->whole() != model.tensors.size()) {
    return bad(fmt::format(
        "'{}' says that the parts hold {} tensors, and they hold {}; download "
        "the parts of one model again",
        model.parts.front().file.path().string(), stated->shown(), model.tensors.size()));
  }
  return success();
}

}  // namespace

const GgufFile::Tensor* GgufFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const Tensor& a, std::string_view b) { return a.name() < b; });
  return found != tensors.end() && found->name() == name ? &*found : nullptr;
}

const GgufValue* GgufFile::value(std::string_view key) const {
  return parts.front().header.find(key);
}

Result<GgufFile> open_gguf(const fs::path& path) {
  auto first = open_part(path);
  if (!first) return first.failure();
  const auto count = count_of(first.value());
  if (!count) return count.failure();
  GgufFile model;
  if (count.value() == 1) {
    model.parts.push_back(std::move(first.value()));
  } else {
    auto parts = open_parts(path, count.value());
    if (!parts) return parts.failure();
    model.parts = std::move(parts.value());
  }
  if (Status collected = collect_tensors(model); !collected) return collected.failure();
  return model;
}

Status read_gguf(const GgufFile& file, const GgufFile::Tensor& tensor, std::uint64_t first,
                 std::span<std::uint8_t> out) {
  return file.parts[tensor.part].file.read_at(tensor.entry->begin + first, out);
}

}  // namespace microscale
