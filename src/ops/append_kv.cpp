// append_kv: checks, then rows of new tokens, a page at a time, through RoPE, mean and Hadamard
// where asked for, into the quantizer and the BF16 copies.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "seam/kernel_table.hpp"
#include "seam/kv_cache_view.hpp"
#include "core/out_of_memory.hpp"
#include "seam/row_kernels.hpp"
#include "core/threads.hpp"
#include "formats/arithmetic.hpp"
#include "formats/compat.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/check.hpp"
#include "ops/kv_cache_check.hpp"
#include "ops/operand_memory.hpp"
#include "reference/dense.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

constexpr const char* operation = "append_kv";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, sentence));
}

std::int64_t new_tokens(const AppendKvOptions& o, std::int64_t sequence) {
  return o.offsets ? o.offsets[sequence + 1] - o.offsets[sequence] : o.k.tokens;
}
std::int64_t first_token(const AppendKvOptions& o, std::int64_t sequence) {
  return o.offsets ? o.offsets[sequence] : sequence * o.k.tokens;
}

void check_numerics(const AppendKvOptions& o) {
  if (o.cache.format == KvFormat::fp8) {
    if (o.numerics != Numerics{})
      refuse("an FP8 cache has no scale rules; leave numerics at its default");
    return;
  }
  const Format format = block_format(o.cache.format);
  check_numerics(operation, o.numerics, format);
  if (o.numerics.rounding == Rounding::stochastic)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: a cache takes no stochastic rounding; choose another", operation));
  if (follows_tool(o.numerics, format))
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: a cache takes no profile of another tool ({}); leave compat at "
                            "none",
                            operation, to_string(o.numerics.compat)));
}

void check_rope(const AppendKvOptions& o) {
  const Rope& rope = o.rope;
  if ((rope.cos == nullptr) != (rope.sin == nullptr))
    refuse("RoPE has one table; pass cos and sin, or neither");
  check_aligned(operation, "RoPE's table of cos", rope.cos, sizeof(float));
  check_aligned(operation, "RoPE's table of sin", rope.sin, sizeof(float));
  if (rope.cos && (rope.width < 2 || rope.width % 2 != 0 || rope.width > o.cache.d))
    refuse(fmt::format("RoPE of width {} for d = {}; pass an even number up to d", rope.width,
                       o.cache.d));
}

// On a host: where the new tokens go.
void check_positions(const AppendKvOptions& o) {
  const KvCache& cache = o.cache;
  std::int64_t former = 0;
  for (std::int64_t s = 0; o.offsets && s <= cache.batch; ++s) {
    if (o.offsets[s] < former || o.offsets[s] > o.k.tokens)
      refuse(fmt::format(
          "offset {} is {} after {} for {} tokens; offsets must not decrease or leave the "
          "tensor",
          s, o.offsets[s], former, o.k.tokens));
    former = o.offsets[s];
  }
  for (std::int64_t s = 0; s < cache.batch; ++s) {
    const std::int64_t length = cache.lengths[s], count = new_tokens(o, s);
    if (count > length)
      refuse(fmt::format(
          "sequence {} has {} new tokens and a length of {}; lengths count the new ones", s, count,
          length));
    if (o.rope.cos && count > 0 && length > o.rope.positions)
      refuse(fmt::format("sequence {} is {} tokens long, RoPE's tables {}; make them longer", s,
                         length, o.rope.positions));
    check_pages(operation, cache, s, length - count, length);
  }
}

// On a host, of entries that name pages: no page is written for two of them.
void check_pages_apart(const AppendKvOptions& o) {
  const KvCache& cache = o.cache;
  if (!cache.page_table) return;
  std::vector<std::int64_t> pages;
  for (std::int64_t s = 0; s < cache.batch; ++s) {
    const std::int64_t length = cache.lengths[s], count = new_tokens(o, s);
    if (count == 0) continue;
    const std::int64_t last = kv_page::place(length - 1, cache.page_size).entry;
    for (std::int64_t e = kv_page::place(length - count, cache.page_size).entry; e <= last; ++e)
      pages.push_back(page_of(cache, s, e));
  }
  std::sort(pages.begin(), pages.end());
  const auto twice = std::adjacent_find(pages.begin(), pages.end());
  if (twice != pages.end())
    refuse(
        fmt::format("two entries of the page table that new tokens go to are page {}; pages may "
                    "be shared only where nothing is appended",
                    *twice));
}

