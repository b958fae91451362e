#include "probe.hpp"

namespace levels {
namespace {

constexpr int k_elements = 32, of_lane = 8;  // registers: a0 to a3, b0, b1, two of scales
constexpr std::uint32_t one = 0x08;          // 1.0 in its container
constexpr std::uint32_t scale_one = 127, scale_two = 128;

std::uint32_t& at(std::vector<std::uint32_t>& operands, int probe, int lane, int reg) {
  return operands[static_cast<std::size_t>((probe * 32 + lane) * of_lane + reg)];
}

void every_scale_one(std::vector<std::uint32_t>& operands) {
  for (std::size_t i = 0; i < operands.size(); i += of_lane)
    operands[i + 6] = operands[i + 7] = scale_one * 0x01010101u;
}

float result(const std::vector<float>& d, int probe, int row, int column) {
  const int lane = 4 * (row % 8) + column / 2, reg = 2 * (row / 8) + column % 2;
  return d[static_cast<std::size_t>((probe * 32 + lane) * 4 + reg)];
}

}  // namespace

Place place_of_a(int row, int k) {
  return {4 * (row % 8) + k % 16 / 4, row / 8 + 2 * (k / 16), k % 4};
}
Place place_of_b(int column, int k) { return {4 * column + k % 16 / 4, k / 16, k % 4}; }

std::vector<std::uint32_t> identity_probes() {
  std::vector<std::uint32_t> operands(k_elements * k_elements * 32 * of_lane);
  every_scale_one(operands);
  for (int a_shift = 0; a_shift < k_elements; ++a_shift)
    for (int b_shift = 0; b_shift < k_elements; ++b_shift) {
      const int probe = a_shift * k_elements + b_shift;
      for (int row = 0; row < 16; ++row) {
        const Place p = place_of_a(row, (row + a_shift) % k_elements);
        at(operands, probe, p.lane, p.reg) |= one << 8 * p.byte;
      }
      for (int column = 0; column < 8; ++column) {
        const Place p = place_of_b(column, (column + b_shift) % k_elements);
        at(operands, probe, p.lane, 4 + p.reg) |= one << 8 * p.byte;
      }
    }
  return operands;
}

int wrong_results(const std::vector<float>& d) {
  int wrong = 0;
  for (int a_shift = 0; a_shift < k_elements; ++a_shift)
    for (int b_shift = 0; b_shift < k_elements; ++b_shift)
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          const bool meet = (row + a_shift) % k_elements == (column + b_shift) % k_elements;
          wrong += result(d, a_shift * k_elements + b_shift, row, column) != (meet ? 1.0f : 0.0f);
        }
  return wrong;
}

std::vector<std::uint32_t> scale_probes(int byte) {
  std::vector<std::uint32_t> operands(64 * 32 * of_lane, one * 0x01010101u);
  every_scale_one(operands);
  for (int probe = 0; probe < 64; ++probe) {
    std::uint32_t& scales = at(operands, probe, probe % 32, probe < 32 ? 6 : 7);
    scales ^= (scale_one ^ scale_two) << 8 * byte;
  }
  return operands;
}

ScaleLanes scale_lanes(const std::vector<float>& d) {
  ScaleLanes found;
  const auto add = [](int& which, int seen) { which = which == -1 || which == seen ? seen : -2; };
  for (int lane = 0; lane < 32; ++lane) {
    found.row[static_cast<std::size_t>(lane)] = found.column[static_cast<std::size_t>(lane)] = -1;
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        if (result(d, lane, row, column) == 64.0f)
          add(found.row[static_cast<std::size_t>(lane)], row);
        if (result(d, 32 + lane, row, column) == 64.0f)
          add(found.column[static_cast<std::size_t>(lane)], column);
      }
  }
  return found;
}

}  // namespace levels
