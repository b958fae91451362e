#include "cuda/attention/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numbers>

#include "seam/kv_cache_view.hpp"
#include "cuda/attention/block_scaled/launch.hpp"
#include "cuda/attention/decode/plan.hpp"
#include "cuda/attention/device_check.hpp"
#include "cuda/attention/prefill/launch.hpp"
#include "cuda/attention/splits.hpp"
#include "cuda/device/call_ticket.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/device/launch.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "attention";
constexpr std::int64_t most_strides = std::int64_t{1}
                                      << 32;  // of 16 bytes, to a page, head or token

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: backend cuda {}", operation, sentence));
}

// Scales are read of 16 tokens at a time.
bool scales_in_sixteens(const KvCache& cache) {
  const std::int64_t row = kv_page::token_scale_bytes(cache.format, cache.d);
  const auto lie_so = [row](const KvPart& part) {
    return reinterpret_cast<std::uintptr_t>(part.data) % 16 == 0 && part.page_stride % 16 == 0 &&
           part.head_stride % 16 == 0 && part.token_stride == row;
  };
  return cache.pages == 0 || row == 0 || (lie_so(cache.k_scales) && lie_so(cache.v_scales));
}

// What there is a kernel for.
void check_served(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  if (o.numerics.accuracy != AttentionAccuracy::storage)
    refuse("has accuracy `storage` alone; take that, or a host backend");
  const KvCache* cache = call.cache();
  if (cache->pages >= std::int64_t{1} << 31)
    refuse(fmt::format("numbers up to 2^31 pages, not {}; take fewer", cache->pages));
  for (const KvPart* part : {&cache->k_codes, &cache->k_scales, &cache->v_codes, &cache->v_scales})
    if (const std::int64_t apart =
            std::max({part->page_stride, part->head_stride, part->token_stride * cache->page_size});
        apart / 16 >= most_strides)
      refuse(fmt::format(
          "takes pages and heads up to 64 GiB apart, not {} bytes; take smaller ones", apart));
  if (!scales_in_sixteens(*cache))
    refuse(fmt::format(
        "reads scales of 16 tokens at a time (but for plain calls on compute capability 9.0); the "
        "cache's scales must be at multiples of 16 bytes with their strides of pages and heads, "
        "tokens {} bytes apart; take kv_cache_of_records or tensors [pages, heads, tokens, width]",
        kv_page::token_scale_bytes(cache->format, cache->d)));
}

// How a call is cut: a function of its shapes and the device.
struct Plan {
  int rows = 8;  // of an item
  int width = 0;
  int record = 0;  // tokens of pages that are taken whole
  std::int64_t most_q = 0, most_keys = 0, passes = 0, items = 0;
  int splits = 1, merged_rows = 0;
  int shared_bytes = 0;
  std::string kernel;

  std::int64_t partial_bytes() const {
    return splits == 1 ? 0 : decode_partial_floats(items, splits, rows, width) * 4;
  }
  std::int64_t workspace_bytes() const {
    return splits == 1 ? 0 : partial_bytes() + decode_flags(items, splits, merged_rows) * 8;
  }
  std::int64_t blocks() const { return items * (splits == 1 ? 1 : splits + merged_rows); }
};

int splits_of(Device& device, const Plan& plan, const AttentionCall& call) {
  const std::int64_t slots =
      std::max(device.most_clusters(load_kernel(device, plan.kernel, operation), 1, decode_threads,
                                    plan.shared_bytes),
               1);
  const int of_chunk = decode_chunk(call.cache()->format, plan.width) / decode_piece;
  const std::int64_t pieces = ceil_div(plan.most_keys, decode_piece),
                     most = std::clamp<std::int64_t>(pieces / (decode_warps * of_chunk), 1,
                                                     decode_most_splits);
  return best_splits(plan.items, slots, pieces, decode_warps, most,
                     {.block = 1.5 * of_chunk, .merge = 2.0 * of_chunk});
}

// Tokens of a page whose record a kernel takes whole, or 0. A warp's share of tokens has no part of
// such a page; codes of 8 bits are as fast without.
int record_of(const KvCache& cache, int width) {
  if ((cache.page_size != 16 && cache.page_size != decode_piece) || cache.d != width ||
      cache.pages == 0 || kv_page::code_bits(cache.format) != 4)
    return 0;
  const kv_page::Record record = kv_page::record(cache.format, cache.page_size, cache.d);
  const KvPart& first = cache.k_codes;
  const auto lies = [&](const KvPart& part, std::int64_t at, std::int64_t row) {
    return part.data == first.data + at && part.page_stride == first.page_stride &&
           part.head_stride == first.head_stride && part.token_stride == row;
  };
  const std::int64_t codes = kv_page::token_code_bytes(cache.format, cache.d),
                     scales = kv_page::token_scale_bytes(cache.format, cache.d);
  const bool whole = lies(first, 0, codes) && lies(cache.k_scales, record.k_scales, scales) &&
                     lies(cache.v_codes, record.v_codes, codes) &&
                     lies(cache.v_scales, record.v_scales, scales);
  return whole ? static_cast<int>(cache.page_size) : 0;
}

