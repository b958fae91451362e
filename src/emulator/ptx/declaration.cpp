#include "emulator/ptx/declaration.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

constexpr int max_dimensions = 8;

struct Shape {
  std::int64_t element_bytes = 0;                   // of a vector: all of it
  std::array<std::int64_t, max_dimensions> size{};  // 0: not given, the first one only
  int dimensions = 0;
  // Elements of one entry of dimension `level`.
  std::int64_t below(int level) const {
    std::int64_t product = 1;
    for (int i = level + 1; i < dimensions; ++i) product *= size[static_cast<std::size_t>(i)];
    return product;
  }
};

bool is_real(Type type) { return type == Type::f32 || type == Type::f64; }

// `name`, `generic(name)`, and a number of bytes behind either.
bool read_address(Reader& reader, Type type, std::int64_t offset, Variable& variable) {
  const Token at = reader.now();
  if (bits_of(type) != 64 || is_real(type)) {
    return reader.fail(at,
                       fmt::format("the initialiser names {}; addresses have 64 bits, not .{}",
                                   quoted(at.text), name_of(type)),
                       ErrorCode::unsupported);
  }
  InitialAddress address{.at = offset, .name = at.text, .line = at.line};
  reader.advance();
  if (at.text == "generic") {
    address.generic = true;
    if (!reader.expect('(', "behind generic") || !reader.word(address.name, "a variable") ||
        !reader.expect(')', "behind the variable"))
      return false;
  }
  if (reader.now().is('+')) {
    reader.advance();
    if (!reader.integer(address.plus, "a number of bytes")) return false;
  }
  const auto end = static_cast<std::size_t>(offset) + 8;
  if (variable.initial.size() < end) variable.initial.resize(end);
  variable.addresses.push_back(address);
  return true;
}

// One number of an initialiser, written at byte `offset`; the bytes before it exist or are zero.
bool read_element(Reader& reader, Type type, std::int64_t offset, Variable& variable) {
  const Token at = reader.now();
  if (at.kind == Token::Kind::word) return read_address(reader, type, offset, variable);
  std::vector<std::uint8_t>& bytes = variable.initial;
  const int bits = bits_of(type);
  std::uint64_t value = 0;
  bool negative = false;
  if (is_real(type)) {
    negative = reader.accept('-');
    const Token number = reader.now();
    double real = 0;
    if (number.kind == Token::Kind::real32) {
      real = std::bit_cast<float>(static_cast<std::uint32_t>(number.value));
      value = number.value;
    } else if (number.kind == Token::Kind::real64 || number.kind == Token::Kind::decimal) {
      real = std::bit_cast<double>(number.value);
    } else if (number.kind == Token::Kind::integer) {
      real = static_cast<double>(number.value);
    } else {
      return reader.unexpected("a number");
    }
    reader.advance();
    if (type == Type::f64) {
      value = std::bit_cast<std::uint64_t>(real);
    } else if (number.kind != Token::Kind::real32) {
      value = std::bit_cast<std::uint32_t>(static_cast<float>(real));
    }
    if (negative) value ^= std::uint64_t{1} << (bits - 1);
  } else {
    std::int64_t integer = 0;
    if (!reader.integer(integer, "a number")) return false;
    value = static_cast<std::uint64_t>(integer);
    const std::uint64_t high = bits == 64 ? 0 : value >> bits;
    const bool fits = bits == 64 || high == 0 || (integer < 0 && (integer >> (bits - 1)) == -1);
    if (!fits) return reader.fail(at, fmt::format("{} does not fit .{}", integer, name_of(type)));
  }
  const auto start = static_cast<std::size_t>(offset), size = static_cast<std::size_t>(bits / 8);
  if (bytes.size() < start + size) bytes.resize(start + size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[start + i] = static_cast<std::uint8_t>(value >> (8 * i));
  return true;
}

// `{ {1, 2}, {3} }` of dimension `level` from byte `offset` on; `entries` counts those of the
// level. Rows that leave out most of their elements would make the bytes grow without text:
// refused.
bool read_list(Reader& reader, Type type, const Shape& shape, int level, std::size_t start,
               std::int64_t offset, std::int64_t& entries, Variable& variable) {
  if (!reader.expect('{', "to open an initialiser")) return false;
  const std::int64_t below = shape.below(level) * shape.element_bytes;
  const std::int64_t limit = shape.size[static_cast<std::size_t>(level)];
  const bool flat = !reader.now().is('{');  // numbers fill the rows below without inner braces
  const std::int64_t step = flat ? bits_of(type) / 8 : below;
  std::int64_t at = 0;
  while (!reader.now().is('}')) {
    const bool row = reader.now().is('{');
    if (row == flat) return reader.unexpected(flat ? "a number" : "'{'");
    if (limit != 0 && at + step > limit * below) {
      return reader.fail(reader.now(), "more initial values than elements");
    }
    std::int64_t inner = 0;
    if (row && level + 1 >= shape.dimensions) return reader.unexpected("a number");
    if (!(row ? read_list(reader, type, shape, level + 1, start, offset + at, inner, variable)
              : read_element(reader, type, offset + at, variable)))
      return false;
    at += step;
    const auto text_size = static_cast<std::int64_t>(reader.position() - start);
    if (offset + at > 1024 + 256 * text_size) {
      return reader.fail(reader.now(),
                         "initial values that leave out most elements are not supported",
                         ErrorCode::unsupported);
    }
    if (!reader.accept(',')) break;
  }
  entries = (at + below - 1) / below;
  return reader.expect('}', "to close an initialiser");
}

bool read_attributes(Reader& reader, Variable& variable, Type& type, int& vector_width) {
  bool typed = false;
  while (reader.now().kind == Token::Kind::dot) {
    const Token at = reader.now();
    reader.advance();
    if (at.text == "align") {
      const Token number = reader.now();
      if (!reader.count(variable.align, 1 << 16, "an alignment")) return false;
      if (!std::has_single_bit(static_cast<std::uint64_t>(variable.align))) {
        return reader.fail(number,
                           fmt::format("an alignment is a power of two, got {}", variable.align));
      }
    } else if (at.text == "v2" || at.text == "v4") {
      vector_width = at.text == "v2" ? 2 : 4;
    } else if (at.text == "ptr") {  // .param .u64 .ptr .global .align 1: says where it points
      std::int64_t points_to = 0;
      if (reader.now().kind == Token::Kind::dot && space_of(reader.now().text)) reader.advance();
      if (reader.now().is_dot("align")) {
        reader.advance();
        if (!reader.count(points_to, 1 << 16, "an alignment")) return false;
      }
    } else if (at.text == "attribute") {
      if (!reader.expect('(', "behind .attribute")) return false;
      while (!reader.now().is(')')) {
        const auto kind = reader.now().kind;
        if (kind == Token::Kind::end || kind == Token::Kind::bad) return reader.unexpected("')'");
        reader.advance();
      }
      reader.advance();
    } else if (const auto found = type_of(at.text); found && *found != Type::pred && !typed) {
      type = *found;
      typed = true;
    } else {
      return reader.fail(
          at, fmt::format("a variable cannot be {}", quoted('.' + std::string(at.text))));
    }
  }
  return typed || reader.unexpected("a type such as .b32");
}

}  // namespace

