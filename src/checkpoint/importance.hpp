// --importance: the mean square of each input column of a layer, by which its errors are weighted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"

namespace microscale {

/// A safetensors file with a vector F32 [K] for each module that has one, under the module's name
/// as it is in the output. Read tile by tile, never as a whole.
class Importance {
 public:
  /// Checks names and shapes against the plan; a file that fits no module at all is a failure.
  static Result<Importance> open(const std::filesystem::path& path, const ModelPlan& plan);

  bool has(const std::string& module) const { return vectors_.contains(module); }

  /// Weights of the columns [col, col + out.size()); fails on one that is negative or not finite.
  /// Any number of threads at once.
  Status read(const std::string& module, std::int64_t col, std::span<float> out) const;

  /// Names of vectors that are no module of the model.
  const std::vector<std::string>& idle() const { return idle_; }

  const InputFile& file() const { return file_; }

 private:
  explicit Importance(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::unordered_map<std::string, TensorEntry> vectors_;
  std::vector<std::string> idle_;
};

}  // namespace microscale
