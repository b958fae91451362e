#include "ops/attention_operands.hpp"

#include <algorithm>

#include "core/threads.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/quantize.hpp"
#include "seam/kv_cache_view.hpp"
#include "reference/attention_numerics.hpp"
#include "reference/dense.hpp"
#include "reference/kv_rows.hpp"
#include "reference/matmul.hpp"

namespace microscale {
namespace {

template <DType Type>
void load_elements(const std::uint8_t* data, std::int64_t count, double* output) {
  for (std::int64_t i = 0; i < count; ++i)
    output[i] = static_cast<double>(load_dense(data, Type, i));
}

/// One row of q. With many queries this is work worth a loop of its own for each type.
void load_query(const MatmulRows& rows, std::int64_t d, double* output) {
  if (!rows.dense()) {
    for (std::int64_t i = 0; i < d; ++i) output[i] = matmul_element(rows, 0, i);
  } else if (rows.dtype == DType::bf16) {
    load_elements<DType::bf16>(rows.data, d, output);
  } else if (rows.dtype == DType::f16) {
    load_elements<DType::f16>(rows.data, d, output);
  } else {
    load_elements<DType::f32>(rows.data, d, output);
  }
}

}  // namespace

MatmulRows AttentionOperands::Side::at(std::int64_t token, std::int64_t head) const {
  MatmulRows r = rows;
  r.data += token / tokens * batch_stride + token % tokens * token_stride + head * head_stride;
  r.stride = token_stride;
  if (r.scales) {
    r.scales += token * scale_token_stride + head * scale_head_stride;
    r.scale_stride = scale_token_stride;
  }
  return r;
}

AttentionOperands::Side AttentionOperands::side_of(const AttentionInput& input) {
  Side side;
  if (const auto* dense = std::get_if<HeadsView>(&input)) {
    const HeadsView v = with_strides(*dense);
    const std::int64_t element = size_of(v.dtype);
    side.rows.data = static_cast<const std::uint8_t*>(v.data);
    side.rows.dtype = v.dtype;
    side.batch_stride = v.batch_stride * element;
    side.token_stride = v.token_stride * element;
    side.head_stride = v.head_stride * element;
    side.tokens = std::max<std::int64_t>(v.tokens, 1);
    return side;
  }
  const auto& view = std::get<BlockHeadsView>(input);
  const BlockShape& shape = view.rows.shape;
  side.rows.data = view.rows.codes.data();
  side.rows.scales = view.rows.scales.data();
  side.rows.format = shape.format;
  side.head_stride = shape.code_bytes_per_line();
  side.token_stride = view.heads * side.head_stride;
  side.batch_stride = view.tokens * side.token_stride;
  side.scale_head_stride = shape.blocks_per_line();
  side.scale_token_stride = view.heads * side.scale_head_stride;
  side.tokens = std::max<std::int64_t>(view.tokens, 1);
  if (shape.format == Format::nvfp4) side.factor = view.rows.global_scale.value();
  return side;
}

AttentionOperands::AttentionOperands(const AttentionCall& call, const Context& context)
    : call_(call), q_(side_of(call.options.q)) {
  if (call.cache()) return;
  k_ = side_of(call.options.k);
  v_ = side_of(call.options.v);
  const AttentionNumerics& n = call.options.numerics;
  if (n.accuracy == AttentionAccuracy::storage) return;
  if (const auto* k = std::get_if<HeadsView>(&call.options.k))
    k_ = rounded(*k, false, k_values_, context);
  if (const auto* v = std::get_if<HeadsView>(&call.options.v))
    v_ = rounded(*v, n.v_along_tokens, v_values_, context);
}

// Every sequence and head is quantized on its own, so that blocks along tokens begin with it.
AttentionOperands::Side AttentionOperands::rounded(const HeadsView& input, bool along_tokens,
                                                   std::vector<float>& values,
                                                   const Context& context) const {
  const HeadsView in = with_strides(input);
  HeadsView out{
      .dtype = DType::f32, .batch = in.batch, .tokens = in.tokens, .heads = in.heads, .d = in.d};
  values.resize(static_cast<std::size_t>(in.batch * in.tokens * in.heads * in.d));
  out.data = values.data();
  const Format format = call_.options.numerics.format;
  parallel_for(call_.sequences * in.heads, context.threads, [&](std::int64_t index) {
    const std::int64_t s = index / in.heads, head = index % in.heads;
    const std::int64_t first = call_.kv_first(s), length = call_.kv_length(s);
    if (length == 0) return;
    const std::int64_t at = first / in.tokens * in.batch_stride +
                            first % in.tokens * in.token_stride + head * in.head_stride;
    QuantizeOptions o;
    o.input = {static_cast<const std::uint8_t*>(in.data) + at * size_of(in.dtype), in.dtype, length,
               in.d, in.token_stride};
    o.format = format;
    o.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
    o.axis = along_tokens ? BlockAxis::rows : BlockAxis::cols;
    o.padding = Padding::zero;
    o.global_scale = 1.0f;
    const std::int64_t row_stride = in.heads * in.d;
    dequantize(quantize(o).view(), {values.data() + (first * in.heads + head) * in.d, DType::f32,
                                    length, in.d, row_stride});
  });
  return side_of(out);
}

AttentionNeeds AttentionOperands::needs_of(const AttentionCall& call) {
  AttentionNeeds needs{.d = call.d, .probabilities = call.probabilities};
  if (const KvCache* cache = call.cache()) {
    static constexpr std::uint8_t scales = 0;  // there are some; never read
    needs.k.format = needs.v.format = block_format(cache->format);
    needs.k.scales = needs.v.scales = &scales;
    return needs;
  }
  const bool rounds = call.options.numerics.accuracy != AttentionAccuracy::storage;
  const auto rows_of = [&](const AttentionInput& input) {
    MatmulRows rows = side_of(input).rows;
    if (rounds && rows.dense()) rows.dtype = DType::f32;  // what rounded ones become
    return rows;
  };
  needs.k = rows_of(call.options.k);
  needs.v = rows_of(call.options.v);
  return needs;
}

double AttentionOperands::query(std::int64_t sequence, std::int64_t token, std::int64_t head,
                                double* row) const {
  const std::int64_t d = call_.d;
  const MatmulRows rows = q_.at(call_.q_first(sequence) + token, head);
  load_query(rows, d, row);
  double shift = 0;
  const KvCache* cache = call_.cache();
  if (cache && cache->k_mean) {
    const float* mean = cache->k_mean + head / call_.group() * d;
    shift = mean_score(row, mean, d, call_.scale * q_.factor);
  }
  if (cache && cache->hadamard != 0) {
    float values[kv_page::largest_d];
    for (std::int64_t i = 0; i < d; ++i) values[i] = static_cast<float>(row[i]);
    hadamard_runs(values, d, cache->hadamard);
    std::copy(values, values + d, row);
  }
  if (call_.round_query) round_query(call_.query_format, call_.two_term, row, d);
  if (q_.factor != 1)
    for (std::int64_t i = 0; i < d; ++i) row[i] *= q_.factor;
  return shift;
}

void AttentionOperands::keys(std::int64_t sequence, std::int64_t kv_head, std::int64_t begin,
                             std::int64_t end, std::vector<AttentionKeys>& list) const {
  if (begin >= end) return;
  if (call_.cache()) return cached_keys(sequence, kv_head, begin, end, list);
  const std::int64_t token = call_.kv_first(sequence) + begin;
  list.push_back(
      {begin, end - begin, k_.at(token, kv_head), v_.at(token, kv_head), k_.factor, v_.factor});
}

void AttentionOperands::cached_keys(std::int64_t sequence, std::int64_t kv_head, std::int64_t begin,
                                    std::int64_t end, std::vector<AttentionKeys>& list) const {
  const KvCache& cache = *call_.cache();
  const std::int64_t length = cache.lengths[sequence];
  const bool global = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  while (begin < end) {
    const kv_page::Slot slot = kv_page::slot(begin, length, cache.first.count, cache.recent.count);
    AttentionKeys keys{.begin = begin, .count = end - begin, .k = {}, .v = {}};
    if (slot.source == kv_page::Source::page) {
      const kv_page::Place place = kv_page::place(begin, cache.page_size);
      const std::int64_t page = page_of(cache, sequence, place.entry);
      keys.k = page_rows(cache, cache.k_codes, cache.k_scales, page, kv_head, place.token);
      keys.v = page_rows(cache, cache.v_codes, cache.v_scales, page, kv_head, place.token);
      if (global) keys.k_factor = cache.k_global_scale.value();
      if (global) keys.v_factor = cache.v_global_scale.value();
      const std::int64_t paged_end =
          kv_page::paged_positions(length, cache.first.count, cache.recent.count).end;
      keys.count = std::min({keys.count, cache.page_size - place.token, paged_end - begin});
    } else {
      const bool first = slot.source == kv_page::Source::first;
      const KvCopies& copies = first ? cache.first : cache.recent;
      const std::int64_t row = cache.kv_heads * cache.d;
      const std::int64_t at = (sequence * copies.count + slot.index) * row + kv_head * cache.d;
      keys.k.dtype = keys.v.dtype = DType::bf16;
      keys.k.stride = keys.v.stride = row * size_of(DType::bf16);
      keys.k.data = reinterpret_cast<const std::uint8_t*>(copies.k + at);
      keys.v.data = reinterpret_cast<const std::uint8_t*>(copies.v + at);
      keys.count = std::min(keys.count, copies.count - slot.index);
    }
    begin += keys.count;
    list.push_back(keys);
  }
}

}  // namespace microscale
