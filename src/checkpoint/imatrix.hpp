// llama.cpp's importance matrix: for each weight the sum of squares of each of its input columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "checkpoint/file.hpp"
#include "core/result.hpp"

namespace microscale {

/// The file's numbers by llama.cpp's name of the weight ("blk.0.attn_q.weight"): those of all
/// experts one after the other.
class Imatrix {
 public:
  struct Numbers {
    std::uint64_t begin = 0;  // byte of the first, FP32
    std::int64_t count = 0;
  };

  /// GGUF with tensors "<weight>.in_sum2", or the binary form that came before. Nothing for a file
  /// of another kind; a failure for one that ends early.
  static Result<std::optional<Imatrix>> open(const InputFile& file);

  /// Where the `cols` numbers of a module of a model folder begin; a failure where there is
  /// another number of them.
  Result<std::optional<std::uint64_t>> find(const std::string& module, std::int64_t cols) const;

  bool empty() const { return weights_.empty(); }

 private:
  static Result<Imatrix> read_gguf(const InputFile& file);
  static Result<std::optional<Imatrix>> read_binary(const InputFile& file);

  std::unordered_map<std::string, Numbers> weights_;
};

}  // namespace microscale
