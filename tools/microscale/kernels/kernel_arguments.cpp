#include "kernel_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include "arguments.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

[[noreturn]] void wrong(const std::string& word, const std::string& what) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "--arg got '{}': {}; write a number, TYPE:VALUE, TYPE[SHAPE]:GENERATOR or a .npy file",
          word, what));
}

std::uint64_t mixed(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double uniform(std::uint64_t& state) {
  return (static_cast<double>(mixed(state) >> 11) + 0.5) * 0x1p-53;
}

void put(Array& array, std::size_t element, std::uint64_t bits) {
  const std::size_t bytes = bytes_of(array.type);
  std::memcpy(array.bytes.data() + element * bytes, &bits, bytes);
}

void generate(Array& array, const std::string& generator, std::uint64_t seed) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.elements()); ++i) {
    double value = 0;
    if (generator == "ones") value = 1;
    if (generator == "iota") value = static_cast<double>(i);
    if (generator == "uniform") value = uniform(seed);
    if (generator == "normal") {
      const double radius = std::sqrt(-2 * std::log(uniform(seed)));
      value = radius * std::cos(2 * std::numbers::pi * uniform(seed));
    }
    put(array, i, bits_of(array.type, value));
  }
}

/// "3", "-1.5e3", "0x10", "inf": a value without a type.
bool is_number(std::string_view text) {
  if (text.empty()) return false;
  const std::string copy(text);
  char* end = nullptr;
  std::strtod(copy.c_str(), &end);
  return *end == 0 && (text.find_first_of("0123456789") != text.npos || text.size() <= 4);
}

/// The parts of "a,b,{c,d},f32[2,3]:normal,7": a comma inside brackets parts nothing, nor one
/// before the seed of a generator.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    depth += (text[at] == '{' || text[at] == '[') - (text[at] == '}' || text[at] == ']');
    const bool seed = parts.back().find("]:") != std::string::npos &&
                      parts.back().find(',', parts.back().find("]:")) == std::string::npos &&
                      is_number(text.substr(at + 1, text.find_first_of(",}", at + 1) - at - 1));
    if (text[at] == ',' && depth == 0 && !seed)
      parts.emplace_back();
    else
      parts.back() += text[at];
  }
  return parts;
}

bool is_real(ArrayType type) {
  return type == ArrayType::f16 || type == ArrayType::bf16 || type == ArrayType::f32 ||
         type == ArrayType::f64;
}

/// Whether the type holds the number; its bit pattern, as hexadecimal digits are for any type, it
/// holds whatever its sign.
bool holds(ArrayType type, bool negative, std::uint64_t whole, bool pattern) {
  const auto bits = static_cast<int>(8 * bytes_of(type));
  const bool has_sign = name_of(type).starts_with('s');
  if (negative) return has_sign ? whole <= std::uint64_t{1} << (bits - 1) : whole == 0;
  return bits - (has_sign && !pattern) >= static_cast<int>(std::bit_width(whole));
}

bool is_infinite(ArrayType type, std::uint64_t bits) {
  switch (type) {
    case ArrayType::f16:
      return std::isinf(f16_to_float(static_cast<std::uint16_t>(bits)));
    case ArrayType::bf16:
      return std::isinf(bf16_to_float(static_cast<std::uint16_t>(bits)));
    case ArrayType::f32:
      return std::isinf(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    default:
      return std::isinf(std::bit_cast<double>(bits));
  }
}

}  // namespace

/// A whole number as such, so that 64 bits of it are kept; anything else as a double.
std::uint64_t value_bits(const std::string& word, ArrayType type, std::string_view text) {
  const bool real = is_real(type);
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  std::uint64_t whole = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), whole, hex ? 16 : 10);
  const bool complete = read.ec == std::errc{} && read.ptr == digits.data() + digits.size();
  if (complete && (hex || !real)) {
    if (!holds(type, negative, whole, hex))
      wrong(word, fmt::format("{} is beyond what {} holds", text, name_of(type)));
    return negative ? 0 - whole : whole;
  }
  if (!real) wrong(word, fmt::format("'{}' is no whole number of 64 bits", text));
  char* end = nullptr;
  const std::string copy(text);
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end) wrong(word, fmt::format("'{}' is no number", text));
  const std::uint64_t bits = bits_of(type, value);
  const bool written_infinite = text.find_first_of("nN") != std::string_view::npos;
  if (is_infinite(type, bits) && !written_infinite)
    wrong(word, fmt::format("{} is beyond what {} holds", text, name_of(type)));
  return bits;
}

namespace {

std::vector<std::int64_t> shape_in(const std::string& word, std::string_view text) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const char *at = text.data(), *end = at + text.size(); at <= end;) {
    std::int64_t extent = 0;
    const auto read = std::from_chars(at, end, extent);
    if (read.ec != std::errc{} || extent < 0 || (read.ptr != end && *read.ptr != ','))
      wrong(word, fmt::format("'{}' is no shape such as 64,64", text));
    if (extent > (std::int64_t{1} << 36) ||
        elements > (std::int64_t{1} << 36) / std::max<std::int64_t>(1, extent))
      wrong(word, "more elements than memory holds");
    elements *= extent;
    shape.push_back(extent);
    at = read.ptr + 1;
  }
  return shape;
}

