// Transposition of dense matrices of 16- and 32-bit elements. src/cpu has it, with instructions
// that every x86-64 has.
#pragma once

#include <cstdint>

namespace microscale {

/// to[c * to_stride + r] = from[r * from_stride + c] for `rows` x `cols` elements of `from`, which
/// do not overlap `to`; strides in elements. T: std::uint16_t or std::uint32_t. past_cache: `to` is
/// not read soon.
template <class T>
void transpose(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t cols, T* to,
               std::int64_t to_stride, bool past_cache);

}  // namespace microscale
