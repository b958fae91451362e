// Variables: what stands behind .global, .const, .shared, .local and .param, with initialisers.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/reader.hpp"

namespace microscale::emulator::ptx {

/// The largest variable, and the largest memory of one space of a function.
inline constexpr std::int64_t max_variable_bytes = std::int64_t{1} << 36;

/// One declaration behind its space word, up to but without the `;` `,` or `)` after it:
/// `.align 8 .b8 x[48], y = 3` gives two variables. `space` goes into them; `single` allows one.
bool read_variables(Reader& reader, Space space, bool external, bool single,
                    std::vector<Variable>& variables);

/// `( .param .u64 a, .param .align 8 .b8 b[48] )`, offsets laid out from `offset` on, which becomes
/// the end of the last. The current token is the `(`.
bool read_params(Reader& reader, std::vector<Variable>& params, std::int64_t& offset);

/// The next multiple of a power of two.
constexpr std::int64_t aligned(std::int64_t offset, std::int64_t align) {
  return (offset + align - 1) & -align;
}

}  // namespace microscale::emulator::ptx
