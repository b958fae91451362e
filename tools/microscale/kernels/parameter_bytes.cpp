#include "parameter_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "emulator/kernel_name.hpp"
#include "emulator/memory/tensor_map.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

using emulator::KernelParameter;
using emulator::NumberType;
using emulator::ParameterType;
using Bytes = std::vector<std::uint8_t>;

struct Piece {
  Bytes bytes;
  std::size_t align = 1;
};

void add_buffers(const KernelArgument& argument, const std::string& name, std::size_t number,
                 std::vector<NamedArgument>& list) {
  if (argument.buffer) list.push_back({name, &argument, number});
  for (std::size_t i = 0; i < argument.fields.size(); ++i) {
    const KernelArgument& field = argument.fields[i];
    add_buffers(field, field.name.empty() ? fmt::format("{}.{}", name, i) : field.name, number,
                list);
  }
}

Bytes bytes_of_address(std::uint64_t address) {
  Bytes bytes(sizeof address);
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

Bytes tensor_map(const KernelArgument& argument, std::uint64_t address) {
  const std::vector<std::int64_t>& shape = argument.array.shape;
  emulator::TensorMap map;
  map.rank = static_cast<std::uint32_t>(shape.size());
  map.element_bytes = static_cast<std::uint32_t>(bytes_of(argument.array.type));
  map.address = address;
  std::uint64_t stride = map.element_bytes;
  for (std::size_t i = 0; i < std::min<std::size_t>(shape.size(), 5); ++i) {
    const std::size_t axis = shape.size() - 1 - i;  // innermost first
    map.size[i] = static_cast<std::uint64_t>(shape[axis]);
    map.box[i] = argument.map->box[axis];
    map.stride[i] = stride;
    stride *= map.size[i];
  }
  map.swizzle = argument.map->swizzle == 128  ? emulator::Swizzle::b128
                : argument.map->swizzle == 64 ? emulator::Swizzle::b64
                : argument.map->swizzle == 32 ? emulator::Swizzle::b32
                                              : emulator::Swizzle::none;
  const emulator::TensorMapBytes made = emulator::encode(map);
  return {made.begin(), made.end()};
}

/// "argument 1 (float const*)".
std::string place(std::size_t number, const KernelParameter& parameter, const ParameterType* type) {
  const std::string words = type                  ? type->text
                            : parameter.bytes > 8 ? fmt::format("{} bytes", parameter.bytes)
                                                  : parameter.type;
  return fmt::format("--arg {} ({})", number, words);
}

/// Whether numbers of one type may stand for those of the other: of the same size, both whole or
/// both floating; or bits, as unsigned numbers are.
bool alike(const NumberType& wanted, ArrayType got) {
  const std::string_view name = name_of(got);
  if (static_cast<std::int64_t>(bytes_of(got)) != wanted.bytes) return false;
  const auto whole = [](std::string_view word) { return word[0] == 'u' || word[0] == 's'; };
  return name == wanted.word || name[0] == 'u' || wanted.word[0] == 'u' ||
         (whole(name) && whole(wanted.word));
}

/// Says what the kernel takes.
Error wrong_count(const emulator::KernelInfo& kernel, std::size_t given,
                  const std::optional<std::vector<ParameterType>>& types) {
  std::string list;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelParameter& each = kernel.parameters[i];
    list += i ? ", " : "";
    list += types            ? (*types)[i].text
            : each.bytes > 8 ? fmt::format("{} bytes {}", each.bytes, each.name)
                             : fmt::format("{} {}", each.type, each.name);
  }
  return Error(ErrorCode::invalid_argument,
               fmt::format("{} --arg for a kernel that takes {}: {}; give one for each, such as "
                           "f32[64]:normal for float*, 3 for int, {{..}} for a struct",
                           given, kernel.parameters.size(), list.empty() ? "none" : list));
}

class Packer {
 public:
  explicit Packer(const std::vector<PlacedBuffer>& placed) : placed_(placed) {}

