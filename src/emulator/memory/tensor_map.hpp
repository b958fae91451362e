// Tensor maps as this machine keeps them: a descriptor of 128 bytes of our own (not the layout of
// the driver's), tiled mode, and which byte of a box goes where.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace microscale::emulator {

enum class Swizzle : std::uint8_t { none, b32, b64, b128 };

/// The arguments of cuTensorMapEncodeTiled, innermost dimension first.
struct TensorMap {
  std::uint32_t rank = 1;                 // 1 to 5
  std::uint32_t element_bytes = 1;        // 1, 2, 4 or 8
  std::uint64_t address = 0;              // global, a multiple of 16
  std::array<std::uint64_t, 5> size{};    // elements
  std::array<std::uint64_t, 5> stride{};  // bytes from one to the next; [0] is element_bytes
  std::array<std::uint32_t, 5> box{};     // elements, 1 to 256
  std::array<std::uint32_t, 5> step{1, 1, 1, 1, 1};  // element strides, 1 to 8
  Swizzle swizzle = Swizzle::none;

  std::uint32_t box_bytes() const;
  bool operator==(const TensorMap&) const = default;
};

inline constexpr std::size_t tensor_map_bytes = 128;
using TensorMapBytes = std::array<std::uint8_t, tensor_map_bytes>;

/// What is wrong with a map, in one sentence; empty when nothing is.
std::string problem_of(const TensorMap& map);

/// The descriptor: 8 bytes of signature, then little-endian: u8 rank, u8 log2(element bytes), u8
/// swizzle, u8 zero, u32 zero, u64 address, u64 size[5], u64 stride[1..4], then per dimension 9
/// bits of box - 1 and 3 bits of step - 1, 12 bits each, in a u64. Throws Error when problem_of
/// finds something.
TensorMapBytes encode(const TensorMap& map);
/// Nothing if these bytes are not such a descriptor.
std::optional<TensorMap> decode(const std::uint8_t* bytes);

/// Where byte `offset` of a box (rows of the innermost dimension, dense) lies in shared memory,
/// from the box's start, which lies at shared address `start`: bits 4.. of the address change by
/// bits 7.. .
std::uint32_t swizzled(Swizzle swizzle, std::uint32_t start, std::uint32_t offset);

/// A run of a box that is contiguous in both memories.
struct BoxPiece {
  std::uint32_t shared = 0;  // offset from the box's start
  std::uint64_t global = 0;  // address; meaningless when outside
  std::uint32_t bytes = 0;
  bool inside = true;  // false: zeros on a load, nothing on a store
};
/// All of them for the box at `coordinates` (elements, innermost first), in the order of shared
/// memory before swizzling; pieces are at most 16 bytes with a swizzle.
std::vector<BoxPiece> pieces_of(const TensorMap& map, const std::int32_t* coordinates,
                                std::uint32_t start);

}  // namespace microscale::emulator