bool read_variables(Reader& reader, Space space, bool external, bool single,
                    std::vector<Variable>& variables) {
  Variable common;
  common.space = space;
  common.external = external;
  common.align = 0;
  int vector_width = 1;
  if (!read_attributes(reader, common, common.type, vector_width)) return false;
  Shape scalar;
  scalar.element_bytes = bits_of(common.type) / 8 * vector_width;
  if (common.align == 0) common.align = scalar.element_bytes;
  const std::int64_t max_elements = max_variable_bytes / scalar.element_bytes;
  do {
    Variable variable = common;
    Shape shape = scalar;
    const Token at = reader.now();
    if (!reader.word(variable.name, "the name of a variable")) return false;
    std::int64_t rest = 1;  // elements of one entry of the first dimension
    while (reader.accept('[')) {
      if (shape.dimensions == max_dimensions) return reader.fail(at, "more than 8 dimensions");
      auto& size = shape.size[static_cast<std::size_t>(shape.dimensions)];
      if (!reader.now().is(']')) {
        const Token number = reader.now();
        if (!reader.count(size, max_variable_bytes, "a number of elements")) return false;
        if (size == 0) return reader.fail(number, "an array of 0 elements");
      } else if (shape.dimensions > 0) {
        return reader.unexpected("a number of elements");
      }
      if (!reader.expect(']', "behind a number of elements")) return false;
      if (shape.dimensions++ > 0 && __builtin_mul_overflow(rest, size, &rest))
        rest = max_elements + 1;
      if (rest > max_elements) break;
    }
    const std::int64_t first = shape.dimensions == 0 ? 1 : shape.size[0];
    std::int64_t elements = 0;
    if (rest > max_elements || __builtin_mul_overflow(first, rest, &elements) ||
        elements > max_elements) {
      return reader.fail(at, fmt::format("{} is larger than 64 GiB", quoted(variable.name)));
    }
    if (reader.accept('=')) {
      if (space != Space::global && space != Space::constant) {
        return reader.fail(at, fmt::format("{} cannot have initial values", quoted(variable.name)));
      }
      if (common.type == Type::b128 || vector_width != 1) {
        return reader.fail(at, "initial values of vectors are not supported",
                           ErrorCode::unsupported);
      }
      std::int64_t entries = 0;
      const bool list = shape.dimensions > 0;
      if (!(list ? read_list(reader, common.type, shape, 0, reader.position(), 0, entries, variable)
                 : read_element(reader, common.type, 0, variable)))
        return false;
      if (list && first == 0) elements = entries * rest;
    } else if (shape.dimensions > 0 && first == 0 && !external && space != Space::param) {
      return reader.fail(at, fmt::format("{} needs a number of elements", quoted(variable.name)));
    }
    variable.bytes = elements * shape.element_bytes;
    variables.push_back(std::move(variable));
  } while (!single && reader.accept(','));
  return true;
}

bool read_params(Reader& reader, std::vector<Variable>& params, std::int64_t& offset) {
  if (!reader.expect('(', "to open a list of parameters")) return false;
  while (!reader.now().is(')')) {
    const Token at = reader.now();
    if (at.is_dot("reg")) {
      return reader.fail(at, "parameters in registers are not supported, use .param",
                         ErrorCode::unsupported);
    }
    if (!at.is_dot("param")) return reader.unexpected(".param");
    reader.advance();
    if (!read_variables(reader, Space::param, false, true, params)) return false;
    Variable& param = params.back();
    offset = aligned(offset, param.align);
    param.offset = offset;
    offset += param.bytes;
    if (offset > 1 << 20) return reader.fail(at, "parameters of more than 1 MiB");
    if (!reader.accept(',')) break;
  }
  return reader.expect(')', "behind the parameters");
}

}  // namespace microscale::emulator::ptx