Plan plan_of(Device& device, const AttentionCall& call) {
  check_served(call);
  const AttentionOptions& o = call.options;
  const KvCache& cache = *call.cache();
  constexpr std::int64_t countable = (std::int64_t{1} << 30) - 64;
  Plan plan;
  plan.most_q = call.q_dense()->tokens;
  if (o.max_q_len > 0) plan.most_q = std::min(plan.most_q, o.max_q_len);
  plan.most_keys = std::min(cache.pages > 0 ? cache_capacity(cache) : 0, countable);
  if (o.max_kv_len > 0) plan.most_keys = std::min(plan.most_keys, o.max_kv_len);
  const std::int64_t rows = plan.most_q * call.group();
  plan.width = decode_width(call.d);
  plan.rows = rows <= 8 || plan.width == 256 ? 8 : 16;  // what registers hold
  if (rows <= 4 && decode_turns(cache.format, 4) != decode_turns(cache.format, 8)) plan.rows = 4;
  plan.passes = ceil_div(rows, plan.rows);
  plan.merged_rows = static_cast<int>(std::min<std::int64_t>(rows, plan.rows));
  plan.items = call.sequences * call.kv_heads * plan.passes;
  if (plan.items == 0) return plan;
  plan.shared_bytes = decode_shared_bytes(cache.format, plan.width, plan.rows);
  constexpr int most_shared = 99 << 10;  // of a block on compute capability 12.x
  if (device.info().major == 12 && plan.shared_bytes > most_shared)
    refuse(fmt::format(
        "has no room for {} tokens of d = {} in the shared memory of compute capability "
        "12.x; take 4-bit or FP8 ones, or a host backend",
        name_of(cache.format), call.d));
  plan.record = record_of(cache, plan.width);
  plan.kernel =
      fmt::format("attention_decode_{}_{}_{}{}", name_of(cache.format), plan.width, plan.rows,
                  plan.record > 0        ? "_records"
                  : call.d == plan.width ? ""
                                         : "_part");
  plan.splits = o.splits > 0 ? o.splits : splits_of(device, plan, call);
  if (rows > countable || plan.blocks() >= std::int64_t{1} << 31)
    refuse(
        fmt::format("takes up to 2^31 parts and rows to merge, not {} of {} sequences, heads and "
                    "runs of queries; take fewer sequences a call",
                    plan.blocks(), plan.items));
  return plan;
}

// `tokens` that lie one stride apart.
DecodePart part_of(const KvPart& part, std::int64_t tokens) {
  return {part.data, static_cast<std::uint32_t>(part.page_stride / 16),
          static_cast<std::uint32_t>(part.head_stride / 16),
          static_cast<std::uint32_t>(part.token_stride * tokens / 16)};
}

AttentionMergedArgs args_of(const AttentionCall& call, const Plan& plan) {
  const AttentionOptions& o = call.options;
  const KvCache& cache = *call.cache();
  const HeadsView q = with_strides(*call.q_dense());
  AttentionMergedArgs args{};
  const MutableHeadsView output = with_strides(o.output);
  args.q = {const_cast<void*>(q.data), q.batch_stride, q.token_stride, q.head_stride,
            static_cast<std::int32_t>(q.dtype)};
  args.output = {output.data, output.batch_stride, output.token_stride, output.head_stride,
                 static_cast<std::int32_t>(output.dtype)};
  args.log_sum_exp = o.log_sum_exp;
  args.sinks = o.sinks;
  args.q_offsets = o.q_offsets;
  args.q_tokens = q.tokens;
  args.most_q = plan.most_q;
  args.cache[decode_k_codes] = part_of(cache.k_codes, 1);
  args.cache[decode_k_scales] = part_of(cache.k_scales, decode_scale_tokens);
  args.cache[decode_v_codes] = part_of(cache.v_codes, 1);
  args.cache[decode_v_scales] = part_of(cache.v_scales, decode_scale_tokens);
  const std::int64_t code_row = kv_page::token_code_bytes(cache.format, cache.d);
  args.contiguous =
      cache.k_codes.token_stride == code_row && cache.v_codes.token_stride == code_row;
  args.run = 1 << std::min(std::countr_zero(static_cast<std::uint64_t>(cache.page_size)), 6);
  args.record = plan.record;
  args.places = decode_places(cache.format, plan.width,
                              static_cast<int>(kv_page::token_scale_bytes(cache.format, cache.d)),
                              args.record);
  args.page_table = cache.page_table;
  args.max_pages = cache.max_pages;
  args.pages = cache.pages;
  args.page_shift =
      cache.page_table ? std::countr_zero(static_cast<std::uint64_t>(cache.page_size)) : 30;
  args.lengths = cache.lengths;
  args.most_keys = plan.most_keys;
  const bool global = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  args.global_scales = global ? cache.device_global_scales : nullptr;
  args.mean = cache.k_mean;
  args.hadamard = cache.hadamard;
  args.scale_log2 = static_cast<float>(call.scale * std::numbers::log2e);
  args.softcap_log2 = static_cast<float>(o.softcap * std::numbers::log2e);
  args.scores_change = cache.k_mean != nullptr || o.softcap > 0;
  args.window = o.window;
  args.causal = o.causal;
  args.q_heads = static_cast<std::int32_t>(call.q_heads);
  args.kv_heads = static_cast<std::int32_t>(call.kv_heads);
  args.group = static_cast<std::int32_t>(call.group());
  args.d = static_cast<std::int32_t>(call.d);
  args.first_k = cache.first.k;
  args.first_v = cache.first.v;
  args.recent_k = cache.recent.k;
  args.recent_v = cache.recent.v;
  args.first_count = cache.first.count;
  args.recent_count = cache.recent.count;
  args.items = static_cast<std::int32_t>(plan.items);
  args.passes = static_cast<std::int32_t>(plan.passes);
  args.splits = plan.splits;
  args.merged_rows = plan.merged_rows;
  decode_divisors(args);
  return args;
}

