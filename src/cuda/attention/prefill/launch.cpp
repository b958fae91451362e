#include "cuda/attention/prefill/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "seam/kv_cache_view.hpp"
#include "cuda/attention/device_check.hpp"
#include "cuda/attention/prefill/plan.hpp"
#include "cuda/device/launch.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "attention";
constexpr std::int64_t countable = std::int64_t{1} << 30;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: backend cuda {}", operation, sentence));
}

const char* name_of(PrefillElement element) {
  constexpr const char* names[] = {"f32",   "f16",   "bf16",       "e4m3",
                                   "nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"};
  return names[static_cast<int>(element)];
}

PrefillElement element_of(DType type) {
  return type == DType::f32   ? PrefillElement::f32
         : type == DType::f16 ? PrefillElement::f16
                              : PrefillElement::bf16;
}
PrefillElement element_of(const char* name, Format format) {
  switch (format) {
    case Format::nvfp4:
      return PrefillElement::nvfp4;
    case Format::mxfp4:
      return PrefillElement::mxfp4;
    case Format::mxfp8_e4m3:
      return PrefillElement::mxfp8_e4m3;
    case Format::mxfp8_e5m2:
      return PrefillElement::mxfp8_e5m2;
    default:
      refuse(
          fmt::format("takes {} in NVFP4, MXFP4, MXFP8 or dense, not {}; dequantize it, or take "
                      "a host backend",
                      name, info(format).name));
  }
}
PrefillElement element_of(KvFormat format) {
  switch (format) {
    case KvFormat::nvfp4:
      return PrefillElement::nvfp4;
    case KvFormat::mxfp4:
      return PrefillElement::mxfp4;
    case KvFormat::mxfp8:
      return PrefillElement::mxfp8_e4m3;
    default:
      return PrefillElement::e4m3;
  }
}

PrefillOperand operand_of(const char* name, const AttentionInput& input) {
  if (const auto* dense = std::get_if<HeadsView>(&input)) {
    const HeadsView v = with_strides(*dense);
    const std::int64_t bytes = size_of(v.dtype);
    return {{static_cast<const std::uint8_t*>(v.data), v.batch_stride * bytes,
             v.token_stride * bytes, v.head_stride * bytes},
            {},
            nullptr,
            element_of(v.dtype)};
  }
  const auto& view = std::get<BlockHeadsView>(input);
  const FormatInfo& format = info(view.rows.shape.format);
  const PrefillElement element = element_of(name, format.format);
  if (reinterpret_cast<std::uintptr_t>(view.rows.codes.data()) % 16 != 0)
    refuse(fmt::format("reads codes of {} at multiples of 16 bytes; move them there", name));
  const auto plane = [&](const std::uint8_t* data, std::int64_t row) {
    return PrefillPlane{data, view.tokens * view.heads * row, view.heads * row, row};
  };
  const std::int64_t d = view.rows.shape.cols;
  return {plane(view.rows.codes.data(), d * format.code_bits / 8),
          plane(view.rows.scales.data(), d / format.block),
          format.e8m0_scale ? nullptr : view.rows.device_global_scale, element};
}

PrefillOperand operand_of(const KvCache& cache, const KvPart& codes, const KvPart& scales,
                          int which) {
  const auto plane = [](const KvPart& part) {
    return PrefillPlane{part.data, part.page_stride, part.token_stride, part.head_stride};
  };
  const bool has_global = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  return {plane(codes), plane(scales),
          has_global && cache.device_global_scales ? cache.device_global_scales + which : nullptr,
          element_of(cache.format)};
}

bool is_mxfp4(const AttentionInput& input) {
  const auto* blocks = std::get_if<BlockHeadsView>(&input);
  return blocks && blocks->rows.shape.format == Format::mxfp4;
}

// Whether products are those of FP8: what is asked for then is rounding of probabilities alone.
bool in_fp8(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  const bool keys =
      call.cache() ? call.cache()->format == KvFormat::mxfp4 : is_mxfp4(o.k) && is_mxfp4(o.v);
  return o.numerics.accuracy == AttentionAccuracy::one_term &&
         call.probabilities == ProbabilityRule::fp8 && is_mxfp4(o.q) && keys && call.d <= 128;
}

void check_served(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  if (o.numerics.accuracy != AttentionAccuracy::storage && !in_fp8(call))
    refuse(
        "has accuracy `storage`, and `one_term` with fp8 probabilities of q, k and v in MXFP4, d "
        "up "
        "to 128; take one of these, or a host backend");
  if (in_fp8(call) && call.scale == 0)
    refuse("takes no scale of 0 with fp8 probabilities; take accuracy `storage`");
  if (o.splits > 1)
    refuse(
        fmt::format("attends with many queries, or to keys outside of a cache, in one part, not in "
                    "{}; pass splits 0 or 1",
                    o.splits));
  const KvCache* cache = call.cache();
  if (!cache) return;
  if (cache->first.count > 0 || cache->recent.count > 0)
    refuse("reads tokens from pages alone; keep no BF16 copies, or take a host backend");
  if (cache->k_mean || cache->hadamard != 0)
    refuse(
        "takes K as it was, without a mean or a Hadamard transform; append it so, or take a "
        "host backend");
}

