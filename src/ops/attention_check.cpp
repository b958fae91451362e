// What attention refuses, each with one sentence.
#include "ops/attention_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "seam/kv_cache_view.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"
#include "ops/check.hpp"
#include "ops/kv_cache_check.hpp"
#include "ops/operand_memory.hpp"

namespace microscale {
namespace {

constexpr const char* operation = "attention";
constexpr int most_splits = 256;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, sentence));
}

struct Sizes {
  std::int64_t batch, tokens, heads, d;
};

Sizes sizes_of(const AttentionInput& input) {
  if (const auto* dense = std::get_if<HeadsView>(&input))
    return {dense->batch, dense->tokens, dense->heads, dense->d};
  const auto& blocks = std::get<BlockHeadsView>(input);
  return {blocks.batch, blocks.tokens, blocks.heads, blocks.rows.shape.cols};
}

bool is_absent(const AttentionInput& input) {
  const auto* dense = std::get_if<HeadsView>(&input);
  return dense && dense->data == nullptr && dense->tokens == 0 && dense->heads == 0;
}

void check_blocks(const char* name, const BlockHeadsView& view, bool on_device,
                  std::vector<MemoryRange>& ranges) {
  const BlockShape& shape = view.rows.shape;
  const FormatInfo& format = info(shape.format);
  if (view.batch < 0 || view.tokens < 0 || view.heads < 0 || shape.rows < 0 || shape.cols < 0)
    refuse(fmt::format("{} is [{}, {}, {}, {}] of {} rows; no size may be negative", name,
                       view.batch, view.tokens, view.heads, shape.cols, shape.rows));
  check_fits(operation, name, {view.batch, view.tokens, view.heads, shape.cols});
  check_fits(operation, name, {shape.rows, shape.cols});
  if (shape.rows != view.batch * view.tokens * view.heads)
    refuse(fmt::format("{} is [{}, {}, {}, d] of {} rows; rows must be batch * tokens * heads",
                       name, view.batch, view.tokens, view.heads, shape.rows));
  if (shape.axis != BlockAxis::cols || shape.layout != Layout::row_major)
    refuse(
        fmt::format("{} must have its blocks along d and row-major scales; quantize it with "
                    "BlockAxis::cols and Layout::row_major",
                    name));
  if (shape.cols % format.block != 0)
    refuse(fmt::format("{} has rows of d = {}, no multiple of {}'s block of {}", name, shape.cols,
                       format.name, format.block));
  check_bytes(operation, fmt::format("{} codes", name).c_str(),
              static_cast<std::int64_t>(view.rows.codes.size()), shape.code_bytes());
  check_bytes(operation, fmt::format("{} scales", name).c_str(),
              static_cast<std::int64_t>(view.rows.scales.size()), shape.scale_bytes());
  if (shape.rows > 0 && (view.rows.codes.data() == nullptr || view.rows.scales.data() == nullptr))
    refuse(fmt::format("the codes or the scales of {} are null", name));
  if (!format.e8m0_scale)
    check_global_scale(fmt::format("{}: {}", operation, name).c_str(), view.rows.global_scale,
                       on_device);
  ranges.push_back(
      {name, format.e8m0_scale ? nullptr : view.rows.global_scale.device_pointer(), 4});
  ranges.push_back(
      {name, view.rows.codes.data(), static_cast<std::int64_t>(view.rows.codes.size())});
  ranges.push_back(
      {name, view.rows.scales.data(), static_cast<std::int64_t>(view.rows.scales.size())});
}

void check_input(const char* name, const AttentionInput& input, bool on_device,
                 std::vector<MemoryRange>& ranges) {
  if (const auto* dense = std::get_if<HeadsView>(&input))
    ranges.push_back(check_heads(operation, name, *dense, on_device));
  else
    check_blocks(name, std::get<BlockHeadsView>(input), on_device, ranges);
}

