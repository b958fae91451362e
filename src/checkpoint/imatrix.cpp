#include "checkpoint/imatrix.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

#include "checkpoint/containers/gguf_header.hpp"
#include "checkpoint/containers/gguf_names.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

constexpr std::string_view sums = ".in_sum2";
// A model has a few thousand weights, with names of a few dozen letters.
constexpr std::int32_t most_weights = 1 << 20, longest_name = 512;

// Numbers of the binary form, one after the other.
class Reader {
 public:
  explicit Reader(const InputFile& file) : file_(file) {}
  std::uint64_t at() const { return at_; }
  bool skip(std::uint64_t bytes) {
    if (bytes > file_.size() - at_) return false;
    at_ += bytes;
    return true;
  }
  bool take(std::int32_t& number) {
    std::array<std::uint8_t, 4> bytes;
    if (file_.size() - at_ < bytes.size() || !file_.read_at(at_, bytes)) return false;
    std::memcpy(&number, bytes.data(), bytes.size());
    at_ += bytes.size();
    return true;
  }
  bool take(std::string& text, std::int32_t length) {
    text.resize(static_cast<std::size_t>(length));
    if (file_.size() - at_ < text.size()) return false;
    if (!file_.read_at(at_, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}))
      return false;
    at_ += text.size();
    return true;
  }

 private:
  const InputFile& file_;
  std::uint64_t at_ = 0;
};

}  // namespace

Result<std::optional<Imatrix>> Imatrix::open(const InputFile& file) {
  std::array<std::uint8_t, 4> first{};
  if (file.size() < first.size()) return std::optional<Imatrix>();
  if (Status read = file.read_at(0, first); !read) return read.failure();
  if (std::memcmp(first.data(), "GGUF", first.size()) != 0) return read_binary(file);
  auto found = read_gguf(file);
  if (!found) return found.failure();
  return std::optional<Imatrix>(std::move(found.value()));
}

Result<Imatrix> Imatrix::read_gguf(const InputFile& file) {
  auto header = read_gguf_header(file);
  if (!header) return header.failure();
  Imatrix imatrix;
  for (const GgufTensor& tensor : header.value().tensors) {
    if (!std::string_view(tensor.name).ends_with(sums) || tensor.type != GgufType::f32) continue;
    imatrix.weights_.emplace(
        tensor.name.substr(0, tensor.name.size() - sums.size()),
        Numbers{tensor.begin, static_cast<std::int64_t>(tensor.bytes() / sizeof(float))});
  }
  if (!imatrix.empty()) return imatrix;
  return Failure{ErrorCode::bad_input,
                 fmt::format("quantize: '{}' is a GGUF file without sums of squares "
                             "(<weight>.in_sum2); make one with llama-imatrix",
                             file.path().string())};
}

// A count; then for each weight the length of its name, the name, calls, a count and the numbers.
Result<std::optional<Imatrix>> Imatrix::read_binary(const InputFile& file) {
  Reader reader(file);
  std::int32_t weights = 0;
  if (!reader.take(weights) || weights <= 0 || weights > most_weights)
    return std::optional<Imatrix>();
  Imatrix imatrix;
  for (std::int32_t i = 0; i < weights; ++i) {
    std::int32_t length = 0, calls = 0, count = 0;
    std::string name;
    if (!reader.take(length) || length <= 0 || length > longest_name ||
        !reader.take(name, length) || (i == 0 && !name.ends_with(".weight")))
      break;
    if (!reader.take(calls) || !reader.take(count) || count <= 0) break;
    const std::uint64_t begin = reader.at();
    if (!reader.skip(static_cast<std::uint64_t>(count) * sizeof(float))) break;
    imatrix.weights_.emplace(std::move(name), Numbers{begin, count});
  }
  if (imatrix.empty()) return std::optional<Imatrix>();
  if (imatrix.weights_.size() == static_cast<std::size_t>(weights))
    return std::optional<Imatrix>(std::move(imatrix));
  return Failure{ErrorCode::bad_input,
                 fmt::format("quantize: '{}' begins as an importance matrix of llama.cpp with {} "
                             "weights and ends after {}; download or make it again",
                             file.path().string(), weights, imatrix.weights_.size())};
}

Result<std::optional<std::uint64_t>> Imatrix::find(const std::string& module,
                                                   std::int64_t cols) const {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3"}) {
    const auto place = gguf_place_of(architecture, module + ".weight");
    if (!place) continue;
    const auto found = weights_.find(place->name.name);
    if (found == weights_.end()) continue;
    const std::int64_t count = found->second.count, expert = place->expert.value_or(0);
    const bool fits =
        place->expert ? count % cols == 0 && (expert + 1) * cols <= count : count == cols;
    if (fits)
      return std::optional(found->second.begin +
                           static_cast<std::uint64_t>(expert * cols) * sizeof(float));
    return Failure{ErrorCode::bad_input,
                   fmt::format("quantize: the importance matrix has {} numbers for {}, and {} has "
                               "{} input columns; it is another model's",
                               count, in_quotes(found->first), in_quotes(module), cols)};
  }
  return std::optional<std::uint64_t>();
}

}  // namespace microscale
