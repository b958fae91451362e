#include "cuda/attention/decode/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::attention::decode {
namespace {

constexpr std::int64_t most_strides = std::int64_t{1}
                                      << 32;  // of 16 bytes, to a page, head or token
constexpr std::int64_t countable = (std::int64_t{1} << 30) - 64;  // what kernels number in 32 bits

void check_scales(const KvCache& cache) {
  if (!takes_scales(cache))
    refuse_attention(fmt::format(
        "reads scales of 16 tokens at a time (but for plain calls on compute capability 9.0); the "
        "cache's scales must be at multiples of 16 bytes with their strides of pages and heads, "
        "tokens {} bytes apart; take kv_cache_of_records or tensors [pages, heads, tokens, width]",
        kv_page::token_scale_bytes(cache.format, cache.d)));
}

void check_served(const AttentionCall& call) {
  if (call.options.numerics.accuracy != AttentionAccuracy::storage)
    refuse_attention("has accuracy `storage` alone; take that, or a host backend");
  const KvCache& cache = *call.cache();
  if (cache.pages >= std::int64_t{1} << 31)
    refuse_attention(fmt::format("numbers up to 2^31 pages, not {}; take fewer", cache.pages));
  for (const KvPart* part : {&cache.k_codes, &cache.k_scales, &cache.v_codes, &cache.v_scales})
    if (const std::int64_t apart =
            std::max({part->page_stride, part->head_stride, part->token_stride * cache.page_size});
        apart / 16 >= most_strides)
      refuse_attention(fmt::format(
          "takes pages and heads up to 64 GiB apart, not {} bytes; take smaller ones", apart));
  check_scales(cache);
}

/// Tokens of a page whose record a kernel takes whole, or 0. A warp's share of tokens has no part
/// of such a page; codes of 8 bits are as fast without.
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

int splits_of(const DeviceFacts& facts, const Plan& plan, KvFormat format) {
  const std::int64_t slots = std::max(
      facts.occupancy(plan.kernel, "attention").most_clusters(1, decode_threads, plan.shared_bytes),
      1);
  const int of_chunk = decode_chunk(format, plan.width) / decode_piece;
  const std::int64_t pieces = ceil_div(plan.items.most_keys, decode_piece),
                     most = std::clamp<std::int64_t>(pieces / decode_warps, 1, decode_most_splits);
  return best_splits(plan.items.count, slots, pieces, decode_warps, most,
                     {.block = 1.5 * of_chunk,
                      .merge = 1.25 * of_chunk,
                      .part = 0.03 * of_chunk,
                      .merging_blocks = plan.items.merged_rows});
}

/// Rows of an item: as many as the call has and registers hold.
int rows_of(const AttentionCall& call, int width) {
  const std::int64_t rows = items_of(call, 1).head_rows;
  const KvFormat format = call.cache()->format;
  if (rows <= 4 && decode_turns(format, 4) != decode_turns(format, 8)) return 4;
  return rows <= 8 || width == 256 ? 8 : 16;
}

/// `tokens` that lie one stride apart.
DecodePart part_of(const KvPart& part, std::int64_t tokens) {
  return {nullptr, static_cast<std::uint32_t>(part.page_stride / 16),
          static_cast<std::uint32_t>(part.head_stride / 16),
          static_cast<std::uint32_t>(part.token_stride * tokens / 16)};
}

void set_args(Plan& plan, const AttentionCall& call, int record) {
  const KvCache& cache = *call.cache();
  AttentionMergedArgs& args = plan.args;
  set_parts_shape(args, call, plan.items);
  const HeadsView q = with_strides(*call.q_dense());
  args.q = {nullptr, q.batch_stride, q.token_stride, q.head_stride,
            static_cast<std::int32_t>(q.dtype)};
  args.cache[decode_k_codes] = part_of(cache.k_codes, 1);
  args.cache[decode_k_scales] = part_of(cache.k_scales, decode_scale_tokens);
  args.cache[decode_v_codes] = part_of(cache.v_codes, 1);
  args.cache[decode_v_scales] = part_of(cache.v_scales, decode_scale_tokens);
  const std::int64_t code_row = kv_page::token_code_bytes(cache.format, cache.d);
  args.contiguous =
      cache.k_codes.token_stride == code_row && cache.v_codes.token_stride == code_row;
  const int page_bits = std::countr_zero(static_cast<std::uint64_t>(cache.page_size));
  args.run = 1 << std::min(page_bits, 6);
  args.record = record;
  args.places =
      decode_places(cache.format, plan.width,
                    static_cast<int>(kv_page::token_scale_bytes(cache.format, cache.d)), record);
  args.max_pages = cache.max_pages;
  args.pages = cache.pages;
  args.page_shift = cache.page_table ? page_bits : 30;
  args.hadamard = cache.hadamard;
  args.scores_change = cache.k_mean != nullptr || call.options.softcap > 0;
  args.first_count = cache.first.count;
  args.recent_count = cache.recent.count;
  args.by_warps = divisor(args.splits * decode_warps);
}

void set_cache_memory(AttentionMergedArgs& args, const KvCache& cache) {
  args.cache[decode_k_codes].data = cache.k_codes.data;
  args.cache[decode_k_scales].data = cache.k_scales.data;
  args.cache[decode_v_codes].data = cache.v_codes.data;
  args.cache[decode_v_scales].data = cache.v_scales.data;
  args.page_table = cache.page_table;
  args.lengths = cache.lengths;
  const bool global = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  args.global_scales = global ? cache.k_global_scale.device_pointer() : nullptr;
  args.mean = cache.k_mean;
  args.first_k = cache.first.k;
  args.first_v = cache.first.v;
  args.recent_k = cache.recent.k;
  args.recent_v = cache.recent.v;
}

}  // namespace

