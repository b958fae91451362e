// Folders for the tests of the commands that read checkpoints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/small_model.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {

using Json = nlohmann::json;

inline constexpr const char* down = "model.layers.0.mlp.down_proj";

/// A quantized folder, its dense expansion beside it, and one with a NaN scale.
class Folders {
 public:
  Folders() {
    SmallModel model = small_llama(Format::nvfp4);
    model.write(quantized());
    model.at(std::string(down) + ".weight_scale").bytes[0] = 0x7F;
    model.write(broken());
  }
  std::string quantized() const { return (folder_ / "quantized").string(); }
  std::string broken() const { return (folder_ / "broken").string(); }
  std::string dense() const { return (folder_ / "dense").string(); }
  std::string nowhere() const { return (folder_ / "nowhere").string(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace microscale::testing
