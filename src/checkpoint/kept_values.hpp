// NaN and infinities in what is copied as it is. Of a weight that is quantized they end the run
// (weight_scan.hpp); here they stop nothing, and must not go by without a word.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/stored_type.hpp"
#include "report/model_report.hpp"

namespace microscale {

/// How many elements are NaN or infinite; `first`: the index of the first of them. 0 for types
/// other than F16, BF16, F32 and F64. `bytes` holds whole elements.
std::int64_t count_not_finite(StoredType type, std::span<const std::uint8_t> bytes,
                              std::int64_t& first);

class KeptValues {
 public:
  explicit KeptValues(std::size_t tensors) : tallies_(tensors) {}

  /// A piece of tensor `tensor` of the plan, from element `at` on, as it is written: of `type`. May
  /// be called from many threads at once.
  void look_at(std::size_t tensor, StoredType type, std::int64_t at,
               std::span<const std::uint8_t> bytes);

  NotFinite of(std::size_t tensor) const;

 private:
  mutable std::mutex mutex_;
  std::vector<NotFinite> tallies_;  // by tensor
};

/// One sentence for each tensor of the report that holds any, in its order, up to ten.
std::vector<std::string> not_finite_sentences(const ModelReport& report);

}  // namespace microscale
