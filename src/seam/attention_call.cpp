#include "seam/attention_call.hpp"

namespace microscale {
namespace {

std::int64_t tokens_of(const AttentionInput& input) {
  const auto* dense = std::get_if<HeadsView>(&input);
  return dense ? dense->tokens : std::get<BlockHeadsView>(input).tokens;
}

}  // namespace

std::int64_t AttentionCall::q_first(std::int64_t s) const {
  return options.q_offsets ? options.q_offsets[s] : s * tokens_of(options.q);
}
std::int64_t AttentionCall::q_length(std::int64_t s) const {
  return options.q_offsets ? options.q_offsets[s + 1] - options.q_offsets[s] : tokens_of(options.q);
}
std::int64_t AttentionCall::kv_first(std::int64_t s) const {
  return options.kv_offsets ? options.kv_offsets[s] : s * tokens_of(options.k);
}
std::int64_t AttentionCall::kv_length(std::int64_t s) const {
  if (cache()) return cache()->lengths[s];
  return options.kv_offsets ? options.kv_offsets[s + 1] - options.kv_offsets[s]
                            : tokens_of(options.k);
}

}  // namespace microscale