// How a call is cut: a function of its shapes and the device.
struct Plan {
  PrefillKeys keys{};
  PrefillOperand q{}, k{}, v{};
  std::int64_t most_q = 0, items = 0, passes = 0;
  std::int64_t k_bytes = 0, v_bytes = 0;
  int section = 1;
  bool fp8 = false;
  std::int64_t rows = 0, blocks = 0;  // queries of a kv head; that expand

  bool is_countable() const {
    return rows <= countable && items <= countable && blocks <= countable;
  }
  std::int64_t workspace_bytes() const {
    return items == 0 ? 0 : workspace_alignment + padded(k_bytes) + padded(v_bytes);
  }
};

PrefillKeys keys_of(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  PrefillKeys keys{};
  keys.d = static_cast<std::int32_t>(call.d);
  keys.width = in_fp8(call) ? 128 : prefill_width(keys.d);
  keys.page_shift = 30;
  std::int64_t most;
  if (const KvCache* cache = call.cache()) {
    most = cache->pages > 0 ? cache_capacity(*cache) : 0;
    keys.lengths = cache->lengths;
    keys.page_table = cache->page_table;
    keys.max_pages = cache->max_pages;
    keys.pages = cache->pages;
    if (cache->page_table)
      keys.page_shift = std::countr_zero(static_cast<std::uint64_t>(cache->page_size));
  } else {
    const auto* dense = std::get_if<HeadsView>(&o.k);
    keys.tokens = dense ? dense->tokens : std::get<BlockHeadsView>(o.k).tokens;
    keys.offsets = o.kv_offsets;
    most = keys.tokens;
  }
  if (o.max_kv_len > 0) most = std::min(most, o.max_kv_len);
  keys.most = static_cast<std::int32_t>(std::min(most, countable - 128));
  keys.sequences = static_cast<std::int32_t>(std::min(call.sequences, countable));
  keys.heads = static_cast<std::int32_t>(std::min(call.kv_heads, countable));
  const int tile = prefill_keys(keys.width);
  keys.tiles_each = static_cast<std::int32_t>(ceil_div(keys.most, tile));
  keys.all_tiles =
      keys.offsets ? keys.tokens / tile + call.sequences : call.sequences * keys.tiles_each;
  return keys;
}

Plan cut(Device& device, const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  Plan plan;
  plan.q = operand_of("q", o.q);
  if (const KvCache* cache = call.cache()) {
    plan.k = operand_of(*cache, cache->k_codes, cache->k_scales, 0);
    plan.v = operand_of(*cache, cache->v_codes, cache->v_scales, 1);
  } else {
    plan.k = operand_of("k", o.k);
    plan.v = operand_of("v", o.v);
  }
  plan.keys = keys_of(call);
  plan.most_q = call.q_dense() ? call.q_dense()->tokens : call.q_blocks()->tokens;
  if (o.max_q_len > 0) plan.most_q = std::min(plan.most_q, o.max_q_len);
  plan.rows = plan.most_q * call.group();
  plan.passes = ceil_div(plan.rows, prefill_rows);
  plan.items = call.sequences * call.kv_heads * plan.passes;
  plan.blocks =
      2 * call.sequences * call.kv_heads * std::max<std::int64_t>(plan.keys.tiles_each, 1);
  plan.fp8 = in_fp8(call);
  const std::int64_t tile = prefill_tile_bytes(plan.keys.width, plan.fp8 ? 1 : 2),
                     tiles = plan.keys.all_tiles * call.kv_heads;
  plan.k_bytes = tiles * (tile + prefill_tile_info);
  plan.v_bytes = tiles * tile;
  // As many heads as have expanded keys and values for half of the second-level cache; all sections
  // alike, or the last one would be too few for the device.
  const std::int64_t heads = std::max<std::int64_t>(call.sequences * call.kv_heads, 1),
                     of_head = std::max<std::int64_t>(2 * plan.keys.tiles_each * tile, 1),
                     most =
                         std::clamp<std::int64_t>(device.info().l2_bytes / 2 / of_head, 1, heads);
  plan.section = static_cast<int>(ceil_div(heads, ceil_div(heads, most)));
  return plan;
}

Plan plan_of(Device& device, const AttentionCall& call) {
  check_served(call);
  const Plan plan = cut(device, call);
  if (!plan.is_countable())
    refuse(
        fmt::format("takes up to 2^30 queries of a kv head and tiles of keys or queries a call, "
                    "not {}, {} and {}; take fewer sequences",
                    plan.rows, plan.blocks, plan.items));
  return plan;
}

