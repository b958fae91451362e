#include "checkpoint/gguf_model_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "checkpoint/containers/gguf_layers.hpp"
#include "checkpoint/containers/gguf_names.hpp"
#include "checkpoint/containers/gguf_relaid_weight.hpp"
#include "checkpoint/containers/gguf_vocabulary.hpp"
#include "checkpoint/gguf_layout.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/kept_layers.hpp"
#include "checkpoint/model_place.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_file = std::uint64_t{256} << 20;  // of a tokenizer

Failure refuse(std::string message) {
  return {ErrorCode::unsupported, "quantize: " + std::move(message)};
}

// Tensors that no graph of llama.cpp multiplies with.
bool is_buffer(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".attention.bias");
}

class Settler {
 public:
  Settler(ModelPlan& plan, const QuantizeModelOptions& options) : plan_(plan), options_(options) {}

  Result<GgufModel> settle() {
    auto parameters =
        add_gguf_hyperparameters(plan_.model.config_text.value_or(""), model_.metadata);
    if (!parameters)
      return Failure{parameters.failure().code, "quantize: " + parameters.failure().message};
    model_.parameters = std::move(parameters.value());
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      plan_.tensors[i].shard = 0;
      if (Status settled = settle(plan_.tensors[i], plan_.view.tensors[i]); !settled)
        return settled.failure();
    }
    if (!vocabulary_) {
      return refuse(
          "the model has no embedding (model.embed_tokens.weight), so it is no language "
          "model that llama.cpp runs");
    }
    if (Status made = add_metadata(); !made) return made.failure();
    tell();
    plan_.one_file = true;
    plan_.model.made_files.clear();
    plan_.model.other_files.clear();
    plan_.model.index_name.clear();
    plan_.shards.emplace_back().name =
        options_.output.empty() ? "model.gguf" : options_.output.filename().string();
    return std::move(model_);
  }

 private:
  const std::string& architecture() const { return model_.parameters.architecture; }

  Status settle(TensorTreatment& treatment, DenseTensor& tensor) {
    Decision& decision = treatment.decision;
    const std::string& name = tensor.entry.name;
    if (decision.treatment == Treatment::drop) return success();
    if (const std::string why = left_out(treatment); !why.empty()) {
      decision = {Treatment::drop, why, false, false, Kept::outside};
      return success();
    }
    treatment.group.clear();  // each tensor has a scale of its own
    if (decision.treatment == Treatment::split) return settle_experts(treatment);
    const auto place = gguf_place_of(architecture(), name);
    if (!place) {
      return refuse(
          fmt::format("llama.cpp's models of the architecture {} have no tensor {}; write "
                      "another container, or leave the tensor out of the model",
                      architecture(), in_quotes(name)));
    }
    if (place->name.name == "token_embd.weight" && tensor.entry.shape.size() == 2)
      vocabulary_ = tensor.entry.shape[0];
    if (Status whole = check_heads(*place, tensor.entry); !whole) return whole;
    settle_format(treatment, place->name.name);
    return decision.treatment == Treatment::copy ? relay(tensor, *place) : success();
  }

  // Why a tensor does not go into the file; empty: it does.
  std::string left_out(const TensorTreatment& treatment) {
    const std::string& name = treatment.entry->name;
    if (is_buffer(name)) return "a buffer that llama.cpp computes";
    if (treatment.verdict.kind == TensorKind::kv_scale) return "a scale of the key-value cache";
    if (architecture() == "gemma3" &&
        (treatment.verdict.kept == Kept::vision || treatment.verdict.kept == Kept::projector ||
         name.find("vision_tower.") != name.npos ||
         name.find("multi_modal_projector.") != name.npos)) {
      return "part of the vision encoder, which llama.cpp has in a file of its own (mmproj)";
    }
    const auto place = gguf_place_of(architecture(), name);
    if (model_.parameters.tied && place && place->name.name == "output.weight")
      return "the head is the embedding (tie_word_embeddings)";
    return {};
  }

  Status settle_experts(TensorTreatment& treatment) {
    if (treatment.entry->shape.size() != 3) {
      return refuse(
          fmt::format("{}: llama.cpp's models of the architecture {} have no biases of "
                      "experts",
                      in_quotes(treatment.entry->name), architecture()));
    }
    const auto slices =
        slice_experts(treatment.entry->name, *treatment.verdict.part, *treatment.experts);
    const std::int64_t block = treatment.format == WeightFormat::nvfp4 ? 64 : 32;
    for (const MatrixSlice& slice : slices) {
      if (!gguf_place_of(architecture(), slice.module + ".weight"))
        return refuse(
            fmt::format("{} holds experts, and llama.cpp's models of the architecture {} "
                        "have none",
                        in_quotes(treatment.entry->name), architecture()));
      if (slice.cols % block == 0) continue;
      return refuse(fmt::format(
          "the experts of {} have rows of {} elements, which are no whole "
          "blocks of {} in GGUF ({}); give --format mxfp4, or write another "
          "container",
          in_quotes(treatment.entry->name), slice.cols, to_string(treatment.format), block));
    }
    return success();
  }

  static std::int64_t heads_of(const GgufPlace& place, const GgufHyperparameters& model) {
    return place.name.query ? model.heads : place.name.key ? model.kv_heads : 0;
  }

  Status check_heads(const GgufPlace& place, const TensorEntry& entry) const {
    const std::int64_t heads = heads_of(place, model_.parameters);
    if (heads == 0 || (!entry.shape.empty() && entry.shape[0] % (2 * heads) == 0)) return success();
    return Failure{
        ErrorCode::bad_input,
        fmt::format(
            "quantize: {} has {} rows, which are not {} heads of an even number of rows, as "
            "config.json has them",
            in_quotes(entry.name), entry.shape.empty() ? 0 : entry.shape[0], heads)};
  }

  // NVFP4 wants a scale of the tensor, which not every graph multiplies by.
  void settle_format(TensorTreatment& treatment, std::string_view name) {
    Decision& decision = treatment.decision;
    if (decision.treatment != Treatment::quantize || treatment.format != WeightFormat::nvfp4)
      return;
    if (!leaves_out_gguf_scale(architecture(), name)) return;
    ++lowered_;
    if (options_.keep_codes) {
      decision.treatment = Treatment::copy;
      decision.reason = "written as BF16 values";
      decision.kept = Kept::not_included;
    } else {
      treatment.format = WeightFormat::mxfp4;
      decision.reason = "linear weight, without a scale of its own in llama.cpp's graph";
    }
  }

  // What is kept, as llama.cpp wants it: vectors and routers in F32, the rest as it is.
  Status relay(DenseTensor& tensor, const GgufPlace& place) {
    const auto& shape = tensor.entry.shape;
    if (!dense_type(tensor.entry.type)) {
      return refuse(fmt::format("{} is of type {}, which is not written into GGUF",
                                in_quotes(tensor.entry.name), to_string(tensor.entry.type)));
    }
    const std::string& name = place.name.name;
    const bool wide = shape.size() < 2 || name.ends_with("norm.weight") ||
                      name.ends_with(".bias") || name.ends_with(".ffn_gate_inp.weight");
    GgufRelaying relaying;
    relaying.plus_one = place.name.plus_one;
    relaying.type = wide ? StoredType::f32 : copied_type(tensor);
    if (const std::int64_t heads = heads_of(place, model_.parameters); heads > 0)
      relaying.head_rows = shape[0] / heads;
    if (relaying.leaves(tensor)) return success();
    const ModelTensor* part =
        tensor.weight ? tensor.weight->facts().parts.front() : plan_.model.find(tensor.entry.name);
    plan_.view.merged.push_back(std::make_unique<GgufRelaidWeight>(tensor, *part, relaying));
    tensor.weight = plan_.view.merged.back().get();
    tensor.entry.type = tensor.weight->facts().type;
    tensor.entry.end =
        tensor.entry.begin +
        static_cast<std::uint64_t>(tensor.weight->elements() * tensor.weight->value_bytes());
    return success();
  }

  // A file of the folder, or one that was made of a GGUF file.
  Status read(const char* name, std::string& text) const {
    for (const MadeFile& made : plan_.model.made_files) {
      if (made.name != name) continue;
      text = made.text;
      return success();
    }
    const fs::path path = plan_.model.root / name;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return success();
    auto contents = read_small_file(path, largest_file);
    if (!contents) return contents.failure();
    text = std::move(contents.value());
    return success();
  }

  Status add_metadata() {
    GgufMetadata& metadata = model_.metadata;
    fs::path named = options_.input;
    if (named.filename().empty()) named = named.parent_path();
    metadata.set_text("general.name", named.stem().empty() ? "model" : named.filename().string());
    metadata.set_u32("general.file_type", gguf_file_type(options_.format));
    metadata.set_u32("general.quantization_version", gguf_quantization_version);
    if (architecture() == "llama")
      metadata.set_u32("llama.vocab_size", static_cast<std::uint32_t>(*vocabulary_));
    TokenizerFiles files;
    files.model = plan_.model.config_text.value_or("");
    for (const auto& [name, text] : {std::pair{"tokenizer.json", &files.tokenizer},
                                     std::pair{"tokenizer_config.json", &files.config},
                                     std::pair{"tokenizer.model", &files.sentencepiece},
                                     std::pair{"added_tokens.json", &files.added_tokens},
                                     std::pair{"chat_template.jinja", &files.chat_template},
                                     std::pair{"generation_config.json", &files.generation}}) {
      if (Status there = read(name, *text); !there) return there;
    }
    Status added =
        add_gguf_vocabulary(files, architecture(), *vocabulary_, metadata, plan_.summary.notices);
    return added ? added : Failure{added.failure().code, "quantize: " + added.failure().message};
  }

  void tell() {
    std::vector<std::string>& notices = plan_.summary.notices;
    if (lowered_ > 0) {
      notices.push_back(
          fmt::format("llama.cpp's graph of {} does not multiply by the scales that NVFP4 wants in "
                      "feed-forward "
                      "layers, so {} weights of these become {}",
                      architecture(), lowered_, options_.keep_codes ? "BF16" : "MXFP4"));
    }
    std::map<std::string, std::size_t> dropped;
    for (const TensorTreatment& tensor : plan_.tensors) {
      if (tensor.decision.treatment == Treatment::drop &&
          tensor.verdict.kind != TensorKind::leftover)
        ++dropped[tensor.decision.reason];
    }
    for (const auto& [reason, count] : dropped) {
      notices.push_back(
          fmt::format("{} tensor{} left out: {}", count, count == 1 ? " is" : "s are", reason));
    }
    static const std::set<std::string> taken{"tokenizer.json",
                                             "tokenizer_config.json",
                                             "tokenizer.model",
                                             "added_tokens.json",
                                             "chat_template.jinja",
                                             "generation_config.json",
                                             "special_tokens_map.json",
                                             "vocab.json",
                                             "merges.txt"};
    std::vector<std::string> behind;
    for (const fs::path& file : plan_.model.other_files) {
      if (!taken.contains(file.string())) behind.push_back(file.string());
    }
    if (!behind.empty()) {
      notices.push_back(fmt::format(
          "config.json and the tokenizer become metadata of the file; what else the folder holds "
          "stays behind: {}",
          some_of(behind)));
    }
  }

  ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  GgufModel model_;
  std::optional<std::int64_t> vocabulary_;  // rows of the embedding
  std::size_t lowered_ = 0;                 // weights that NVFP4 is not for
};

}  // namespace

Result<GgufModel> settle_gguf_model(ModelPlan& plan, const QuantizeModelOptions& options) {
  return Settler(plan, options).settle();
}

}  // namespace microscale
