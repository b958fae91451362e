#include "checkpoint/containers/gguf_splits.hpp"

namespace microscale {
namespace {

constexpr std::string_view contractions_letters_digits3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view contractions_letters_digit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view cased_letters =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view cased_letters_contractions =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Named {
  std::string_view pre;
  GgufSplit split;
};

// The first of several that cut alike is the one that is written.
constexpr Named splits[] = {
    {"gpt-2", {}},
    {"gpt2", {}},
    {"default", {}},
    {"smollm", {.expression = "", .single_digits = true}},
    {"starcoder", {.expression = "", .single_digits = true}},
    {"llama-bpe", {.expression = contractions_letters_digits3, .whole_tokens = true}},
    {"llama3", {.expression = contractions_letters_digits3, .whole_tokens = true}},
    {"llama-v3", {.expression = contractions_letters_digits3, .whole_tokens = true}},
    {"falcon3", {.expression = contractions_letters_digits3}},
    {"pixtral", {.expression = contractions_letters_digits3}},
    {"smaug-bpe", {.expression = contractions_letters_digits3, .whole_tokens = true}},
    {"qwen2", {.expression = contractions_letters_digit, .nfc = true}},
    {"deepseek-r1-qwen", {.expression = contractions_letters_digit, .nfc = true}},
    {"megrez", {.expression = contractions_letters_digit, .nfc = true}},
    {"tekken", {.expression = cased_letters, .whole_tokens = true}},
    {"gpt-4o", {.expression = cased_letters_contractions}},
    {"llama4", {.expression = cased_letters_contractions}},
};

}  // namespace

std::optional<GgufSplit> find_gguf_split(std::string_view pre) {
  for (const Named& named : splits) {
    if (named.pre == pre) return named.split;
  }
  return std::nullopt;
}

std::optional<std::string_view> gguf_pre_of(const GgufSplit& split) {
  for (const Named& named : splits) {
    if (named.split == split) return named.pre;
  }
  for (const Named& named : splits) {
    const GgufSplit& known = named.split;
    if (known.expression == split.expression && known.single_digits == split.single_digits) {
      return named.pre;
    }
  }
  return std::nullopt;
}

}  // namespace microscale