// Offsets of packed sequences; on a host they are read.
void check_offsets(const char* name, const std::int32_t* offsets, std::int64_t sequences,
                   std::int64_t batch, std::int64_t tokens, bool on_device) {
  check_aligned(operation, fmt::format("offsets of {}", name).c_str(), offsets,
                sizeof(std::int32_t));
  if (batch != 1)
    refuse(fmt::format("{} has offsets and a batch of {}; pack all sequences into a batch of 1",
                       name, batch));
  std::int64_t former = 0;
  for (std::int64_t s = 0; !on_device && s <= sequences; ++s) {
    if (offsets[s] < former || offsets[s] > tokens)
      refuse(
          fmt::format("offset {} of {} is {} after {} for {} tokens; offsets must not decrease or "
                      "leave the tensor",
                      s, name, offsets[s], former, tokens));
    former = offsets[s];
  }
}

void check_scalars(const AttentionOptions& o) {
  if (o.scale && !std::isfinite(*o.scale))
    refuse(fmt::format("scale is {}; it must be finite", *o.scale));
  if (!(o.softcap >= 0) || !std::isfinite(o.softcap))
    refuse(fmt::format("softcap is {}; it must be finite and positive, or 0 for none", o.softcap));
  if (o.window < 0) refuse(fmt::format("a window of {} keys; pass 0 for all of them", o.window));
  if (o.splits < 0 || o.splits > most_splits)
    refuse(fmt::format("{} splits; pass 1 to {}, or 0 for a choice", o.splits, most_splits));
  if (o.max_q_len < 0 || o.max_kv_len < 0)
    refuse(fmt::format("bounds of {} queries and {} keys; pass 0 for none", o.max_q_len,
                       o.max_kv_len));
}

// Rows of the output must not share elements: the strides, sorted, each reach past what is inside.
MemoryRange check_output(const AttentionOptions& o, const Sizes& q, bool on_device) {
  const MutableHeadsView& given = o.output;
  const MemoryRange range =
      check_heads(operation, "the output",
                  {given.data, given.dtype, given.batch, given.tokens, given.heads, given.d,
                   given.token_stride, given.head_stride, given.batch_stride},
                  on_device);
  const MutableHeadsView v = with_strides(given);
  if (v.batch != q.batch || v.tokens != q.tokens || v.heads != q.heads || v.d != q.d)
    refuse(fmt::format("the output is [{}, {}, {}, {}], q [{}, {}, {}, {}]; they must agree",
                       v.batch, v.tokens, v.heads, v.d, q.batch, q.tokens, q.heads, q.d));
  struct Axis {
    std::int64_t stride, count;
  };
  std::array<Axis, 3> axes{
      {{v.head_stride, v.heads}, {v.token_stride, v.tokens}, {v.batch_stride, v.batch}}};
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::int64_t extent = v.d;
  for (const Axis& axis : axes) {
    if (axis.count > 1 && axis.stride < extent)
      refuse(fmt::format(
          "the output's strides of {}, {} and {} elements (batch, token, head) make its "
          "rows overlap",
          v.batch_stride, v.token_stride, v.head_stride));
    if (axis.count > 1) extent = (axis.count - 1) * axis.stride + extent;
  }
  return range;
}

