// Operands of the whole range of NVFP4, and their product in FP64.
#pragma once

#include <cstdint>
#include <vector>

#include "microscale/tensor.hpp"

namespace levels {

struct GemmProblem {
  GemmProblem(std::int64_t m, std::int64_t n, std::int64_t k);
  /// Of d, FP32 in rows: the largest |d - exact| / sum of |a b|.
  double largest_error(const std::vector<float>& d) const;

  microscale::BlockTensor a, b;  // scales in 128x4 tiles

 private:
  std::vector<double> exact_, magnitude_;
};

}  // namespace levels
