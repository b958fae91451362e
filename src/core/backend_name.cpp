#include "core/backend_name.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "microscale/error.hpp"

namespace microscale {
namespace {

constexpr std::array<std::string_view, 4> cpu_names{"reference", "avx2", "avx512", "amx"};

}  // namespace

const EmulatedGpu* find_emulated_gpu(std::string_view name) {
  const auto* found = std::ranges::find(emulated_gpus, name, &EmulatedGpu::name);
  return found == emulated_gpus.end() ? nullptr : found;
}

std::string_view backend_of_environment() {
  const char* text = std::getenv("MICROSCALE_BACKEND");
  const std::string_view name = text ? text : "";
  if (name.empty() || find_emulated_gpu(name) ||
      std::ranges::find(cpu_names, name) != cpu_names.end())
    return name;
  throw Error(
      ErrorCode::invalid_argument,
      "MICROSCALE_BACKEND=" + std::string(name) +
          " names no backend; unset it, or use reference, avx2, avx512 or amx, or, for backend "
          "cuda (--device cuda), an emulated GPU: emulator-sm90, emulator-sm100 or emulator-sm120");
}

}  // namespace microscale
