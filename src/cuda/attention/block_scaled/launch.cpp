#include "cuda/attention/block_scaled/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numbers>

#include "seam/kv_cache_view.hpp"
#include "cuda/attention/block_scaled/check.hpp"
#include "cuda/attention/block_scaled/plan.hpp"
#include "cuda/attention/device_check.hpp"
#include "cuda/attention/splits.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/device/launch.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

using namespace block_attention;

constexpr unsigned prepare_threads = 256;  // of a block, each has a block of an operand

/// One operand: as it is given, and as the kernel takes it.
struct Input {
  const HeadsView* dense = nullptr;
  const BlockHeadsView* blocks = nullptr;
  Format format = Format::nvfp4;
};

Input operand_of(const AttentionInput& input, Format rounded) {
  Input operand{std::get_if<HeadsView>(&input), std::get_if<BlockHeadsView>(&input), rounded};
  if (operand.blocks) operand.format = operand.blocks->rows.shape.format;
  return operand;
}

/// What serves a call: operands, kernel, and where in the workspace what is dense becomes codes.
struct Plan {
  Input q, k, v;
  bool along_tokens = false;
  int terms = 1;
  std::string kernel;
  int threads = 0, block_rows = 0, shared_bytes = 0;
  std::int64_t most_q = 0, most_keys = 0, passes = 0, items = 0;
  int splits = 1, merged_rows = 0;                // rows of an item that are merged
  std::int64_t head_tiles = 0, value_blocks = 0;  // along the tokens
  // Offsets into the workspace.
  std::int64_t q_codes[2] = {}, q_scales[2] = {}, q_factors = 0, k_codes = 0, k_scales = 0,
               v_codes = 0, v_scales = 0, partial = 0, bytes = 0;

  std::int64_t take(std::int64_t count) {
    const std::int64_t at = bytes;
    bytes += padded(count);
    return at;
  }
};

std::int64_t code_bytes(Format format, std::int64_t d) { return d * info(format).code_bits / 8; }
std::int64_t scale_bytes(Format format, std::int64_t d) { return d / info(format).block; }

void check_formats(const Plan& plan, int d) {
  const Format q = plan.q.format, k = plan.k.format, v = plan.v.format;
  const bool nvfp4 = q == Format::nvfp4 && k == Format::nvfp4,
             mxfp4 = (q == Format::mxfp4 || q == Format::mxfp8_e4m3) && k == Format::mxfp4;
  if (!(nvfp4 || mxfp4) || v != Format::nvfp4)
    refuse(fmt::format(
        "multiplies q and k in nvfp4, or q in mxfp4 or mxfp8_e4m3 and k in mxfp4, and v in nvfp4, "
        "not q in {}, k in {} and v in {}; take these, or a host backend",
        info(q).name, info(k).name, info(v).name));
  if (mxfp4 && (d == 256 || plan.terms == 2))
    refuse(
        fmt::format("has kernels for keys in mxfp4 with d = 64 and 128 and one term of q and of "
                    "probabilities, not d = {} and {}; take one_term, nvfp4, or a host backend",
                    d, plan.terms));
}

// Parts have four tiles of keys or more: less does not pay for a second launch.
int splits_of(Device& device, const Plan& plan) {
  const std::int64_t tiles = ceil_div(plan.most_keys, std::int64_t{tile_keys});
  const int slots = device.most_clusters(load_kernel(device, plan.kernel, operation), 1,
                                         plan.threads, plan.shared_bytes);
  return best_splits(plan.items, std::max(slots, 1), tiles, 1,
                     std::clamp<std::int64_t>(tiles / 4, 1, decode_most_splits),
                     {.block = 2, .merge = 4});
}

