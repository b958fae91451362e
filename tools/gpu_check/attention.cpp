#include "attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu_append.hpp"
#include "gpu_attention.hpp"
#include "gpu_attention_prefill.hpp"
#include "microscale/error.hpp"
#include "microscale/numerics.hpp"
#include "seam/kv_cache_view.hpp"

namespace microscale::cuda {
namespace {

template <class Case>
void check(Device& device, const Case& c, std::int64_t elements,
           double (*error_of)(Device&, const Case&), EqualityTotals& totals) {
  try {
    const double error = error_of(device, c);
    ++totals.calls;
    totals.elements += elements;
    if (error <= 1) return;
    ++totals.failed;
    if (totals.differences.size() < 20)
      totals.differences.push_back(fmt::format("{}: {:.3g} bounds off", c.name, error));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    totals.not_offered.insert("attention");
  }
}

void check_prefill_calls(Device& device, const Scope& scope, EqualityTotals& totals) {
  std::vector<std::int64_t> lengths{1, 65, 128, 300};
  if (scope.amount == Amount::full) lengths.insert(lengths.end(), {1000, 2047, 4096});
  for (const std::optional<Format> format :
       {std::optional(Format::nvfp4), std::optional(Format::mxfp4), std::optional<Format>()})
    for (const std::int64_t d : {64, 128, 256})
      for (const std::int64_t length : lengths)
        for (const std::int64_t window : {0, 100}) {
          PrefillCase c;
          c.name = fmt::format("prefill {} 2 x {}, d {}, window {}",
                               format ? info(*format).name : "bf16", length, d, window);
          c.format = format;
          c.batch = 2;
          c.length = length;
          c.q_heads = 8;
          c.kv_heads = 4;
          c.d = d;
          c.window = window;
          check(device, c, 5 * d, prefill_error, totals);
          if (format != Format::mxfp4 || d > 128) continue;
          c.name += ", FP8";
          c.fp8 = true;
          check(device, c, 5 * d, prefill_error, totals);
        }
}

}  // namespace

void check_append_calls(Device& device, const Scope& scope, EqualityTotals& totals) {
  std::vector<std::int64_t> lengths{1, 130};
  if (scope.amount == Amount::full) lengths.insert(lengths.end(), {2047, 20000});
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8})
    for (const ScaleRule rule :
         format == KvFormat::fp8 ? std::vector{ScaleRule::search}
         : format == KvFormat::nvfp4
             ? std::vector{ScaleRule::nearest, ScaleRule::search, ScaleRule::four_over_six}
             : std::vector{ScaleRule::rceil, ScaleRule::search})
      for (const std::int64_t length : lengths)
        for (const bool transformed : {false, true}) {
          bench::AttentionCase c;
          c.name = fmt::format("append_kv {} {} 5 x {}{}", info(block_format(format)).name,
                               to_string(rule), length, transformed ? ", keys transformed" : "");
          c.kind = bench::AttentionKind::append;
          c.format = format;
          c.batch = 5;
          c.length = length;
          c.page_size = 32;
          c.rule = rule;
          c.transformed = transformed;
          ++totals.calls;
          totals.elements += c.batch * length * 2 * 8 * 128;
          if (append_agrees(device, c)) continue;
          ++totals.failed;
          if (totals.differences.size() < 20)
            totals.differences.push_back(c.name + ": the last page differs from a host's");
        }
}

void check_attention_calls(Device& device, const Scope& scope, EqualityTotals& totals) {
  std::vector<std::int64_t> lengths{1, 16, 130};
  if (scope.amount == Amount::full) lengths.insert(lengths.end(), {2047, 20000});
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8})
    for (const std::int64_t length : lengths)
      for (const std::int64_t page : {0, 16, 32, 64})
        for (const std::int64_t window : {0, 100, -1}) {  // -1: none, and tokens in BF16
          bench::AttentionCase c;
          c.name = fmt::format("attention {} 3 x {}, pages of {}, window {} (-1: tokens in bf16)",
                               format == KvFormat::fp8 ? "fp8" : info(block_format(format)).name,
                               length, page, window);
          c.format = format;
          c.batch = 3;
          c.length = length;
          c.page_size = page;
          c.window = std::max<std::int64_t>(window, 0);
          if (window < 0) c.recent = 37;
          check(device, c, c.batch * c.q_heads() * 128, attention_error, totals);
        }
  check_prefill_calls(device, scope, totals);
}

}  // namespace microscale::cuda
