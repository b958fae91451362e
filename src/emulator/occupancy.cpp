// The limits are those of the CUDA programming guide's table of compute capabilities.
#include "emulator/occupancy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/integers.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

constexpr std::int64_t KiB = 1024;

}  // namespace

const std::vector<MultiprocessorLimits>& known_gpus() {
  static const std::vector<MultiprocessorLimits> gpus = {
      {"a100", "A100", 8, 0, 108, 64, 32, 164 * KiB, 163 * KiB},
      {"a10", "A10", 8, 6, 72, 48, 16, 100 * KiB, 99 * KiB},
      {"rtx3090", "GeForce RTX 3090", 8, 6, 82, 48, 16, 100 * KiB, 99 * KiB},
      {"l40s", "L40S", 8, 9, 142, 48, 24, 100 * KiB, 99 * KiB},
      {"rtx4090", "GeForce RTX 4090", 8, 9, 128, 48, 24, 100 * KiB, 99 * KiB},
      {"h100", "H100 SXM", 9, 0, 132, 64, 32, 228 * KiB, 227 * KiB},
      {"h200", "H200 SXM", 9, 0, 132, 64, 32, 228 * KiB, 227 * KiB},
      {"b200", "B200", 10, 0, 148, 64, 32, 228 * KiB, 227 * KiB},
      {"b300", "B300", 10, 3, 148, 64, 32, 228 * KiB, 227 * KiB},
      {"rtx5090", "GeForce RTX 5090", 12, 0, 170, 48, 24, 100 * KiB, 99 * KiB},
      {"rtx5070ti", "GeForce RTX 5070 Ti", 12, 0, 70, 48, 24, 100 * KiB, 99 * KiB},
      {"rtxpro6000", "RTX PRO 6000 Blackwell", 12, 0, 188, 48, 24, 100 * KiB, 99 * KiB},
      {"gb10", "GB10", 12, 1, 48, 48, 24, 100 * KiB, 99 * KiB},
  };
  return gpus;
}

const MultiprocessorLimits& limits_of(std::string_view gpu) {
  std::string names;
  for (const MultiprocessorLimits& limits : known_gpus()) {
    if (limits.gpu == gpu) return limits;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", limits.gpu);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("occupancy: no GPU '{}' is known; choose one of {}", gpu, names));
}

std::string_view name_of(OccupancyLimit limit) {
  constexpr std::array<std::string_view, 4> names = {"resident warps", "resident blocks",
                                                     "registers", "shared memory"};
  return names[static_cast<std::size_t>(limit)];
}

Occupancy occupancy(const MultiprocessorLimits& limits, const KernelUse& use) {
  const auto require = [](bool good, std::string_view what, std::int64_t got,
                          std::string_view range) {
    if (!good)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("occupancy: {} is {}; it must be {}", what, got, range));
  };
  require(use.threads >= 1 && use.threads <= 1024, "threads of a block", use.threads, "1 to 1024");
  require(use.registers >= 1 && use.registers <= 255, "registers of a thread", use.registers,
          "1 to 255");
  require(use.shared >= 0, "shared memory of a block", use.shared, "0 bytes or more");
  const int warps = (use.threads + 31) / 32;
  const std::int64_t of_warp = round_up(32 * use.registers, MultiprocessorLimits::register_unit);
  const std::int64_t in_partition =
      MultiprocessorLimits::registers / MultiprocessorLimits::partitions / of_warp;
  Occupancy result;
  const auto allow = [&](OccupancyLimit limit, std::int64_t blocks) {
    result.allowed[static_cast<std::size_t>(limit)] = static_cast<int>(blocks);
  };
  allow(OccupancyLimit::warps, limits.warps / warps);
  allow(OccupancyLimit::blocks, limits.blocks);
  allow(OccupancyLimit::registers, in_partition * MultiprocessorLimits::partitions / warps);
  const std::int64_t of_block = round_up(use.shared + MultiprocessorLimits::shared_reserved,
                                         MultiprocessorLimits::shared_unit);
  allow(OccupancyLimit::shared, use.shared > limits.shared_of_block ? 0 : limits.shared / of_block);
  result.blocks = *std::min_element(result.allowed.begin(), result.allowed.end());
  result.warps = result.blocks * warps;
  result.share = static_cast<double>(result.warps) / limits.warps;
  for (std::size_t i = 0; i < result.allowed.size(); ++i)
    if (result.allowed[i] == result.blocks)
      result.binding.push_back(static_cast<OccupancyLimit>(i));
  return result;
}

}  // namespace microscale::emulator
