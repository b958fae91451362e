#include "emulator/memory/tensor_map.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::emulator {

namespace {

constexpr char signature[9] = "MSTMAP01";

std::uint32_t span_of(Swizzle swizzle) {  // bytes of the widest row a swizzle takes
  return swizzle == Swizzle::b32 ? 32 : swizzle == Swizzle::b64 ? 64 : 128;
}

template <class T>
void put(TensorMapBytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(const std::uint8_t* bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof value);
  return value;
}

}  // namespace

std::uint32_t TensorMap::box_bytes() const {
  std::uint32_t bytes = element_bytes;
  for (std::uint32_t d = 0; d < rank; ++d) bytes *= box[d];
  return bytes;
}

std::string problem_of(const TensorMap& map) {
  if (map.rank < 1 || map.rank > 5) return fmt::format("rank {}; 1 to 5 are possible", map.rank);
  if (map.element_bytes == 0 || map.element_bytes > 8 || !std::has_single_bit(map.element_bytes))
    return fmt::format("elements of {} bytes; 1, 2, 4 or 8 are possible", map.element_bytes);
  if (map.address % 16 != 0)
    return fmt::format("address {:#x}; a multiple of 16 is needed", map.address);
  std::uint64_t bytes = map.element_bytes;
  for (std::uint32_t d = 0; d < map.rank; ++d) {
    if (map.size[d] == 0 || map.size[d] > (std::uint64_t{1} << 32))
      return fmt::format("size {} of dimension {}; 1 to 2^32 are possible", map.size[d], d);
    if (map.box[d] == 0 || map.box[d] > 256)
      return fmt::format("a box of {} in dimension {}; 1 to 256 are possible", map.box[d], d);
    if (map.step[d] == 0 || map.step[d] > 8)
      return fmt::format("an element stride of {} in dimension {}; 1 to 8 are possible",
                         map.step[d], d);
    if (d > 0 && (map.stride[d] % 16 != 0 || map.stride[d] >= (std::uint64_t{1} << 40)))
      return fmt::format(
          "a stride of {} bytes in dimension {}; a multiple of 16 below 2^40 is needed",
          map.stride[d], d);
    bytes *= map.box[d];
  }
  const std::uint64_t row = std::uint64_t{map.box[0]} * map.element_bytes;
  if (row % 16 != 0)
    return fmt::format("rows of {} bytes in the box; a multiple of 16 is needed", row);
  if (map.swizzle != Swizzle::none && row > span_of(map.swizzle))
    return fmt::format("rows of {} bytes in the box; this swizzle takes at most {}", row,
                       span_of(map.swizzle));
  if (bytes > (1u << 20))
    return fmt::format("a box of {} bytes, more than any shared memory", bytes);
  return "";
}

TensorMapBytes encode(const TensorMap& map) {
  if (const std::string problem = problem_of(map); !problem.empty())
    throw Error(ErrorCode::invalid_argument, "emulator tensor map: " + problem);
  TensorMapBytes bytes{};
  std::memcpy(bytes.data(), signature, 8);
  bytes[8] = static_cast<std::uint8_t>(map.rank);
  bytes[9] = static_cast<std::uint8_t>(std::countr_zero(map.element_bytes));
  bytes[10] = static_cast<std::uint8_t>(map.swizzle);
  put(bytes, 16, map.address);
  std::uint64_t boxes = 0;
  for (std::uint32_t d = 0; d < map.rank; ++d) {
    put(bytes, 24 + 8 * d, map.size[d]);
    if (d > 0) put(bytes, 64 + 8 * (d - 1), map.stride[d]);
    boxes |= (std::uint64_t{map.box[d] - 1} | std::uint64_t{map.step[d] - 1} << 9) << (12 * d);
  }
  put(bytes, 96, boxes);
  return bytes;
}

std::optional<TensorMap> decode(const std::uint8_t* bytes) {
  if (std::memcmp(bytes, signature, 8) != 0 || bytes[9] > 3 || bytes[10] > 3) return std::nullopt;
  TensorMap map;
  map.rank = bytes[8];
  if (map.rank < 1 || map.rank > 5) return std::nullopt;
  map.element_bytes = 1u << bytes[9];
  map.swizzle = static_cast<Swizzle>(bytes[10]);
  map.address = get<std::uint64_t>(bytes, 16);
  map.stride[0] = map.element_bytes;
  const auto boxes = get<std::uint64_t>(bytes, 96);
  for (std::uint32_t d = 0; d < map.rank; ++d) {
    map.size[d] = get<std::uint64_t>(bytes, 24 + 8 * d);
    if (d > 0) map.stride[d] = get<std::uint64_t>(bytes, 64 + 8 * (d - 1));
    map.box[d] = static_cast<std::uint32_t>(boxes >> (12 * d) & 0x1ff) + 1;
    map.step[d] = static_cast<std::uint32_t>(boxes >> (12 * d + 9) & 7) + 1;
  }
  if (!problem_of(map).empty()) return std::nullopt;
  return map;
}

std::uint32_t swizzled(Swizzle swizzle, std::uint32_t start, std::uint32_t offset) {
  const std::uint32_t mask = swizzle == Swizzle::none ? 0 : span_of(swizzle) / 16 - 1;
  const std::uint32_t address = start + offset;
  return (address ^ ((address >> 7 & mask) << 4)) - start;
}

std::vector<BoxPiece> pieces_of(const TensorMap& map, const std::int32_t* coordinates,
                                std::uint32_t start) {
  std::vector<BoxPiece> pieces;
  const std::uint32_t row = map.box[0] * map.element_bytes;
  const std::uint32_t chunk = map.swizzle == Swizzle::none ? row : 16;
  const auto inside = [&](std::uint32_t dimension, std::uint32_t index, std::int64_t& at) {
    at = std::int64_t{coordinates[dimension]} + std::int64_t{index} * map.step[dimension];
    return at >= 0 && static_cast<std::uint64_t>(at) < map.size[dimension];
  };
  std::array<std::uint32_t, 5> index{};
  for (std::uint32_t offset = 0; offset < map.box_bytes(); offset += row) {
    bool row_inside = true;
    std::uint64_t base = map.address;
    for (std::uint32_t d = 1; d < map.rank; ++d) {
      std::int64_t at;
      row_inside = inside(d, index[d], at) && row_inside;
      base += static_cast<std::uint64_t>(at) * map.stride[d];
    }
    for (std::uint32_t first = 0; first < row;) {
      // As many elements as lie side by side in both memories and on one side of the tensor's edge.
      std::int64_t at;
      const bool here = inside(0, first / map.element_bytes, at) && row_inside;
      const std::uint32_t limit = std::min(row, first / chunk * chunk + chunk);
      std::uint32_t end = first + map.element_bytes;
      for (std::int64_t next; end < limit && (!here || map.step[0] == 1); end += map.element_bytes)
        if ((inside(0, end / map.element_bytes, next) && row_inside) != here) break;
      pieces.push_back({swizzled(map.swizzle, start, offset + first),
                        base + static_cast<std::uint64_t>(at) * map.element_bytes, end - first,
                        here});
      first = end;
    }
    for (std::uint32_t d = 1; d < map.rank && ++index[d] == map.box[d]; ++d) index[d] = 0;
  }
  return pieces;
}

}  // namespace microscale::emulator
