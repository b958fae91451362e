// What the special function unit of an H200 computes, bit for bit: the instructions that PTX calls
// approximate are made of these. A function is a parabola in each of 64 or 128 segments, evaluated
// in fixed point; approx_tables.cpp holds the coefficients.
#pragma once

#include <cstdint>

namespace microscale::emulator {

// FP32 bits to FP32 bits. Subnormal operands count as zeros of their sign and subnormal results
// become zeros, but for tanh, which returns small operands as they are. Every NaN is the canonical
// one. sin and cos take revolutions: 1.0 is a full turn.
std::uint32_t special_ex2(std::uint32_t x);
std::uint32_t special_lg2(std::uint32_t x);
std::uint32_t special_rcp(std::uint32_t x);
std::uint32_t special_rsqrt(std::uint32_t x);
std::uint32_t special_sqrt(std::uint32_t x);
std::uint32_t special_sin(std::uint32_t x);
std::uint32_t special_cos(std::uint32_t x);
std::uint32_t special_tanh(std::uint32_t x);

/// Radians in revolutions: a product by FP32's 1 / (2 pi), rounded toward zero.
std::uint32_t special_revolutions(std::uint32_t x);

}  // namespace microscale::emulator