void check(const AppendKvOptions& o, bool on_device) {
  const KvCache& cache = o.cache;
  check_cache(operation, cache, on_device);
  check_rows_apart(operation, cache);
  const std::array inputs{check_heads(operation, "k", o.k, on_device),
                          check_heads(operation, "v", o.v, on_device)};
  for (const HeadsView* v : {&o.k, &o.v})
    if (v->batch != o.k.batch || v->tokens != o.k.tokens || v->heads != cache.kv_heads ||
        v->d != cache.d)
      refuse(fmt::format(
          "k and v must both be [batch, tokens, {}, {}] as the cache is; one is [{}, {}, "
          "{}, {}]",
          cache.kv_heads, cache.d, v->batch, v->tokens, v->heads, v->d));
  if (o.k.batch != (o.offsets ? 1 : cache.batch))
    refuse(fmt::format("k has a batch of {} for {} sequences; {}", o.k.batch, cache.batch,
                       o.offsets ? "with offsets pack them into a batch of 1" : "they must agree"));
  check_numerics(o);
  check_rope(o);
  check_aligned(operation, "offsets", o.offsets, sizeof(std::int32_t));
  std::vector<MemoryRange> outputs;
  cache_memory(cache, outputs);
  for (const MemoryRange& output : outputs) check_apart(operation, output, inputs);
  if (on_device) return;
  check_positions(o);
  check_pages_apart(o);
}

/// New tokens of one sequence that lie in one page.
struct Run {
  std::int64_t sequence, position, count, token;  // token: in k and v, batch and tokens one axis
};

class Appender {
  // Of a run's K or V, that the second-level cache holds them.
  static constexpr std::int64_t run_elements = 1 << 16;
  static constexpr std::int64_t asked_ahead = 8192;  // bytes of K or V, as quantizers ask ahead

 public:
  Appender(const AppendKvOptions& o, const Context& context)
      : o_(o),
        cache_(o.cache),
        k_(with_strides(o.k)),
        v_(with_strides(o.v)),
        kernels_(*choose_backend(operation, context).rows) {
    call_.format = block_format(cache_.format);
    call_.input_stride = cache_.d;
    call_.numerics = o.numerics;
    if (cache_.format == KvFormat::fp8) return;
    call_.blocks = cache_.d / info(call_.format).block;
    if (cache_.format == KvFormat::nvfp4)
      call_.global_scale = std::max(cache_.k_global_scale.value(), cache_.v_global_scale.value());
    quantizer_ = &choose_backend(call_, context);
  }

  void run(const Context& context) const {
    const std::int64_t row = cache_.kv_heads * cache_.d,
                       most = std::clamp<std::int64_t>(run_elements / row, 16, 64);
    std::vector<Run> runs;
    for (std::int64_t s = 0; s < cache_.batch; ++s) {
      const std::int64_t count = new_tokens(o_, s), begin = cache_.lengths[s] - count;
      for (std::int64_t p = begin; p < cache_.lengths[s];) {
        const std::int64_t in_page = cache_.page_size - kv_page::place(p, cache_.page_size).token;
        const std::int64_t n = std::min({in_page, most, cache_.lengths[s] - p});
        runs.push_back({s, p, n, first_token(o_, s) + p - begin});
        p += n;
      }
    }
    const bool transformed = o_.rope.cos || cache_.k_mean || cache_.hadamard != 0;
    parallel_for(static_cast<std::int64_t>(runs.size()), context.threads, [&](std::int64_t i) {
      const Run& run = runs[static_cast<std::size_t>(i)];
      const std::unique_ptr<float[]> memory(new float[static_cast<std::size_t>(run.count * row)]);
      write(run, k_, transformed,
            {cache_.k_codes, cache_.k_scales, number_of(cache_.k_global_scale)}, cache_.first.k,
            cache_.recent.k, memory.get());
      write(run, v_, false, {cache_.v_codes, cache_.v_scales, number_of(cache_.v_global_scale)},
            cache_.first.v, cache_.recent.v, memory.get());
    });
  }

 private:
  /// Of NVFP4 and FP8; MX formats have none.
  float number_of(const GlobalScale& scale) const {
    const bool has = cache_.format == KvFormat::nvfp4 || cache_.format == KvFormat::fp8;
    return has ? scale.value() : 1.0f;
  }

  /// K or V of the cache.
  struct Side {
    const KvPart &codes, &scales;
    float global;
  };

  /// A run's rows from a head on, a head's side by side: the quantizers take several lines at once
  /// then.
  struct Rows {
    DType type;
    std::uint8_t* data;

    std::int64_t bytes(std::int64_t elements) const { return elements * size_of(type); }
  };

  /// Rows of all heads as they come, in their own type, or as FP32 where something is computed with
  /// them first; then head by head.
  void write(const Run& run, const HeadsView& view, bool transformed, const Side& side,
             std::uint16_t* first, std::uint16_t* recent, float* memory) const {
    const bool wide = transformed || cache_.format == KvFormat::fp8;
    Rows rows{wide ? DType::f32 : view.dtype, reinterpret_cast<std::uint8_t*>(memory)};
    load(view, run, rows);
    for (std::int64_t h = 0; h < cache_.kv_heads; ++h) {
      auto* row = reinterpret_cast<float*>(rows.data);
      for (std::int64_t t = 0; transformed && t < run.count; ++t, row += cache_.d)
        kernels_.transform_key(o_, h, run.position + t, row);
      quantize(run, h, rows, side);
      copy(run, h, rows, first, recent);
      rows.data += rows.bytes(run.count * cache_.d);
    }
  }

