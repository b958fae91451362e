// --importance: statistics of the inputs of each layer, by which the errors of its weight are
// weighted: the mean square of each column, and where the file has it, the Hessian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/imatrix.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/statistics_metadata.hpp"
#include "core/result.hpp"

namespace microscale {

/// "gptq, shrink 0.1, damping 0.01": every number that changes a byte.
std::string in_words(const StatisticsUse& use);

/// A safetensors file with a vector F32 [K] for each module that has one, under the module's name
/// as it is in the output, and `<module>.hessian` F32 [K, K]. Modules that its metadata's `shares`
/// lists have those of another one. Or an importance matrix of llama.cpp. Read piece by piece,
/// never as a whole.
class Importance {
 public:
  /// Checks names and shapes against the plan; a file that fits no module at all is a failure.
  static Result<Importance> open(const std::filesystem::path& path, const ModelPlan& plan);

  bool has(const std::string& module) const { return vectors_.contains(module); }

  /// Weights of the columns [col, col + out.size()); fails on one that is negative or not finite.
  /// Any number of threads at once.
  Status read(const std::string& module, std::int64_t col, std::span<float> out) const;

  /// The module under whose name the Hessian of this one's inputs is; null: there is none.
  const std::string* hessian_of(const std::string& module) const;
  /// All of it, `out` K * K numbers. Of a module that hessian_of gave.
  Status read_hessian(const std::string& owner, std::span<float> out) const;
  /// Of which the statistics of that module were made; nothing where the file does not say.
  std::optional<std::int64_t> tokens(const std::string& owner) const;
  /// Whether errors under the statistics are what they add to the divergence, so that those of
  /// layers compare.
  bool by_gradients() const { return metadata_.by_gradients; }
  /// The share of the tokens that came to a module; 1 where the file does not say.
  double reach(const std::string& module) const;
  /// By how much the Hessian is to be shrunk where nothing else is asked for.
  double shrink(const std::string& owner, std::int64_t cols) const;

  /// Names of vectors that are no module of the model.
  const std::vector<std::string>& idle() const { return idle_; }

  const InputFile& file() const { return file_; }

 private:
  explicit Importance(InputFile file) : file_(std::move(file)) {}

  static Result<Importance> of_imatrix(InputFile file, const Imatrix& imatrix,
                                       const ModelPlan& plan);
  Status add(const MatrixSlice& slice,
             const std::unordered_map<std::string_view, const TensorEntry*>& tensors);
  const std::string& owner_of(const std::string& module) const;

  InputFile file_;
  std::unordered_map<std::string, std::uint64_t> vectors_;   // where they begin, by module
  std::unordered_map<std::string, std::uint64_t> hessians_;  // likewise, by owner
  StatisticsMetadata metadata_;
  std::vector<std::string> idle_;
};

}  // namespace microscale
