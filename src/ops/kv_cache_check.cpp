#include "ops/kv_cache_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "seam/kv_cache_view.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"
#include "ops/check.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

struct Axis {
  double stride, count;  // of any size
};

/// The axes of a view, with the strides that with_strides would find.
std::array<Axis, 3> axes_of(const HeadsView& view) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  Axis head{number(view.head_stride), number(view.heads)},
      token{number(view.token_stride), number(view.tokens)},
      batch{number(view.batch_stride), number(view.batch)};
  if (head.stride == 0) head.stride = number(view.d);
  if (token.stride == 0) token.stride = head.count * head.stride;
  if (batch.stride == 0) batch.stride = token.count * token.stride;
  return {batch, token, head};
}

std::array<Axis, 3> axes_of(const KvPart& part, const KvCache& cache) {
  const auto axis = [](std::int64_t stride, std::int64_t count) {
    return Axis{static_cast<double>(stride), static_cast<double>(count)};
  };
  return {axis(part.page_stride, cache.pages), axis(part.head_stride, cache.kv_heads),
          axis(part.token_stride, cache.page_size)};
}

/// Refuses strides, none negative, that lead beyond any memory.
void check_reach(const char* operation, const char* name, std::span<const Axis> axes) {
  double reach = 0;
  for (const Axis& axis : axes) reach += axis.stride * std::max(axis.count, 1.0);
  if (reach > addressable_bytes)
    refuse(
        fmt::format("{}: {} has strides that lead beyond any memory; pass them in elements, of "
                    "a cache in bytes",
                    operation, name));
}

bool aligned(const void* data, std::int64_t to) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(to) == 0;
}

void check_part(const char* operation, const char* name, const KvPart& part, std::int64_t row_bytes,
                const KvCache& cache, bool on_device) {
  if (part.data == nullptr)
    refuse(
        fmt::format("{}: the cache's {} are null; pass their address, or take kv_cache_of_records",
                    operation, name));
  if (part.page_stride < 0 || part.head_stride < 0 || part.token_stride < row_bytes)
    refuse(fmt::format(
        "{}: the cache's {} have strides of {}, {} and {} bytes (page, head, token) for "
        "rows of {}; none may be negative, or the token's below the row",
        operation, name, part.page_stride, part.head_stride, part.token_stride, row_bytes));
  check_reach(operation, name, axes_of(part, cache));
  const bool codes = std::string_view(name).ends_with("codes");
  if (on_device && codes &&
      !(aligned(part.data, kv_page::alignment) && part.page_stride % kv_page::alignment == 0 &&
        part.head_stride % kv_page::alignment == 0 && part.token_stride % kv_page::alignment == 0))
    refuse(
        fmt::format("{}: the cache's {} do not lie at multiples of {} bytes with their strides; "
                    "align them for backend cuda",
                    operation, name, kv_page::alignment));
}

void check_copies(const char* operation, const char* name, const KvCopies& copies, bool on_device) {
  if (copies.count < 0)
    refuse(fmt::format("{}: the cache keeps {} {} tokens; pass 0 or more", operation, copies.count,
                       name));
  if (copies.count > 0 && (copies.k == nullptr || copies.v == nullptr))
    refuse(fmt::format("{}: the copies of {} {} tokens are null; pass their address, or count 0",
                       operation, copies.count, name));
  const std::int64_t alignment = on_device ? kv_page::alignment : 2;
  if (copies.count > 0 && !(aligned(copies.k, alignment) && aligned(copies.v, alignment)))
    refuse(fmt::format("{}: the copies of {} tokens are not at multiples of {} bytes; align them",
                       operation, name, alignment));
}

}  // namespace

void check_fits(const char* operation, const char* name, std::span<const std::int64_t> sizes) {
  double product = 1;
  for (const std::int64_t size : sizes)
    product *= static_cast<double>(std::max<std::int64_t>(size, 1));
  if (product > addressable_bytes)
    refuse(fmt::format("{}: {} is {}, more than fits in memory", operation, name,
                       fmt::join(sizes, " x ")));
}

