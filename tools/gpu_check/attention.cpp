#include "attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu_append.hpp"
#include "gpu_attention.hpp"
#include "microscale/numerics.hpp"
#include "ops/kv_cache_check.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {

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
          try {
            const double error = attention_error(device, c);
            ++totals.calls;
            totals.elements += c.batch * c.q_heads() * 128;
            if (error <= 1) continue;
            ++totals.failed;
            if (totals.differences.size() < 20)
              totals.differences.push_back(fmt::format("{}: {:.3g} bounds off", c.name, error));
          } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported) throw;
            totals.not_offered.insert("attention");
          }
        }
}

}  // namespace microscale::cuda
