// Views and tables that go with a key/value cache.
#include "microscale/kv_cache.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/memory_range.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"
#include "ops/kv_cache_check.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

}  // namespace

std::int64_t KvPageShape::record_bytes() const {
  check_kv_format("KvPageShape", format);
  if (page_size < 0 || d < 0 ||
      static_cast<double>(page_size) * static_cast<double>(d) > addressable_bytes)
    refuse(
        fmt::format("KvPageShape: pages of {} tokens and d = {}; sizes must not be negative, and "
                    "fit in memory",
                    page_size, d));
  return kv_page::record(format, page_size, d).bytes;
}

KvCache kv_cache_of_records(const KvPageShape& shape, std::span<std::uint8_t> memory) {
  constexpr const char* operation = "kv_cache_of_records";
  check_kv_format(operation, shape.format);
  if (shape.kv_heads < 1 || shape.d < kv_page::d_step || shape.d > kv_page::largest_d ||
      shape.d % kv_page::d_step != 0)
    refuse(fmt::format(
        "{}: {} kv heads of d = {}; pass at least one, and a d that is a multiple of {} up to {}",
        operation, shape.kv_heads, shape.d, kv_page::d_step, kv_page::largest_d));
  if (shape.page_size < kv_page::least_tokens || shape.page_size % kv_page::least_tokens != 0)
    refuse(fmt::format("{}: pages of {} tokens; pass a multiple of {}", operation, shape.page_size,
                       kv_page::least_tokens));
  if (static_cast<double>(shape.kv_heads) * static_cast<double>(shape.page_size) >
      static_cast<double>(memory.size()))
    refuse(fmt::format("{}: {} bytes for pages of {} tokens and {} kv heads; pass whole pages",
                       operation, memory.size(), shape.page_size, shape.kv_heads));
  const kv_page::Record record = kv_page::record(shape.format, shape.page_size, shape.d);
  const std::int64_t page_bytes = shape.page_bytes();
  if (memory.data() == nullptr || memory.empty() ||
      static_cast<std::int64_t>(memory.size()) % page_bytes != 0)
    refuse(fmt::format("{}: {} bytes for pages of {}; pass whole pages", operation, memory.size(),
                       page_bytes));
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kv_page::alignment != 0)
    refuse(fmt::format("{}: the memory is at an address that is no multiple of {}; align it",
                       operation, kv_page::alignment));
  KvCache cache;
  cache.format = shape.format;
  cache.kv_heads = shape.kv_heads;
  cache.d = shape.d;
  cache.page_size = shape.page_size;
  cache.pages = static_cast<std::int64_t>(memory.size()) / page_bytes;
  const std::int64_t codes = kv_page::token_code_bytes(shape.format, shape.d),
                     scales = kv_page::token_scale_bytes(shape.format, shape.d);
  const auto part = [&](std::int64_t offset, std::int64_t token_stride) {
    return KvPart{memory.data() + offset, page_bytes, record.bytes, token_stride};
  };
  cache.k_codes = part(record.k_codes, codes);
  cache.v_codes = part(record.v_codes, codes);
  if (scales > 0) {
    cache.k_scales = part(record.k_scales, scales);
    cache.v_scales = part(record.v_scales, scales);
  }
  return cache;
}

void fill_rope_tables(double theta, std::int64_t positions, std::int64_t width,
                      std::span<float> cos, std::span<float> sin) {
  if (!(theta > 0) || !std::isfinite(theta) || positions < 0 || width < 2 || width % 2 != 0)
    refuse(fmt::format(
        "fill_rope_tables: theta {}, {} positions, width {}; theta must be positive, the width "
        "even and at least 2",
        theta, positions, width));
  if (static_cast<double>(positions) * static_cast<double>(width) > addressable_bytes)
    refuse(fmt::format("fill_rope_tables: {} positions of width {} are more than fits in memory",
                       positions, width));
  const auto wanted = static_cast<std::size_t>(positions * (width / 2));
  if (cos.size() != wanted || sin.size() != wanted)
    refuse(fmt::format("fill_rope_tables: tables of {} and {} values; {} are needed", cos.size(),
                       sin.size(), wanted));
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    for (std::int64_t p = 0; p < positions; ++p) {
      const auto at = static_cast<std::size_t>(p * (width / 2) + i);
      cos[at] = static_cast<float>(std::cos(static_cast<double>(p) * frequency));
      sin[at] = static_cast<float>(std::sin(static_cast<double>(p) * frequency));
    }
  }
}

}  // namespace microscale
