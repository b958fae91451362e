#include "checkpoint/kept_layers.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/layer_stacks.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 24> vision_parts{"visual",
                                                        "vit",
                                                        "vpm",
                                                        "img_processor",
                                                        "image_embed",
                                                        "vte",
                                                        "sam_model",
                                                        "sam",
                                                        "siglip",
                                                        "patch_embed",
                                                        "vit_large_projector",
                                                        "patch_embedder",
                                                        "patch_embedding",
                                                        "dino",
                                                        "radio_model",
                                                        "embed_tokens_extend",
                                                        "model_vision",
                                                        "pixel_embed",
                                                        "clip_model",
                                                        "vae_model",
                                                        "vit_model",
                                                        "deepencoder",
                                                        "view_seperator",
                                                        "video_tower"};
constexpr std::array<std::string_view, 5> vision_words{"vision", "visual_", "image", "video",
                                                       "pixel"};
constexpr std::array<std::string_view, 19> audio_parts{
    "apm",      "conformer", "token2wav",   "code2wav",       "talker",        "tts",  "vocoder",
    "mimi",     "codec",     "encodec",     "whisper",        "depth_decoder", "flow", "hift",
    "waveform", "audio",     "codec_model", "code_predictor", "subsampling"};
constexpr std::array<std::string_view, 5> audio_words{"audio", "speech", "acoustic", "sound_",
                                                      "voice_"};
constexpr std::array<std::string_view, 9> projector_words{
    "projector", "connector",  "aligner",           "resampler",          "perceiver",
    "qformer",   "abstractor", "visual_projection", "language_projection"};
constexpr std::array<std::string_view, 13> projector_parts{"mlp1",
                                                           "vision_projection",
                                                           "modality_projection",
                                                           "img_projection",
                                                           "image_projection",
                                                           "audio_projection",
                                                           "embed_vision",
                                                           "embed_audio",
                                                           "vision_proj",
                                                           "text_hidden_fcs",
                                                           "mm_mlp",
                                                           "image_newline",
                                                           "merger"};
constexpr std::array<std::string_view, 13> embedding_leaves{"wte",
                                                            "wpe",
                                                            "word_embedding",
                                                            "position_embedding",
                                                            "relative_attention_bias",
                                                            "shared",
                                                            "embed",
                                                            "embeds",
                                                            "embedding",
                                                            "embeddings",
                                                            "position_bias",
                                                            "codebook",
                                                            "emb"};
constexpr std::array<std::string_view, 9> head_leaves{
    "lm_head",  "embed_out",   "output_projection", "head",      "output_layer",
    "lm_heads", "shared_head", "word_head",         "codec_head"};
constexpr std::array<std::string_view, 10> scorer_parts{
    "score",      "scorer",      "classifier",      "qa_outputs",   "v_head",
    "value_head", "reward_head", "regression_head", "ranking_head", "classification_head"};

bool ends_with_any(std::string_view word, Names endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return word.ends_with(ending); });
}

bool holds_any(Names parts, Names words) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return part.find(word) != part.npos; });
  });
}

bool is_embedding(std::string_view leaf) {
  if (leaf == "embed_out") return false;
  return is_one_of(leaf, embedding_leaves) || leaf.starts_with("embed_") ||
         leaf.ends_with("_embeddings") || leaf.ends_with("_embedding") ||
         leaf.ends_with("_embed") || leaf.ends_with("embeds");
}

// Inside the layers of a language model; elsewhere the same words name layers that are multiplied.
bool is_lookup_table(std::string_view leaf) {
  constexpr std::array<std::string_view, 4> endings{"_emb", "embedder", "embedders", "_table"};
  return ends_with_any(leaf, endings);
}

bool is_norm(std::string_view leaf) {
  return leaf.find("norm") != leaf.npos || leaf.find("Norm") != leaf.npos ||
         leaf.starts_with("ln_") || leaf == "ln";
}

