// Where each token comes from and where it goes. Lane r of a warp computes that of the warp's token
// r; the other lanes get it by shuffles.
#pragma once

#include <cstdint>

#include "cuda/append_kv/args.hpp"

namespace microscale::cuda::append {

/// Where a row goes.
struct Target {
  std::uint8_t* codes = nullptr;  // null: it is left out
  std::uint8_t* scales = nullptr;
  int position = 0;  // in its sequence
};
/// And its copies in BF16; null: it is not copied there.
struct Copies {
  std::uint16_t* first = nullptr;
  std::uint16_t* recent = nullptr;
};

/// The last sequence that begins at or before a token of k; whether it has the token is for the
/// caller to see.
__device__ inline int sequence_of(const Args& args, int token) {
  if (!args.offsets)
    return static_cast<int>(static_cast<unsigned>(token) / static_cast<unsigned>(args.tokens));
  int low = 0, high = args.sequences - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (args.offsets[middle] <= token)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Element of k or v where a token's row begins: known before it is known where it goes. A token
/// that there is not reads the first.
__device__ inline std::int64_t source_of(const Args& args, const Side& side, int token, int head) {
  if (token >= args.all_tokens) token = 0;
  const int sequence = args.offsets ? 0 : sequence_of(args, token);
  return head * side.head + sequence * side.batch +
         (token - static_cast<std::int64_t>(sequence) * args.tokens) * side.token;
}

struct Position {
  int sequence = 0;
  std::int64_t length = 0, position = -1;  // -1: the token has no place in its sequence
};

/// A token of no sequence, or beyond what a sequence holds (or RoPE's tables), has no place.
__device__ inline Position position_of(const Args& args, const Side& side, int token) {
  Position at;
  if (token >= args.all_tokens) return at;
  at.sequence = sequence_of(args, token);
  std::int64_t begin = static_cast<std::int64_t>(at.sequence) * args.tokens,
               end = begin + args.tokens;
  if (args.offsets) begin = args.offsets[at.sequence], end = args.offsets[at.sequence + 1];
  if (token < begin || token >= end) return at;
  at.length = args.lengths[at.sequence];
  const std::int64_t position = at.length - (end - token);
  const bool turned = side.transformed && args.cos;
  if (position < args.capacity && !(turned && position >= args.rope_positions))
    at.position = position < 0 ? -1 : position;
  return at;
}

/// A token without a place, or of a page that there is not, is left out.
__device__ inline Target target_of(const Args& args, const Side& side, int token, int head) {
  Target target;
  const Position at = position_of(args, side, token);
  if (at.position < 0) return target;
  std::int64_t page = at.sequence;
  if (args.page_table)
    page = args.page_table[at.sequence * args.max_pages + (at.position >> args.page_shift)];
  if (page < 0 || page >= args.pages) return target;
  const std::int64_t in_page = at.position & ((std::int64_t{1} << args.page_shift) - 1);
  const auto place = [&](const Part& part) {
    return part.data + page * part.page + head * part.head + in_page * part.token;
  };
  target.position = static_cast<int>(at.position);
  target.codes = place(side.codes);
  target.scales = place(side.scales);
  return target;
}

/// Of a token that is not left out.
__device__ inline Copies copies_of(const Args& args, const Side& side, int token, int head) {
  Copies copies;
  const Position at = position_of(args, side, token);
  const auto place = [&](std::uint16_t* data, int count, std::int64_t index) {
    const std::int64_t token_of_copies = static_cast<std::int64_t>(at.sequence) * count + index;
    return data + (token_of_copies * args.kv_heads + head) * args.d;
  };
  if (at.position < args.first_count)
    copies.first = place(side.first, args.first_count, at.position);
  if (at.position >= at.length - args.recent_count)  // never of 0: positions are below the length
    copies.recent =
        place(side.recent, args.recent_count,
              static_cast<unsigned>(at.position) % static_cast<unsigned>(args.recent_count));
  return copies;
}

}  // namespace microscale::cuda::append
