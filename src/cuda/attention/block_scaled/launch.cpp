#include "cuda/attention/block_scaled/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda::attention::block_scaled {
namespace {

constexpr unsigned prepare_threads = 256;  // of a block, each has a block of an operand

/// One operand: as it is given, and the format that the kernel takes it in.
struct Input {
  const HeadsView* dense = nullptr;
  const BlockHeadsView* blocks = nullptr;
  Format format = Format::nvfp4;

  std::int64_t code_bytes(std::int64_t d) const { return d * info(format).code_bits / 8; }
  std::int64_t scale_bytes(std::int64_t d) const { return d / info(format).block; }
  std::int64_t tokens() const {  // of all sequences
    return dense ? dense->batch * dense->tokens : blocks ? blocks->batch * blocks->tokens : 0;
  }
};

Input input_of(const AttentionInput& input, Format rounded) {
  Input operand{std::get_if<HeadsView>(&input), std::get_if<BlockHeadsView>(&input), rounded};
  if (operand.blocks) operand.format = operand.blocks->rows.shape.format;
  return operand;
}

struct Inputs {
  Input q, k, v;
};

Inputs inputs_of(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  Inputs in{.q = input_of(o.q, call.query_format), .k = {}, .v = {}};
  if (!o.cache) {
    in.k = input_of(o.k, o.numerics.format);
    in.v = input_of(o.v, o.numerics.format);
  }
  return in;
}

void check_strides(const AttentionCall& call) {
  const KvCache* cache = call.cache();
  if (!cache) return check_stride(call.kv_heads * call.d);
  for (const KvPart* part : {&cache->k_codes, &cache->k_scales, &cache->v_codes, &cache->v_scales})
    check_stride(part->token_stride);
}

void check_alignment(const AttentionCall& call, const Inputs& in) {
  if (call.cache()) check_scales_aligned(*call.cache());
  check_aligned("q", in.q.blocks);
  check_aligned("k", in.k.blocks);
  check_aligned("v", in.v.blocks);
}

// Parts have four tiles of keys or more: less does not pay for a second launch.
int splits_of(const DeviceFacts& facts, const Plan& plan) {
  const std::int64_t tiles = ceil_div(plan.items.most_keys, std::int64_t{tile_keys});
  const int slots =
      facts.occupancy(plan.kernel, operation).most_clusters(1, plan.threads, plan.shared_bytes);
  return best_splits(plan.items.count, std::max(slots, 1), tiles, 1,
                     std::clamp<std::int64_t>(tiles / 4, 1, decode_most_splits),
                     {.block = 2, .merge = 4});
}

Entry<Args> kernel_of(const AttentionCall& call, const Inputs& in, bool along_tokens, int terms) {
  const char* const second = along_tokens                                   ? "tokens"
                             : call.probabilities == ProbabilityRule::exact ? "exact"
                                                                            : "two_level";
  const EntryFamily<Args>& family = kernels::attention_block_scaled;
  if (call.cache() && call.cache()->page_table) return family(second, "paged_nvfp4", call.d, terms);
  if (in.k.format == Format::nvfp4) return family(second, "nvfp4", call.d, terms);
  return family(second, info(in.q.format).name, info(in.k.format).name, call.d, terms);
}

void check_countable(const AttentionCall& call, const Plan& plan) {
  constexpr std::int64_t countable = (std::int64_t{1} << 30) - 256;
  const Items& items = plan.items;
  if (items.head_rows > countable || items.most_keys > countable ||
      items.count >= std::int64_t{1} << 31)
    refuse(
        fmt::format("takes up to 2^30 queries and keys of a sequence and 2^31 blocks of {} "
                    "queries, not {}, {} and {}; take fewer a call",
                    items.rows, items.head_rows, items.most_keys, items.count));
  if (plan.value_blocks / prepare_threads >= (std::int64_t{1} << 31) - 1)
    refuse(
        fmt::format("quantizes v by up to 2^31 thread blocks, not {} for {} sequences of up to {} "
                    "keys; pass max_kv_len, or fewer sequences a call",
                    plan.value_blocks / prepare_threads, call.sequences, items.most_keys));
}

DecodeRows rows_of(const HeadsView& given) {
  const HeadsView v = with_strides(given);
  return {nullptr, v.batch_stride, v.token_stride, v.head_stride,
          static_cast<std::int32_t>(v.dtype)};
}

Prepare prepare_of(const Input& operand, int terms, bool normalize) {
  const HeadsView& x = *operand.dense;
  Prepare prepare;
  prepare.kernel = kernels::attention_prepare_rows(
      operand.format == Format::mxfp8_e4m3 ? "mxfp8" : info(operand.format).name);
  PrepareHeadsArgs& args = prepare.args;
  args.input = rows_of(x);
  args.tokens = x.tokens;
  args.heads = x.heads;
  args.rows = x.batch * x.tokens * x.heads;
  args.d = static_cast<std::int32_t>(x.d);
  args.terms = terms;
  args.normalize = operand.format == Format::nvfp4 && normalize;
  prepare.blocks = args.rows * operand.scale_bytes(x.d);
  return prepare;
}

/// Takes memory for what is quantized, one piece behind the other.
void plan_operands(Plan& plan, const AttentionCall& call, const Inputs& in) {
  const auto take = [&](std::int64_t count) {
    return std::exchange(plan.workspace_bytes, plan.workspace_bytes + padded(count));
  };
  const auto take_rows = [&](const Input& x, std::int64_t rows) {
    const std::int64_t codes = take(rows * x.code_bytes(call.d));
    return Codes{codes, take(rows * x.scale_bytes(call.d))};
  };
  if (in.q.dense) {
    const std::int64_t rows = call.q_tokens * call.q_heads;
    for (int term = 0; term < plan.terms; ++term) plan.q_at[term] = take_rows(in.q, rows);
    plan.q_factors = take(rows * 4);
    plan.q = prepare_of(in.q, plan.terms, true);
  }
  const std::int64_t tokens = in.k.tokens(), rows = tokens * call.kv_heads;
  if (in.k.dense) {
    plan.k_at = take_rows(in.k, rows);
    plan.k = prepare_of(in.k, 1, false);
  }
  if (plan.along_tokens) {
    const std::int64_t head_tiles = first_value_tile(tokens, call.sequences);
    plan.v_at.codes = take(call.kv_heads * head_tiles * ValueTile::bytes(static_cast<int>(call.d)));
    const HeadsView& v = *in.v.dense;
    PrepareValuesArgs& args = plan.values;
    args.input = rows_of(v);
    args.tokens = v.tokens;
    args.heads = v.heads;
    args.d = static_cast<std::int32_t>(v.d);
    args.sequences = static_cast<std::int32_t>(call.sequences);
    args.all_tokens = v.batch * v.tokens;
    args.head_tiles = head_tiles;
    args.sequence_tiles = ceil_div(plan.items.most_keys, tile_keys);
  } else if (in.v.dense) {
    plan.v_at = take_rows(in.v, rows);
    plan.v = prepare_of(in.v, 1, false);
  }
}

Part packed(std::int64_t heads, std::int64_t row) {
  return {nullptr, 0, row, static_cast<std::uint32_t>(heads * row)};
}
Part cached(const KvPart& part) {
  return {nullptr, part.page_stride, part.head_stride,
          static_cast<std::uint32_t>(part.token_stride)};
}

void set_args(Plan& plan, const AttentionCall& call, const Inputs& in) {
  Args& args = plan.args;
  set_parts_shape(args, call, plan.items);
  if (const KvCache* cache = call.cache()) {
    args.max_pages = cache->max_pages;
    args.pages = cache->pages;
    args.page_shift = std::countr_zero(static_cast<std::uint64_t>(cache->page_size));
    args.k = cached(cache->k_codes);
    args.k_scale = cached(cache->k_scales);
    args.v = cached(cache->v_codes);
    args.v_scale = cached(cache->v_scales);
    return;
  }
  args.kv_tokens = in.k.dense ? in.k.dense->tokens : in.k.blocks->tokens;
  args.k = packed(call.kv_heads, in.k.code_bytes(call.d));
  args.k_scale = packed(call.kv_heads, in.k.scale_bytes(call.d));
  if (plan.along_tokens) {
    args.head_value_tiles = plan.values.head_tiles;
    return;
  }
  args.v = packed(call.kv_heads, in.v.code_bytes(call.d));
  args.v_scale = packed(call.kv_heads, in.v.scale_bytes(call.d));
}

Launch one_each(std::int64_t count) {
  return {static_cast<unsigned>(ceil_div(count, prepare_threads)), 1, 1, prepare_threads, 0};
}

/// A dense operand to codes along d.
void prepare(Device& device, const Prepare& plan, const HeadsView& input, std::uint8_t* workspace,
             std::span<const Codes> to, float* factors, Stream stream) {
  if (plan.blocks == 0) return;
  PrepareHeadsArgs args = plan.args;
  args.input.data = const_cast<void*>(input.data);
  for (std::size_t term = 0; term < to.size(); ++term) {
    args.codes[term] = workspace + to[term].codes;
    args.scales[term] = workspace + to[term].scales;
  }
  args.factors = factors;
  launch(device, plan.kernel, operation, one_each(plan.blocks), args, stream);
}

void prepare_operands(Device& device, const Plan& plan, const AttentionCall& call, const Inputs& in,
                      std::uint8_t* workspace, Stream stream) {
  if (in.q.dense)
    prepare(device, plan.q, *in.q.dense, workspace,
            std::span(plan.q_at).first(static_cast<std::size_t>(plan.terms)),
            reinterpret_cast<float*>(workspace + plan.q_factors), stream);
  if (in.k.dense) prepare(device, plan.k, *in.k.dense, workspace, {&plan.k_at, 1}, nullptr, stream);
  if (plan.along_tokens) {
    if (plan.value_blocks == 0) return;
    PrepareValuesArgs args = plan.values;
    args.input.data = const_cast<void*>(in.v.dense->data);
    args.kv_offsets = call.options.kv_offsets;
    args.tiles = workspace + plan.v_at.codes;
    launch(device, kernels::attention_prepare_values("nvfp4"), operation,
           one_each(plan.value_blocks), args, stream);
  } else if (in.v.dense) {
    prepare(device, plan.v, *in.v.dense, workspace, {&plan.v_at, 1}, nullptr, stream);
  }
}

void set_query_memory(Args& args, const Plan& plan, const Input& q, std::uint8_t* workspace) {
  if (q.blocks) {
    args.q_codes[0] = q.blocks->rows.codes.data();
    args.q_scales[0] = q.blocks->rows.scales.data();
    args.q_global = q.blocks->rows.global_scale.device_pointer();
    return;
  }
  for (int term = 0; term < plan.terms; ++term) {
    args.q_codes[term] = workspace + plan.q_at[term].codes;
    args.q_scales[term] = workspace + plan.q_at[term].scales;
  }
  if (q.format == Format::nvfp4)
    args.q_factors = reinterpret_cast<const float*>(workspace + plan.q_factors);
}

void set_cache_memory(Args& args, const KvCache& cache) {
  args.lengths = cache.lengths;
  args.page_table = cache.page_table;
  args.k.data = cache.k_codes.data;
  args.k_scale.data = cache.k_scales.data;
  args.v.data = cache.v_codes.data;
  args.v_scale.data = cache.v_scales.data;
  args.k_global = cache.k_global_scale.device_pointer();
  args.v_global = cache.v_global_scale.device_pointer();
}

void set_rows_memory(const Input& x, const Codes& at, std::uint8_t* workspace, Part& codes,
                     Part& scales, const float*& global) {
  codes.data = x.blocks ? x.blocks->rows.codes.data() : workspace + at.codes;
  scales.data = x.blocks ? x.blocks->rows.scales.data() : workspace + at.scales;
  if (x.blocks) global = x.blocks->rows.global_scale.device_pointer();
}

}  // namespace

