#include "checkpoint/containers/gguf_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "checkpoint/file_kind.hpp"
#include "checkpoint/json.hpp"
#include "report/utf8.hpp"

namespace microscale {
namespace {

constexpr std::uint64_t first_read = 1 << 20;  // bytes; enough for most headers

// Goes through the header; the first complaint stays. Bytes that are in the file but not in `start`
// are no complaint: read_gguf_header reads more of them and begins anew.
class HeaderParser {
 public:
  HeaderParser(std::span<const std::uint8_t> start, std::uint64_t file_size)
      : start_(start), file_size_(file_size) {}

  bool parse(GgufHeader& header) {
    return parse_start(header) && parse_metadata(header) && parse_tensors(header) &&
           place_tensors(header);
  }

  bool wants_more() const { return wants_more_; }
  const std::string& problem() const { return problem_; }

 private:
  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool fail(const std::string& problem) {
    return refuse(problem +
                  "; the file is damaged or was written wrongly: download or make it "
                  "again");
  }

  // Whether `bytes` more are there; `what` they would be.
  bool has(std::uint64_t bytes, std::string_view what) {
    if (bytes > file_size_ - at_) {
      return fail(fmt::format("{} needs {} bytes at byte {}, but the file has only {}", what, bytes,
                              at_, file_size_));
    }
    if (bytes <= start_.size() - at_) return true;
    if (at_ + bytes > max_gguf_header) {
      return fail(fmt::format("its header is above the {} MiB allowed, at {} of {} bytes",
                              max_gguf_header >> 20, what, bytes));
    }
    wants_more_ = true;
    return false;
  }