MemoryRange check_heads(const char* operation, const char* name, const HeadsView& view,
                        bool on_device) {
  check_dtype(operation, view.dtype);
  if (view.batch < 0 || view.tokens < 0 || view.heads < 0 || view.d < 0)
    refuse(fmt::format("{}: {} is [{}, {}, {}, {}]; no size may be negative", operation, name,
                       view.batch, view.tokens, view.heads, view.d));
  check_fits(operation, name, {view.batch, view.tokens, view.heads, view.d});
  if (view.head_stride < 0 || view.token_stride < 0 || view.batch_stride < 0)
    refuse(
        fmt::format("{}: {} has strides of {}, {} and {} elements (batch, token, head); none may "
                    "be negative",
                    operation, name, view.batch_stride, view.token_stride, view.head_stride));
  check_reach(operation, name, axes_of(view));
  const HeadsView v = with_strides(view);
  if (v.batch == 0 || v.tokens == 0 || v.heads == 0 || v.d == 0) return {name, view.data, 0};
  if (v.data == nullptr) refuse(fmt::format("{}: {} is null", operation, name));
  check_aligned(operation, name, v.data, size_of(v.dtype));
  const std::int64_t element = size_of(v.dtype);
  if (on_device &&
      !(aligned(v.data, kv_page::alignment) && v.head_stride * element % kv_page::alignment == 0 &&
        v.token_stride * element % kv_page::alignment == 0 &&
        v.batch_stride * element % kv_page::alignment == 0))
    refuse(fmt::format(
        "{}: {} or its strides are no multiples of {} bytes; align them for backend cuda",
        operation, name, kv_page::alignment));
  const std::int64_t last = (v.batch - 1) * v.batch_stride + (v.tokens - 1) * v.token_stride +
                            (v.heads - 1) * v.head_stride + v.d;
  return {name, v.data, last * size_of(v.dtype)};
}

void check_kv_format(const char* operation, KvFormat format) {
  if (format > KvFormat::fp8)
    refuse(fmt::format("{}: KvFormat {} is no format of a cache; use nvfp4, mxfp4, mxfp8 or fp8",
                       operation, static_cast<int>(format)));
}

void check_cache(const char* operation, const KvCache& cache, bool on_device) {
  check_kv_format(operation, cache.format);
  if (cache.batch < 0 || cache.pages < 0 || cache.kv_heads < 1 || cache.d < kv_page::d_step ||
      cache.d > kv_page::largest_d || cache.d % kv_page::d_step != 0)
    refuse(fmt::format(
        "{}: the cache has {} pages for {} sequences of {} kv heads of d = {}; there must be 0 or "
        "more pages and sequences, a kv head at least, and d a multiple of {} up to {}",
        operation, cache.pages, cache.batch, cache.kv_heads, cache.d, kv_page::d_step,
        kv_page::largest_d));
  if (cache.page_table != nullptr) {
    if (cache.page_size != 16 && cache.page_size != 32 && cache.page_size != 64)
      refuse(fmt::format("{}: the cache has pages of {} tokens; pass 16, 32 or 64", operation,
                         cache.page_size));
    if (cache.max_pages < 0)
      refuse(fmt::format("{}: the page table has {} columns; pass 0 or more", operation,
                         cache.max_pages));
  } else if (cache.page_size < kv_page::least_tokens ||
             cache.page_size % kv_page::least_tokens != 0) {
    refuse(fmt::format(
        "{}: a contiguous cache of {} tokens a sequence; pass a multiple of {}, or a page "
        "table",
        operation, cache.page_size, kv_page::least_tokens));
  } else if (cache.pages < cache.batch) {
    refuse(
        fmt::format("{}: a contiguous cache of {} pages for {} sequences; pass one each, or a page "
                    "table",
                    operation, cache.pages, cache.batch));
  }
  check_fits(operation, "the cache", {cache.pages, cache.page_size, cache.kv_heads, cache.d});
  if (cache.page_table)
    check_fits(operation, "the page table", {cache.batch, cache.max_pages, cache.page_size});
  if (cache.lengths == nullptr && cache.batch > 0)
    refuse(
        fmt::format("{}: the cache's lengths are null; pass {} integers", operation, cache.batch));
  const std::int64_t code_bytes = kv_page::token_code_bytes(cache.format, cache.d),
                     scale_bytes = kv_page::token_scale_bytes(cache.format, cache.d);
  if (cache.pages > 0) {
    check_part(operation, "K codes", cache.k_codes, code_bytes, cache, on_device);
    check_part(operation, "V codes", cache.v_codes, code_bytes, cache, on_device);
    if (scale_bytes > 0) {
      check_part(operation, "K scales", cache.k_scales, scale_bytes, cache, on_device);
      check_part(operation, "V scales", cache.v_scales, scale_bytes, cache, on_device);
    }
  }
  if (cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8) {
    for (const GlobalScale* scale : {&cache.k_global_scale, &cache.v_global_scale}) {
      const char* name = scale == &cache.k_global_scale ? "the cache's K" : "the cache's V";
      check_global_scale_place(fmt::format("{}: {}", operation, name).c_str(), *scale, on_device);
      if (on_device) continue;
      const float value = scale->value();
      if (!(value > 0) || !std::isnormal(value))
        refuse(fmt::format(
            "{}: global scale {} of {} is no positive normal number; pass the largest magnitude "
            "divided by {}",
            operation, value, name, cache.format == KvFormat::fp8 ? 448 : 2688));
    }
    if (on_device &&
        cache.v_global_scale.device_pointer() != cache.k_global_scale.device_pointer() + 1)
      refuse(
          fmt::format("{}: backend cuda reads the global scale of V right behind that of K; put "
                      "both into one array of two, K's first",
                      operation));
  }
  for (const KvCopies* copies : {&cache.first, &cache.recent}) {
    check_copies(operation, copies == &cache.first ? "first" : "recent", *copies, on_device);
    check_fits(operation, "the BF16 copies", {cache.batch, copies->count, cache.kv_heads, cache.d});
  }
  check_aligned(operation, "the page table", cache.page_table, sizeof(std::int32_t));
  check_aligned(operation, "the cache's lengths", cache.lengths, sizeof(std::int32_t));
  check_aligned(operation, "the mean of K", cache.k_mean, sizeof(float));
  if (cache.hadamard != 0 && cache.hadamard != 16)
    refuse(fmt::format("{}: a Hadamard transform of order {}; pass 16, or 0 for none", operation,
                       cache.hadamard));
  if (on_device) return;
  for (std::int64_t s = 0; s < cache.batch; ++s)
    if (cache.lengths[s] < 0 || cache.lengths[s] > cache_capacity(cache))
      refuse(fmt::format(
          "{}: sequence {} has {} tokens in a cache with room for {}; lengths must not be "
          "negative or beyond what the pages of a sequence hold",
          operation, s, cache.lengths[s], cache_capacity(cache)));
}

