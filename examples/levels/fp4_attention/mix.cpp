#include "mix.hpp"

#include <algorithm>

namespace levels {
namespace {

constexpr std::array<std::string_view, 6> quantizer_files{
    "quantize.cuh",   "5_exact_reciprocal.cuh", "6_hardware_cvt.cuh",
    "thresholds.cuh", "container.hpp",          "cvt_small.cuh"};

bool any_of(std::string_view opcode, std::initializer_list<std::string_view> those) {
  return std::find(those.begin(), those.end(), opcode) != those.end();
}

}  // namespace

Part part_of(std::string_view opcode, std::string_view file) {
  const std::string_view base = opcode.substr(0, opcode.find('.')),
                         name = file.substr(file.rfind('/') + 1);
  if (any_of(base, {"QMMA", "OMMA", "mma"})) return Part::matrix;
  if (any_of(base, {"LDG", "STG", "LDS", "STS", "LDL", "STL", "ld", "st"})) return Part::movement;
  if (any_of(base, {"SHFL", "shfl", "ex2"}) || opcode == "MUFU.EX2") return Part::softmax;
  // Between FP32 and FP16: HADD2.F32 and F2FP.F16, by functions of cuda/ptx/scalar.cuh.
  if (opcode.starts_with("HADD2.F32") || opcode.starts_with("F2FP.F16") ||
      (base == "cvt" && name == "scalar.cuh"))
    return Part::movement;
  if (std::find(quantizer_files.begin(), quantizer_files.end(), name) != quantizer_files.end())
    return Part::quantization;
  return name == "softmax.cuh" ? Part::softmax : Part::other;
}

Mix assembled(const microscale::sass::Function& kernel) {
  Mix mix{};
  for (const auto& instruction : kernel.code)
    if (instruction.base() != "NOP")
      ++mix[static_cast<std::size_t>(part_of(instruction.opcode, instruction.file))];
  return mix;
}

Mix executed(const microscale::emulator::LaunchReport& report) {
  Mix mix{};
  for (const auto& instruction : report.instructions) {
    const std::string_view source = instruction.source;
    const bool parameter = instruction.opcode == "ld" &&
                           instruction.global_requests + instruction.shared_requests == 0;
    const Part part =
        parameter ? Part::other : part_of(instruction.opcode, source.substr(0, source.rfind(':')));
    mix[static_cast<std::size_t>(part)] += instruction.warps;
  }
  return mix;
}

}  // namespace levels
