// Where a token's codes and scales lie in a page of the key/value cache; the same sums on a host
// and in a kernel.
//
// A record belongs to one page and one kv head. For d = 128 and pages of 16 tokens in NVFP4:
//
//   byte     0          1024        1152         2176        2304
//            K codes    K scales    V codes      V scales    next head
//            16 x 64    16 x 8      16 x 64      16 x 8
//
// Tokens follow each other inside a part. d is a multiple of 32 and a page a multiple of 16 tokens,
// so every part is a multiple of 16 bytes.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "microscale/kv_format.hpp"

namespace microscale::kv_page {

inline constexpr std::int64_t alignment = 16;  // bytes, of every part of a record
inline constexpr std::int64_t least_tokens = 16;
inline constexpr std::int64_t largest_d = 256, d_step = 32;

MICROSCALE_HD constexpr int code_bits(KvFormat format) {
  return format == KvFormat::nvfp4 || format == KvFormat::mxfp4 ? 4 : 8;
}
/// Elements that share a scale; 0: no block scales.
MICROSCALE_HD constexpr int block(KvFormat format) {
  return format == KvFormat::nvfp4 ? 16 : format == KvFormat::fp8 ? 0 : 32;
}

/// Bytes of one token's K (or V) of one head.
MICROSCALE_HD constexpr std::int64_t token_code_bytes(KvFormat format, std::int64_t d) {
  return d * code_bits(format) / 8;
}
MICROSCALE_HD constexpr std::int64_t token_scale_bytes(KvFormat format, std::int64_t d) {
  return format == KvFormat::fp8 ? 0 : d / block(format);
}

/// Where the parts of a record begin, in bytes, and what it takes.
struct Record {
  std::int64_t k_codes, k_scales, v_codes, v_scales, bytes;
};
MICROSCALE_HD constexpr Record record(KvFormat format, std::int64_t page_size, std::int64_t d) {
  const std::int64_t codes = page_size * token_code_bytes(format, d);
  const std::int64_t scales = page_size * token_scale_bytes(format, d);
  return {0, codes, codes + scales, 2 * codes + scales, 2 * (codes + scales)};
}

/// A token of a sequence: which entry of the page table, and which token of that page.
struct Place {
  std::int64_t entry, token;
};
MICROSCALE_HD constexpr Place place(std::int64_t position, std::int64_t page_size) {
  return {position / page_size, position % page_size};
}

/// Table entries (pages) that `length` tokens take.
MICROSCALE_HD constexpr std::int64_t entries(std::int64_t length, std::int64_t page_size) {
  return (length + page_size - 1) / page_size;
}

/// Where a position is read: its BF16 copy, if there is one, else the page.
enum class Source : std::uint8_t { first, recent, page };
struct Slot {
  Source source;
  std::int64_t index;  // of the copy
};
MICROSCALE_HD constexpr Slot slot(std::int64_t position, std::int64_t length, std::int64_t first,
                                  std::int64_t recent) {
  if (position < first) return {Source::first, position};
  if (position >= length - recent) return {Source::recent, position % recent};
  return {Source::page, 0};
}

/// The positions [begin, end) that are read from pages; end >= begin.
struct Range {
  std::int64_t begin, end;
};
MICROSCALE_HD constexpr Range paged_positions(std::int64_t length, std::int64_t first,
                                              std::int64_t recent) {
  const std::int64_t begin = first < length ? first : length, end = length - recent;
  return {begin, end > begin ? end : begin};
}

}  // namespace microscale::kv_page
