// What the kernels of a cubin take, read from the ELF file itself: in milliseconds, where a
// disassembler takes minutes, and without one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace microscale::sass {

struct CubinKernel {
  std::string name;
  int instructions = 0;  // without the NOPs that fill up the end
  int registers = 0;     // a thread
  int shared_bytes = 0;  // static
  int local = 0;         // loads and stores of spilled registers
  int calls = 0;
  int early_arrivals = 0;
};

/// Of instructions of sm_90a, 16 bytes each: arrivals at an mbarrier, of threads and not of bytes,
/// that do not wait for what was read of shared memory in front of them, in the order in which
/// instructions lie. Such a read may come after a thread that waits at the barrier has written
/// there.
int early_arrivals(std::span<const std::uint8_t> code);

/// For compute capability 7.0 and later, whose instructions have 16 bytes. The few opcodes that are
/// told apart are not documented; tests compare the counts with nvdisasm's. Throws Error{bad_input}
/// for what is no cubin.
std::vector<CubinKernel> kernels_of(std::span<const std::uint8_t> cubin);

}  // namespace microscale::sass
