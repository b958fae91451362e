// What the weights of a model's layers become, and budgets by which each layer's format is chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace microscale {

/// What the weight of a linear layer becomes.
enum class WeightFormat : std::uint8_t {
  nvfp4,
  mxfp4,
  mxfp8,       ///< E4M3 codes
  fp8,         ///< E4M3 codes, one BF16 scale for each row
  fp8_tensor,  ///< E4M3 codes, one FP32 scale for it and what it is fused with: ModelOpt's
};
std::string_view to_string(WeightFormat format);  ///< "nvfp4", ..., "fp8_tensor"
std::optional<WeightFormat> parse_weight_format(std::string_view name);

/// Layers that get another format than the rest.
struct UseFormat {
  std::string pattern;  ///< as in QuantizeModelOptions::include
  WeightFormat format = WeightFormat::nvfp4;
};

/// A line of a menu; nothing: the weights stay as they are, in their own type.
using MenuFormat = std::optional<WeightFormat>;
std::string_view menu_name(MenuFormat format);  ///< "nvfp4", ..., "bf16" for what stays
std::optional<MenuFormat> parse_menu_format(std::string_view name);

/// How large the result may be. Of all choices of formats within it that with the least error is
/// taken; layers that engines run as one, and all experts of a layer, get one format.
struct Budget {
  /// Bits a weight, at most: those of codes, scales and global scales of the layers that are chosen
  /// for, over their weights. Layers that are kept in any case do not count.
  std::optional<double> bits;
  std::optional<std::int64_t> bytes;  ///< of all files that are written, at most
  std::vector<MenuFormat> menu;       ///< empty: all that the container holds, and bf16

  bool given() const { return bits || bytes; }
  bool operator==(const Budget&) const = default;
};

/// Layers that get one format, and what each line of the menu would cost them.
struct GroupFormats {
  std::string name;          ///< "model.layers.0.self_attn.{q_proj,k_proj,v_proj}"
  std::int64_t layers = 0;   ///< matrices
  std::int64_t weights = 0;  ///< elements of them
  /// By line of the menu: error of the layers' output as a share of it, summed over the layers
  /// (experts: their mean), or FormatChoice::by_gradients; infinite where a layer cannot have the
  /// format.
  std::vector<double> errors;
  std::vector<std::int64_t> bytes;  ///< by line of the menu
  std::size_t chosen = 0;           ///< line of the menu

  bool operator==(const GroupFormats&) const = default;
};

/// What a budget led to.
struct FormatChoice {
  std::string budget;  ///< in words: "at most 4.75 bits a weight, of nvfp4, fp8 and bf16"
  std::vector<MenuFormat> menu;
  /// Layers whose errors were weighted by the mean squares of their inputs; the others by nothing.
  std::int64_t weighted_layers = 0;
  /// Whether errors are what they are expected to add to the model's divergence, in nats a token.
  bool by_gradients = false;
  std::vector<GroupFormats> groups;  ///< in the order of the input

  double bits() const;   ///< a weight, of all groups
  double error() const;  ///< of all groups
  std::int64_t bytes() const;
  std::int64_t weights() const;
  std::int64_t layers() const;
  bool operator==(const FormatChoice&) const = default;
};

}  // namespace microscale