void resolve_numerics(AttentionCall& call) {
  const AttentionNumerics& n = call.options.numerics;
  if (n.accuracy > AttentionAccuracy::two_term || n.probabilities > ProbabilityRule::fp8)
    refuse(fmt::format("accuracy {}, probabilities {}: no such values; take enumerators",
                       static_cast<int>(n.accuracy), static_cast<int>(n.probabilities)));
  const bool storage = n.accuracy == AttentionAccuracy::storage;
  const auto* k = std::get_if<BlockHeadsView>(&call.options.k);
  const auto* v = std::get_if<BlockHeadsView>(&call.options.v);
  if (storage) {
    if (n.probabilities != ProbabilityRule::of_mode && n.probabilities != ProbabilityRule::exact)
      refuse(
          "accuracy `storage` rounds no probabilities; take one_term or two_term with this rule");
    return;
  }
  if (n.format != Format::nvfp4 && n.format != Format::mxfp4 && n.format != Format::mxfp8_e4m3)
    refuse(fmt::format(
        "one_term and two_term make nvfp4, mxfp4 or mxfp8_e4m3 of dense operands, not {}",
        info(n.format).name));
  const KvCache* cache = call.cache();
  const Format k_format = cache ? block_format(cache->format) : k ? k->rows.shape.format : n.format;
  call.v_format = cache ? block_format(cache->format) : v ? v->rows.shape.format : n.format;
  const bool bits8 =
      info(k_format).element == Element::e4m3 || info(k_format).element == Element::e5m2;
  if (!bits8 && k_format != Format::nvfp4 && k_format != Format::mxfp4)
    refuse(
        fmt::format("one_term and two_term take k in NVFP4, MXFP4 or MXFP8, not {}; take accuracy "
                    "`storage`",
                    info(k_format).name));
  call.round_query = call.q_dense() != nullptr;
  call.query_format = bits8 || (k_format == Format::mxfp4 && n.format == Format::mxfp8_e4m3)
                          ? Format::mxfp8_e4m3
                          : k_format;
  call.two_term = n.accuracy == AttentionAccuracy::two_term;
  call.probabilities = n.probabilities;
  if (n.probabilities == ProbabilityRule::of_mode)
    call.probabilities =
        info(call.v_format).code_bits == 8 ? ProbabilityRule::fp8 : ProbabilityRule::two_level;
  if (call.v_format != Format::mxfp4) call.v_format = Format::nvfp4;
}

// Lengths against their bounds, and the pages that are read.
void check_lengths(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  for (std::int64_t s = 0; s < call.sequences; ++s) {
    const std::int64_t q_len = call.q_length(s), kv_len = call.kv_length(s);
    if ((o.max_q_len > 0 && q_len > o.max_q_len) || (o.max_kv_len > 0 && kv_len > o.max_kv_len))
      refuse(fmt::format("sequence {} has {} queries and {} keys, more than{}{}{}", s, q_len,
                         kv_len, o.max_q_len > 0 ? fmt::format(" max_q_len {}", o.max_q_len) : "",
                         o.max_q_len > 0 && o.max_kv_len > 0 ? " or" : "",
                         o.max_kv_len > 0 ? fmt::format(" max_kv_len {}", o.max_kv_len) : ""));
    if (!call.cache() || q_len == 0) continue;
    const KvCache& cache = *call.cache();
    const kv_page::Range paged =
        kv_page::paged_positions(kv_len, cache.first.count, cache.recent.count);
    const std::int64_t seen =
        o.window > 0 ? kv_len - q_len - std::min(o.window, kv_len + q_len) + 1 : 0;
    check_pages(operation, cache, s, std::max(paged.begin, seen), paged.end);
  }
}

}  // namespace

bool attention_runs_on_device(const AttentionOptions& o, const Context& context) {
  constexpr auto input = [](const char* name, const AttentionInput& given) {
    const auto* dense = std::get_if<HeadsView>(&given);
    return dense ? operand(name, *dense) : operand(name, std::get<BlockHeadsView>(given).rows);
  };
  OperandMemory output = operand("the output", o.output);
  output.data = {o.output.data, o.log_sum_exp, o.sinks, o.q_offsets, o.kv_offsets};
  if (o.cache)
    return runs_on_device(operation, context,
                          {input("q", o.q), operand("the cache", *o.cache), output});
  return runs_on_device(operation, context,
                        {input("q", o.q), input("k", o.k), input("v", o.v), output});
}

