// Scales of V as other engines keep them, turned into ours and back.
#include <fmt/format.h>

#include <array>

#include "core/threads.hpp"
#include "microscale/error.hpp"
#include "microscale/kv_cache.hpp"
#include "ops/kv_cache_check.hpp"
#include "ops/operand_memory.hpp"

namespace microscale {
namespace {

constexpr const char* operation = "repack_v_scales";
constexpr std::int64_t tokens = 4, most_blocks = 256 / 16;

void check(const KvCache& cache, KvScaleLayout from, KvScaleLayout to, const Context& context) {
  if (context.backend == Backend::cuda || cache.memory == Memory::device)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: backend cuda has no such operation; turn the scales in host memory, "
                    "or have them written linear",
                    operation));
  check_runs_on_host(operation, context, {operand("the cache", cache)});
  if (from > KvScaleLayout::trtllm || to > KvScaleLayout::trtllm)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: layouts {} and {}; take enumerators of KvScaleLayout", operation,
                            static_cast<int>(from), static_cast<int>(to)));
  if (cache.format != KvFormat::nvfp4 || cache.d % 64 != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this is of NVFP4 caches with a d that is a multiple of 64, not {}",
                            operation, cache.d));
  KvCache parts = cache;  // no sequence takes part
  parts.batch = 0;
  parts.page_table = nullptr;
  parts.lengths = nullptr;
  parts.k_global_scale = parts.v_global_scale = 1.0f;  // not read
  check_cache(operation, parts, false);
  check_rows_apart(operation, parts);
}

}  // namespace

void repack_v_scales(const KvCache& cache, KvScaleLayout from, KvScaleLayout to,
                     const Context& context) {
  check(cache, from, to, context);
  if (from == to) return;
  const std::int64_t blocks = cache.d / 16, quarter = blocks / 4;
  parallel_for(cache.pages * cache.kv_heads, context.threads, [&](std::int64_t i) {
    std::uint8_t* const head = cache.v_scales.data +
                               i / cache.kv_heads * cache.v_scales.page_stride +
                               i % cache.kv_heads * cache.v_scales.head_stride;
    for (std::int64_t first = 0; first < cache.page_size; first += tokens) {
      std::array<std::uint8_t, tokens * most_blocks> linear, turned;
      const auto at = [&](std::int64_t token, std::int64_t block) -> std::uint8_t& {
        return head[(first + token) * cache.v_scales.token_stride + block];
      };
      const auto place = [&](std::int64_t token, std::int64_t block) {
        return static_cast<std::size_t>(token * blocks + block);
      };
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t s = 0; s < blocks; ++s) linear[place(t, s)] = at(t, s);
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t s = 0; s < blocks; ++s) {
          const std::size_t own = place(t, s), there = place(s / quarter, s % quarter * tokens + t);
          if (to == KvScaleLayout::trtllm)
            turned[there] = linear[own];
          else
            turned[own] = linear[there];
        }
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t s = 0; s < blocks; ++s) at(t, s) = turned[place(t, s)];
    }
  });
}

}  // namespace microscale
