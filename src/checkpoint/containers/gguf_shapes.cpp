#include "checkpoint/containers/gguf_shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_names.hpp"
#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

// A dimension that the metadata gives, or nothing. Products of what a file says fit in a double.
using Length = std::optional<double>;

struct Lengths {
  Length heads, hidden, inner, queries, keys, values, outputs, head, experts, expert_inner,
      vocabulary;
};

Length product(Length a, Length b) { return a && b ? Length(*a * *b) : std::nullopt; }

Lengths lengths_of(const GgufFile& file, std::string_view architecture) {
  const auto number = [&](const char* key) { return gguf_model_number(file, key); };
  const auto either = [](Length first, Length second) { return first ? first : second; };
  const Length heads = number("attention.head_count");
  const Length kv_heads = either(number("attention.head_count_kv"), heads);
  Lengths lengths;
  lengths.heads = heads;
  lengths.hidden = number("embedding_length");
  lengths.inner = number("feed_forward_length");
  lengths.experts = number("expert_count");
  lengths.expert_inner = number("expert_feed_forward_length");
  lengths.head = number("attention.key_length");
  if (architecture == "llama") lengths.head = either(lengths.head, number("rope.dimension_count"));
  if (!lengths.head && lengths.hidden && heads && *heads > 0)
    lengths.head = *lengths.hidden / *heads;
  const Length value = either(number("attention.value_length"), lengths.head);
  lengths.queries = product(heads, lengths.head);
  lengths.keys = product(kv_heads, lengths.head);
  lengths.values = product(kv_heads, value);
  lengths.outputs = product(heads, value);
  if (const GgufFile::Tensor* embedding = file.find("token_embd.weight")) {
    const auto& shape = embedding->entry->shape;
    if (shape.size() == 2) lengths.vocabulary = static_cast<double>(shape[0]);
  }
  return lengths;
}

// Of a weight, rows along the last dimension; empty: a norm of the hidden width.
std::vector<Length> wanted_shape(std::string_view part, const Lengths& is) {
  if (part == "token_embd" || part == "output") return {is.vocabulary, is.hidden};
  if (part == "attn_q") return {is.queries, is.hidden};
  if (part == "attn_k") return {is.keys, is.hidden};
  if (part == "attn_v") return {is.values, is.hidden};
  if (part == "attn_output") return {is.hidden, is.outputs};
  if (part == "attn_q_norm" || part == "attn_k_norm") return {is.head};
  if (part == "ffn_gate" || part == "ffn_up") return {is.inner, is.hidden};
  if (part == "ffn_down") return {is.hidden, is.inner};
  if (part == "attn_sinks") return {is.heads};
  if (part == "ffn_gate_inp") return {is.experts, is.hidden};
  if (part == "ffn_gate_exps" || part == "ffn_up_exps") {
    return {is.experts, is.expert_inner, is.hidden};
  }
  if (part == "ffn_down_exps") return {is.experts, is.hidden, is.expert_inner};
  return {is.hidden};
}

bool fits(const std::vector<std::int64_t>& shape, const std::vector<Length>& wanted) {
  if (shape.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (wanted[i] && static_cast<double>(shape[i]) != *wanted[i]) return false;
  }
  return true;
}

std::string in_words(const std::vector<Length>& wanted) {
  std::vector<std::string> parts;
  for (const Length& length : wanted) parts.push_back(length ? fmt::format("{}", *length) : "any");
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Status check(const GgufTensor& tensor, std::string_view architecture, const Lengths& lengths,
             Length layers) {
  const std::string_view name = tensor.name;
  const std::size_t dot = name.rfind('.');
  std::string_view part = name.substr(0, dot);
  if (part.starts_with("blk.")) {
    const std::size_t end = part.find('.', 4);
    double number = 0;
    std::from_chars(part.data() + 4, part.data() + end, number);
    if (layers && number >= *layers) {
      return Failure{ErrorCode::bad_input,
                     fmt::format("tensor {} is of layer {}, but {}.block_count says that there are "
                                 "only {}; download or make the file again",
                                 in_quotes(name), number, architecture, *layers)};
    }
    part = part.substr(end + 1);
  }
  std::vector<Length> wanted = wanted_shape(part, lengths);
  if (name.substr(dot) == ".bias") wanted.resize(part.ends_with("_exps") ? 2 : 1);
  if (fits(tensor.shape, wanted)) return success();
  return Failure{
      ErrorCode::bad_input,
      fmt::format("tensor {} is [{}], but by the file's metadata (widths, heads and experts of {}) "
                  "it is {}; download or make the file again",
                  in_quotes(name), fmt::join(tensor.shape, ", "), in_quotes(architecture),
                  in_words(wanted))};
}

}  // namespace

Status check_gguf_shapes(const GgufFile& file, std::string_view architecture) {
  const Lengths lengths = lengths_of(file, architecture);
  const Length layers = gguf_model_number(file, "block_count");
  for (const GgufFile::Tensor& tensor : file.tensors) {
    const std::string_view name = tensor.name();
    if (!name.ends_with(".weight") && !name.ends_with(".bias")) continue;  // scales
    if (!hugging_face_name(architecture, name)) continue;                  // rotary frequencies
    if (Status fits = check(*tensor.entry, architecture, lengths, layers); !fits) return fits;
  }
  return success();
}

}  // namespace microscale