  template <class T>
  bool read(T& value, std::string_view what) {
    if (!has(sizeof(T), what)) return false;
    std::memcpy(&value, start_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  bool read_text(std::string_view& text, std::string_view what) {
    std::uint64_t length = 0;
    if (!read(length, what) || !has(length, what)) return false;
    text = {reinterpret_cast<const char*>(start_.data() + at_), static_cast<std::size_t>(length)};
    at_ += length;
    return true;
  }

  // A count whose items take at least `least` bytes each.
  bool fits(std::uint64_t count, std::uint64_t least, std::string_view what) {
    if (count <= (file_size_ - at_) / least) return true;
    return fail(fmt::format("it announces {} {}, more than fit into a file of {} bytes", count,
                            what, file_size_));
  }

  bool parse_start(GgufHeader& header) {
    std::uint32_t magic = 0;
    if (!read(magic, "the beginning of a GGUF file")) return false;
    if (magic != 0x46554747) return fail("it does not begin with the letters GGUF");
    if (!read(header.version, "the version")) return false;
    if (header.version != 0 && (header.version & 0xFFFF) == 0) {
      return refuse(
          "it is a big-endian GGUF file, for machines of another kind; get the usual, "
          "little-endian one");
    }
    if (header.version < 2 || header.version > 3) {
      return refuse(
          fmt::format("it is of GGUF's version {}, and versions 2 and 3 are read; make it "
                      "again with a llama.cpp of these days",
                      header.version));
    }
    if (!read(tensor_count_, "the number of tensors") ||
        !read(value_count_, "the number of metadata values"))
      return false;
    return fits(tensor_count_, 24, "tensors") && fits(value_count_, 13, "metadata values");
  }

  bool parse_metadata(GgufHeader& header) {
    for (std::uint64_t i = 0; i < value_count_; ++i) {
      std::string_view key;
      std::uint32_t type = 0;
      const std::string what = fmt::format("metadata value {} of {}", i + 1, value_count_);
      if (!read_text(key, what)) return false;
      if (key.empty() || !is_utf8(key)) return fail(what + " has a key that is no UTF-8 text");
      const std::string named = "the metadata value " + in_quotes(key);
      GgufValue value;
      if (!read(type, named) || !read_value(type, value, named, 0)) return false;
      if (!keys_.insert(std::string(key)).second) return fail(named + " is there twice");
      header.metadata.emplace_back(key, value);
    }
    return read_alignment(header);
  }

  bool read_value(std::uint32_t type, GgufValue& value, const std::string& what, int depth) {
    value.type = static_cast<GgufValueType>(type);
    if (value.type == GgufValueType::string) {
      std::string_view text;
      if (!read_text(text, what)) return false;
      value.bytes = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
      return true;
    }
    if (value.type == GgufValueType::array) return read_array(value, what, depth);
    const std::uint64_t size = gguf_scalar_bytes(value.type);
    if (size == 0) return fail(fmt::format("{} has the unknown type {}", what, type));
    if (!has(size, what)) return false;
    value.bytes = start_.subspan(at_, size);
    if (value.type == GgufValueType::boolean && value.bytes[0] > 1) {
      return fail(fmt::format("{} is a truth value with the byte {}", what, value.bytes[0]));
    }
    at_ += size;
    return true;
  }

  bool read_array(GgufValue& value, const std::string& what, int depth) {
    if (depth == max_gguf_array_depth) {
      return fail(fmt::format("{} has arrays more than {} deep", what, max_gguf_array_depth));
    }
    std::uint32_t element = 0;
    if (!read(element, what) || !read(value.count, what)) return false;
    value.element = static_cast<GgufValueType>(element);
    const std::uint64_t begin = at_;
    if (const std::uint64_t size = gguf_scalar_bytes(value.element)) {
      if (!fits(value.count, size, "elements in " + what) || !has(value.count * size, what))
        return false;
      at_ += value.count * size;
    } else if (value.element == GgufValueType::string || value.element == GgufValueType::array) {
      const std::uint64_t least = value.element == GgufValueType::string ? 8 : 12;
      if (!fits(value.count, least, "elements in " + what)) return false;
      for (std::uint64_t i = 0; i < value.count; ++i) {
        GgufValue inner;
        if (!read_value(element, inner, what, depth + 1)) return false;
      }
    } else {
      return fail(fmt::format("{} is an array of the unknown type {}", what, element));
    }
    value.bytes = start_.subspan(begin, at_ - begin);
    return true;
  }

  bool read_alignment(GgufHeader& header) {
    const GgufValue* stated = header.find("general.alignment");
    if (!stated) return true;
    const auto alignment = stated->whole();
    if (!alignment || *alignment == 0 || (*alignment & (*alignment - 1)) != 0 ||
        *alignment > max_gguf_header) {
      return fail(fmt::format("its general.alignment is {}, which is no power of two up to 2^28",
                              in_quotes(stated->shown())));
    }
    header.alignment = *alignment;
    return true;
  }

  bool parse_tensors(GgufHeader& header) {
    std::unordered_set<std::string> names;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      const std::string what =
          fmt::format("the description of tensor {} of {}", i + 1, tensor_count_);
      std::string_view name;
      if (!read_text(name, what)) return false;
      if (name.empty() || !is_utf8(name)) return fail(what + " has a name that is no UTF-8 text");
      GgufTensor tensor;
      tensor.name = name;
      if (!read_shape(tensor) || !read_place(header, tensor)) return false;
      if (!names.insert(tensor.name).second) return of_tensor(tensor, "is there twice");
      header.tensors.push_back(std::move(tensor));
    }
    return true;
  }

  bool of_tensor(const GgufTensor& tensor, const std::string& problem) {
    return fail(fmt::format("tensor {} {}", in_quotes(tensor.name), problem));
  }

  bool read_shape(GgufTensor& tensor) {
    const std::string what = "tensor " + in_quotes(tensor.name);
    std::uint32_t rank = 0;
    if (!read(rank, what)) return false;
    if (rank > max_gguf_rank) {
      return of_tensor(tensor,
                       fmt::format("has {} dimensions, more than GGUF's {}", rank, max_gguf_rank));
    }
    tensor.shape.resize(rank);
    for (std::uint32_t i = rank; i-- > 0;) {
      if (!read(tensor.shape[i], what)) return false;
    }
    return true;
  }

  // Its type and its offset; how many bytes it has follows.
  bool read_place(const GgufHeader& header, GgufTensor& tensor) {
    const std::string what = "tensor " + in_quotes(tensor.name);
    std::uint32_t type = 0;
    if (!read(type, what) || !read(tensor.begin, what)) return false;
    const GgufTypeInfo* known = find_gguf_type(type);
    if (!known) {
      return refuse(
          fmt::format("{} is of type {}, {}", what, type, explain_unknown_gguf_type(type)));
    }
    tensor.type = known->type;
    const auto bytes = gguf_bytes(tensor.type, tensor.shape);
    if (!bytes) return of_tensor(tensor, "has an impossible size: " + bytes.failure().message);
    if (bytes.value() > file_size_ || tensor.begin > file_size_) {
      return of_tensor(tensor, fmt::format("has {} bytes at offset {}, but the file has only {}",
                                           bytes.value(), tensor.begin, file_size_));
    }
    if (tensor.begin % header.alignment != 0) {
      return of_tensor(tensor, fmt::format("is at offset {}, which is no multiple of the {} bytes "
                                           "of general.alignment",
                                           tensor.begin, header.alignment));
    }
    tensor.end = tensor.begin + bytes.value();
    return true;
  }

  // Offsets count from behind the header and its padding; no tensor ends behind the file or lies on
  // another.
  bool place_tensors(GgufHeader& header) {
    header.data_start = (at_ + header.alignment - 1) / header.alignment * header.alignment;
    for (GgufTensor& tensor : header.tensors) {
      tensor.begin += header.data_start;
      tensor.end += header.data_start;
      if (tensor.bytes() != 0 && tensor.end > file_size_) {
        return of_tensor(tensor,
                         fmt::format("ends at byte {}, but the file has only {}: the download "
                                     "is not complete",
                                     tensor.end, file_size_));
      }
    }
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : header.tensors) {
      if (tensor.bytes() != 0) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->name < b->name;
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->begin < order[i - 1]->end) {
        return of_tensor(*order[i], "overlaps " + in_quotes(order[i - 1]->name));
      }
    }
    return find_holes(header, order);
  }