bool is_output_head(std::string_view module, Names parts, bool repeated) {
  constexpr std::array<std::string_view, 2> anywhere{"lm_head", "shared_head"};
  if (has_part(parts, anywhere) || module.starts_with("cls.") ||
      module.find(".cls.predictions.") != module.npos || parts.back() == "embed_out" ||
      parts.back() == "output_projection") {
    return true;
  }
  if (repeated) return false;
  return is_one_of(parts.back(), head_leaves) || module == "output" ||
         module.ends_with(".output") || module.ends_with("transformer.ff_out") ||
         (parts.size() > 1 && parts[0] == "head");
}

bool is_router(Names parts) {
  constexpr std::array<std::string_view, 6> anywhere{"moe_gate", "gate_network",    "wg",
                                                     "routing",  "expert_selector", "gating"};
  constexpr std::array<std::string_view, 5> leaves{"expert_gate", "experts_gate", "gate_score",
                                                   "gate_inp", "topk_gate"};
  constexpr std::array<std::string_view, 1> within{"router"};
  constexpr std::array<std::string_view, 6> attention{"attention", "attn",        "self_attn",
                                                      "time_mix",  "linear_attn", "cross_attn"};
  if (has_part(parts, anywhere) || ends_with_any(parts.back(), leaves) ||
      holds_any(parts, within)) {
    return true;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "gate" && (i == 0 || !is_one_of(parts[i - 1], attention))) return true;
  }
  return false;
}

// GPT-2 and its kin hold weights as [in, out] in a layer of another class than Linear.
bool is_conv1d(std::string_view leaf, const ModelFacts& facts) {
  constexpr std::array<std::string_view, 4> models{"gpt2", "openai-gpt", "imagegpt",
                                                   "decision_transformer"};
  constexpr std::array<std::string_view, 4> leaves{"c_attn", "c_proj", "c_fc", "q_attn"};
  return is_one_of(facts.model_type, models) && is_one_of(leaf, leaves);
}

bool is_adapter(Names parts) {
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part.starts_with("lora_") || part == "lora" || part == "lora_magnitude_vector";
  });
}

// What encloses the layers of an encoder beside a language model.
Kept tower_of(Names outer) {
  if (has_part(outer, projector_parts) || holds_any(outer, projector_words)) {
    return Kept::projector;
  }
  if (has_part(outer, audio_parts) || holds_any(outer, audio_words)) return Kept::audio;
  if (has_part(outer, vision_parts) || holds_any(outer, vision_words)) return Kept::vision;
  return Kept::no;
}

// Few rows save nothing, and stand for decay, beta or a gate of each head.
bool is_tiny(Names parts, std::span<const std::int64_t> shape) {
  constexpr std::int64_t few_rows = 64, much_wider = 16;
  constexpr std::array<std::string_view, 9> mixers{"linear_attn", "mixer",           "mamba",
                                                   "ssm",         "time_mix",        "kda",
                                                   "delta_net",   "gated_delta_net", "mamba_mixer"};
  constexpr std::array<std::string_view, 4> gates{"gate", "_gate", "gate_proj_head", "g_proj"};
  if (shape.size() != 2 || shape[0] == 0 || shape[0] >= few_rows) return false;
  return shape[1] >= much_wider * shape[0] || has_part(parts, mixers) ||
         ends_with_any(parts.back(), gates);
}

// Layers of a diffusion model that scale and shift what passes, by time or guidance.
bool is_modulation(std::string_view within, Names parts) {
  constexpr std::array<std::string_view, 6> words{"modulation", "adaLN",       "adaln",
                                                  "ada_ln",     "scale_shift", "time_emb_proj"};
  constexpr std::array<std::string_view, 4> exact{"mod", "emb_layers", "time_embedder", "time_mlp"};
  const bool called_so = std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return part.ends_with("_mod") || is_one_of(part, exact) ||
           std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return part.find(word) != part.npos; });
  });
  if (called_so) return true;
  // "norm1.linear": the linear layer inside an adaptive norm.
  const std::string_view parent = leaf_of(parent_of(within));
  return parts.back() == "linear" && parent.find("norm") != parent.npos;
}

// Layers of a diffusion model that prepare text, image or guidance for the blocks.
bool refines_input(Names outer) {
  constexpr std::array<std::string_view, 3> endings{"_in", "_refiner", "_embedder"};
  constexpr std::array<std::string_view, 1> guidance{"distilled_guidance_layer"};
  return has_part(outer, guidance) ||
         std::any_of(outer.begin(), outer.end(),
                     [&](std::string_view part) { return ends_with_any(part, endings); });
}