  /// As it is laid out by itself.
  Piece piece(const KernelArgument& argument, const std::string& where) {
    if (argument.map) return {tensor_map(argument, placed_[next_++].address), 64};
    if (argument.buffer) return {bytes_of_address(placed_[next_++].address), 8};
    if (!argument.number.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: '{}' has no type, and none is known here; write s32:{} or "
                              "f32:{}",
                              where, argument.number, argument.number, argument.number));
    if (argument.fields.empty()) return {argument.array.bytes, argument.array.bytes.size()};
    Piece whole;
    for (const KernelArgument& field : argument.fields) append(whole, piece(field, where));
    whole.bytes.resize((whole.bytes.size() + whole.align - 1) / whole.align * whole.align);
    return whole;
  }

  static void append(Piece& whole, const Piece& next) {
    whole.bytes.resize((whole.bytes.size() + next.align - 1) / next.align * next.align);
    whole.bytes.insert(whole.bytes.end(), next.bytes.begin(), next.bytes.end());
    whole.align = std::max(whole.align, next.align);
  }

  /// For one parameter.
  Bytes typed(const KernelArgument& argument, const KernelParameter& parameter,
              const ParameterType* type, const std::string& where) {
    const auto wrong = [&](const std::string& what) {
      return Error(ErrorCode::invalid_argument, fmt::format("{}: {}", where, what));
    };
    const std::optional<NumberType> number = number_of(parameter, type);
    if (type && type->pointer) {
      if (!argument.number.empty() || !argument.fields.empty())
        throw wrong("a number was given for a pointer; give an array, such as f32[64] or x.npy");
      if (!argument.buffer && bytes_of(argument.array.type) != 8)
        throw wrong(
            fmt::format("a value of {} was given for a pointer; give an array, null, or "
                        "u64 of an address",
                        name_of(argument.array.type)));
      if (argument.buffer && type->number && !alike(*type->number, argument.array.type))
        throw wrong(fmt::format("an array of {} was given; the kernel reads {}",
                                name_of(argument.array.type), type->number->word));
    } else if (number && argument.buffer && (type || number->bytes != 8)) {
      throw wrong("an array was given for a number; give a number");
    } else if (number && number->lanes == 1 && !argument.number.empty()) {
      return value(argument.number, *number);
    } else if (number && number->lanes > 1 && !argument.fields.empty()) {
      return vector(argument, *number, wrong);
    } else if (number && type && !argument.buffer && argument.fields.empty() &&
               !alike(*number, argument.array.type)) {
      throw wrong(fmt::format("a value of {} was given; write the number alone, or {}:",
                              name_of(argument.array.type), number->word));
    }
    Piece made = piece(argument, where);
    const auto wanted = static_cast<std::size_t>(parameter.bytes);
    const std::size_t align = std::max<std::size_t>(made.align, 1);
    if ((made.bytes.size() + align - 1) / align * align == wanted) made.bytes.resize(wanted);
    if (made.bytes.size() != wanted)
      throw wrong(
          fmt::format("{} bytes were given; the parameter takes {}", made.bytes.size(), wanted));
    return made.bytes;
  }

 private:
  /// By the C++ type, else by PTX's where that says more than a number of bits.
  static std::optional<NumberType> number_of(const KernelParameter& parameter,
                                             const ParameterType* type) {
    if (type) return type->pointer ? std::nullopt : type->number;
    const std::string word =
        parameter.type[0] == 'b' ? "u" + parameter.type.substr(1) : parameter.type;
    if (!array_type(word) ||
        static_cast<std::int64_t>(bytes_of(*array_type(word))) != parameter.bytes)
      return std::nullopt;
    return NumberType{word, parameter.bytes, 1};
  }

  static Bytes value(const std::string& text, const NumberType& type) {
    const ArrayType array = *array_type(type.word);
    const std::uint64_t bits = value_bits(text, array, text);
    Bytes bytes(bytes_of(array));
    std::memcpy(bytes.data(), &bits, bytes.size());
    return bytes;
  }

  /// float4 and the like: {1,2,3,4}.
  template <class Wrong>
  Bytes vector(const KernelArgument& argument, const NumberType& type, const Wrong& wrong) {
    if (static_cast<std::int64_t>(argument.fields.size()) != type.lanes)
      throw wrong(
          fmt::format("{} numbers were given; it has {}", argument.fields.size(), type.lanes));
    Bytes bytes;
    for (const KernelArgument& field : argument.fields) {
      const Bytes one = !field.number.empty() ? value(field.number, type) : field.array.bytes;
      if (field.buffer || static_cast<std::int64_t>(one.size()) != type.bytes)
        throw wrong(fmt::format("its parts are {}", type.word));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return bytes;
  }

  const std::vector<PlacedBuffer>& placed_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<NamedArgument> buffers_of(const std::vector<KernelArgument>& arguments,
                                      const std::vector<std::string>& source_names) {
  std::vector<NamedArgument> list;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool known = source_names.size() == arguments.size();
    const std::string name = !arguments[i].name.empty() ? arguments[i].name
                             : known                    ? source_names[i]
                                                        : fmt::format("arg{}", i);
    add_buffers(arguments[i], name, i, list);
  }
  return list;
}

std::vector<std::uint8_t> parameter_bytes(const emulator::KernelInfo& kernel,
                                          const std::vector<KernelArgument>& arguments,
                                          const std::vector<PlacedBuffer>& placed) {
  Packer packer(placed);
  Bytes bytes;
  auto types = emulator::parameter_types(kernel.name);
  if (types && types->size() != kernel.parameters.size()) types.reset();
  if (arguments.size() != kernel.parameters.size()) {
    if (std::any_of(arguments.begin(), arguments.end(),
                    [](const KernelArgument& each) { return !each.number.empty(); }))
      throw wrong_count(kernel, arguments.size(), types);
    Piece whole;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      Packer::append(whole, packer.piece(arguments[i], fmt::format("--arg {}", i)));
    const std::size_t padded = (whole.bytes.size() + whole.align - 1) / whole.align * whole.align;
    if (static_cast<std::int64_t>(padded) == kernel.argument_bytes)
      whole.bytes.resize(padded);  // the end of a struct
    if (static_cast<std::int64_t>(whole.bytes.size()) != kernel.argument_bytes)
      throw wrong_count(kernel, arguments.size(), types);
    return whole.bytes;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const KernelParameter& parameter = kernel.parameters[i];
    const ParameterType* type = types ? &(*types)[i] : nullptr;
    bytes.resize(static_cast<std::size_t>(parameter.offset));
    const Bytes made = packer.typed(arguments[i], parameter, type, place(i, parameter, type));
    bytes.insert(bytes.end(), made.begin(), made.end());
  }
  return bytes;
}

}  // namespace microscale
