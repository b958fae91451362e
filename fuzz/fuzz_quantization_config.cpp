// Any bytes as a description of a quantized model: in config.json (compressed-tensors, ModelOpt),
// or as ModelOpt's own file. What is accepted has groups with targets, and answers for any module.
#include <cstddef>
#include <cstdint>

#include "checkpoint/module_match.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "require.hpp"

namespace {

void ask(const microscale::QuantizationConfig& config) {
  using namespace microscale;
  for (const QuantizationGroup& group : config.groups) {
    REQUIRE(!group.scheme.empty());
    REQUIRE(!group.format || group.scheme == info(*group.format).name);
  }
  const ModuleExpectations expectations(config);
  for (const char* module : {"lm_head", "model.layers.0.mlp.experts.3.up_proj"}) {
    const Expectation expected = expectations.of(module, true);
    REQUIRE(!expected.rival || expected.group);
    REQUIRE(!expected.ignored || expected.quantized == Match::no);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace microscale;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = parse_quantization_config(text);
  REQUIRE(config || !config.failure().message.empty());
  if (config && config.value()) ask(*config.value());
  const auto modelopt = parse_modelopt_file(text);
  REQUIRE(modelopt || !modelopt.failure().message.empty());
  if (modelopt) ask(modelopt.value());
  return 0;
}
