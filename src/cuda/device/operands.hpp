// Checks of device memory that operations share.
#pragma once

#include <cstdint>
#include <span>

#include "core/memory_range.hpp"
#include "cuda/device/device.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda {

/// One buffer of a call. `written` ones may overlap no other.
struct Operand {
  const char* what;
  const void* data;
  std::int64_t bytes;
  bool written;
};

/// Bytes from the first to the last element of a matrix.
std::int64_t extent_bytes(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                          std::int64_t element);

/// Not null, on this device, aligned to 16 bytes (4 where bytes is 4), no overlap with a written
/// one. Throws Error{invalid_argument} naming `operation` and the buffer.
void check_operands(Device& device, const char* operation, std::span<const Operand> operands);

/// Those that are not null, on this device. Throws Error{invalid_argument} naming the first that is
/// not.
void check_on_device(Device& device, const char* operation, std::span<const MemoryRange> memory);

/// Of a workspace, and of what lies in it.
inline constexpr std::int64_t workspace_alignment = 256;
constexpr std::int64_t padded(std::int64_t bytes) { return round_up(bytes, workspace_alignment); }
/// At least `needed` bytes, unless that is 0 at a multiple of workspace_alignment. `sizer`: the
/// public function that says how many. Throws Error{invalid_argument}.
void check_workspace(const char* operation, const char* sizer,
                     std::span<const std::uint8_t> workspace, std::int64_t needed);

/// Rows must start at multiples of 16 bytes. Throws Error{invalid_argument}.
void check_row_stride(const char* operation, std::int64_t rows, std::int64_t row_stride,
                      std::int64_t element);

}  // namespace microscale::cuda
