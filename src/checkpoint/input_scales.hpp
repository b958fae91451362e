// --input-scales: the largest magnitude of each layer's input, as a calibration found it. NVFP4
// activations need a scale that is stored for it. Scales of other tools are kept in FP64, so
// that they are written again as they were.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/statistics_metadata.hpp"
#include "core/result.hpp"

namespace microscale {

/// What a file says, by module. Its main form is one number for each module, under the module's
/// name: {"model.layers.0.mlp.up_proj": 12.5}, or a safetensors tensor with one element. What
/// ModelOpt and llm-compressor store is taken too, and the largest of each layer of what
/// `microscale calibrate` wrote, see docs/checkpoints.md.
class InputAmaxes {
 public:
  /// JSON, or safetensors. Fails on what cannot be read, not on numbers that no layer asks for.
  static Result<InputAmaxes> open(const std::filesystem::path& path);

  /// Of this module under its own name: nothing if there is none, a failure that names it if it is
  /// not finite, negative, or does not say what it is. 0 is given as it is.
  Result<const double*> find(std::string_view module) const;

  /// Names in the file of numbers for modules that are none of `modules`, in order. Of a file with
  /// other tensors, which is a checkpoint, only what is spelled as the input of a module.
  std::vector<std::string> strangers(const std::unordered_set<std::string>& modules) const;

  /// For the user whose names do not fit: "its first name is 'layers.0.q_proj'".
  std::string summary() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Number {
    double amax = 0;
    std::string name;      // as the file spells it
    std::string problem;   // not empty: why it cannot be used
    bool spelled = false;  // as the input of a module, by a suffix
  };
  using Entries = std::unordered_map<std::string_view, const TensorEntry*>;
  Status read_json(std::string_view text);
  Status read_tensors(const InputFile& file);
  Status read_statistics(const InputFile& file, const SafetensorsHeader& header,
                         const StatisticsMetadata& metadata);
  void add(const std::string& name, double value, const std::string& problem,
           const Entries& beside);

  std::filesystem::path path_;
  bool is_checkpoint_ = false;                          // it has tensors of more than one element
  std::map<std::string, Number, std::less<>> numbers_;  // by module
};

/// A layer whose input is quantized with a stored scale.
struct ScaledInput {
  std::string module;  // as it is in the output
  std::string stored;  // the module it comes from: stacked experts are one, else the same
  double amax = 0;     // to be filled in
};

struct InputScaleCounts {
  std::int64_t layers = 0;
  std::int64_t lent = 0;  // experts that had none
};

/// Gives every layer its amax: the largest of the layers that engines fuse with it; for an expert
/// without one (or with 0: it saw no token) the largest that its layer's other experts have in the
/// same place. A failure names the first layer without a number that can be used.
Result<InputScaleCounts> settle_input_amaxes(const InputAmaxes& amaxes,
                                             std::vector<ScaledInput>& inputs);

/// Reads the file and gives every matrix of the plan its number; says in the plan's notices how
/// many experts had none.
Status plan_input_scales(ModelPlan& plan, const std::filesystem::path& path);

}  // namespace microscale
