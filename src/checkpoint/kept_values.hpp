// NaN and infinities in what is copied as it is. Of a weight that is quantized they end the run
// (weight_scan.hpp); here they stop nothing, and must not go by without a word.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model_plan.hpp"

namespace microscale {

/// How many elements are NaN or infinite; `first`: the index of the first of them. 0 for types
/// other than F16, BF16, F32 and F64. `bytes` holds whole elements.
std::int64_t count_not_finite(StoredType type, std::span<const std::uint8_t> bytes,
                              std::int64_t& first);

class KeptValues {
 public:
  explicit KeptValues(const ModelPlan& plan) : plan_(plan), tallies_(plan.tensors.size()) {}

  /// A piece of tensor `tensor` of the plan, from element `at` on, as it is written: of `type`. May
  /// be called from many threads at once.
  void look_at(std::size_t tensor, StoredType type, std::int64_t at,
               std::span<const std::uint8_t> bytes);

  /// One sentence for each tensor that holds any, in the order of the plan, up to ten.
  std::vector<std::string> sentences() const;

 private:
  struct Tally {
    std::int64_t count = 0, first = 0;
  };

  const ModelPlan& plan_;
  mutable std::mutex mutex_;
  std::vector<Tally> tallies_;  // by tensor
};

}  // namespace microscale