// Of a layer before, between or after the blocks.
Kept place_in_diffusion(Names parts) {
  constexpr std::array<std::string_view, 2> between{"mid_block", "middle_block"};
  if (has_part(parts, between)) return Kept::outside;
  const Names enclosing = parts.size() > 1 ? parts.first(parts.size() - 1) : parts;
  constexpr std::array<std::string_view, 2> last{"out", "final"};
  return holds_any(enclosing, last) ? Kept::output_layer : Kept::input_layer;
}

bool is_indexer(std::string_view module, Names parts) {
  constexpr std::array<std::string_view, 1> compressor{"compressor"};
  // vLLM makes one dense layer of both.
  return module.ends_with("indexer.weights_proj") || module.ends_with("indexer.wk") ||
         has_part(parts, compressor);
}

bool is_diffusion_input(std::string_view name) {
  constexpr std::array<std::string_view, 11> parts{
      "x_embedder",        "img_in",        "t_embedder",        "time_embedding",
      "time_text_embed",   "patchify_proj", "time_embed",        "adaln_single",
      "timestep_embedder", "time_in",       "condition_embedder"};
  return has_part(parts_of(name), parts);
}

constexpr std::array<std::string_view, 8> beside_diffusion{
    "conditioner", "cond_stage_model", "text_encoders",  "first_stage_model",
    "vae",         "text_encoder",     "text_encoder_2", "text_embedding_projection"};

struct KeptWords {
  std::string_view name, phrase;
};
constexpr std::array<KeptWords, 32> kept_words{{
    {"no", ""},
    {"embedding", "embedding"},
    {"norm", "norm"},
    {"conv1d", "Conv1D layer, which holds its weights transposed"},
    {"output_head", "output head"},
    {"scorer", "scoring head"},
    {"router", "router"},
    {"indexer", "indexer or compressor of sparse attention"},
    {"vision", "part of the vision tower"},
    {"audio", "part of the audio tower"},
    {"projector", "multi-modal projector"},
    {"prediction_layer", "multi-token prediction layer"},
    {"adapter", "adapter"},
    {"text_encoder", "text encoder or VAE beside the diffusion model"},
    {"modulation", "modulation layer"},
    {"input_layer", "input layer of the diffusion model"},
    {"output_layer", "output layer of the diffusion model"},
    {"other_stack", "layers beside those of the language model"},
    {"outside", "outside the repeated layers"},
    {"tiny", "fewer than 64 rows, which save nothing"},
    {"scalar", "a scalar"},
    {"vector", "a vector, no matrix"},
    {"convolution", "no linear layer"},
    {"no_weight", "no weight of a layer"},
    {"element_type", "elements that are not quantized"},
    {"empty", "no elements"},
    {"block", "K is no multiple of the block"},
    {"odd_experts", "experts of an unknown layout"},
    {"group", "belongs to a layer that is kept"},
    {"ignored", "ignored"},
    {"not_included", "not included"},
    {"budget", "as it is, which the budget has room for"},
}};

}  // namespace

std::string_view name_of(Kept kept) { return kept_words[static_cast<std::size_t>(kept)].name; }
std::string_view phrase_of(Kept kept) { return kept_words[static_cast<std::size_t>(kept)].phrase; }

bool is_no_linear(Kept kept) {
  return kept == Kept::embedding || kept == Kept::norm || kept == Kept::conv1d ||
         kept == Kept::adapter;
}

