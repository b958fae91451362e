// How every family of attention kernels cuts a call: into items, and the keys of an item into
// parts.
//
// A row is a query of one query head, row = query * group + head in the group. An item is a run of
// rows of one sequence and kv head. The keys of an item may be cut into parts, each for a thread
// block; their sums are merged.
#pragma once

#include <cstdint>
#include <numbers>
#include <string>

#include "cuda/device/kernel_types.hpp"
#include "seam/attention_call.hpp"
#include "seam/kv_cache_view.hpp"

namespace microscale::cuda::attention {

/// Throws Error{unsupported}: what attention on a GPU does instead, and what to take.
[[noreturn]] void refuse_attention(const std::string& sentence);

struct Items {
  std::int64_t most_q = 0, most_keys = 0;  // of a sequence, that are taken
  int rows = 0;                            // of an item
  std::int64_t head_rows = 0;              // of a sequence and kv head, at most
  std::int64_t passes = 0;                 // items of a sequence and kv head
  std::int64_t count = 0;                  // items of the call
  int merged_rows = 0;                     // of an item, at most
  int splits = 1;                          // parts of the keys
};
/// Items of `rows` rows, in one part. Queries and keys are bounded by the tensors, by the pages of
/// a sequence, and by max_q_len and max_kv_len.
Items items_of(const AttentionCall& call, int rows);

/// Counted in pieces, as many keys as a kernel computes at once.
struct SplitCosts {
  double block;                     // of a block, besides its pieces
  double merge;                     // of merging
  double part = 0;                  // of merging, for each part
  std::int64_t merging_blocks = 0;  // of an item, behind those of the parts
};
/// The number of parts, 1 to `most`, with the least time: that of all rounds of blocks, and of
/// merging, longer as far as the blocks that do it are more than fit beside the parts'. `slots`:
/// blocks that the device holds at once; `pieces`: of an item, at most; `sharing`: warps of a block
/// that have pieces of their own, or 1.
int best_splits(std::int64_t items, std::int64_t slots, std::int64_t pieces, int sharing,
                std::int64_t most, const SplitCosts& costs);

/// "7 items of 16 rows in 3 parts"
std::string describe(const Items& items);

/// Sets what all families' arguments have of a call but its memory.
template <class Args>
void set_shape(Args& args, const AttentionCall& call, const Items& items) {
  const AttentionOptions& o = call.options;
  const MutableHeadsView output = with_strides(o.output);
  args.output = {nullptr, output.batch_stride, output.token_stride, output.head_stride,
                 static_cast<std::int32_t>(output.dtype)};
  args.q_tokens = output.tokens;
  args.most_q = items.most_q;
  args.softcap_log2 = static_cast<float>(o.softcap * std::numbers::log2e);
  args.causal = o.causal;
  args.group = static_cast<std::int32_t>(call.group());
  args.items = static_cast<std::int32_t>(items.count);
  args.passes = static_cast<std::int32_t>(items.passes);
}
/// The same of those whose keys may be cut into parts.
template <class Args>
void set_parts_shape(Args& args, const AttentionCall& call, const Items& items) {
  set_shape(args, call, items);
  args.most_keys = items.most_keys;
  args.scale_log2 = static_cast<float>(call.scale * std::numbers::log2e);
  args.window = call.options.window;
  args.q_heads = static_cast<std::int32_t>(call.q_heads);
  args.kv_heads = static_cast<std::int32_t>(call.kv_heads);
  args.d = static_cast<std::int32_t>(call.d);
  args.splits = items.splits;
  args.merged_rows = items.merged_rows;
  args.by_kv_heads = divisor(args.kv_heads);
  args.by_group = divisor(args.group);
  args.by_passes = divisor(args.passes);
  args.by_splits = divisor(args.splits);
}
/// Sets the memory that all families' arguments have of a call.
template <class Args>
void set_memory(Args& args, const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  args.output.data = o.output.data;
  args.log_sum_exp = o.log_sum_exp;
  args.sinks = o.sinks;
  args.q_offsets = o.q_offsets;
}

}  // namespace microscale::cuda::attention