// Cycles to read a cache for every run of 16 rows, at four fifths of memory's speed.
double decode_cycles(Device& device, const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  const KvCache& cache = *call.cache();
  constexpr double bytes_a_cycle = 20.7 * 0.8, launch_cycles = 4000;
  std::int64_t keys = cache.pages > 0 ? cache_capacity(cache) : 0;
  if (o.max_kv_len > 0) keys = std::min(keys, o.max_kv_len);
  std::int64_t queries = call.q_dense()->tokens;
  if (o.max_q_len > 0) queries = std::min(queries, o.max_q_len);
  const std::int64_t token = kv_page::token_code_bytes(cache.format, cache.d) +
                             kv_page::token_scale_bytes(cache.format, cache.d);
  return launch_cycles + static_cast<double>(ceil_div(queries * call.group(), 16) * call.sequences *
                                             call.kv_heads * keys * 2 * token) /
                             (bytes_a_cycle * device.info().multiprocessors);
}

// Whether the kernels that read a cache as it is take a call on Hopper: what they alone can do,
// and, of caches whose scales lie as they want them, where they are predicted to be faster.
bool decodes_on_hopper(Device& device, const AttentionCall& call) {
  const KvCache& cache = *call.cache();
  if (call.options.splits > 1 || cache.first.count > 0 || cache.recent.count > 0 || cache.k_mean ||
      cache.hadamard != 0)
    return true;
  if (!scales_in_sixteens(cache)) return false;
  return decode_cycles(device, call) <= attention_prefill_cycles(device, call);
}

enum class Kernels { decode, prefill, block_scaled };

Kernels kernels_for(Device& device, const AttentionCall& call) {
  check_attention_device(device);
  const bool cached = call.cache() && call.q_dense();
  const bool exact = call.options.numerics.accuracy == AttentionAccuracy::storage;
  switch (device.info().major) {
    case 12:
      return cached && exact ? Kernels::decode : Kernels::block_scaled;
    case 9:
      return cached && decodes_on_hopper(device, call) ? Kernels::decode : Kernels::prefill;
    default:
      if (!cached)
        refuse(
            "attends on compute capability 10.x to keys and values in a cache, with q in FP32, "
            "BF16 or FP16; append k and v to one, dequantize q, or take a host backend");
      return Kernels::decode;
  }
}

}  // namespace

std::int64_t attention_workspace_bytes(Device& device, const AttentionCall& call) {
  switch (kernels_for(device, call)) {
    case Kernels::block_scaled:
      return blackwell_attention_workspace_bytes(device, call);
    case Kernels::prefill:
      return attention_prefill_workspace_bytes(device, call);
    case Kernels::decode:
      break;
  }
  return plan_of(device, call).workspace_bytes();
}

void attention(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
               Stream stream) {
  switch (kernels_for(device, call)) {
    case Kernels::block_scaled:
      return blackwell_attention(device, call, workspace, stream);
    case Kernels::prefill:
      return attention_prefill(device, call, workspace, stream);
    case Kernels::decode:
      break;
  }
  const Plan plan = plan_of(device, call);
  if (plan.items == 0) return;
  check_attention_memory(device, call, workspace, plan.workspace_bytes());
  AttentionMergedArgs args = args_of(call, plan);
  if (plan.splits > 1) {
    args.partial = reinterpret_cast<float*>(workspace.data());
    args.flags = reinterpret_cast<std::uint64_t*>(workspace.data() + plan.partial_bytes());
    args.ticket = next_ticket();
  }
  launch(device, plan.kernel, operation,
         {.grid_x = static_cast<unsigned>(plan.blocks()),
          .grid_y = 1,
          .grid_z = 1,
          .threads = decode_threads,
          .column_shift = 0},
         args, stream, plan.shared_bytes);
}

}  // namespace microscale::cuda
