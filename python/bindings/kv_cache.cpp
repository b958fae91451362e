#include "kv_cache.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

[[noreturn]] void fail(const char* name, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", name, what));
}

constexpr const char* part_names[] = {"k_codes", "k_scales", "v_codes", "v_scales"};

/// Bytes at [page, token, head, byte], those of one token and head side by side.
KvPart part_of(const Array& array, std::int64_t pages, std::int64_t tokens, std::int64_t heads) {
  if (array.type.bits * array.type.lanes != 8 || array.rank != 4)
    fail(array.name, fmt::format("the {} must be of bytes with the axes (page, token, head, byte)",
                                 describe(array)));
  if (array.size(0) != pages || array.size(1) != tokens || array.size(2) != heads)
    fail(array.name, fmt::format("the {} must begin with ({}, {}, {}), as k_codes do",
                                 describe(array), pages, tokens, heads));
  if (array.size(3) > 1 && array.stride(3) != 1)
    fail(array.name, "bytes of one token and head must lie side by side");
  return {static_cast<std::uint8_t*>(array.data), array.stride(0), array.stride(2),
          array.stride(1)};
}

void set_parts(const KvCacheObject& cache, const Call& call, KvCache& view) {
  const Array first = take(cache.parts[0], part_names[0]);
  if (first.rank != 4)
    fail(first.name,
         fmt::format("the {} must have the axes (page, token, head, byte)", describe(first)));
  view.pages = first.size(0);
  view.page_size = first.size(1);
  KvPart* const parts[] = {&view.k_codes, &view.k_scales, &view.v_codes, &view.v_scales};
  for (std::size_t i = 0; i < 4; ++i) {
    if (cache.parts[i].is_none()) continue;
    const Array array = take(cache.parts[i], part_names[i]);
    call.require_here(array);
    *parts[i] = part_of(array, view.pages, view.page_size, cache.kv_heads);
  }
}

KvCopies copies_of(const KvCacheObject& cache, std::size_t first, std::int64_t batch,
                   const Call& call) {
  if (cache.copies[first].is_none()) return {};
  KvCopies found;
  std::uint16_t** const pointers[] = {&found.k, &found.v};
  for (std::size_t i = 0; i < 2; ++i) {
    const Array array = take(cache.copies[first + i], copy_names[first + i]);
    call.require_here(array);
    if (array.type != bfloat16_type && array.type != uint16_type)
      fail(array.name, fmt::format("the {} must be bfloat16", describe(array)));
    if (array.rank != 4 || !array.packed() || array.size(0) != batch ||
        array.size(2) != cache.kv_heads || array.size(3) != cache.d)
      fail(array.name, fmt::format("the {} must be ({}, tokens, {}, {}) without gaps",
                                   describe(array), batch, cache.kv_heads, cache.d));
    found.count = array.size(1);
    *pointers[i] = static_cast<std::uint16_t*>(array.data);
  }
  return found;
}

}  // namespace

Array array_of(const KvCacheObject& cache) { return take(cache.lengths, "lengths"); }

KvCache view_of(const KvCacheObject& cache, const Call& call) {
  const Array lengths = array_of(cache);
  const std::int64_t batch = lengths.elements();
  KvCache view;
  if (!cache.memory.is_none()) {
    const Array memory = take(cache.memory, "memory");
    call.require_here(memory);
    const KvPageShape shape{cache.format, cache.kv_heads, cache.d, cache.page_size};
    view = kv_cache_of_records(shape, bytes_of(memory));
  } else {
    view.format = cache.format;
    view.kv_heads = cache.kv_heads;
    view.d = cache.d;
    set_parts(cache, call, view);
  }
  view.batch = batch;
  view.memory = call.memory();
  view.lengths = integers_of(cache.lengths, "lengths", call);
  if (!cache.page_table.is_none()) {
    const Array table = take(cache.page_table, "page_table");
    if (table.rank != 2 || table.size(0) != batch)
      fail("page_table",
           fmt::format("the {} must be ({}, pages of a sequence)", describe(table), batch));
    view.page_table = integers_of(cache.page_table, "page_table", call);
    view.max_pages = table.size(1);
  }
  if (!cache.global_scales.is_none()) {
    const float* const scales = floats_of(cache.global_scales, "global_scales", call, 2);
    view.k_global_scale =
        call.memory() == Memory::device ? GlobalScale::on_device(scales) : GlobalScale(scales[0]);
    view.v_global_scale = call.memory() == Memory::device ? GlobalScale::on_device(scales + 1)
                                                          : GlobalScale(scales[1]);
  }
  view.first = copies_of(cache, 0, batch, call);
  view.recent = copies_of(cache, 2, batch, call);
  view.k_mean = floats_of(cache.k_mean, "k_mean", call, cache.kv_heads * cache.d);
  view.hadamard = cache.hadamard;
  return view;
}

MutableHeadsView output_heads_of(const Array& array) {
  const DType type = dense_type(array);
  if (array.rank != 3 && array.rank != 4)
    fail(array.name, fmt::format("the {} must be (batch, tokens, heads, d), or (tokens, heads, d)",
                                 describe(array)));
  const int first = array.rank - 3;       // of tokens
  const bool any = array.elements() > 0;  // strides of none mean nothing
  if (any && array.size(first + 2) > 1 && array.stride(first + 2) != 1)
    fail(array.name,
         fmt::format("the d elements of a head of the {} must lie side by side", describe(array)));
  MutableHeadsView view{array.data,
                        type,
                        first ? array.size(0) : 1,
                        array.size(first),
                        array.size(first + 1),
                        array.size(first + 2)};
  std::int64_t natural = std::max<std::int64_t>(
      view.d, 1);  // the stride of an axis of one element, which means nothing
  const auto stride = [&](int axis) {
    const std::int64_t own = any && array.size(axis) > 1 ? array.stride(axis) : natural;
    if (own <= 0)
      fail(array.name, "a view that repeats or reverses elements; pass a contiguous copy");
    natural = own * std::max<std::int64_t>(array.size(axis), 1);
    return own;
  };
  view.head_stride = stride(first + 1);
  view.token_stride = stride(first);
  view.batch_stride = first ? stride(0) : natural;
  view.memory = array.memory;
  return view;
}

HeadsView heads_of(const Array& array) { return output_heads_of(array); }

const std::int32_t* integers_of(nb::handle object, const char* name, const Call& call,
                                std::int64_t count) {
  if (object.is_none()) return nullptr;
  const Array array = take(object, name);
  call.require_here(array);
  return static_cast<const std::int32_t*>(numbers_of(array, int32_type, count));
}

const float* floats_of(nb::handle object, const char* name, const Call& call, std::int64_t count) {
  if (object.is_none()) return nullptr;
  const Array array = take(object, name);
  call.require_here(array);
  return static_cast<const float*>(numbers_of(array, float32_type, count));
}

}  // namespace microscale::python
