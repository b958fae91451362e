// Caches that own their memory, in each layout there is.
#pragma once

#include <numeric>
#include <random>
#include <vector>

#include "layouts/kv_page.hpp"
#include "microscale/kv_cache.hpp"
#include "support/attention.hpp"

namespace microscale::test {

enum class CacheLayout {
  records,
  contiguous,
  nhd,
  hnd,
  joined
};  // joined: [pages, 2, page, heads, w]

/// Pages are filled with 0xFF before anything is written: NaN in every format.
struct OwnedCache {
  std::vector<std::uint8_t> memory, k_codes, k_scales, v_codes, v_scales;
  std::vector<std::int32_t> table, lengths;
  std::vector<std::uint16_t> first_k, first_v, recent_k, recent_v;
  std::vector<float> mean;
  KvCache view;

  OwnedCache(KvFormat format, CacheLayout layout, std::int64_t batch, std::int64_t kv_heads,
             std::int64_t d, std::int64_t page_size, std::int64_t capacity) {
    const bool paged = layout != CacheLayout::contiguous;
    if (!paged) page_size = (capacity + 15) / 16 * 16;
    const std::int64_t per_sequence = paged ? kv_page::entries(capacity, page_size) : 1;
    const std::int64_t pages = batch * per_sequence + (paged ? 3 : 0);
    const KvPageShape shape{format, kv_heads, d, page_size};
    if (layout == CacheLayout::records || layout == CacheLayout::contiguous) {
      memory.assign(static_cast<std::size_t>(pages * shape.page_bytes()), 0xFF);
      view = kv_cache_of_records(shape, memory);
    } else {
      view.format = format;
      view.kv_heads = kv_heads;
      view.d = d;
      view.page_size = page_size;
      view.pages = pages;
      split(layout, kv_page::token_code_bytes(format, d), k_codes, v_codes, view.k_codes,
            view.v_codes);
      split(layout, kv_page::token_scale_bytes(format, d), k_scales, v_scales, view.k_scales,
            view.v_scales);
    }
    view.batch = batch;
    lengths.assign(static_cast<std::size_t>(batch), 0);
    view.lengths = lengths.data();
    if (!paged) return;
    table.resize(static_cast<std::size_t>(pages));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(5));
    view.page_table = table.data();
    view.max_pages = per_sequence;
  }
  OwnedCache(const OwnedCache&) = delete;

  void keep(std::int64_t first, std::int64_t recent) {
    const auto make = [&](std::vector<std::uint16_t>& copies, std::int64_t count) {
      copies.assign(static_cast<std::size_t>(view.batch * count * view.kv_heads * view.d), 0xFFFF);
      return copies.data();
    };
    view.first = {first, make(first_k, first), make(first_v, first)};
    view.recent = {recent, make(recent_k, recent), make(recent_v, recent)};
  }
  void set_mean(std::vector<float> values) {
    mean = std::move(values);
    view.k_mean = mean.data();
  }
  /// Appends tokens [begin, end) of every sequence.
  void append(const Heads& k, const Heads& v, std::int64_t begin, std::int64_t end,
              AppendKvOptions options = {}) {
    for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(end);
    const auto part = [&](const Heads& h) {
      HeadsView view_of = h.view();
      view_of.batch_stride = h.tokens * h.heads * h.d;
      view_of.data = h.bytes.data() + begin * h.heads * h.d * size_of(h.dtype);
      view_of.tokens = end - begin;
      return view_of;
    };
    options.cache = view;
    options.k = part(k);
    options.v = part(v);
    append_kv(options);
  }
  /// One token's row of codes or scales.
  const std::uint8_t* row(const KvPart& part, std::int64_t sequence, std::int64_t head,
                          std::int64_t position) const {
    const kv_page::Place place = kv_page::place(position, view.page_size);
    const std::int64_t page =
        view.page_table ? table[static_cast<std::size_t>(sequence * view.max_pages + place.entry)]
                        : sequence;
    return part.data + page * part.page_stride + head * part.head_stride +
           place.token * part.token_stride;
  }

 private:
  void split(CacheLayout layout, std::int64_t w, std::vector<std::uint8_t>& k,
             std::vector<std::uint8_t>& v, KvPart& k_part, KvPart& v_part) {
    const std::int64_t page = view.page_size * view.kv_heads * w;
    const bool joined = layout == CacheLayout::joined, hnd = layout == CacheLayout::hnd;
    const auto bytes = static_cast<std::size_t>(view.pages * page);
    k.assign(joined ? 2 * bytes : bytes, 0xFF);
    if (!joined) v.assign(bytes, 0xFF);
    if (w == 0) return;
    const std::int64_t head_stride = hnd ? view.page_size * w : w,
                       token_stride = hnd ? w : view.kv_heads * w;
    k_part = {k.data(), joined ? 2 * page : page, head_stride, token_stride};
    v_part = {joined ? k.data() + page : v.data(), k_part.page_stride, head_stride, token_stride};
  }
};

inline constexpr KvFormat kv_formats[] = {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8,
                                          KvFormat::fp8};

}  // namespace microscale::test
