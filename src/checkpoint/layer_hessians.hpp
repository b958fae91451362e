// The Hessians of a model's layers, read and made ready when a layer's turn comes: those of few
// layers at a time, as each is larger than the layer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/importance.hpp"
#include "checkpoint/schedule.hpp"
#include "microscale/hessian.hpp"

namespace microscale {

class LayerHessians {
 public:
  /// All references must outlive this.
  LayerHessians(const ModelPlan& plan, const QuantizeModelOptions& options,
                const Importance* statistics);

  /// Whether the matrix is quantized with a Hessian.
  bool has(const QuantizedMatrix& matrix) const { return key_of(matrix).has_value(); }
  /// Of a matrix of the piece in work.
  const PreparedHessian& of(const QuantizedMatrix& matrix) const;

  /// The units in pieces whose Hessians fit in memory together; those of one Hessian lie side by
  /// side. Without Hessians one piece, as it came.
  std::vector<std::vector<Unit>> pieces(const std::vector<Unit>& units) const;

  /// Makes ready what the units of a piece need, and lets go of the others. While no unit runs.
  /// Throws Error, which names file and module.
  void make_ready(const std::vector<Unit>& piece, int threads);

  /// Most bytes that the Hessians of a piece take, while they are made ready too; and what a worker
  /// needs beside them.
  std::int64_t bytes() const;
  std::int64_t worker_bytes() const;

  /// One sentence for what was mended.
  std::vector<std::string> notices() const;

 private:
  using Key = std::pair<std::string, Format>;  // the module that has the Hessian

  std::optional<Key> key_of(const QuantizedMatrix& matrix) const;
  std::optional<Key> key_of(const Unit& unit) const;
  std::int64_t bytes_of(const QuantizedMatrix& matrix) const;
  std::shared_ptr<const PreparedHessian> make(const Key& key, std::int64_t cols, int threads) const;

  const ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  const Importance* statistics_;
  HessianMethod method_ = HessianMethod::gptq;
  std::int64_t most_cols_ = 0;  // of all matrices with a Hessian
  std::map<Key, std::shared_ptr<const PreparedHessian>> ready_;
  std::map<std::string, double> damped_;              // more than was asked for, by module
  std::map<std::string, std::int64_t> dead_columns_;  // by module
};

}  // namespace microscale
