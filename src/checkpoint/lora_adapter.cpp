#include "checkpoint/lora_adapter.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/classifier.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/named_file.hpp"
#include "checkpoint/pattern.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* tensors_name = "adapter_model.safetensors";
constexpr std::uint64_t largest_config = std::uint64_t{16} << 20;  // bytes
constexpr std::int64_t largest_rank = 16384;
constexpr std::string_view base_prefix = "base_model.model.";
constexpr std::string_view a_ending = ".lora_A.weight", b_ending = ".lora_B.weight";

constexpr const char* merge_it = "merge it with peft (merge_and_unload, then save_pretrained)";

// What of an adapter is not a pair, by a part of the tensor's name, and why it is refused.
struct OtherPart {
  std::string_view mark;
  const char* what;
};
constexpr OtherPart other_parts[] = {
    {"lora_magnitude_vector", "a magnitude of DoRA, which rescales the merged weight"},
    {"lora_embedding_", "an adapter of an embedding, which changes the head tied to it too"},
    {".lora_A.bias", "a bias of the adapter"},
    {".lora_B.bias", "a bias of the adapter"},
    {"lora_down.weight", "a tensor in the layout of kohya's scripts, not peft's"},
    {"lora_up.weight", "a tensor in the layout of kohya's scripts, not peft's"},
    {"lokr_", "a tensor of LoKr"},
    {"hada_", "a tensor of LoHa"},
    {"ia3_", "a tensor of IA3"},
    {"vera_", "a tensor of VeRA"},
    {"oft_", "a tensor of OFT"},
    {"prompt_embeddings", "a tensor of prompt tuning"},
};

class Reader {
 public:
  explicit Reader(const LoraUse& use) : use_(use) {}

  Result<LoraAdapter> read() {
    std::error_code error;
    const bool folder = fs::is_directory(use_.path, error);
    const fs::path root = folder ? use_.path : use_.path.parent_path();
    const fs::path tensors = folder ? use_.path / tensors_name : use_.path;
    if (folder && !fs::exists(tensors, error)) {
      const bool pickle = fs::exists(use_.path / "adapter_model.bin", error);
      return bad(pickle ? fmt::format("holds adapter_model.bin, a pickle, which is not read; save "
                                      "it again as {} (peft: save_pretrained)",
                                      tensors_name)
                        : fmt::format("holds no {}; name a folder that peft saved", tensors_name));
    }
    auto text = read_config(root / config_name);
    if (!text) return text.failure();
    auto file = InputFile::open(tensors);
    if (!file) return file.failure();
    auto header = read_safetensors_header(file.value());
    if (!header) return header.failure();
    LoraAdapter adapter{
        use_.path, use_.weight, std::move(file.value()), std::move(text.value()), {}};
    if (Status understood = understand_config(); !understood) return understood.failure();
    if (Status paired = pair_up(header.value().tensors); !paired) return paired.failure();
    for (auto& [module, pair] : pairs_) {
      if (Status whole = complete(pair); !whole) return whole.failure();
      adapter.pairs.push_back(std::move(pair));
    }
    if (adapter.pairs.empty()) return bad("holds no tensors lora_A and lora_B");
    return adapter;
  }

 private:
  Failure bad(const std::string& what) const {
    return {ErrorCode::bad_input,
            fmt::format("quantize: the adapter '{}' {}", use_.path.string(), what)};
  }

  Result<std::string> read_config(const fs::path& path) {
    const auto file = InputFile::open(path);
    if (!file) {
      return bad(
          fmt::format("has no {} beside it, which says what it is multiplied by; name a "
                      "folder that peft saved",
                      config_name));
    }
    if (file.value().size() > largest_config) return bad(fmt::format("has a huge {}", config_name));
    std::string text(file.value().size(), '\0');
    auto* bytes = reinterpret_cast<std::uint8_t*>(text.data());
    if (Status read = file.value().read_at(0, {bytes, text.size()}); !read) return read.failure();
    auto tree = parse_config(text);
    if (!tree) return bad(fmt::format("has a damaged {}: {}", config_name, tree.failure().message));
    if (!tree.value().is_object())
      return bad(fmt::format("has a {} that is no object", config_name));
    config_ = std::move(tree.value());
    return text;
  }

  bool is_set(const char* key) const {
    const Json* value = member(config_, key);
    if (!value) return false;
    return value->is_boolean() ? value->get<bool>() : !value->empty();
  }

