// Checks that attention and append_kv share: dense rows of heads, and the cache.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/matmul_kernels.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale {

/// Strides of a view whose 0s mean packed.
template <class View>
View with_strides(View view) {
  if (view.head_stride == 0) view.head_stride = view.d;
  if (view.token_stride == 0) view.token_stride = view.heads * view.head_stride;
  if (view.batch_stride == 0) view.batch_stride = view.tokens * view.token_stride;
  return view;
}

/// Memory that a call reads or writes, to find overlaps.
struct MemoryRange {
  const char* name;
  const void* begin;
  std::int64_t bytes;
};
/// Refuses sizes, none of them negative, whose product (a 0 counts as 1) no memory has: what is
/// computed of them afterwards does not overflow.
void check_fits(const char* operation, const char* name, std::span<const std::int64_t> sizes);
inline void check_fits(const char* operation, const char* name,
                       std::initializer_list<std::int64_t> sizes) {
  check_fits(operation, name, std::span(sizes.begin(), sizes.size()));
}

/// Refuses an `output` that overlaps one of `others`.
void check_apart(const char* operation, const MemoryRange& output,
                 std::span<const MemoryRange> others);

/// Checks the view of a dense tensor; returns its memory.
MemoryRange check_heads(const char* operation, const char* name, const HeadsView& view,
                        bool on_device);

/// Checks what does not depend on lengths: format, sizes, parts, copies.
void check_cache(const char* operation, const KvCache& cache, bool on_device);

/// Refuses a cache to be written whose rows share bytes.
void check_rows_apart(const char* operation, const KvCache& cache);

/// The memory of the cache's parts and copies.
void cache_memory(const KvCache& cache, std::vector<MemoryRange>& ranges);

/// Checks (on a host) that the entries of `sequence`'s row of the page table for positions [begin,
/// end) name pages.
void check_pages(const char* operation, const KvCache& cache, std::int64_t sequence,
                 std::int64_t begin, std::int64_t end);

/// Tokens that the pages of one sequence can hold.
std::int64_t cache_capacity(const KvCache& cache);

/// The page of an entry of a sequence's row of the table.
std::int64_t page_of(const KvCache& cache, std::int64_t sequence, std::int64_t entry);

/// Rows of K or V of one page and head, from token `token` on, without global scale.
MatmulRows page_rows(const KvCache& cache, const KvPart& codes, const KvPart& scales,
                     std::int64_t page, std::int64_t head, std::int64_t token);

/// The format whose codes and block scales the cache has; fp8: mxfp8_e4m3.
Format block_format(KvFormat format);

}  // namespace microscale