Plan plan_of(Device& device, const AttentionCall& call) {
  check_served(call);
  const AttentionOptions& o = call.options;
  const int d = static_cast<int>(call.d);
  Plan plan;
  const Format format = o.numerics.format;
  plan.q = operand_of(o.q, call.query_format);
  if (o.cache) {
    check_cache_served(*o.cache);
    for (const KvPart* part :
         {&o.cache->k_codes, &o.cache->k_scales, &o.cache->v_codes, &o.cache->v_scales})
      check_stride(part->token_stride);
    plan.k.format = plan.v.format = Format::nvfp4;
  } else {
    plan.k = operand_of(o.k, format);
    plan.v = operand_of(o.v, format);
    check_stride(call.kv_heads * call.d);
  }
  check_aligned("q", plan.q.blocks);
  check_aligned("k", plan.k.blocks);
  check_aligned("v", plan.v.blocks);
  plan.along_tokens = plan.v.dense && o.numerics.v_along_tokens;
  plan.terms = call.two_term ? 2 : 1;
  check_formats(plan, d);
  const bool exact = call.probabilities == ProbabilityRule::exact;
  if (exact && plan.along_tokens)
    refuse(
        "multiplies V with blocks along the tokens by two-level probabilities alone; take these, "
        "or blocks along d");
  if (d == 256 && plan.terms == 2 && !exact && !plan.along_tokens)
    refuse(
        "has no room in its registers for d = 256 with two terms of probabilities and V's blocks "
        "along d; take one_term, exact probabilities or v_along_tokens");
  const char* const second = plan.along_tokens ? "tokens" : exact ? "exact" : "two_level";
  const std::string keys =
      plan.k.format == Format::nvfp4
          ? "nvfp4"
          : fmt::format("{}_{}", info(plan.q.format).name, info(plan.k.format).name);
  const char* const paged = o.cache && o.cache->page_table ? "paged_" : "";
  plan.kernel =
      fmt::format("attention_block_scaled_{}_{}{}_{}_{}", second, paged, keys, d, plan.terms);
  plan.threads = threads_of(d, plan.along_tokens);
  plan.block_rows = block_rows_of(d, plan.terms, plan.along_tokens);
  plan.shared_bytes = shared_of(d, static_cast<int>(code_bytes(plan.q.format, d)),
                                static_cast<int>(ceil_div(scale_bytes(plan.q.format, d), 4)),
                                plan.terms, plan.along_tokens)
                          .bytes();

  const std::int64_t q_tokens = call.q_tokens;
  const std::int64_t kv_tokens = plan.k.dense    ? plan.k.dense->batch * plan.k.dense->tokens
                                 : plan.k.blocks ? plan.k.blocks->batch * plan.k.blocks->tokens
                                                 : 0;
  const std::int64_t of_sequence = plan.k.dense         ? plan.k.dense->tokens
                                   : plan.k.blocks      ? plan.k.blocks->tokens
                                   : o.cache->pages > 0 ? cache_capacity(*o.cache)
                                                        : 0;
  plan.most_q = plan.q.dense ? plan.q.dense->tokens : plan.q.blocks->tokens;
  if (o.max_q_len > 0) plan.most_q = std::min(plan.most_q, o.max_q_len);
  plan.most_keys = of_sequence;
  if (o.max_kv_len > 0) plan.most_keys = std::min(plan.most_keys, o.max_kv_len);
  constexpr std::int64_t countable = (std::int64_t{1} << 30) - 256;
  const std::int64_t rows = plan.most_q * call.group();
  plan.passes = ceil_div(rows, plan.block_rows);
  plan.merged_rows = static_cast<int>(std::min<std::int64_t>(rows, plan.block_rows));
  plan.items = call.sequences * call.kv_heads * plan.passes;
  if (rows > countable || plan.most_keys > countable || plan.items >= std::int64_t{1} << 31)
    refuse(
        fmt::format("takes up to 2^30 queries and keys of a sequence and 2^31 blocks of {} "
                    "queries, not {}, {} and {}; take fewer a call",
                    plan.block_rows, rows, plan.most_keys, plan.items));

  plan.value_blocks = plan.along_tokens
                          ? call.sequences * call.kv_heads * ceil_div(plan.most_keys, tile_keys) *
                                (tile_keys / 16) * d
                          : 0;
  if (plan.value_blocks / prepare_threads >= (std::int64_t{1} << 31) - 1)
    refuse(
        fmt::format("quantizes v by up to 2^31 thread blocks, not {} for {} sequences of up to {} "
                    "keys; pass max_kv_len, or fewer sequences a call",
                    plan.value_blocks / prepare_threads, call.sequences, plan.most_keys));

  if (plan.q.dense) {
    const std::int64_t count = q_tokens * call.q_heads;
    for (int term = 0; term < plan.terms; ++term) {
      plan.q_codes[term] = plan.take(count * code_bytes(plan.q.format, d));
      plan.q_scales[term] = plan.take(count * scale_bytes(plan.q.format, d));
    }
    plan.q_factors = plan.take(count * 4);
  }
  const std::int64_t kv_rows = kv_tokens * call.kv_heads;
  if (plan.k.dense) {
    plan.k_codes = plan.take(kv_rows * code_bytes(plan.k.format, d));
    plan.k_scales = plan.take(kv_rows * scale_bytes(plan.k.format, d));
  }
  if (plan.along_tokens) {
    plan.head_tiles = first_value_tile(kv_tokens, call.sequences);
    plan.v_codes = plan.take(call.kv_heads * plan.head_tiles * ValueTile::bytes(d));
  } else if (plan.v.dense) {
    plan.v_codes = plan.take(kv_rows * code_bytes(plan.v.format, d));
    plan.v_scales = plan.take(kv_rows * scale_bytes(plan.v.format, d));
  }
  if (plan.items == 0) return plan;
  plan.splits = o.splits > 0 ? std::min(o.splits, decode_most_splits) : splits_of(device, plan);
  if (plan.splits > 1)
    plan.partial =
        plan.take(decode_partial_floats(plan.items, plan.splits, plan.block_rows, d) * 4);
  return plan;
}