Plan plan_of(const DeviceFacts& facts, const AttentionCall& call) {
  check_served(call);
  if (call.cache()) check_cache_served(*call.cache());
  check_strides(call);
  const Inputs in = inputs_of(call);
  check_alignment(call, in);
  const int d = static_cast<int>(call.d);
  Plan plan;
  const bool along_tokens = in.v.dense && call.options.numerics.v_along_tokens;
  plan.along_tokens = along_tokens;
  plan.terms = call.two_term ? 2 : 1;
  check_formats(call, in.q.format, in.k.format, in.v.format, along_tokens);
  plan.kernel = kernel_of(call, in, along_tokens, plan.terms);
  plan.threads = threads_of(d, along_tokens);
  plan.shared_bytes =
      shared_of(d, static_cast<int>(in.q.code_bytes(d)),
                static_cast<int>(ceil_div(in.q.scale_bytes(d), 4)), plan.terms, along_tokens)
          .bytes();
  plan.items = items_of(call, block_rows_of(d, plan.terms, along_tokens));
  if (along_tokens)
    plan.value_blocks = call.sequences * call.kv_heads * ceil_div(plan.items.most_keys, tile_keys) *
                        (tile_keys / 16) * d;
  check_countable(call, plan);
  plan_operands(plan, call, in);
  if (plan.items.count == 0) return plan;
  const int splits = call.options.splits;
  plan.items.splits = splits > 0 ? std::min(splits, decode_most_splits) : splits_of(facts, plan);
  if (plan.items.splits > 1) {
    plan.merge = kernels::attention_merge(d, plan.items.rows);
    plan.partial = plan.workspace_bytes;
    plan.workspace_bytes +=
        padded(decode_partial_floats(plan.items.count, plan.items.splits, plan.items.rows, d) * 4);
  }
  set_args(plan, call, in);
  return plan;
}