  // Bytes of no tensor are those of one that the table has lost, or made smaller. Between tensors
  // lies nothing but padding.
  bool find_holes(const GgufHeader& header, const std::vector<const GgufTensor*>& order) {
    constexpr const char* hole =
        "{} bytes {} belong to no tensor, where only padding may be: the table of tensors does not "
        "fit the data";
    std::uint64_t end = header.data_start;
    for (const GgufTensor* tensor : order) {
      if (tensor->begin - end >= header.alignment) {
        return fail(fmt::format(fmt::runtime(hole), tensor->begin - end,
                                "before tensor " + in_quotes(tensor->name)));
      }
      end = tensor->end;
    }
    if (file_size_ >= end && file_size_ - end >= header.alignment) {
      return fail(fmt::format(fmt::runtime(hole), file_size_ - end, "behind the last tensor"));
    }
    return true;
  }

  const std::span<const std::uint8_t> start_;
  const std::uint64_t file_size_;
  std::uint64_t at_ = 0, tensor_count_ = 0, value_count_ = 0;
  std::unordered_set<std::string> keys_;
  bool wants_more_ = false;
  std::string problem_;
};

// Nothing where more of the file has to be read first.
std::optional<Result<GgufHeader>> try_parse(std::vector<std::uint8_t>& start,
                                            std::uint64_t file_size) {
  GgufHeader header;
  HeaderParser parser(start, file_size);
  if (parser.parse(header)) {
    header.bytes = std::move(start);  // keeps the values' views
    return header;
  }
  if (parser.wants_more()) return std::nullopt;
  return Failure{ErrorCode::bad_input, parser.problem()};
}

}  // namespace

const GgufValue* GgufHeader::find(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<GgufHeader> parse_gguf_header(std::vector<std::uint8_t> start, std::uint64_t file_size) {
  if (auto parsed = try_parse(start, file_size)) return std::move(*parsed);
  return Failure{ErrorCode::bad_input,
                 fmt::format("its header goes on after the {} bytes given", start.size())};
}

Result<GgufHeader> read_gguf_header(const InputFile& file) {
  std::vector<std::uint8_t> start;
  for (std::uint64_t wanted = first_read;; wanted *= 4) {
    const std::uint64_t had = start.size();
    start.resize(std::min({wanted, file.size(), max_gguf_header}));
    if (Status read = file.read_at(had, std::span(start).subspan(had)); !read)
      return read.failure();
    auto parsed = try_parse(start, file.size());
    if (!parsed) continue;
    if (*parsed) return std::move(*parsed);
    const std::string what = explain_misdownload(file.path());
    return Failure{parsed->failure().code,
                   what.empty()
                       ? fmt::format("'{}': {}", file.path().string(), parsed->failure().message)
                       : fmt::format("'{}' {}", file.path().string(), what)};
  }
}

}  // namespace microscale
