// Which layers of a model stay as they are, whatever their weights allow: routers, heads, towers,
// prediction layers, and all that lies outside the repeated layers.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_facts.hpp"
#include "checkpoint/safetensors.hpp"

namespace microscale {

/// Why a tensor is not quantized. Those after `group` are for the user's patterns.
enum class Kept : std::uint8_t {
  no,  // it is quantized
  embedding,
  norm,
  conv1d,
  output_head,
  scorer,
  router,
  indexer,
  vision,
  audio,
  projector,
  prediction_layer,
  adapter,
  text_encoder,  // or VAE, beside a diffusion model
  modulation,
  input_layer,   // of a diffusion model
  output_layer,  // of a diffusion model
  other_stack,   // repeated layers beside the language model's
  outside,       // of the repeated layers
  tiny,
  scalar,
  vector,
  convolution,
  no_weight,
  element_type,
  empty,
  block,
  odd_experts,
  group,
  ignored,
  not_included,
  budget,  // a budget has room for it
};

/// One word for each, as JSON and the report have it: "output_head".
std::string_view name_of(Kept kept);

/// A phrase for each that needs no numbers: "output head", "part of the vision tower".
std::string_view phrase_of(Kept kept);

/// Layers that loaders do not build as linear ones, so that no list names them.
bool is_no_linear(Kept kept);

/// What the names of a whole model say about each of them.
class LayerRules {
 public:
  LayerRules() = default;
  /// `names`: of all tensors of the model, in any order.
  LayerRules(std::span<const std::string_view> names, const ModelFacts& facts);

  /// For the weight of this module, by name and shape: `no` for an ordinary layer. `shape` may be
  /// empty: not known.
  Kept reason(std::string_view module, std::span<const std::int64_t> shape,
              const ModelFacts& facts) const;

  /// Whether this is a diffusion model.
  bool diffusion() const { return diffusion_; }

 private:
  bool is_prediction_layer(std::string_view module, std::span<const std::string_view> parts,
                           const ModelFacts& facts) const;
  bool is_other_stack(std::string_view stack, const ModelFacts& facts) const;

  bool repeated_ = false;  // the model has repeated layers
  bool language_ = false;  // some of them lie in a module called after a language model
  bool diffusion_ = false;
  bool tower_ = false;  // all repeated layers are those of an encoder, which is the model
  std::set<std::string, std::less<>> prediction_layers_;  // "model.layers.61"
};

}  // namespace microscale
