#include "attention.hpp"

#include <fmt/format.h>

#include "gpu_attention.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {

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
