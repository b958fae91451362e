#include "cuda/device/operands.hpp"

#include <fmt/format.h>

#include <array>

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
    check_on_device(device, operation, std::array{MemoryRange{o.what, o.data, o.bytes}});
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

void check_on_device(Device& device, const char* operation, std::span<const MemoryRange> memory) {
  for (const MemoryRange& range : memory)
    if (range.begin && device.memory_of(range.begin) != Memory::device)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format(
              "{}: GPU {} ({}) does not have the memory of {}; copy it there, or select the "
              "GPU it is on",
              operation, device.info().ordinal, device.info().name, range.name));
}

void check_workspace(const char* operation, const char* sizer,
                     std::span<const std::uint8_t> workspace, std::int64_t needed) {
  if (static_cast<std::int64_t>(workspace.size()) < needed)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the workspace has {} bytes, {} are needed; allocate {} of device "
                            "memory and pass it in the context",
                            operation, workspace.size(), needed, sizer));
  if (needed > 0 && reinterpret_cast<std::uintptr_t>(workspace.data()) % workspace_alignment != 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: the workspace starts at an address that is no multiple of {}; align it",
                    operation, workspace_alignment));
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
