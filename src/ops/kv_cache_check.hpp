// Checks that attention and append_kv share: dense rows of heads, and the cache.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/memory_range.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale {

/// Refuses sizes, none of them negative, whose product (a 0 counts as 1) no memory has: what is
/// computed of them afterwards does not overflow.
void check_fits(const char* operation, const char* name, std::span<const std::int64_t> sizes);
inline void check_fits(const char* operation, const char* name,
                       std::initializer_list<std::int64_t> sizes) {
  check_fits(operation, name, std::span(sizes.begin(), sizes.size()));
}

/// Checks the view of a dense tensor; returns its memory.
MemoryRange check_heads(const char* operation, const char* name, const HeadsView& view,
                        bool on_device);

/// Throws Error{invalid_argument} unless `format` is an enumerator of KvFormat.
void check_kv_format(const char* operation, KvFormat format);

/// Checks what does not depend on lengths: format, sizes, parts, copies.
void check_cache(const char* operation, const KvCache& cache, bool on_device);

/// Refuses a cache to be written whose rows share bytes.
void check_rows_apart(const char* operation, const KvCache& cache);

/// Checks (on a host) that the entries of `sequence`'s row of the page table for positions [begin,
/// end) name pages.
void check_pages(const char* operation, const KvCache& cache, std::int64_t sequence,
                 std::int64_t begin, std::int64_t end);

}  // namespace microscale
