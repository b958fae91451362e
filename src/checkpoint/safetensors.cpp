#include "checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "checkpoint/file_kind.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Kind = JsonEvent::Kind;

Failure bad_header(const std::string& problem) {
  return {ErrorCode::bad_input,
          fmt::format("{}; the file is damaged or was written wrongly: download or export it again",
                      problem)};
}

// Fills a header from the events of its JSON; each complaint names the tensor.
class HeaderEvents {
 public:
  HeaderEvents(SafetensorsHeader& header, std::uint64_t file_size)
      : header_(header), file_size_(file_size) {}

  std::optional<std::string> take(const JsonEvent& event) {
    switch (where_) {
      case Where::outside:
        return take_outside(event);
      case Where::root:
        return take_root(event);
      case Where::before_tensor:
        return take_before_tensor(event);
      case Where::tensor:
        return take_tensor(event);
      case Where::dtype:
        return take_dtype(event);
      case Where::shape:
        return take_integer(event, shape_, max_safetensors_rank);
      case Where::offsets:
        return take_integer(event, offsets_, 2);
      case Where::before_metadata:
        return take_before_metadata(event);
      case Where::metadata:
        return take_metadata(event);
    }
    return std::nullopt;
  }

 private:
  enum class Where {
    outside,
    root,
    before_tensor,    // its name is known
    tensor,           // between its keys
    dtype,            // before the value
    shape,            // before or inside the array
    offsets,          // likewise
    before_metadata,  // `__metadata__` was the key
    metadata,
  };
  // One array of integers of a tensor.
  struct Integers {
    const char* key;
    bool seen = false;  // its array has begun
    std::vector<std::int64_t> values;
  };

  std::string of_tensor(const std::string& problem) const {
    return fmt::format("tensor {} {}", in_quotes(name_), problem);
  }

  std::optional<std::string> take_outside(const JsonEvent& event) {
    if (event.kind != Kind::begin_object) return "its header is not a JSON object";
    where_ = Where::root;
    return std::nullopt;
  }

  std::optional<std::string> take_root(const JsonEvent& event) {
    if (event.kind != Kind::key) return std::nullopt;  // the end of the object
    name_ = std::move(*event.text);
    if (name_.empty()) return "a tensor has an empty name";
    where_ = name_ == "__metadata__" ? Where::before_metadata : Where::before_tensor;
    return std::nullopt;
  }

  std::optional<std::string> take_before_tensor(const JsonEvent& event) {
    if (event.kind != Kind::begin_object) return of_tensor("is not described by an object");
    type_.reset();
    shape_ = {.key = "shape", .seen = false, .values = {}};
    offsets_ = {.key = "data_offsets", .seen = false, .values = {}};
    where_ = Where::tensor;
    return std::nullopt;
  }

  std::optional<std::string> take_tensor(const JsonEvent& event) {
    if (event.kind == Kind::end_object) return finish_tensor();
    const std::string& key = *event.text;
    if (key == "dtype") {
      where_ = Where::dtype;
    } else if (key == "shape") {
      where_ = Where::shape;
    } else if (key == "data_offsets") {
      where_ = Where::offsets;
    } else {
      return of_tensor(fmt::format("has the unknown key {} beside dtype, shape and data_offsets",
                                   in_quotes(key)));
    }
    return std::nullopt;
  }

  std::optional<std::string> take_dtype(const JsonEvent& event) {
    if (event.kind != Kind::string) return of_tensor("has a dtype that is not a string");
    type_ = stored_type_from_name(*event.text);
    if (!type_) return of_tensor(fmt::format("has the unknown dtype {}", in_quotes(*event.text)));
    where_ = Where::tensor;
    return std::nullopt;
  }

  std::optional<std::string> take_integer(const JsonEvent& event, Integers& list,
                                          std::size_t most) {
    if (!list.seen) {
      if (event.kind != Kind::begin_array) {
        return of_tensor(fmt::format("has a {} that is not an array", list.key));
      }
      list.seen = true;
      return std::nullopt;
    }
    if (event.kind == Kind::end_array) {
      where_ = Where::tensor;
      return std::nullopt;
    }
    if (event.kind == Kind::negative_integer) {
      return of_tensor(fmt::format("has a negative number in its {}", list.key));
    }
    if (event.kind != Kind::unsigned_integer) {
      return of_tensor(fmt::format("has something in its {} that is not an integer", list.key));
    }
    if (event.unsigned_integer > max_safetensors_integer) {
      return of_tensor(fmt::format("has the number {} in its {}, which is above 2^48",
                                   event.unsigned_integer, list.key));
    }
    if (list.values.size() == most) {
      return of_tensor(fmt::format("has more than {} numbers in its {}", most, list.key));
    }
    list.values.push_back(static_cast<std::int64_t>(event.unsigned_integer));
    return std::nullopt;
  }