AttentionCall check_attention(const AttentionOptions& o, bool on_device) {
  AttentionCall call{.options = o};
  call.on_device = on_device;
  std::vector<MemoryRange>& ranges = call.memory;
  check_scalars(o);
  check_input("q", o.q, on_device, ranges);
  const Sizes q = sizes_of(o.q);
  if (q.d < kv_page::d_step || q.d > kv_page::largest_d || q.d % kv_page::d_step != 0)
    refuse(fmt::format("q has d = {}; it must be a multiple of {} up to {}", q.d, kv_page::d_step,
                       kv_page::largest_d));
  if (o.cache && !(is_absent(o.k) && is_absent(o.v) && o.kv_offsets == nullptr))
    refuse("both a cache and k, v or kv_offsets; pass the one or the other");
  Sizes kv{};
  if (o.cache) {
    check_cache(operation, *o.cache, on_device);
    kv = {o.cache->batch, 0, o.cache->kv_heads, o.cache->d};
    cache_memory(*o.cache, ranges);
    cache_tables(*o.cache, ranges);
  } else {
    if (is_absent(o.k) || is_absent(o.v)) refuse("no keys or no values; pass k and v, or a cache");
    check_input("k", o.k, on_device, ranges);
    check_input("v", o.v, on_device, ranges);
    kv = sizes_of(o.k);
    const Sizes v = sizes_of(o.v);
    if (kv.batch != v.batch || kv.tokens != v.tokens || kv.heads != v.heads || kv.d != v.d)
      refuse(fmt::format("k is [{}, {}, {}, {}], v [{}, {}, {}, {}]; they must agree", kv.batch,
                         kv.tokens, kv.heads, kv.d, v.batch, v.tokens, v.heads, v.d));
  }
  if (kv.d != q.d) refuse(fmt::format("q has d = {}, the keys d = {}; they must agree", q.d, kv.d));
  if (kv.heads < 1 || q.heads < 1 || q.heads % kv.heads != 0)
    refuse(
        fmt::format("{} query heads for {} kv heads; pass a multiple of them", q.heads, kv.heads));
  if ((o.q_offsets || o.kv_offsets) && o.sequences < 0)
    refuse(fmt::format("{} sequences; pass 0 or more", o.sequences));
  if (!o.q_offsets && !o.kv_offsets && o.sequences != 0)
    refuse(fmt::format("{} sequences without offsets; leave it 0, the batch says how many",
                       o.sequences));
  if (o.q_offsets) check_offsets("q", o.q_offsets, o.sequences, q.batch, q.tokens, on_device);
  if (o.kv_offsets) check_offsets("k", o.kv_offsets, o.sequences, kv.batch, kv.tokens, on_device);
  call.sequences = o.q_offsets ? o.sequences : q.batch;
  const std::int64_t kv_sequences = o.kv_offsets ? o.sequences : kv.batch;
  if (call.sequences != kv_sequences)
    refuse(
        fmt::format("{} sequences of queries and {} of keys; they must agree (`sequences` with "
                    "offsets, else the batch of q, of k or of the cache)",
                    call.sequences, kv_sequences));
  call.q_heads = q.heads;
  call.kv_heads = kv.heads;
  call.d = q.d;
  call.q_tokens = q.batch * q.tokens;
  call.scale = o.scale ? static_cast<double>(*o.scale) : 1 / std::sqrt(static_cast<double>(q.d));
  resolve_numerics(call);
  if (!on_device) check_lengths(call);
  check_aligned(operation, "sinks", o.sinks, sizeof(float));
  check_aligned(operation, "log_sum_exp", o.log_sum_exp, sizeof(float));

  ranges.push_back({"q_offsets", o.q_offsets, (o.sequences + 1) * 4});
  ranges.push_back({"kv_offsets", o.kv_offsets, (o.sequences + 1) * 4});
  ranges.push_back({"sinks", o.sinks, call.q_heads * 4});
  const MemoryRange output = check_output(o, q, on_device);
  check_apart(operation, output, ranges);
  ranges.push_back(output);
  const MemoryRange lse{"log_sum_exp", o.log_sum_exp, call.q_tokens * call.q_heads * 4};
  check_apart(operation, lse, ranges);
  ranges.push_back(lse);
  return call;
}

}  // namespace microscale
