// What a block attends to: the keys of a sequence, and the rows of an item.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/args.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::attention::prefill {

/// Where eight elements of a row of a tile of `Rows` rows lie: those from 8 * piece on.
template <int Rows>
__device__ inline std::uint32_t prefill_place(std::uint32_t row, std::uint32_t piece) {
  return static_cast<std::uint32_t>(piece / 8 * (Rows * 128) + row / 8 * 1024 +
                                    token_tiles::piece_offset(row, piece % 8));
}

__device__ inline std::int64_t within(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/// Tokens [begin, begin + length) where sequences are packed, else begin is 0.
struct KeyRange {
  std::int64_t begin = 0;
  int length;

  __device__ KeyRange(const PrefillKeys& keys, int sequence) {
    std::int64_t count = keys.tokens;
    if (keys.lengths) count = keys.lengths[sequence];
    if (keys.offsets) {
      begin = within(keys.offsets[sequence], 0, keys.tokens);
      count = within(keys.offsets[sequence + 1], begin, keys.tokens) - begin;
    }
    length = static_cast<int>(within(count, 0, keys.most));
  }
};

/// Rows [first, first + count) of one sequence and kv head; tiles [tile_begin, tile_end) of its
/// keys are seen by some of them. All in registers or in shared memory.
struct alignas(16) PrefillItem {
  std::int64_t q_first;  // q's token of the sequence's first query, as batch * q_tokens + token
  std::int64_t record;   // its first tile, of all heads' tiles
  std::int32_t sequence, kv_head;
  std::int32_t length, q_length;
  std::int32_t first, count;  // 0: the end of all items
  std::int32_t tile_begin, tile_end;

  /// Items in the order in which they are taken: sections of heads one after the other, whose keys
  /// the second-level cache holds; in a section the last rows first, which see the most keys.
  __device__ static PrefillItem find(const AttentionPrefillArgs& args, int index) {
    PrefillItem item{};
    const int of_section = args.section * args.passes, section = index / of_section;
    const int heads = args.items / args.passes, first_head = section * args.section;
    const int width = min(args.section, heads - first_head), at = index - section * of_section;
    const int of_head = first_head + at % width;
    item.sequence = of_head / args.keys.heads;
    item.kv_head = of_head % args.keys.heads;
    item.first = (args.passes - 1 - at / width) * prefill_rows;
    std::int64_t begin = item.sequence * args.q_tokens, end = begin + args.q_tokens;
    if (args.q_offsets) {
      begin = within(args.q_offsets[item.sequence], 0, args.q_tokens);
      end = within(args.q_offsets[item.sequence + 1], begin, args.q_tokens);
    }
    item.q_first = begin;
    item.q_length = static_cast<int>(within(end - begin, 0, args.most_q));
    item.count = static_cast<int>(
        within(std::int64_t{item.q_length} * args.group - item.first, 0, prefill_rows));
    if (item.count == 0) return item;
    const KeyRange range(args.keys, item.sequence);
    item.length = range.length;
    item.record = item.kv_head * args.keys.all_tiles +
                  prefill_first_tile(args.keys, item.sequence, range.begin);
    const int keys = prefill_keys(args.keys.width), last = item.end(args, item.count - 1);
    item.tile_begin = item.begin(args, 0) / keys;
    item.tile_end = max((last + keys - 1) / keys, item.tile_begin);
    return item;
  }

  __device__ int position(const AttentionPrefillArgs& args, int row) const {
    return length - q_length + (first + row) / args.group;
  }
  /// Keys [begin, end) that a row sees; end may be below begin, or below 0.
  __device__ int begin(const AttentionPrefillArgs& args, int row) const {
    return args.window > 0 ? max(position(args, row) - args.window + 1, 0) : 0;
  }
  __device__ int end(const AttentionPrefillArgs& args, int row) const {
    return args.causal ? min(length, position(args, row) + 1) : length;
  }
  /// Of q's tokens, and of its heads.
  __device__ std::int64_t token(const AttentionPrefillArgs& args, int row) const {
    return q_first + (first + row) / args.group;
  }
  __device__ std::int64_t head(const AttentionPrefillArgs& args, int row) const {
    return static_cast<std::int64_t>(kv_head) * args.group + (first + row) % args.group;
  }
  /// With strides of any unit; with offsets q is one batch.
  template <class Rows>
  __device__ std::int64_t place(const AttentionPrefillArgs& args, const Rows& rows, int row) const {
    const std::int64_t batch = args.q_offsets ? 0 : sequence;
    return batch * rows.batch + (token(args, row) - batch * args.q_tokens) * rows.token +
           head(args, row) * rows.head;
  }
};

}  // namespace microscale::cuda::attention::prefill
