// A copy in the read/write mix of a quantizer, and how much of nothing each of its elements costs.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

struct Mix {
  const char* name;
  int read, write;  // bytes of a chunk of eight elements
};

/// A chunk is eight elements; scale bytes are left out.
inline constexpr Mix mixes[] = {{"BF16 to 8-bit codes", 16, 8},
                                {"BF16 to 4-bit codes", 16, 4},
                                {"FP32 to 4-bit codes", 32, 4},
                                {"4-bit codes to BF16", 4, 16}};

enum class Pipe : std::uint8_t {
  both,    // multiply-add and logic in turn: two pipes, each of half the issue rate
  integer  // rotate and logic: one of them
};

inline constexpr int most_instructions = 20;  // an element; even numbers from 0 on

/// args.rows: chunks, a multiple of 1024; args.cols: any odd number.
Level padded_copy(int mix, Pipe pipe, int instructions);

}  // namespace levels
