// Level 1: one matrix instruction, and nothing else. Who holds what?
//
// mma.m16n8k32 of kind mxf8f6f4 multiplies 16 x 32 by 32 x 8 elements. Each lane brings four
// registers of a, two of b and one of scales for each, and takes four results. A code sits in the
// middle of a byte, 00seem00. A constant in every register proves nothing: 32 ones give 32 in any
// order. What does (problem.cpp, tests):
//
//   identity  a has one 1 a row and b one 1 a column, at every pair of shifts; d then has a 1 where
//             the two meet and zeros elsewhere, if each lane held what the formulas of
//             cuda/ptx/mma.cuh say. With another formula there are ones too many.
//   scales    all ones, and one lane's scale is 2: the rows or columns that double are its own.
//
// Where the article erred: the instruction does not assemble with two registers of a, one of b, and
// no {byte, lane} selectors behind the scales; fragments and scale lanes are in the PTX manual
// (9.7.14); and the lanes that it calls ignored are those that other selectors choose (below).
#pragma once

#include "args.hpp"
#include "cuda/ptx/mma.cuh"

namespace levels {

template <int Byte, int Lane>
__device__ void probe(const ProbeArgs& args) {
  const unsigned at = blockIdx.x * 32 + threadIdx.x;
  const std::uint32_t* own = args.operands + at * 8;
  const std::uint32_t a[4] = {own[0], own[1], own[2], own[3]};
  float d[4] = {};
  microscale::ptx::mma_m16n8k32_mxf8f6f4_e2m1_e2m1<Byte, Lane>(d, a, own[4], own[5], own[6],
                                                               own[7]);
  for (int i = 0; i < 4; ++i) args.d[at * 4 + i] = d[i];
}

/// The selectors of the article's instruction: byte 0 of each scale, from the first lane of four.
extern "C" __global__ void attention_1_probe(ProbeArgs args) { probe<0, 0>(args); }

/// Byte 2, and b's scales from the second lane of four: one register serves four steps along K, and
/// the lanes between can hold the scales of other columns.
extern "C" __global__ void attention_1_probe_byte_2_lane_1(ProbeArgs args) { probe<2, 1>(args); }

}  // namespace levels