bool takes_scales(const KvCache& cache) {
  const std::int64_t row = kv_page::token_scale_bytes(cache.format, cache.d);
  const auto lie_so = [row](const KvPart& part) {
    return reinterpret_cast<std::uintptr_t>(part.data) % 16 == 0 && part.page_stride % 16 == 0 &&
           part.head_stride % 16 == 0 && part.token_stride == row;
  };
  return cache.pages == 0 || row == 0 || (lie_so(cache.k_scales) && lie_so(cache.v_scales));
}

Plan plan_of(const DeviceFacts& facts, const AttentionCall& call) {
  check_served(call);
  const KvCache& cache = *call.cache();
  Plan plan;
  plan.width = decode_width(call.d);
  plan.items = items_of(call, rows_of(call, plan.width));
  Items& items = plan.items;
  if (items.count == 0) return plan;
  items.most_keys = std::min(items.most_keys, countable);
  plan.shared_bytes = decode_shared_bytes(cache.format, plan.width, items.rows);
  constexpr int most_shared = 99 << 10;  // of a block on compute capability 12.x
  if (facts.info().major == 12 && plan.shared_bytes > most_shared)
    refuse_attention(
        fmt::format("has no room for {} tokens of d = {} in the shared memory of compute "
                    "capability 12.x; take 4-bit or FP8 ones, or a host backend",
                    name_of(cache.format), call.d));
  const int record = record_of(cache, plan.width);
  const auto kernel = [&](const auto&... tokens) {
    return kernels::attention_decode(name_of(cache.format), plan.width, items.rows, tokens...);
  };
  plan.kernel = record > 0 ? kernel("records") : call.d == plan.width ? kernel() : kernel("part");
  items.splits =
      call.options.splits > 0 ? call.options.splits : splits_of(facts, plan, cache.format);
  if (items.head_rows > countable || plan.blocks() >= std::int64_t{1} << 31)
    refuse_attention(
        fmt::format("takes up to 2^31 parts and rows to merge, not {} of {} sequences, heads and "
                    "runs of queries; take fewer sequences a call",
                    plan.blocks(), items.count));
  if (items.splits > 1) {
    plan.partial_bytes =
        decode_partial_floats(items.count, items.splits, items.rows, plan.width) * 4;
    plan.workspace_bytes =
        plan.partial_bytes + decode_flags(items.count, items.splits, items.merged_rows) * 8;
  }
  set_args(plan, call, record);
  return plan;
}

std::string describe(const Plan& plan) {
  if (plan.items.count == 0) return "nothing to do";
  return fmt::format("{}, {}", std::string_view(plan.kernel.name), describe(plan.items));
}

double cycles_of(const DeviceInfo& device, const AttentionCall& call) {
  const KvCache& cache = *call.cache();
  const Items items = items_of(call, 16);
  constexpr double bytes_a_cycle = 20.7 * 0.8;  // of a multiprocessor, at four fifths of memory's
  constexpr double launch_cycles = 4000;
  const std::int64_t token = kv_page::token_code_bytes(cache.format, cache.d) +
                             kv_page::token_scale_bytes(cache.format, cache.d);
  return launch_cycles + static_cast<double>(items.count * items.most_keys * 2 * token) /
                             (bytes_a_cycle * device.multiprocessors);
}

void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream) {
  const KvCache& cache = *call.cache();
  check_scales(cache);
  if (plan.args.record > 0 && record_of(cache, plan.width) != plan.args.record)
    throw Error(ErrorCode::invalid_argument,
                "attention: this plan was made for a cache of records (kv_cache_of_records), and "
                "the parts of this one lie otherwise; make a plan of it");
  AttentionMergedArgs args = plan.args;
  set_memory(args, call);
  args.q.data = const_cast<void*>(call.q_dense()->data);
  set_cache_memory(args, cache);
  if (plan.items.splits > 1) {
    args.partial = reinterpret_cast<float*>(workspace);
    args.flags = reinterpret_cast<std::uint64_t*>(workspace + plan.partial_bytes);
    args.ticket = next_ticket();
  }
  launch(device, plan.kernel, "attention",
         {.grid_x = static_cast<unsigned>(plan.blocks()),
          .grid_y = 1,
          .grid_z = 1,
          .threads = decode_threads,
          .column_shift = 0},
         args, stream, plan.shared_bytes);
}

}  // namespace microscale::cuda::attention::decode
