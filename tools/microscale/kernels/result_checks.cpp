#include "result_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "arguments.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

Error wrong(const std::string& message) { return Error(ErrorCode::invalid_argument, message); }

std::uint64_t bits_at(const Array& array, std::int64_t element) {
  std::uint64_t bits = 0;
  const std::size_t size = bytes_of(array.type);
  std::memcpy(&bits, array.bytes.data() + static_cast<std::size_t>(element) * size, size);
  return bits;
}

std::string shown(const Array& array, std::int64_t element) {
  const std::uint64_t bits = bits_at(array, element);
  switch (array.type) {
    case ArrayType::u64:
      return fmt::format("{}", bits);
    case ArrayType::s64:
      return fmt::format("{}", static_cast<std::int64_t>(bits));
    case ArrayType::f32:
      return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    default:
      return fmt::format("{}", value_of(array, element));
  }
}

}  // namespace

ResultCheck result_check(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos || equals == 0)
    throw wrong(
        fmt::format("--check got '{}'; it takes NAME=FILE.npy or NAME=FILE.npy:TOLERANCE", word));
  ResultCheck check{.name = word.substr(0, equals), .file = {}, .tolerance = 0};
  std::string file = word.substr(equals + 1);
  const std::size_t colon = file.rfind(':');
  if (colon != file.npos && !file.ends_with(".npy")) {
    char* end = nullptr;
    const std::string text = file.substr(colon + 1);
    check.tolerance = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !(check.tolerance >= 0) || std::isinf(check.tolerance))
      throw wrong(fmt::format("--check got '{}': '{}' is no tolerance such as 1e-5", word, text));
    file.resize(colon);
  }
  check.file = file;
  return check;
}

ResultPrint result_print(const std::string& word) {
  const std::size_t colon = word.find(':');
  ResultPrint print{.name = word.substr(0, colon), .count = 8};
  if (print.name.empty())
    throw wrong(fmt::format("--print got '{}'; it takes NAME or NAME:COUNT", word));
  if (colon != word.npos)
    print.count = integer_from("--print COUNT", word.substr(colon + 1), 1, 1 << 20);
  return print;
}

double value_of(const Array& array, std::int64_t element) {
  const std::uint64_t bits = bits_at(array, element);
  switch (array.type) {
    case ArrayType::f16:
      return f16_to_float(static_cast<std::uint16_t>(bits));
    case ArrayType::bf16:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    case ArrayType::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ArrayType::f64:
      return std::bit_cast<double>(bits);
    case ArrayType::s8:
      return static_cast<std::int8_t>(bits);
    case ArrayType::s16:
      return static_cast<std::int16_t>(bits);
    case ArrayType::s32:
      return static_cast<std::int32_t>(bits);
    case ArrayType::s64:
      return static_cast<double>(static_cast<std::int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

std::string difference(const std::string& name, const Array& got, const ResultCheck& check) {
  const Array wanted = read_npy(check.file);
  if (wanted.elements() != got.elements())
    throw wrong(fmt::format("--check {}: {} has {} elements, {} has {}", name, check.file.string(),
                            wanted.elements(), name, got.elements()));
  std::int64_t count = 0, first = -1;
  double most = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    if (got.type == wanted.type && bits_at(got, i) == bits_at(wanted, i)) continue;
    const double a = value_of(got, i), b = value_of(wanted, i), apart = std::abs(a - b);
    if (a == b || (std::isnan(a) && std::isnan(b)) ||
        apart <= check.tolerance + check.tolerance * std::abs(b))
      continue;
    if (count++ == 0) first = i;
    most = std::isnan(apart) ? apart : std::max(most, apart);
  }
  if (count == 0) return "";
  return fmt::format(
      "{}: {} of {} elements are not those of {}{}, the first at {}: {}, there {}; the farthest by "
      "{:.3g}",
      name, count, got.elements(), check.file.string(),
      check.tolerance > 0 ? fmt::format(" within {:g}", check.tolerance) : std::string(), first,
      shown(got, first), shown(wanted, first), most);
}

std::string first_elements(const std::string& name, const Array& array, std::int64_t count) {
  std::string text = name + ":";
  for (std::int64_t i = 0; i < std::min(count, array.elements()); ++i)
    text += " " + shown(array, i);
  if (count < array.elements()) text += " ...";
  return text;
}

}  // namespace microscale
