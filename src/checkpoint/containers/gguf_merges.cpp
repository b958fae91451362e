// merges_of: what the tokenizers library wants listed, and SentencePiece leaves to its scores.
#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "checkpoint/containers/gguf_tokenizer.hpp"

namespace microscale {
namespace {

constexpr std::size_t longest_token = 512;  // bytes; longer ones are merged from nothing

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

struct Candidate {
  std::uint32_t token, left, right;  // numbers of tokens
  std::size_t left_length, right_length;
};

}  // namespace

std::vector<Merge> merges_of(const std::vector<std::string_view>& tokens,
                             const std::vector<float>& scores) {
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  numbers.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    numbers.emplace(tokens[i], static_cast<std::uint32_t>(i));
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    if (numbers[token] != i || token.size() > longest_token) continue;
    const std::size_t begin = found.size();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if (!begins_character(token[cut])) continue;
      const auto left = numbers.find(token.substr(0, cut));
      const auto right = numbers.find(token.substr(cut));
      if (left == numbers.end() || right == numbers.end()) continue;
      found.push_back({static_cast<std::uint32_t>(i), left->second, right->second,
                       characters(left->first), characters(right->first)});
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(begin), found.end(),
              [](const Candidate& a, const Candidate& b) {
                return a.left != b.left ? a.left < b.left : a.right < b.right;
              });
  }
  std::stable_sort(found.begin(), found.end(), [&](const Candidate& a, const Candidate& b) {
    if (scores[a.token] != scores[b.token]) return scores[a.token] > scores[b.token];
    if (a.left_length != b.left_length) return a.left_length > b.left_length;
    return a.right_length > b.right_length;
  });
  std::vector<Merge> merges;
  merges.reserve(found.size());
  for (const Candidate& pair : found) merges.push_back({tokens[pair.left], tokens[pair.right]});
  return merges;
}

}  // namespace microscale
