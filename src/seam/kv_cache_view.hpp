// What follows from the view of a cache, or of rows of heads, alone.
#pragma once

#include <cstdint>
#include <vector>

#include "seam/matmul_kernels.hpp"
#include "core/memory_range.hpp"
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

/// The memory of the cache's parts and copies, which an append writes.
void cache_memory(const KvCache& cache, std::vector<MemoryRange>& ranges);
/// And of what else it has: lengths, page table, global scales, the mean of K; some of it null.
void cache_tables(const KvCache& cache, std::vector<MemoryRange>& ranges);

/// Tokens that the pages of one sequence can hold.
std::int64_t cache_capacity(const KvCache& cache);

/// The page of an entry of a sequence's row of the table.
std::int64_t page_of(const KvCache& cache, std::int64_t sequence, std::int64_t entry);

/// Rows of K or V of one page and head, from token `token` on, without global scale.
MatmulRows page_rows(const KvCache& cache, const KvPart& codes, const KvPart& scales,
                     std::int64_t page, std::int64_t head, std::int64_t token);

/// "nvfp4", "mxfp4", "mxfp8" or "fp8".
const char* name_of(KvFormat format);

/// The format whose codes and block scales the cache has; fp8: mxfp8_e4m3.
Format block_format(KvFormat format);

}  // namespace microscale