AttentionPrefillArgs args_of(const AttentionCall& call, const Plan& plan) {
  const AttentionOptions& o = call.options;
  AttentionPrefillArgs args{};
  args.keys = plan.keys;
  args.q = plan.q;
  const MutableHeadsView output = with_strides(o.output);
  args.output = {output.data, output.batch_stride, output.token_stride, output.head_stride,
                 static_cast<std::int32_t>(output.dtype)};
  args.log_sum_exp = o.log_sum_exp;
  args.sinks = o.sinks;
  args.q_offsets = o.q_offsets;
  args.q_tokens = output.tokens;
  args.most_q = plan.most_q;
  args.globals[0] = plan.k.global;
  args.globals[1] = plan.v.global;
  args.scale_log2 =
      call.scale == 0 ? 1.0f : static_cast<float>(std::fabs(call.scale) * std::numbers::log2e);
  args.sign = call.scale > 0 ? 1.0f : call.scale < 0 ? -1.0f : 0.0f;
  args.softcap_log2 = static_cast<float>(o.softcap * std::numbers::log2e);
  args.window = static_cast<std::int32_t>(std::min(o.window, countable));
  args.causal = o.causal;
  args.group = static_cast<std::int32_t>(call.group());
  args.items = static_cast<std::int32_t>(plan.items);
  args.passes = static_cast<std::int32_t>(plan.passes);
  args.section = plan.section;
  return args;
}

Launch blocks_of(std::int64_t blocks, int threads) {
  return {.grid_x = static_cast<unsigned>(blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = static_cast<unsigned>(threads),
          .column_shift = 0};
}

// K, V or both, of the same type.
void expand(Device& device, const std::string& kernel, AttentionExpandArgs args, int first,
            int count, Stream stream) {
  args.first = first;
  args.count = count;
  if (first > 0) args.counter = nullptr;
  const std::int64_t tiles =
      std::int64_t{args.keys.sequences} * args.keys.heads * std::max(args.keys.tiles_each, 1);
  args.keys.tiles_each = std::max(args.keys.tiles_each, 1);
  args.by_heads = divisor(args.keys.heads);
  args.by_tiles = divisor(args.keys.tiles_each);
  args.by_sequences = divisor(args.keys.sequences);
  launch(device, kernel, operation, blocks_of(count * tiles, prefill_expand_threads), args, stream);
}

}  // namespace

std::int64_t attention_prefill_workspace_bytes(Device& device, const AttentionCall& call) {
  return plan_of(device, call).workspace_bytes();
}

void attention_prefill(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
                       Stream stream) {
  const Plan plan = plan_of(device, call);
  if (plan.items == 0) return;
  check_attention_memory(device, call, workspace, plan.workspace_bytes());
  AttentionPrefillArgs args = args_of(call, plan);
  AttentionExpandArgs expansion{};
  expansion.keys = plan.keys;
  expansion.operands[0] = plan.k;
  expansion.operands[1] = plan.v;
  args.counter = expansion.counter = reinterpret_cast<std::uint32_t*>(workspace.data());
  args.tiles[0] = expansion.tiles[0] = workspace.data() + workspace_alignment;
  args.tiles[1] = expansion.tiles[1] = expansion.tiles[0] + padded(plan.k_bytes);
  const auto kernel = [&](const PrefillOperand& operand) {
    return fmt::format("attention_expand_{}_{}", name_of(operand.element), plan.keys.width);
  };
  if (plan.fp8) {
    expand(device, "attention_expand_fp8", expansion, 0, 2, stream);
  } else if (plan.k.element == plan.v.element) {
    expand(device, kernel(plan.k), expansion, 0, 2, stream);
  } else {
    expand(device, kernel(plan.k), expansion, 0, 1, stream);
    expand(device, kernel(plan.v), expansion, 1, 1, stream);
  }
  const std::int64_t blocks = std::min<std::int64_t>(plan.items, device.info().multiprocessors);
  const std::string width = plan.fp8 ? "fp8" : fmt::format("{}", plan.keys.width);
  launch(device,
         fmt::format("attention_prefill_{}{}", width, call.options.softcap > 0 ? "_softcap" : ""),
         operation, blocks_of(blocks, prefill_threads), args, stream,
         prefill_shared(plan.keys.width, plan.fp8 ? 1 : 2).bytes);
}

double attention_prefill_cycles(Device& device, const AttentionCall& call) {
  const Plan plan = cut(device, call);
  if (!plan.is_countable()) return std::numeric_limits<double>::infinity();
  const double tile = prefill_tile_bytes(plan.keys.width), tiles = plan.keys.tiles_each;
  const double sms = device.info().multiprocessors;
  constexpr double bytes_a_cycle = 20.7, tile_cycles = 2700, item_cycles = 4000;
  const double expansion = static_cast<double>(call.sequences * call.kv_heads) * tiles * 2 * tile *
                           1.3 / (bytes_a_cycle * sms);
  const double waves = std::ceil(static_cast<double>(plan.items) / sms);
  return item_cycles + expansion +
         waves * (item_cycles + tiles * tile_cycles * (tile / prefill_tile_bytes(128)));
}

}  // namespace microscale::cuda
