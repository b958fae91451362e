#include "cuda/attention/items.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/integers.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::attention {
namespace {

std::int64_t tokens_of(const AttentionInput& input) {
  const auto* dense = std::get_if<HeadsView>(&input);
  return dense ? dense->tokens : std::get<BlockHeadsView>(input).tokens;
}

std::int64_t at_most(std::int64_t count, std::int64_t bound) {
  return bound > 0 ? std::min(count, bound) : count;
}

}  // namespace

void refuse_attention(const std::string& sentence) {
  throw Error(ErrorCode::unsupported, fmt::format("attention: backend cuda {}", sentence));
}

Items items_of(const AttentionCall& call, int rows) {
  const AttentionOptions& o = call.options;
  const KvCache* cache = call.cache();
  Items items;
  items.rows = rows;
  items.most_q = at_most(tokens_of(o.q), o.max_q_len);
  items.most_keys = at_most(!cache             ? tokens_of(o.k)
                            : cache->pages > 0 ? cache_capacity(*cache)
                                               : 0,
                            o.max_kv_len);
  items.head_rows = items.most_q * call.group();
  items.passes = ceil_div(items.head_rows, std::int64_t{rows});
  items.count = call.sequences * call.kv_heads * items.passes;
  items.merged_rows = static_cast<int>(std::min<std::int64_t>(items.head_rows, rows));
  return items;
}

int best_splits(std::int64_t items, std::int64_t slots, std::int64_t pieces, int sharing,
                std::int64_t most, const SplitCosts& costs) {
  double least = 0;
  std::int64_t best = 1;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    // Blocks that merge wait beside those whose parts they add, or for a place behind them.
    const double rounds = static_cast<double>(ceil_div(items * splits, slots)),
                 own = static_cast<double>(ceil_div(pieces, splits * sharing)),
                 filled = static_cast<double>(items * (splits + costs.merging_blocks)) /
                          static_cast<double>(slots),
                 merge = costs.merge * (costs.merging_blocks > 0 ? std::max(1.0, filled) : 1.0) +
                         costs.part * static_cast<double>(splits),
                 time = rounds * (own + costs.block) + (splits > 1 ? merge : 0);
    if (splits == 1 || time < least) least = time, best = splits;
  }
  return static_cast<int>(best);
}

std::string describe(const Items& items) {
  return fmt::format("{} items of {} rows{}", items.count, items.rows,
                     items.splits > 1 ? fmt::format(" in {} parts", items.splits) : "");
}

}  // namespace microscale::cuda::attention
