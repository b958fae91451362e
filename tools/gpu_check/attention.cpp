#include "attention.hpp"

#include <fmt/format.h>

#include "gpu_attention.hpp"
#include "gpu_attention_prefill.hpp"
#include "microscale/error.hpp"

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

void check_attention_calls(Device& device, const Scope& scope, EqualityTotals& totals) {
  std::vector<std::int64_t> lengths{1, 16, 130};
  if (scope.amount == Amount::full) lengths.insert(lengths.end(), {2047, 20000});
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4})
    for (const std::int64_t length : lengths)
      for (const std::int64_t page : {0, 16, 32, 64})
        for (const std::int64_t window : {0, 100}) {
          bench::AttentionCase c;
          c.name = fmt::format("attention {} 3 x {}, pages of {}, window {}",
                               format == KvFormat::nvfp4 ? "nvfp4" : "mxfp4", length, page, window);
          c.format = format;
          c.batch = 3;
          c.length = length;
          c.page_size = page;
          c.window = window;
          check(device, c, c.batch * c.q_heads() * 128, attention_error, totals);
        }
  check_prefill_calls(device, scope, totals);
}

}  // namespace microscale::cuda
