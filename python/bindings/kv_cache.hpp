// microscale.KvCache: arrays that together are a cache of keys and values.
#pragma once

#include <array>

#include "call.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale::python {

struct KvCacheObject {
  KvFormat format = KvFormat::nvfp4;
  std::int64_t kv_heads = 0, d = 0;
  nb::object memory;  // records of pages; or None, and
  std::array<nb::object, 4>
      parts;                   // K codes, K scales, V codes, V scales: (page, token, head, byte)
  std::int64_t page_size = 0;  // of records
  nb::object page_table;       // int32 (batch, pages of a sequence), or None
  nb::object lengths;          // int32 (batch,)
  nb::object global_scales;    // float32 (2,), of K and V, or None
  std::array<nb::object, 4> copies;  // first K, first V, recent K, recent V: bfloat16, or None
  nb::object k_mean;                 // float32 (kv_heads, d), or None
  int hadamard = 0;
};

/// Of `copies`, as arguments.
inline constexpr const char* copy_names[] = {"first_k", "first_v", "recent_k", "recent_v"};

/// The library's view. `call` is on the cache's device.
KvCache view_of(const KvCacheObject& cache, const Call& call);
/// The array that stands for the cache: lengths.
Array array_of(const KvCacheObject& cache);

/// [batch, tokens, heads, d], or [tokens, heads, d] of a batch of one, at any strides.
HeadsView heads_of(const Array& array);
MutableHeadsView output_heads_of(const Array& array);
/// Packed int32 numbers; null for None.
const std::int32_t* integers_of(nb::handle object, const char* name, const Call& call,
                                std::int64_t count = -1);
const float* floats_of(nb::handle object, const char* name, const Call& call,
                       std::int64_t count = -1);

void bind_kv_cache(nb::module_& module);
void bind_attention(nb::module_& module);

}  // namespace microscale::python
