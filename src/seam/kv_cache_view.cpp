#include "seam/kv_cache_view.hpp"

#include <array>

#include "layouts/kv_page.hpp"

namespace microscale {

void cache_memory(const KvCache& cache, std::vector<MemoryRange>& ranges) {
  const auto add = [&](const char* name, const KvPart& part, std::int64_t row_bytes) {
    if (part.data == nullptr || cache.pages == 0) return;
    ranges.push_back({name, part.data,
                      (cache.pages - 1) * part.page_stride +
                          (cache.kv_heads - 1) * part.head_stride +
                          (cache.page_size - 1) * part.token_stride + row_bytes});
  };
  const std::int64_t code_bytes = kv_page::token_code_bytes(cache.format, cache.d),
                     scale_bytes = kv_page::token_scale_bytes(cache.format, cache.d);
  add("the cache's K codes", cache.k_codes, code_bytes);
  add("the cache's V codes", cache.v_codes, code_bytes);
  if (scale_bytes > 0) {
    add("the cache's K scales", cache.k_scales, scale_bytes);
    add("the cache's V scales", cache.v_scales, scale_bytes);
  }
  for (const KvCopies& copies : {cache.first, cache.recent}) {
    if (copies.count == 0) continue;
    const std::int64_t bytes = cache.batch * copies.count * cache.kv_heads * cache.d * 2;
    ranges.push_back({"the cache's BF16 copies of K", copies.k, bytes});
    ranges.push_back({"the cache's BF16 copies of V", copies.v, bytes});
  }
}

void cache_tables(const KvCache& cache, std::vector<MemoryRange>& ranges) {
  ranges.push_back({"the cache's page table", cache.page_table, cache.batch * cache.max_pages * 4});
  ranges.push_back({"the cache's lengths", cache.lengths, cache.batch * 4});
  const bool global = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  ranges.push_back(
      {"the cache's global scales", global ? cache.k_global_scale.device_pointer() : nullptr, 8});
  ranges.push_back({"the mean of K", cache.k_mean, cache.kv_heads * cache.d * 4});
}

std::int64_t cache_capacity(const KvCache& cache) {
  return cache.page_table ? cache.max_pages * cache.page_size : cache.page_size;
}

std::int64_t page_of(const KvCache& cache, std::int64_t sequence, std::int64_t entry) {
  return cache.page_table ? cache.page_table[sequence * cache.max_pages + entry] : sequence;
}

const char* name_of(KvFormat format) {
  static constexpr const char* names[] = {"nvfp4", "mxfp4", "mxfp8", "fp8"};
  return names[static_cast<std::size_t>(format)];
}

Format block_format(KvFormat format) {
  switch (format) {
    case KvFormat::nvfp4:
      return Format::nvfp4;
    case KvFormat::mxfp4:
      return Format::mxfp4;
    case KvFormat::mxfp8:
    case KvFormat::fp8:
      break;
  }
  return Format::mxfp8_e4m3;
}

MatmulRows page_rows(const KvCache& cache, const KvPart& codes, const KvPart& scales,
                     std::int64_t page, std::int64_t head, std::int64_t token) {
  // E8M0 of 1 for every block of a row without block scales.
  static constexpr std::array<std::uint8_t, kv_page::largest_d / 32> ones = [] {
    std::array<std::uint8_t, kv_page::largest_d / 32> bytes{};
    bytes.fill(127);
    return bytes;
  }();
  const auto at = [&](const KvPart& part) {
    return part.data + page * part.page_stride + head * part.head_stride +
           token * part.token_stride;
  };
  MatmulRows rows;
  rows.format = block_format(cache.format);
  rows.data = at(codes);
  rows.stride = codes.token_stride;
  rows.scales = cache.format == KvFormat::fp8 ? ones.data() : at(scales);
  rows.scale_stride = cache.format == KvFormat::fp8 ? 0 : scales.token_stride;
  return rows;
}

}  // namespace microscale
