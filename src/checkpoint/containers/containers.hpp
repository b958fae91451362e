// Every container of quantized weights that is read here but compressed-tensors' and ModelOpt's
// block formats, which quantized_folder.hpp sorts. Each has a file in this folder that recognizes
// its tensors; the table in containers.cpp lists them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/finding.hpp"
#include "checkpoint/model_folder.hpp"

namespace microscale {

/// A model on its way through the containers: each takes its tensors, and the next sees the rest.
class ContainerScan {
 public:
  /// `planned`: nothing of the model can be read but its headers. `model` must outlive this and all
  /// weights.
  ContainerScan(const ModelFolder& model, bool planned);

  const ModelFolder& model() const { return model_; }
  bool planned() const { return planned_; }

  /// The tensor of this name if the model has it and no container took it; else null.
  const ModelTensor* find(std::string_view name) const;
  bool taken(const ModelTensor& tensor) const { return taken_.contains(&tensor); }
  const InputFile& file_of(const ModelTensor& tensor) const {
    return model_.shards[tensor.shard].file;
  }

  /// A weight that is whole; its parts are taken.
  void add(std::unique_ptr<StoredWeight> weight);

  /// Tensors that look like a weight of this container and do not make one: one sentence. They are
  /// not taken, but no other container looks at them.
  void report(std::string_view rule, const ModelTensor& at, const std::string& text,
              const std::vector<const ModelTensor*>& parts);

  std::vector<std::unique_ptr<StoredWeight>> weights;
  Findings unusable;

 private:
  const ModelFolder& model_;
  bool planned_;
  std::unordered_set<const ModelTensor*> taken_, refused_;
};

/// Runs every container over the model. `weights` are then sorted by name.
void find_stored_weights(ContainerScan& scan);

/// The containers: each adds the weights that it finds whole, and reports those that are not.
void find_gguf_weights(ContainerScan& scan);
void find_comfyui_weights(ContainerScan& scan);
void find_gpt_oss_weights(ContainerScan& scan);
void find_deepseek_v4_weights(ContainerScan& scan);
void find_fp8_weights(ContainerScan& scan);
void find_fp8_casts(ContainerScan& scan);
void find_fp_quant_weights(ContainerScan& scan);

/// "F8_E4M3 [128, 64]".
std::string described(const TensorEntry& entry);

}  // namespace microscale
