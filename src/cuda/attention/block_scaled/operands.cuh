// Where K and V of an item lie in memory: of a tensor, of a cache, or of pages that a table names.
#pragma once

#include <cstdint>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/attention/rows.cuh"

namespace microscale::cuda::attention::block_scaled {

/// A page that there is not is page 0 to those who ask where a key is.
template <class C>
class KeyOperands {
 public:
  __device__ static std::int64_t keys_of(const Args& args, std::int64_t s) {
    if (args.lengths) return args.lengths[s];
    return args.kv_offsets ? first_key(args, s + 1) - first_key(args, s) : args.kv_tokens;
  }

  __device__ KeyOperands(const Args& args, const DecodeItem& item)
      : args_(args), last_key_(item.length - 1) {
    const std::int64_t first = args.lengths ? 0 : first_key(args, item.sequence);
    const std::int64_t page = args.lengths && !C::Paged ? item.sequence : 0;
    if constexpr (C::Paged) table_ = args.page_table + item.sequence * args.max_pages;
    const auto place = [&](const Part& part) {
      return part.data + page * part.page + item.kv_head * part.head + first * part.token;
    };
    k_ = place(args.k);
    k_scale_ = place(args.k_scale);
    if constexpr (C::along_tokens) {
      v_ = args.value_tiles +
           (item.kv_head * args.head_value_tiles + first_value_tile(first, item.sequence)) *
               ValueTile::bytes(C::D);
    } else {
      v_ = place(args.v);
      v_scale_ = place(args.v_scale);
    }
  }

  /// `key`, or the last one there is.
  __device__ int within(int key) const { return min(key, last_key_); }
  /// Whether the page of a key is there.
  __device__ bool has(int key) const {
    if constexpr (!C::Paged) return true;
    return page_of(key) >= 0;
  }
  /// Whether some page with keys [begin, end) is absent. All threads of the block call it.
  __device__ bool lacks_pages(int begin, int end, int thread) const {
    bool absent = false;
    const int step = 1 << args_.page_shift;
    for (int key = begin / step * step + thread * step; key < end; key += C::threads * step)
      absent = absent || !has(key);
    return __syncthreads_or(absent) != 0;
  }

  __device__ const std::uint8_t* k(int key) const { return at(k_, args_.k, key); }
  __device__ const std::uint8_t* k_scale(int key) const { return at(k_scale_, args_.k_scale, key); }
  __device__ const std::uint8_t* v(int key) const { return at(v_, args_.v, key); }
  __device__ const std::uint8_t* v_scale(int key) const { return at(v_scale_, args_.v_scale, key); }
  /// V along the tokens: 64 keys.
  __device__ const std::uint8_t* value_tile(int number) const {
    return v_ + static_cast<std::int64_t>(number) * ValueTile::bytes(C::D);
  }

 private:
  __device__ static std::int64_t first_key(const Args& args, std::int64_t s) {
    if (!args.kv_offsets) return s * args.kv_tokens;
    return DecodeItem::clamp(args.kv_offsets[s], 0, args.kv_tokens);
  }
  /// The page of a key, or -1 where there is none.
  __device__ int page_of(int key) const {
    const int page = table_[key >> args_.page_shift];
    return page < args_.pages ? max(page, -1) : -1;
  }
  __device__ const std::uint8_t* at(const std::uint8_t* base, const Part& part, int key) const {
    auto in = static_cast<std::uint32_t>(key);
    if constexpr (C::Paged) {
      base += max(page_of(key), 0) * part.page;
      in &= (1u << args_.page_shift) - 1;
    }
    return base + static_cast<std::uint64_t>(in) * part.token;
  }

  const Args& args_;
  const int last_key_;
  const std::uint8_t *k_, *k_scale_, *v_, *v_scale_ = nullptr;
  const std::int32_t* table_ = nullptr;  // of the sequence's pages
};

}  // namespace microscale::cuda::attention::block_scaled
