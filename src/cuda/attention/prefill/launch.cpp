#include "cuda/attention/prefill/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/kv_page.hpp"

namespace microscale::cuda::attention::prefill {
namespace {

constexpr std::int64_t countable = std::int64_t{1} << 30;  // what kernels number in 32 bits

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
      refuse_attention(
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

/// An operand without its memory.
PrefillOperand operand_of(const char* name, const AttentionInput& input) {
  if (const auto* dense = std::get_if<HeadsView>(&input)) {
    const HeadsView v = with_strides(*dense);
    const std::int64_t bytes = size_of(v.dtype);
    return {{nullptr, v.batch_stride * bytes, v.token_stride * bytes, v.head_stride * bytes},
            {},
            nullptr,
            element_of(v.dtype)};
  }
  const auto& view = std::get<BlockHeadsView>(input);
  const FormatInfo& format = info(view.rows.shape.format);
  const auto plane = [&](std::int64_t row) {
    return PrefillPlane{nullptr, view.tokens * view.heads * row, view.heads * row, row};
  };
  const std::int64_t d = view.rows.shape.cols;
  return {plane(d * format.code_bits / 8), plane(d / format.block), nullptr,
          element_of(name, format.format)};
}
PrefillOperand operand_of(KvFormat format, const KvPart& codes, const KvPart& scales) {
  const auto plane = [](const KvPart& part) {
    return PrefillPlane{nullptr, part.page_stride, part.token_stride, part.head_stride};
  };
  return {plane(codes), plane(scales), nullptr, element_of(format)};
}

/// Sets an operand's memory.
void set_memory(PrefillOperand& operand, const AttentionInput& input) {
  if (const auto* dense = std::get_if<HeadsView>(&input)) {
    operand.codes.data = static_cast<const std::uint8_t*>(dense->data);
    return;
  }
  const BlockTensorView& rows = std::get<BlockHeadsView>(input).rows;
  operand.codes.data = rows.codes.data();
  operand.scales.data = rows.scales.data();
  operand.global =
      info(rows.shape.format).e8m0_scale ? nullptr : rows.global_scale.device_pointer();
}
void set_memory(PrefillOperand (&operands)[2], const KvCache& cache) {
  operands[0].codes.data = cache.k_codes.data;
  operands[0].scales.data = cache.k_scales.data;
  operands[1].codes.data = cache.v_codes.data;
  operands[1].scales.data = cache.v_scales.data;
  if ((cache.format != KvFormat::nvfp4 && cache.format != KvFormat::fp8) ||
      !cache.k_global_scale.device_pointer())
    return;
  operands[0].global = cache.k_global_scale.device_pointer();
  operands[1].global = cache.v_global_scale.device_pointer();
}

void check_codes(const char* name, const AttentionInput& input) {
  const auto* view = std::get_if<BlockHeadsView>(&input);
  if (view && reinterpret_cast<std::uintptr_t>(view->rows.codes.data()) % 16 != 0)
    refuse_attention(
        fmt::format("reads codes of {} at multiples of 16 bytes; move them there", name));
}
void check_codes(const AttentionCall& call) {
  check_codes("q", call.options.q);
  if (call.cache()) return;
  check_codes("k", call.options.k);
  check_codes("v", call.options.v);
}

bool is_mxfp4(const AttentionInput& input) {
  const auto* blocks = std::get_if<BlockHeadsView>(&input);
  return blocks && blocks->rows.shape.format == Format::mxfp4;
}

/// Whether products are those of FP8: what is asked for then is rounding of probabilities alone.
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
    refuse_attention(
        "has accuracy `storage`, and `one_term` with fp8 probabilities of q, k and v in MXFP4, d "
        "up to 128; take one of these, or a host backend");
  if (in_fp8(call) && call.scale == 0)
    refuse_attention("takes no scale of 0 with fp8 probabilities; take accuracy `storage`");
  if (o.splits > 1)
    refuse_attention(
        fmt::format("attends with many queries, or to keys outside of a cache, in one part, not in "
                    "{}; pass splits 0 or 1",
                    o.splits));
  const KvCache* cache = call.cache();
  if (!cache) return;
  if (cache->first.count > 0 || cache->recent.count > 0)
    refuse_attention("reads tokens from pages alone; keep no BF16 copies, or take a host backend");
  if (cache->k_mean || cache->hadamard != 0)
    refuse_attention(
        "takes K as it was, without a mean or a Hadamard transform; append it so, or take a "
        "host backend");
}

/// How a call is cut.
struct Cut {
  Items items;
  PrefillKeys keys{};          // without memory
  std::int64_t expanding = 0;  // tiles, of K and V
  bool is_countable() const {
    return items.head_rows <= countable && items.count <= countable && expanding <= countable;
  }
};

Cut cut(const AttentionCall& call) {
  Cut cut;
  cut.items = items_of(call, prefill_rows);
  PrefillKeys& keys = cut.keys;
  keys.d = static_cast<std::int32_t>(call.d);
  keys.width = in_fp8(call) ? 128 : prefill_width(keys.d);
  keys.page_shift = 30;
  const KvCache* cache = call.cache();
  if (cache) {
    keys.max_pages = cache->max_pages;
    keys.pages = cache->pages;
    if (cache->page_table)
      keys.page_shift = std::countr_zero(static_cast<std::uint64_t>(cache->page_size));
  } else {
    const auto* dense = std::get_if<HeadsView>(&call.options.k);
    keys.tokens = dense ? dense->tokens : std::get<BlockHeadsView>(call.options.k).tokens;
  }
  keys.most = static_cast<std::int32_t>(std::min(cut.items.most_keys, countable - 128));
  keys.sequences = static_cast<std::int32_t>(std::min(call.sequences, countable));
  keys.heads = static_cast<std::int32_t>(std::min(call.kv_heads, countable));
  const int tile = prefill_keys(keys.width);
  keys.tiles_each = static_cast<std::int32_t>(ceil_div(keys.most, tile));
  const bool packed = !cache && call.options.kv_offsets != nullptr;
  keys.all_tiles = packed ? keys.tokens / tile + call.sequences : call.sequences * keys.tiles_each;
  cut.expanding = 2 * call.sequences * call.kv_heads * std::max<std::int64_t>(keys.tiles_each, 1);
  return cut;
}

/// Sequences and heads whose items are mixed: as many as have expanded keys and values for half of
/// the second-level cache; all sections alike, or the last one would be too few for the device.
int section_of(const DeviceInfo& device, const AttentionCall& call, const PrefillKeys& keys,
               std::int64_t tile_bytes) {
  const std::int64_t heads = std::max<std::int64_t>(call.sequences * call.kv_heads, 1),
                     of_head = std::max<std::int64_t>(2 * keys.tiles_each * tile_bytes, 1),
                     most = std::clamp<std::int64_t>(device.l2_bytes / 2 / of_head, 1, heads);
  return static_cast<int>(ceil_div(heads, ceil_div(heads, most)));
}

void set_operands(Plan& plan, const AttentionCall& call) {
  PrefillOperand& k = plan.expand.operands[0];
  PrefillOperand& v = plan.expand.operands[1];
  plan.args.q = operand_of("q", call.options.q);
  if (const KvCache* cache = call.cache()) {
    k = operand_of(cache->format, cache->k_codes, cache->k_scales);
    v = operand_of(cache->format, cache->v_codes, cache->v_scales);
  } else {
    k = operand_of("k", call.options.k);
    v = operand_of("v", call.options.v);
  }
}

void set_args(Plan& plan, const DeviceInfo& device, const AttentionCall& call,
              const PrefillKeys& keys, std::int64_t tile_bytes) {
  AttentionPrefillArgs& args = plan.args;
  set_shape(args, call, plan.items);
  args.keys = keys;
  args.scale_log2 =
      call.scale == 0 ? 1.0f : static_cast<float>(std::fabs(call.scale) * std::numbers::log2e);
  args.sign = call.scale > 0 ? 1.0f : call.scale < 0 ? -1.0f : 0.0f;
  args.window = static_cast<std::int32_t>(std::min(call.options.window, countable));
  args.section = section_of(device, call, keys, tile_bytes);
  AttentionExpandArgs& expand = plan.expand;
  expand.keys = keys;
  expand.keys.tiles_each = std::max(keys.tiles_each, 1);
  expand.by_heads = divisor(keys.heads);
  expand.by_tiles = divisor(expand.keys.tiles_each);
  expand.by_sequences = divisor(keys.sequences);
}

Launch blocks_of(std::int64_t blocks, int threads) {
  return {.grid_x = static_cast<unsigned>(blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = static_cast<unsigned>(threads),
          .column_shift = 0};
}

// K, V or both, of the same type.
void expand(Device& device, const Entry<AttentionExpandArgs>& kernel, AttentionExpandArgs& args,
            int first, int count, Stream stream) {
  args.first = first;
  args.count = count;
  if (first > 0) args.counter = nullptr;
  const std::int64_t tiles =
      std::int64_t{args.keys.sequences} * args.keys.heads * args.keys.tiles_each;
  launch(device, kernel, "attention", blocks_of(count * tiles, prefill_expand_threads), args,
         stream);
}

void set_memory(PrefillKeys& keys, const AttentionCall& call) {
  const KvCache* cache = call.cache();
  keys.offsets = cache ? nullptr : call.options.kv_offsets;
  keys.lengths = cache ? cache->lengths : nullptr;
  keys.page_table = cache ? cache->page_table : nullptr;
}

}  // namespace

Plan plan_of(const DeviceInfo& device, const AttentionCall& call) {
  check_served(call);
  check_codes(call);
  Plan plan;
  set_operands(plan, call);
  const Cut of = cut(call);
  if (!of.is_countable())
    refuse_attention(
        fmt::format("takes up to 2^30 queries of a kv head and tiles of keys or queries a call, "
                    "not {}, {} and {}; take fewer sequences",
                    of.items.head_rows, of.expanding, of.items.count));
  plan.items = of.items;
  plan.fp8 = in_fp8(call);
  const std::int64_t tile = prefill_tile_bytes(of.keys.width, plan.fp8 ? 1 : 2),
                     tiles = of.keys.all_tiles * call.kv_heads;
  if (plan.items.count == 0) return plan;
  set_args(plan, device, call, of.keys, tile);
  plan.k_bytes = tiles * (tile + prefill_tile_info);
  plan.workspace_bytes = workspace_alignment + padded(plan.k_bytes) + padded(tiles * tile);
  const auto expansion = [&](const PrefillOperand& operand) {
    return plan.fp8 ? kernels::attention_expand("fp8")
                    : kernels::attention_expand(name_of(operand.element), of.keys.width);
  };
  plan.expand_k = expansion(plan.expand.operands[0]);
  plan.expand_v = expansion(plan.expand.operands[1]);
  const auto attend = [&](const auto& width) {
    return call.options.softcap > 0 ? kernels::attention_prefill(width, "softcap")
                                    : kernels::attention_prefill(width);
  };
  plan.kernel = plan.fp8 ? attend("fp8") : attend(of.keys.width);
  plan.blocks = std::min<std::int64_t>(plan.items.count, device.multiprocessors);
  return plan;
}

std::string describe(const Plan& plan) {
  if (plan.items.count == 0) return "nothing to do";
  std::string expanding(plan.expand_k.name);
  if (!(plan.expand_v == plan.expand_k)) expanding.append(", ").append(plan.expand_v.name);
  return fmt::format("{}, {}, {}, {} blocks", expanding, std::string_view(plan.kernel.name),
                     describe(plan.items), plan.blocks);
}

double cycles_of(const DeviceInfo& device, const AttentionCall& call) {
  const Cut of = cut(call);
  if (!of.is_countable()) return std::numeric_limits<double>::infinity();
  const double tile = prefill_tile_bytes(of.keys.width), tiles = of.keys.tiles_each;
  const double sms = device.multiprocessors;
  constexpr double bytes_a_cycle = 20.7, tile_cycles = 2700, item_cycles = 4000;
  const double expansion = static_cast<double>(call.sequences * call.kv_heads) * tiles * 2 * tile *
                           1.3 / (bytes_a_cycle * sms);
  const double waves = std::ceil(static_cast<double>(of.items.count) / sms);
  return item_cycles + expansion +
         waves * (item_cycles + tiles * tile_cycles * (tile / prefill_tile_bytes(128)));
}

void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream) {
  check_codes(call);
  AttentionExpandArgs expansion = plan.expand;
  AttentionPrefillArgs args = plan.args;
  set_memory(expansion.keys, call);
  set_memory(args.keys, call);
  if (call.cache()) {
    set_memory(expansion.operands, *call.cache());
  } else {
    set_memory(expansion.operands[0], call.options.k);
    set_memory(expansion.operands[1], call.options.v);
  }
  args.counter = expansion.counter = reinterpret_cast<std::uint32_t*>(workspace);
  args.tiles[0] = expansion.tiles[0] = workspace + workspace_alignment;
  args.tiles[1] = expansion.tiles[1] = expansion.tiles[0] + padded(plan.k_bytes);
  if (plan.expand_k == plan.expand_v) {
    expand(device, plan.expand_k, expansion, 0, 2, stream);
  } else {
    expand(device, plan.expand_k, expansion, 0, 1, stream);
    expand(device, plan.expand_v, expansion, 1, 1, stream);
  }
  attention::set_memory(args, call);
  set_memory(args.q, call.options.q);
  args.globals[0] = expansion.operands[0].global;
  args.globals[1] = expansion.operands[1].global;
  launch(device, plan.kernel, "attention", blocks_of(plan.blocks, prefill_threads), args, stream,
         prefill_shared(plan.args.keys.width, plan.fp8 ? 1 : 2).bytes);
}

}  // namespace microscale::cuda::attention::prefill
