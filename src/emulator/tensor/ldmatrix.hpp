// ldmatrix and stmatrix once their rows are at hand: bytes of shared memory to and from registers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "emulator/tensor/ldmatrix_fragments.hpp"

namespace microscale::emulator::tensor {

/// Row i: the 16 bytes at the address of lane i.
using MatrixRows = std::array<std::array<std::uint8_t, 16>, 32>;

/// The move that the modifiers of an ldmatrix or stmatrix spell ("m8n8", "x4", "trans", "b16",
/// ...). Throws Error{unsupported} for one that PTX does not have.
MatrixMove ldmatrix_move(std::span<const std::string_view> modifiers);
MatrixMove stmatrix_move(std::span<const std::string_view> modifiers);

/// Fills registers_of(move) rows of 32 lanes. Reads the rows of address_lanes(move) lanes.
void ldmatrix(const MatrixMove& move, const MatrixRows& rows, std::uint32_t* const* d);
/// The other way; m8n8 only.
void stmatrix(const MatrixMove& move, const std::uint32_t* const* registers, MatrixRows& rows);

}  // namespace microscale::emulator::tensor
