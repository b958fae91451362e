// explain mma: who holds what of a matrix instruction, as data, text, JSON and a picture.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/tensor/mma_shape.hpp"
#include "emulator/tensor/probe.hpp"
#include "emulator/tensor/scale_lanes.hpp"

namespace microscale {

/// explain mma KIND SHAPE
struct ExplainMmaCommand {
  emulator::tensor::MmaShape shape;
  emulator::tensor::ScaleSelector select_a, select_b;
  bool probe = false;
  std::filesystem::path svg;  ///< file to write; empty: none
};

/// The maps of one instruction, of formulas or probed.
struct MmaMaps {
  emulator::tensor::MmaShape shape;
  emulator::tensor::ScaleSelector select_a, select_b;
  bool probed = false;
  int disagreements = 0;  ///< probed slots that the formulas put elsewhere
  std::vector<emulator::tensor::Probed> a, b, d, scales_a, scales_b;
};

MmaMaps mma_maps(const ExplainMmaCommand& command);

/// Elements of an operand in a 32-bit register.
int items_of(const MmaMaps& maps, char operand);

nlohmann::ordered_json to_json(const MmaMaps& maps);
/// A picture that stands alone: its style is in it.
std::string mma_svg(const MmaMaps& maps);

}  // namespace microscale
