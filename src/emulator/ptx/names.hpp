// The words of PTX that stand for types, spaces and special registers.
#pragma once

#include <optional>
#include <string_view>

#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

/// "u32" as a type; nothing when the word is no fundamental type.
std::optional<Type> type_of(std::string_view word);
std::string_view name_of(Type type);

/// "shared" as a space; nothing for other words.
std::optional<Space> space_of(std::string_view word);

struct SpecialName {
  SpecialRegister special = SpecialRegister::tid;
  bool has_components = false;  // needs .x, .y or .z
};
/// "%tid" as a special register; nothing when there is none of that name.
std::optional<SpecialName> special_of(std::string_view word);
std::string_view name_of(SpecialRegister special);  // "%tid"

}  // namespace microscale::emulator::ptx