std::string describe(const Plan& plan) {
  if (plan.items.count == 0) return "nothing to do";
  std::string text;
  if (plan.q.blocks > 0) text += " q";
  if (plan.k.blocks > 0) text += " k";
  if (plan.v.blocks > 0) text += " v";
  if (plan.value_blocks > 0) text += " v along tokens";
  if (!text.empty()) text = "quantizes" + text + ", ";
  text += fmt::format("{}, {}", std::string_view(plan.kernel.name), describe(plan.items));
  return plan.merge ? text.append(", ").append(plan.merge.name) : text;
}

void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream) {
  const Inputs in = inputs_of(call);
  check_alignment(call, in);
  prepare_operands(device, plan, call, in, workspace, stream);
  Args args = plan.args;
  set_memory(args, call);
  args.kv_offsets = call.options.kv_offsets;
  args.partial = reinterpret_cast<float*>(workspace + plan.partial);
  set_query_memory(args, plan, in.q, workspace);
  if (call.cache()) {
    set_cache_memory(args, *call.cache());
  } else {
    set_rows_memory(in.k, plan.k_at, workspace, args.k, args.k_scale, args.k_global);
    if (plan.along_tokens)
      args.value_tiles = workspace + plan.v_at.codes;
    else
      set_rows_memory(in.v, plan.v_at, workspace, args.v, args.v_scale, args.v_global);
  }
  const std::int64_t blocks = plan.items.count * plan.items.splits;
  launch(device, plan.kernel, operation,
         {static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(plan.threads), 0}, args,
         stream, plan.shared_bytes);
  if (plan.items.splits > 1)
    launch(
        device, plan.merge, operation,
        {static_cast<unsigned>(plan.items.count * plan.items.merged_rows), 1, 1, decode_threads, 0},
        args, stream);
}

}  // namespace microscale::cuda::attention::block_scaled