/// "WORD,box=64x64,swizzle=128" behind "tensormap:".
KernelArgument tensor_map(const std::string& word, std::string_view text) {
  const std::size_t box = text.find(",box=");
  if (box == text.npos)
    wrong(word, "a tensor map needs its box: tensormap:in.npy,box=64x64,swizzle=128");
  KernelArgument argument = kernel_argument(std::string(text.substr(0, box)));
  if (!argument.buffer || argument.map) wrong(word, "a tensor map is of an array");
  BoxWords map;
  text.remove_prefix(box + 5);
  const std::size_t comma = text.find(',');
  std::string_view extents = text.substr(0, comma);
  while (!extents.empty()) {
    std::uint32_t extent = 0;
    const auto read = std::from_chars(extents.data(), extents.data() + extents.size(), extent);
    extents.remove_prefix(static_cast<std::size_t>(read.ptr - extents.data()));
    if (read.ec != std::errc{} || (!extents.empty() && extents[0] != 'x'))
      wrong(word, "a box is elements by elements, such as 64x64");
    if (!extents.empty()) extents.remove_prefix(1);
    map.box.push_back(extent);
  }
  if (map.box.size() != argument.array.shape.size())
    wrong(word, fmt::format("a box of {} axes over an array of {}", map.box.size(),
                            argument.array.shape.size()));
  if (comma != text.npos) {
    const std::string_view rest = text.substr(comma + 1);
    for (const int each : {0, 32, 64, 128})
      if (rest == fmt::format("swizzle={}", each)) map.swizzle = each + 1;
    if (map.swizzle-- == 0) wrong(word, "behind the box stands swizzle=0, 32, 64 or 128");
  }
  argument.map = map;
  return argument;
}

}  // namespace

KernelArgument kernel_argument(const std::string& word) {
  KernelArgument argument;
  std::string_view text = word;
  const std::size_t equals = text.find('=');
  if (equals != text.npos && equals > 0 && text.find_first_of("[:/.") > equals) {
    argument.name = std::string(text.substr(0, equals));
    text.remove_prefix(equals + 1);
  }
  if (text.starts_with('{')) {
    if (!text.ends_with('}') || text.size() < 3) wrong(word, "no } behind the fields");
    for (const std::string& each : parts_of(text.substr(1, text.size() - 2)))
      argument.fields.push_back(kernel_argument(each));
    return argument;
  }
  if (text.starts_with("tensormap:")) {
    KernelArgument map = tensor_map(word, text.substr(10));
    if (map.name.empty()) map.name = argument.name;
    return map;
  }
  if (is_number(text)) {
    argument.number = std::string(text);
    return argument;
  }
  if (text == "null") {
    argument.array = {.type = ArrayType::u64, .shape = {}, .bytes = std::vector<std::uint8_t>(8)};
    return argument;
  }
  const std::size_t end = text.find_first_of("[:");
  const std::optional<ArrayType> type =
      end == text.npos ? std::nullopt : array_type(text.substr(0, end));
  if (!type) {
    if (!text.ends_with(".npy")) wrong(word, "neither a type (u32, f32, ...) nor a .npy file");
    argument.buffer = true;
    argument.file = std::string(text);
    argument.array = read_npy(argument.file);
    return argument;
  }
  argument.array.type = *type;
  if (text[end] == ':') {
    argument.array.bytes.resize(bytes_of(*type));
    put(argument.array, 0, value_bits(word, *type, text.substr(end + 1)));
    return argument;
  }
  const std::size_t close = text.find(']', end);
  if (close == text.npos) wrong(word, "no ] behind the shape");
  argument.buffer = true;
  argument.array.shape = shape_in(word, text.substr(end + 1, close - end - 1));
  text.remove_prefix(close + 1);
  if (!text.empty() && text[0] != ':') wrong(word, fmt::format("'{}' behind the shape", text));
  std::string generator = text.empty() ? "empty" : std::string(text.substr(1));
  std::uint64_t seed = 0;
  if (const std::size_t comma = generator.find(','); comma != generator.npos) {
    seed = value_bits(word, ArrayType::u64, std::string_view(generator).substr(comma + 1));
    generator.resize(comma);
  }
  const std::vector<std::string> generators = choices_of("GENERATOR");
  if (std::find(generators.begin(), generators.end(), generator) == generators.end())
    wrong(word, fmt::format("no generator '{}'{}, there are {}", generator,
                            did_you_mean(generator, generators), fmt::join(generators, ", ")));
  argument.array.bytes.resize(static_cast<std::size_t>(argument.array.elements()) *
                              bytes_of(*type));
  argument.written = generator != "empty";
  if (argument.written) generate(argument.array, generator, seed);
  return argument;
}

}  // namespace microscale
