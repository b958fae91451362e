// Checks of a GPU's instructions, beside those of our kernels: subcommands of gpu_check. Each takes
// the words behind its name, and returns the exit code: 0: all equal; 1: something differs; 2: no
// such option; 5: this GPU is no Hopper, whose instructions these are. They throw where there is no
// GPU.
#pragma once

#include <span>

#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// gpu_check mma [CUBIN] [--ptx] [--raw FILE] [--golden FILE] [--rounds N]: every matrix
/// instruction of Hopper on made-up operands against the emulator's arithmetic, bit for bit.
/// CUBIN: the kernels as assembled; without it the driver assembles them. --ptx prints them, --raw
/// keeps what the GPU gave, --golden its digests (what tests/emulator/tensor replays).
int check_matrix_instructions(std::span<char*> words);

/// gpu_check ptx [--golden FILE] [--no-sweep]: opcode by opcode, on the operands of
/// tests/support/opcode_cases.hpp, against the emulator; --golden keeps digests of what the GPU
/// gave. Conversions from every FP32 bit pattern to FP8 are compared with this library's codecs,
/// unless --no-sweep.
int check_opcodes(std::span<char*> words);

/// gpu_check counters TESTS: launches the kernels of tests/support/counter_cases.hpp once each, in
/// their order, for a profiler to count what they do to memory (tools/gpu_check/record_counters).
/// TESTS: the folder tests of the checkout.
int launch_counter_cases(std::span<char*> words);

/// Says so where `device` is no Hopper.
bool is_hopper(const Device& device);

}  // namespace microscale::cuda
