#include "cuda/operands.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::cuda {

std::int64_t extent_bytes(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                          std::int64_t element) {
  return rows == 0 ? 0 : ((rows - 1) * row_stride + cols) * element;
}

void check_operands(Device& device, const char* operation, std::span<const Operand> operands) {
  for (const Operand& o : operands) {
    if (o.data == nullptr)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} is null; pass {} bytes of device memory", operation, o.what,
                              o.bytes));
    const auto address = reinterpret_cast<std::uintptr_t>(o.data);
    const std::uintptr_t alignment = o.bytes == 4 ? 4 : 16;
    if (address % alignment != 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} starts at {:#x}; align it to {} bytes", operation, o.what,
                              address, alignment));
    if (device.memory_of(o.data) != Memory::device)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format(
              "{}: {} is not memory of GPU {} ({}); copy it there, or select the GPU it is on",
              operation, o.what, device.info().ordinal, device.info().name));
    for (const Operand& other : operands) {
      if (&other == &o || (!o.written && !other.written)) continue;
      const auto begin = reinterpret_cast<std::uintptr_t>(other.data);
      if (address < begin + static_cast<std::uintptr_t>(other.bytes) &&
          begin < address + static_cast<std::uintptr_t>(o.bytes))
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: {} ({} bytes) and {} ({} bytes) overlap; give each memory of its own",
                        operation, o.what, o.bytes, other.what, other.bytes));
    }
  }
}

void check_row_stride(const char* operation, std::int64_t rows, std::int64_t row_stride,
                      std::int64_t element) {
  if (rows > 1 && row_stride * element % 16 != 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "{}: rows are {} elements of {} bytes apart; backend cuda wants a multiple of {} "
            "elements (16 bytes)",
            operation, row_stride, element, 16 / element));
}

}  // namespace microscale::cuda
