#include "npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <limits>

#include "checkpoint/file.hpp"
#include "checkpoint/named_file.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

struct TypeWords {
  std::string_view name, numpy;
  std::size_t bytes;
};
constexpr std::array<TypeWords, 12> types = {{{"u8", "|u1", 1},
                                              {"s8", "|i1", 1},
                                              {"u16", "<u2", 2},
                                              {"s16", "<i2", 2},
                                              {"f16", "<f2", 2},
                                              {"bf16", "|V2", 2},
                                              {"u32", "<u4", 4},
                                              {"s32", "<i4", 4},
                                              {"f32", "<f4", 4},
                                              {"u64", "<u8", 8},
                                              {"s64", "<i8", 8},
                                              {"f64", "<f8", 8}}};
constexpr std::string_view magic = "\x93NUMPY";

const TypeWords& words_of(ArrayType type) { return types[static_cast<std::size_t>(type)]; }

Error broken(const std::filesystem::path& path, std::string_view what) {
  return Error(ErrorCode::bad_input,
               fmt::format("{}: {}; save it again with numpy.save", path.string(), what));
}

/// What stands behind 'key': in the header's dictionary, without blanks before it.
std::string_view entry(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}'", key));
  if (at == header.npos) return {};
  const std::size_t colon = header.find(':', at);
  return colon == header.npos ? std::string_view{}
                              : header.substr(header.find_first_not_of(' ', colon + 1));
}

}  // namespace

std::string_view name_of(ArrayType type) { return words_of(type).name; }
std::size_t bytes_of(ArrayType type) { return words_of(type).bytes; }

std::optional<ArrayType> array_type(std::string_view name) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i].name == name) return static_cast<ArrayType>(i);
  return {};
}

std::uint64_t bits_of(ArrayType type, double value) {
  switch (type) {
    case ArrayType::f16:
      return float_to_f16(static_cast<float>(value));
    case ArrayType::bf16:
      return float_to_bf16(static_cast<float>(value));
    case ArrayType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case ArrayType::f64:
      return std::bit_cast<std::uint64_t>(value);
    default:
      break;
  }
  // Beyond the 64-bit integers there is nothing to truncate to.
  if (!(std::abs(value) < 18446744073709551616.0)) return 0;
  return value < 0 ? 0 - static_cast<std::uint64_t>(-value) : static_cast<std::uint64_t>(value);
}

std::int64_t Array::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t each : shape) count *= each;
  return count;
}

Array read_npy(const std::filesystem::path& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  const std::string text = take(read_small_file(path, most));
  if (text.size() < 12 || !text.starts_with(magic)) throw broken(path, "no .npy file");
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
  };
  const bool old = text[6] == 1;
  const std::size_t begin = old ? 10 : 12;
  const std::size_t length = byte(8) | byte(9) << 8 | (old ? 0 : byte(10) << 16 | byte(11) << 24);
  if (text.size() - begin < length) throw broken(path, "its header is cut short");
  const std::string_view header = std::string_view(text).substr(begin, length);

  Array array;
  const std::string_view descr = entry(header, "descr"), shape = entry(header, "shape");
  bool known = false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string_view numpy = types[i].numpy;
    if (descr.size() < 5 || descr.substr(2, 2) != numpy.substr(1, 2)) continue;
    if (descr[1] == '>' && types[i].bytes > 1) throw broken(path, "big-endian elements");
    array.type = static_cast<ArrayType>(i);
    known = true;
  }
  if (!known)
    throw broken(path, fmt::format("elements of type {}, which kernels have not",
                                   descr.substr(0, descr.find(','))));
  if (entry(header, "fortran_order").starts_with("True"))
    throw broken(path, "columns before rows (fortran_order)");
  if (!shape.starts_with('(')) throw broken(path, "its header has no shape");
  std::int64_t elements = 1;
  for (std::size_t at = 1; at < shape.size() && shape[at] != ')';) {
    if (shape[at] == ',' || shape[at] == ' ') {
      ++at;
      continue;
    }
    if (!std::isdigit(static_cast<unsigned char>(shape[at])))
      throw broken(path, "a shape of other things than numbers");
    std::int64_t extent = 0;
    for (; at < shape.size() && std::isdigit(static_cast<unsigned char>(shape[at])); ++at) {
      if (extent > (std::int64_t{1} << 48)) throw broken(path, "an absurd shape");
      extent = extent * 10 + (shape[at] - '0');
    }
    array.shape.push_back(extent);
    if (extent != 0 && elements > (std::int64_t{1} << 48) / extent)
      throw broken(path, "an absurd shape");
    elements *= extent;
  }
  const std::size_t wanted = static_cast<std::size_t>(elements) * bytes_of(array.type);
  if (text.size() - begin - length != wanted)
    throw broken(path, fmt::format("{} bytes of elements where its shape takes {}",
                                   text.size() - begin - length, wanted));
  array.bytes.assign(text.end() - static_cast<std::ptrdiff_t>(wanted), text.end());
  return array;
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   words_of(array.type).numpy, fmt::join(array.shape, ", "),
                                   array.shape.size() == 1 ? "," : "");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string text(magic);
  text += {'\x01', '\0', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  text += header;
  text.append(array.bytes.begin(), array.bytes.end());
  take(write_named_file(path, text));
}

}  // namespace microscale