LayerRules::LayerRules(std::span<const std::string_view> names, const ModelFacts& facts) {
  constexpr std::array<std::string_view, 4> prediction{"eh_proj", "shared_head", "enorm", "hnorm"};
  constexpr std::array<std::string_view, 4> embeddings{"embed_tokens", "wte", "word_embeddings",
                                                       "lm_head"};
  bool words = false, diffusion_stack = false, diffusion_input = false, elsewhere = false;
  for (const std::string_view name : names) {
    const auto parts = parts_of(name);
    words |= has_part(parts, embeddings) && !has_part(parts, beside_diffusion);
    diffusion_input |= is_diffusion_input(name);
    const auto layer = repeated_layer_of(name);
    if (!layer) continue;
    repeated_ = true;
    language_ |= names_language_model(layer->stack);
    diffusion_stack |= is_diffusion_stack(layer->stack);
    elsewhere |= tower_of(parts_of(layer->stack)) == Kept::no;
    if (has_part(parts, prediction)) prediction_layers_.emplace(layer->layer);
  }
  tower_ = repeated_ && !elsewhere && !words && !facts.multimodal;
  diffusion_ = facts.diffusion || (!words && repeated_ && (diffusion_stack || diffusion_input));
}

// DeepSeek numbers its prediction layers as if they were more hidden layers.
bool LayerRules::is_prediction_layer(std::string_view module, Names parts,
                                     const ModelFacts& facts) const {
  constexpr std::array<std::string_view, 4> elsewhere{"draft_model", "medusa_head", "eagle",
                                                      "drafter"};
  const auto named = [](std::string_view part) {
    return part.starts_with("mtp") || part.starts_with("nextn");
  };
  if (std::any_of(parts.begin(), parts.end(), named) || has_part(parts, elsewhere)) return true;
  constexpr std::array<std::string_view, 2> drafters{"medusa", "mlp_speculator"};  // heads alone
  if (is_one_of(facts.model_type, drafters)) return true;
  const auto layer = repeated_layer_of(module);
  if (!layer) return false;
  if (prediction_layers_.contains(layer->layer)) return true;
  return facts.layers && *facts.layers > 0 && layer->number >= *facts.layers &&
         leaf_of(layer->stack) == "layers" &&
         (is_main_stack(layer->stack) || names_language_model(layer->stack));
}

// Of a model with several stacks, those that are not the language model's.
bool LayerRules::is_other_stack(std::string_view stack, const ModelFacts& facts) const {
  if (diffusion_) return false;
  if (language_) return !names_language_model(stack) && !is_main_stack(stack);
  return facts.multimodal && !is_main_stack(stack);
}

Kept LayerRules::reason(std::string_view module, std::span<const std::int64_t> shape,
                        const ModelFacts& facts) const {
  const auto parts = parts_of(module);
  const std::string_view leaf = parts.back();
  const auto layer = repeated_layer_of(module);
  if (is_adapter(parts)) return Kept::adapter;
  if (is_prediction_layer(module, parts, facts)) return Kept::prediction_layer;
  // Towers are told by what encloses their layers; inside a layer the same words mean other things.
  const auto outer = layer ? parts_of(layer->stack) : parts;
  if (!diffusion_) {
    const Kept tower = tower_of(outer);
    if (tower != Kept::no && !(tower_ && layer)) return tower;
  } else if (has_part(outer, beside_diffusion)) {
    return Kept::text_encoder;
  }
  if (is_output_head(module, parts, layer.has_value())) return Kept::output_head;
  if (is_router(parts)) return Kept::router;
  if (has_part(parts, scorer_parts)) return Kept::scorer;
  if (!layer && facts.vocab_size && shape.size() == 2 && shape[0] == *facts.vocab_size &&
      facts.hidden_size == shape[1] && !is_embedding(leaf)) {
    return Kept::output_head;
  }
  if (!(diffusion_ && layer) && is_embedding(leaf)) return Kept::embedding;
  if (is_norm(leaf)) return Kept::norm;
  if (diffusion_) {
    if (is_modulation(layer ? layer->within : module, layer ? parts_of(layer->within) : parts)) {
      return Kept::modulation;
    }
    if (layer ? refines_input(outer) : true) return place_in_diffusion(parts);
  }
  if (is_indexer(module, parts)) return Kept::indexer;
  if (is_conv1d(leaf, facts)) return Kept::conv1d;
  if (layer && is_other_stack(layer->stack, facts)) return Kept::other_stack;
  if (!diffusion_ && (layer || !repeated_) && is_lookup_table(leaf)) return Kept::embedding;
  if (!layer && repeated_) return Kept::outside;
  if (is_tiny(parts, shape)) return Kept::tiny;
  return Kept::no;
}

}  // namespace microscale