DecodeRows rows_of(const HeadsView& given) {
  const HeadsView v = with_strides(given);
  return {const_cast<void*>(v.data), v.batch_stride, v.token_stride, v.head_stride,
          static_cast<std::int32_t>(v.dtype)};
}

Launch one_each(std::int64_t count) {
  return {static_cast<unsigned>(ceil_div(count, prepare_threads)), 1, 1, prepare_threads, 0};
}

/// A dense operand to codes along d, in so many terms.
void prepare_rows(Device& device, const Input& operand, int terms, const PrepareRowsArgs& to,
                  Stream stream) {
  const HeadsView& x = *operand.dense;
  PrepareRowsArgs args = to;
  args.input = rows_of(x);
  args.tokens = x.tokens;
  args.heads = x.heads;
  args.rows = x.batch * x.tokens * x.heads;
  args.d = static_cast<std::int32_t>(x.d);
  args.terms = terms;
  args.normalize = operand.format == Format::nvfp4 && to.factors != nullptr;
  const std::int64_t blocks = args.rows * (x.d / info(operand.format).block);
  if (blocks > 0)
    launch(device,
           fmt::format("attention_prepare_rows_{}",
                       operand.format == Format::mxfp8_e4m3 ? "mxfp8" : info(operand.format).name),
           operation, one_each(blocks), args, stream);
}

void prepare_values(Device& device, const AttentionCall& call, const Plan& plan,
                    std::uint8_t* tiles, Stream stream) {
  const HeadsView& v = *plan.v.dense;
  PrepareValuesArgs args{};
  args.input = rows_of(v);
  args.tokens = v.tokens;
  args.heads = v.heads;
  args.d = static_cast<std::int32_t>(v.d);
  args.sequences = static_cast<std::int32_t>(call.sequences);
  args.kv_offsets = call.options.kv_offsets;
  args.all_tokens = v.batch * v.tokens;
  args.tiles = tiles;
  args.head_tiles = plan.head_tiles;
  args.sequence_tiles = ceil_div(plan.most_keys, tile_keys);
  if (plan.value_blocks > 0)
    launch(device, "attention_prepare_values_nvfp4", operation, one_each(plan.value_blocks), args,
           stream);
}

Part packed(const std::uint8_t* data, std::int64_t heads, std::int64_t row) {
  return {data, 0, row, static_cast<std::uint32_t>(heads * row)};
}
Part cached(const KvPart& part) {
  return {part.data, part.page_stride, part.head_stride,
          static_cast<std::uint32_t>(part.token_stride)};
}