  std::optional<std::string> finish_tensor() {
    where_ = Where::root;
    if (!type_) return of_tensor("has no dtype");
    if (!shape_.seen) return of_tensor("has no shape");
    if (offsets_.values.size() != 2) return of_tensor("has no data_offsets [begin, end]");
    const auto begin = static_cast<std::uint64_t>(offsets_.values[0]);
    const auto end = static_cast<std::uint64_t>(offsets_.values[1]);
    if (end < begin) {
      return of_tensor(
          fmt::format("ends at byte {} of the data, before it begins at {}", end, begin));
    }
    const auto bytes = stored_bytes(*type_, shape_.values);
    if (!bytes) return of_tensor("has an impossible size: " + bytes.failure().message);
    if (end - begin != bytes.value()) {
      return of_tensor(
          fmt::format("has {} bytes between its data_offsets, but its dtype and shape "
                      "need {}",
                      end - begin, bytes.value()));
    }
    if (end > file_size_ - header_.data_start) {
      return of_tensor(fmt::format("ends at byte {} of the data, but the file has only {}", end,
                                   file_size_ - header_.data_start));
    }
    header_.tensors.push_back({std::move(name_), *type_, std::move(shape_.values),
                               header_.data_start + begin, header_.data_start + end});
    return std::nullopt;
  }

  std::optional<std::string> take_before_metadata(const JsonEvent& event) {
    if (event.kind != Kind::begin_object) return "__metadata__ is not an object";
    where_ = Where::metadata;
    return std::nullopt;
  }

  std::optional<std::string> take_metadata(const JsonEvent& event) {
    if (event.kind == Kind::end_object) {
      where_ = Where::root;
    } else if (event.kind == Kind::key) {
      metadata_key_ = std::move(*event.text);
    } else if (event.kind == Kind::string) {
      header_.metadata.emplace_back(std::move(metadata_key_), std::move(*event.text));
    } else {
      return fmt::format("__metadata__ holds something that is not a string under {}",
                         in_quotes(metadata_key_));
    }
    return std::nullopt;
  }

  SafetensorsHeader& header_;  // its data_start is set
  const std::uint64_t file_size_;
  Where where_ = Where::outside;
  std::string name_;
  std::optional<StoredType> type_;
  Integers shape_{.key = "shape", .seen = false, .values = {}};
  Integers offsets_{.key = "data_offsets", .seen = false, .values = {}};
  std::string metadata_key_;
};

// Tensors must follow one another without gap from the end of the header to the end of the file.
Status check_coverage(const SafetensorsHeader& header, std::uint64_t file_size) {
  std::uint64_t position = header.data_start;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != position) {
      const char* relation = tensor.begin < position ? "overlaps" : "leaves a hole after";
      return bad_header(fmt::format(
          "tensor {} {} {}: it begins at byte {} of the data, not at {}", in_quotes(tensor.name),
          relation, previous ? in_quotes(previous->name) : "the header",
          tensor.begin - header.data_start, position - header.data_start));
    }
    position = tensor.end;
    previous = &tensor;
  }
  if (position < file_size) {
    return bad_header(
        fmt::format("the file has {} bytes after its last tensor, which ends at byte {}",
                    file_size - position, position));
  }
  return success();
}

}  // namespace

Result<std::uint64_t> safetensors_header_length(std::span<const std::uint8_t, 8> prefix,
                                                std::uint64_t file_size) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[static_cast<std::size_t>(i)];
  if (length > max_safetensors_header) {
    return bad_header(
        fmt::format("its first 8 bytes announce a header of {} bytes, more than the {} "
                    "allowed",
                    length, max_safetensors_header));
  }
  if (file_size < 8 || length > file_size - 8) {
    return bad_header(
        fmt::format("its first 8 bytes announce a header of {} bytes, but the file has "
                    "only {} bytes",
                    length, file_size));
  }
  if (length == 0) return bad_header("its header is empty; the smallest is {}");
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::uint8_t> header_json,
                                                   std::uint64_t file_size) {
  const std::string_view text(reinterpret_cast<const char*>(header_json.data()),
                              header_json.size());
  SafetensorsHeader header;
  header.data_start = 8 + header_json.size();
  if (header.data_start > file_size) {
    return bad_header(fmt::format("the header needs {} bytes, but the file has only {} bytes",
                                  header.data_start, file_size));
  }
  HeaderEvents events(header, file_size);
  Status read = read_json(
      text, [&](const JsonEvent& event) { return events.take(event); }, max_json_depth);
  if (!read) return bad_header(read.failure().message);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              if (a.begin != b.begin) return a.begin < b.begin;
              return a.end != b.end ? a.end < b.end : a.name < b.name;
            });
  if (Status covered = check_coverage(header, file_size); !covered) return covered.failure();
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(const InputFile& file) {
  // What is no safetensors file at all is told by its kind, else by what is wrong in the header.
  const auto in_file = [&](const Failure& failure) {
    const std::string what = explain_file(file.path());
    return Failure{failure.code,
                   what.empty() ? fmt::format("'{}': {}", file.path().string(), failure.message)
                                : fmt::format("'{}' {}", file.path().string(), what)};
  };
  if (file.size() < 8) {
    return in_file(bad_header(fmt::format(
        "it has {} bytes, too few for the 8 that begin a safetensors file", file.size())));
  }
  std::array<std::uint8_t, 8> prefix{};
  if (Status read = file.read_at(0, prefix); !read) return read.failure();
  const auto length = safetensors_header_length(prefix, file.size());
  if (!length) return in_file(length.failure());
  std::vector<std::uint8_t> header_json(length.value());
  if (Status read = file.read_at(8, header_json); !read) return read.failure();
  auto header = parse_safetensors_header(header_json, file.size());
  if (!header) return in_file(header.failure());
  return header;
}

}  // namespace microscale