  const void* row_of(const HeadsView& view, std::int64_t token, std::int64_t head) const {
    const std::int64_t at = token / view.tokens * view.batch_stride +
                            token % view.tokens * view.token_stride + head * view.head_stride;
    return static_cast<const std::uint8_t*>(view.data) + at * size_of(view.dtype);
  }

  void load(const HeadsView& view, const Run& run, const Rows& rows) const {
    const std::int64_t row_bytes = rows.bytes(cache_.d);
    for (std::int64_t t = 0; t < run.count; ++t)
      for (std::int64_t h = 0; h < cache_.kv_heads; ++h) {
        const void* row = row_of(view, run.token + t, h);
        // The processor asks ahead by itself, but not across pages.
        for (std::int64_t i = 0; i < cache_.d * size_of(view.dtype); i += 64)
          __builtin_prefetch(static_cast<const char*>(row) + asked_ahead + i);
        std::uint8_t* to = rows.data + (h * run.count + t) * row_bytes;
        if (rows.type == view.dtype)
          std::memcpy(to, row, static_cast<std::size_t>(row_bytes));
        else
          kernels_.to_floats(row, view.dtype, cache_.d, reinterpret_cast<float*>(to));
      }
  }

  void quantize(const Run& run, std::int64_t head, const Rows& rows, const Side& side) const {
    const kv_page::Place place = kv_page::place(run.position, cache_.page_size);
    const std::int64_t page = page_of(cache_, run.sequence, place.entry);
    const auto at = [&](const KvPart& part) {
      return part.data + page * part.page_stride + head * part.head_stride +
             place.token * part.token_stride;
    };
    if (cache_.format == KvFormat::fp8) {
      const auto* values = reinterpret_cast<const float*>(rows.data);
      for (std::int64_t t = 0; t < run.count; ++t)
        kernels_.quantize_fp8(values + t * cache_.d, cache_.d, divide(1.0f, side.global),
                              at(side.codes) + t * side.codes.token_stride);
      return;
    }
    QuantizeLines lines = call_;
    lines.input = rows.data;
    lines.input_type = rows.type;
    lines.lines = run.count;
    lines.global_scale = cache_.format == KvFormat::nvfp4 ? side.global : 1.0f;
    lines.codes = at(side.codes);
    lines.code_stride = side.codes.token_stride;
    lines.scales = at(side.scales);
    lines.scale_stride = side.scales.token_stride;
    quantizer_->quantize(lines);
  }

  void copy(const Run& run, std::int64_t head, const Rows& rows, std::uint16_t* first,
            std::uint16_t* recent) const {
    const std::int64_t length = cache_.lengths[run.sequence], row = cache_.kv_heads * cache_.d,
                       kept = cache_.recent.count;
    std::array<float, 256> values;
    for (std::int64_t t = 0; t < run.count; ++t) {
      const std::int64_t p = run.position + t;
      const bool is_first = p < cache_.first.count, is_recent = p >= length - kept;
      if (!is_first && !is_recent) continue;
      kernels_.to_floats(rows.data + rows.bytes(t * cache_.d), rows.type, cache_.d, values.data());
      const auto put = [&](std::uint16_t* copies, std::int64_t count, std::int64_t index) {
        std::uint16_t* at = copies + (run.sequence * count + index) * row + head * cache_.d;
        for (std::int64_t i = 0; i < cache_.d; ++i)
          store_dense(values[static_cast<std::size_t>(i)], at, DType::bf16, i);
      };
      if (is_first) put(first, cache_.first.count, p);
      if (is_recent) put(recent, kept, p % kept);
    }
  }

  const AppendKvOptions& o_;
  const KvCache& cache_;
  HeadsView k_, v_;
  const RowKernels& kernels_;
  QuantizeLines call_;  // what all runs share
  const KernelTable* quantizer_ = nullptr;
};

}  // namespace

void append_kv(const AppendKvOptions& options, const Context& context) try {
  const bool on_device = runs_on_device(operation, context,
                                        {operand("the cache", options.cache),
                                         operand("k", options.k),
                                         operand("v", options.v),
                                         {"the offsets",
                                          options.cache.memory,
                                          {options.offsets, options.rope.cos, options.rope.sin}}});
  check(options, on_device);
  if (on_device) return gpu_operations("append_kv").append_kv(options, context.stream);
  Appender(options, context).run(context);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("append_kv");
}

}  // namespace microscale
