// Moves by the map of ldmatrix_fragments.hpp.
#include "emulator/tensor/ldmatrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "microscale/error.hpp"

namespace microscale::emulator::tensor {
namespace {

[[noreturn]] void refuse(std::string_view opcode, std::span<const std::string_view> modifiers,
                         std::string_view why) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{}.{}: {}", opcode, fmt::join(modifiers, "."), why));
}

MatrixMove move_of(std::string_view opcode, std::span<const std::string_view> modifiers) {
  MatrixMove move;
  bool typed = false, shaped = false, counted = false, widened = false;
  for (const std::string_view word : modifiers) {
    if (word == "sync" || word == "aligned" || word.starts_with("shared")) continue;
    if (word == "trans") {
      move.transposed = true;
    } else if (word == "m8n8" || word == "m8n16" || word == "m16n16") {
      move.shape = word == "m8n8"    ? MatrixShape::m8n8
                   : word == "m8n16" ? MatrixShape::m8n16
                                     : MatrixShape::m16n16;
      shaped = true;
    } else if (word == "x1" || word == "x2" || word == "x4") {
      move.count = word[1] - '0';
      counted = true;
    } else if (word == "b8x16") {
      widened = true;
    } else if (word == "b16" || word == "b8" || word == "b4x16_p64" || word == "b6x16_p32") {
      move.format = word == "b16"         ? RowFormat::b16
                    : word == "b8"        ? RowFormat::b8
                    : word == "b4x16_p64" ? RowFormat::b4x16_p64
                                          : RowFormat::b6x16_p32;
      typed = true;
    } else {
      refuse(opcode, modifiers, fmt::format("unknown modifier .{}", word));
    }
  }
  if (!shaped || !counted || !typed)
    refuse(opcode, modifiers, "a shape (.m8n8, ...), a count (.x1, ...) and a type are needed");
  const bool packed = move.format == RowFormat::b4x16_p64 || move.format == RowFormat::b6x16_p32;
  if (packed != widened) refuse(opcode, modifiers, ".b8x16 goes with .b4x16_p64 and .b6x16_p32");
  return move;
}

}  // namespace

MatrixMove ldmatrix_move(std::span<const std::string_view> modifiers) {
  const MatrixMove move = move_of("ldmatrix", modifiers);
  const bool fits = move.shape == MatrixShape::m8n8 ? move.format == RowFormat::b16
                    : move.shape == MatrixShape::m8n16
                        ? move.format >= RowFormat::b4x16_p64 && !move.transposed
                        : move.format != RowFormat::b16 && move.transposed && move.count <= 2;
  if (!fits)
    refuse(
        "ldmatrix", modifiers,
        "it is .m8n8 {.trans} .b16, .m8n16 with a packed format, or .m16n16 .trans of .x1 or .x2");
  return move;
}

MatrixMove stmatrix_move(std::span<const std::string_view> modifiers) {
  const MatrixMove move = move_of("stmatrix", modifiers);
  if (move.shape != MatrixShape::m8n8 || move.format != RowFormat::b16)
    refuse("stmatrix", modifiers, "only .m8n8 with .b16 is known");
  return move;
}

void ldmatrix(const MatrixMove& move, const MatrixRows& rows, std::uint32_t* const* d) {
  const int items = items_of(move);
  for (int reg = 0; reg < registers_of(move); ++reg) {
    for (int lane = 0; lane < 32; ++lane) {
      std::uint32_t word = 0;
      for (int item = 0; item < items; ++item) {
        const RowElement from = matrix_element(move, lane, reg, item);
        const auto row = static_cast<std::size_t>(from.lane);
        word |= row_element(move.format, rows[row].data(), from.element) << (32 / items * item);
      }
      d[reg][lane] = word;
    }
  }
}

void stmatrix(const MatrixMove& move, const std::uint32_t* const* registers, MatrixRows& rows) {
  for (int reg = 0; reg < registers_of(move); ++reg) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int item = 0; item < 2; ++item) {
        const RowElement to = matrix_element(move, lane, reg, item);
        const std::uint32_t value = registers[reg][lane] >> (16 * item);
        std::uint8_t* bytes = rows[static_cast<std::size_t>(to.lane)].data() + 2 * to.element;
        bytes[0] = static_cast<std::uint8_t>(value);
        bytes[1] = static_cast<std::uint8_t>(value >> 8);
      }
    }
  }
}

}  // namespace microscale::emulator::tensor
