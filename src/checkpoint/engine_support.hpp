// Which engine runs a checkpoint, on which processors, and how: what engines' sources and their
// issue threads say, each statement with where it stands. One table; docs/engines.md explains it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quantization_config.hpp"
#include "checkpoint/quantized_folder.hpp"

namespace microscale {

enum class Hardware : std::uint8_t {
  ampere,                // sm_80 to sm_89
  hopper,                // sm_90
  blackwell_datacenter,  // sm_100, sm_103
  blackwell_consumer,    // sm_120, sm_121
  cpu,
};
inline constexpr std::array<Hardware, 5> all_hardware{Hardware::ampere, Hardware::hopper,
                                                      Hardware::blackwell_datacenter,
                                                      Hardware::blackwell_consumer, Hardware::cpu};

enum class Support : std::uint8_t {
  native,       // multiplies in the format
  weight_only,  // kernels that expand weights on the fly and multiply in BF16
  emulation,    // expands the weights to BF16 first
  conversion,   // after another program has converted the folder
  refuses,
  unknown,
};

std::string_view to_string(Hardware hardware);  // "Hopper"
std::string_view to_string(Support support);    // "weight-only"

/// What matters to an engine about a checkpoint.
struct CheckpointScheme {
  bool modelopt = false;  // else compressed-tensors
  Format format = Format::nvfp4;
  bool activations = false;  // quantized too, not the weights alone
  std::string other = {};    // FP8 and other codings that are no `format`, in words; else empty
  bool elsewhere = false;    // in neither of these two containers
};
/// "NVFP4 weights and activations, compressed-tensors".
std::string in_words(const CheckpointScheme& scheme);

struct EngineAnswer {
  std::string_view engine;  // "vLLM"
  Hardware hardware = Hardware::cpu;
  Support support = Support::unknown;
  std::string_view note;    // one phrase; may be empty
  std::string_view source;  // version that was read, or issue; empty where nothing is known
};

/// The schemes of the folder's modules, each once.
std::vector<CheckpointScheme> schemes_in(const QuantizedFolder& folder,
                                         const QuantizationConfig* config);

/// One answer for each engine and hardware, engine by engine.
std::vector<EngineAnswer> engines_for(const CheckpointScheme& scheme);

}  // namespace microscale
