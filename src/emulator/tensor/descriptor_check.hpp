// What a descriptor of a matrix in shared memory may not say, beside what its reads will show.
#pragma once

#include <cstdint>
#include <string>

namespace microscale::emulator::tensor {

struct DescriptorProblem {
  bool alignment = false;  // of the matrix's start; else of the descriptor's bits
  std::string what;        // "" if there is none
};

/// Of tcgen05's 64 bits, for `lines` rows of A or columns of B of 32 bytes of K each, or of what a
/// tcgen05.cp copies. MN-major: of elements of `element_bytes`.
DescriptorProblem tcgen05_descriptor_problem(std::uint64_t bits, int lines, bool mn_major,
                                             int element_bytes);

/// Of wgmma's 64 bits, for `lines` rows of A or columns of B of 32 bytes of K each. MN-major: of
/// 16-bit elements.
DescriptorProblem descriptor_problem(std::uint64_t bits, int lines, bool mn_major);

}  // namespace microscale::emulator::tensor