void check_rows_apart(const char* operation, const KvCache& cache) {
  const auto check = [&](const char* name, const KvPart& part, std::int64_t row_bytes) {
    std::array<Axis, 3> axes = axes_of(part, cache);
    std::sort(axes.begin(), axes.end(),
              [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
    auto extent = static_cast<double>(row_bytes);
    for (const Axis& axis : axes) {
      if (axis.count <= 1) continue;
      if (axis.stride < extent)
        refuse(fmt::format(
            "{}: the cache's {} have strides of {}, {} and {} bytes (page, head, "
            "token) that make rows of {} overlap",
            operation, name, part.page_stride, part.head_stride, part.token_stride, row_bytes));
      extent += (axis.count - 1) * axis.stride;
    }
  };
  const std::int64_t code_bytes = kv_page::token_code_bytes(cache.format, cache.d),
                     scale_bytes = kv_page::token_scale_bytes(cache.format, cache.d);
  if (cache.pages == 0) return;
  check("K codes", cache.k_codes, code_bytes);
  check("V codes", cache.v_codes, code_bytes);
  if (scale_bytes > 0) check("K scales", cache.k_scales, scale_bytes);
  if (scale_bytes > 0) check("V scales", cache.v_scales, scale_bytes);
  // Of one row each: which of all overlap is not asked, since records have them in turn.
  const MemoryRange rows[] = {{"K codes", cache.k_codes.data, code_bytes},
                              {"V codes", cache.v_codes.data, code_bytes},
                              {"K scales", cache.k_scales.data, scale_bytes},
                              {"V scales", cache.v_scales.data, scale_bytes}};
  for (const MemoryRange& row : rows)
    for (const MemoryRange* other = rows; other != &row; ++other)
      if (row.overlaps(*other))
        refuse(fmt::format("{}: the cache's {} and {} begin in the same place; give each its own",
                           operation, other->name, row.name));
}

void check_pages(const char* operation, const KvCache& cache, std::int64_t sequence,
                 std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const std::int64_t last = kv_page::place(end - 1, cache.page_size).entry;
  for (std::int64_t e = kv_page::place(begin, cache.page_size).entry; e <= last; ++e) {
    const std::int64_t page = page_of(cache, sequence, e);
    if (page < 0 || page >= cache.pages)
      refuse(
          fmt::format("{}: entry {} of sequence {} in the page table is {}; there are {} pages, "
                      "from 0 on",
                      operation, e, sequence, page, cache.pages));
  }
}

}  // namespace microscale
