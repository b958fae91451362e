// A matrix inside a stored tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace microscale {

/// Element (r, c) is at first + r * row_step + c * col_step elements from the tensor's start. A
/// stored matrix [N, K] is one slice of itself; of a stack of experts each is a slice; a vector has
/// cols = 1.
struct MatrixSlice {
  std::string module;  // what it becomes the weight of: "model.layers.0.mlp.experts.3.gate_proj"
  std::int64_t rows = 0, cols = 0;
  std::int64_t first = 0, row_step = 0, col_step = 1;
  std::int64_t line = 0,
               line_step = 1;        // of row 0 and between rows, counted through the whole tensor
  std::vector<std::string> turns{};  // of an expert in a stack: the modules of its rows in turn

  /// Position in the stored tensor.
  std::int64_t element(std::int64_t row, std::int64_t col) const {
    return first + row * row_step + col * col_step;
  }
};

}  // namespace microscale