Args args_of(const AttentionCall& call, const Plan& plan, std::uint8_t* workspace) {
  const AttentionOptions& o = call.options;
  Args args{};
  const MutableHeadsView out = with_strides(o.output);
  args.output = {out.data, out.batch_stride, out.token_stride, out.head_stride,
                 static_cast<std::int32_t>(out.dtype)};
  args.log_sum_exp = o.log_sum_exp;
  args.sinks = o.sinks;
  args.q_offsets = o.q_offsets;
  args.q_tokens = out.tokens;
  args.most_q = plan.most_q;
  args.most_keys = plan.most_keys;
  args.scale_log2 = static_cast<float>(call.scale * std::numbers::log2e);
  args.softcap_log2 = static_cast<float>(o.softcap * std::numbers::log2e);
  args.window = o.window;
  args.causal = o.causal;
  args.d = static_cast<std::int32_t>(call.d);
  args.q_heads = static_cast<std::int32_t>(call.q_heads);
  args.kv_heads = static_cast<std::int32_t>(call.kv_heads);
  args.group = static_cast<std::int32_t>(call.group());
  args.items = static_cast<std::int32_t>(plan.items);
  args.passes = static_cast<std::int32_t>(plan.passes);
  args.splits = plan.splits;
  args.partial = reinterpret_cast<float*>(workspace + plan.partial);
  args.merged_rows = plan.merged_rows;
  decode_divisors(args);
  args.kv_offsets = o.kv_offsets;
  if (plan.q.blocks) {
    args.q_codes[0] = plan.q.blocks->rows.codes.data();
    args.q_scales[0] = plan.q.blocks->rows.scales.data();
    args.q_global = plan.q.blocks->rows.device_global_scale;
  } else {
    for (int term = 0; term < plan.terms; ++term) {
      args.q_codes[term] = workspace + plan.q_codes[term];
      args.q_scales[term] = workspace + plan.q_scales[term];
    }
    if (plan.q.format == Format::nvfp4)
      args.q_factors = reinterpret_cast<const float*>(workspace + plan.q_factors);
  }
  if (o.cache) {
    args.lengths = o.cache->lengths;
    args.page_table = o.cache->page_table;
    args.max_pages = o.cache->max_pages;
    args.pages = o.cache->pages;
    args.page_shift = std::countr_zero(static_cast<std::uint64_t>(o.cache->page_size));
    args.k = cached(o.cache->k_codes);
    args.k_scale = cached(o.cache->k_scales);
    args.v = cached(o.cache->v_codes);
    args.v_scale = cached(o.cache->v_scales);
    args.k_global = o.cache->device_global_scales;
    args.v_global = o.cache->device_global_scales + 1;
    return args;
  }
  const auto place = [&](const Input& x, std::int64_t codes, std::int64_t scales, Part& code,
                         Part& scale, const float*& global) {
    code = packed(x.blocks ? x.blocks->rows.codes.data() : workspace + codes, call.kv_heads,
                  code_bytes(x.format, call.d));
    scale = packed(x.blocks ? x.blocks->rows.scales.data() : workspace + scales, call.kv_heads,
                   scale_bytes(x.format, call.d));
    if (x.blocks) global = x.blocks->rows.device_global_scale;
  };
  args.kv_tokens = plan.k.dense ? plan.k.dense->tokens : plan.k.blocks->tokens;
  place(plan.k, plan.k_codes, plan.k_scales, args.k, args.k_scale, args.k_global);
  if (plan.along_tokens) {
    args.value_tiles = workspace + plan.v_codes;
    args.head_value_tiles = plan.head_tiles;
  } else {
    place(plan.v, plan.v_codes, plan.v_scales, args.v, args.v_scale, args.v_global);
  }
  return args;
}

}  // namespace

std::int64_t blackwell_attention_workspace_bytes(Device& device, const AttentionCall& call) {
  return plan_of(device, call).bytes;
}

void blackwell_attention(Device& device, const AttentionCall& call,
                         std::span<std::uint8_t> workspace, Stream stream) {
  const Plan plan = plan_of(device, call);
  if (plan.items == 0) return;
  check_attention_memory(device, call, workspace, plan.bytes);
  std::uint8_t* const work = workspace.data();
  if (plan.q.dense) {
    PrepareRowsArgs to{};
    for (int term = 0; term < plan.terms; ++term) {
      to.codes[term] = work + plan.q_codes[term];
      to.scales[term] = work + plan.q_scales[term];
    }
    to.factors = reinterpret_cast<float*>(work + plan.q_factors);
    prepare_rows(device, plan.q, plan.terms, to, stream);
  }
  const auto prepare_kv = [&](const Input& x, std::int64_t codes, std::int64_t scales) {
    PrepareRowsArgs to{};
    to.codes[0] = work + codes;
    to.scales[0] = work + scales;
    prepare_rows(device, x, 1, to, stream);
  };
  if (plan.k.dense) prepare_kv(plan.k, plan.k_codes, plan.k_scales);
  if (plan.along_tokens)
    prepare_values(device, call, plan, work + plan.v_codes, stream);
  else if (plan.v.dense)
    prepare_kv(plan.v, plan.v_codes, plan.v_scales);
  const Args args = args_of(call, plan, work);
  launch(device, plan.kernel, operation,
         {static_cast<unsigned>(plan.items * plan.splits), 1, 1,
          static_cast<unsigned>(plan.threads), 0},
         args, stream, plan.shared_bytes);
  if (plan.splits > 1)
    launch(device, fmt::format("attention_merge_{}_{}", call.d, plan.block_rows), operation,
           {static_cast<unsigned>(plan.items * plan.merged_rows), 1, 1, decode_threads, 0}, args,
           stream);
}

}  // namespace microscale::cuda