  // Kinds of adapters that are something else than W + factor * B A.
  Status understand_config() {
    const std::string type = text_member(config_, "peft_type");
    if (type != "LORA") {
      return bad(fmt::format("is of peft_type {}, and only LORA is merged here; {}",
                             in_quotes(type), merge_it));
    }
    for (const auto& [key, what] :
         {std::pair("use_dora", "DoRA (use_dora), which rescales the merged weight"),
          std::pair("modules_to_save",
                    "whole modules to put in place of the model's "
                    "(modules_to_save)"),
          std::pair("lora_bias", "biases (lora_bias)"),
          std::pair("target_parameters",
                    "changes of parameters that are no layers "
                    "(target_parameters)"),
          std::pair("trainable_token_indices",
                    "changed rows of an embedding "
                    "(trainable_token_indices)"),
          std::pair("alora_invocation_tokens",
                    "activation by tokens (alora_invocation_tokens), "
                    "so it is not to be merged"),
          std::pair("layer_replication", "layers that stand several times (layer_replication)"),
          std::pair("use_bdlora", "block-diagonal factors (use_bdlora)"),
          std::pair("kasa_config", "singular values of KaSA (kasa_config)"),
          std::pair("monteclora_config", "sampled factors (monteclora_config)"),
          std::pair("arrow_config", "a router between adapters (arrow_config)"),
          std::pair("use_qalora", "QALoRA (use_qalora)")}) {
      if (is_set(key)) return bad(fmt::format("has {}; {}", what, merge_it));
    }
    // These take from the base model's weights what the adapter begins with.
    const std::string start = text_member(config_, "init_lora_weights");
    for (const std::string_view method : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
      if (!start.starts_with(method)) continue;
      return bad(
          fmt::format("was made for weights that {} changed (init_lora_weights); save it as "
                      "plain LoRA (peft: path_initial_model_for_weight_conversion), or {}",
                      in_quotes(start), merge_it));
    }
    if (const std::string bias = text_member(config_, "bias"); !bias.empty() && bias != "none") {
      return bad(fmt::format("has biases (bias: {}); {}", in_quotes(bias), merge_it));
    }
    if (!number_of(member(config_, "r")) || !number_of(member(config_, "lora_alpha"))) {
      return bad(fmt::format("has no numbers r and lora_alpha in its {}", config_name));
    }
    for (const char* key : {"rank_pattern", "alpha_pattern"}) {
      const Json* patterns = member(config_, key);
      if (!patterns) continue;
      if (!patterns->is_object()) return bad(fmt::format("has a {} that is no object", key));
      for (const auto& [expression, value] : patterns->items()) {
        auto pattern = Pattern::parse("re:(?:.*\\.)?(?:" + expression + ")$");
        if (!pattern || !number_of(&value)) {
          return bad(fmt::format("has an entry {} in its {} that is no expression with a number",
                                 in_quotes(expression), key));
        }
        (key[0] == 'r' ? ranks_ : alphas_)
            .emplace_back(std::move(pattern.value()), *number_of(&value));
      }
    }
    return success();
  }

  // A finite positive number; nothing for anything else.
  static std::optional<double> number_of(const Json* value) {
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->get<double>();
    return std::isfinite(number) && number > 0 ? std::optional(number) : std::nullopt;
  }

  using Patterns = std::vector<std::pair<Pattern, double>>;
  double number_for(const std::string& module, const Patterns& patterns, const char* key) const {
    for (const auto& [pattern, number] : patterns) {
      if (pattern.matches(module)) return number;
    }
    return *number_of(member(config_, key));
  }

  Status pair_up(const std::vector<TensorEntry>& tensors) {
    for (const TensorEntry& tensor : tensors) {
      std::string_view name = tensor.name;
      for (const OtherPart& part : other_parts) {
        if (name.find(part.mark) == std::string_view::npos) continue;
        return bad(fmt::format("has {}, {}; {}", in_quotes(tensor.name), part.what, merge_it));
      }
      const bool a = name.ends_with(a_ending), b = name.ends_with(b_ending);
      if (!a && !b) {
        return bad(
            fmt::format("has {}, which is neither lora_A.weight nor lora_B.weight: it would "
                        "be put in the place of the model's; {}",
                        in_quotes(tensor.name), merge_it));
      }
      name.remove_suffix(a_ending.size());
      if (name.starts_with(base_prefix)) name.remove_prefix(base_prefix.size());
      LoraPair& pair = pairs_[std::string(name)];
      TensorEntry& place = a ? pair.a : pair.b;
      if (!place.name.empty()) {
        return bad(fmt::format("has {} and {}, both for {}", in_quotes(place.name),
                               in_quotes(tensor.name), in_quotes(name)));
      }
      pair.module = name;
      place = tensor;
      if (tensor.shape.size() != 2 || !dense_type(tensor.type)) {
        return bad(fmt::format("has {} ({} [{}]), and matrices of F32, BF16 or F16 are merged here",
                               in_quotes(tensor.name), to_string(tensor.type),
                               fmt::join(tensor.shape, ", ")));
      }
    }
    return success();
  }

  Status complete(LoraPair& pair) const {
    for (const auto& [there, missing, ending] :
         {std::tuple(&pair.a, &pair.b, "lora_B"), std::tuple(&pair.b, &pair.a, "lora_A")}) {
      if (!missing->name.empty()) continue;
      return bad(
          fmt::format("has {} without its {}; save it again", in_quotes(there->name), ending));
    }
    pair.rank = pair.a.shape[0];
    if (pair.b.shape[1] != pair.rank || pair.rank < 1 || pair.rank > largest_rank) {
      return bad(
          fmt::format("has {} [{}] and {} [{}], which are no pair: the first side of lora_A "
                      "and the second of lora_B are the rank",
                      in_quotes(pair.a.name), fmt::join(pair.a.shape, ", "), in_quotes(pair.b.name),
                      fmt::join(pair.b.shape, ", ")));
    }
    const double rank = number_for(pair.module, ranks_, "r");
    if (rank != static_cast<double>(pair.rank)) {
      return bad(fmt::format("has {} of rank {}, but its {} says {}", in_quotes(pair.a.name),
                             pair.rank, config_name, rank));
    }
    const double alpha = number_for(pair.module, alphas_, "lora_alpha");
    pair.factor = use_.weight * alpha / (is_set("use_rslora") ? std::sqrt(rank) : rank);
    pair.transposed = is_set("fan_in_fan_out");
    return success();
  }

  const LoraUse& use_;
  Json config_;
  Patterns ranks_, alphas_;
  std::map<std::string, LoraPair> pairs_;  // by module
};

}  // namespace

Result<LoraAdapter> open_lora_adapter(const LoraUse& use) { return Reader(use).read(); }

}  // namespace microscale
