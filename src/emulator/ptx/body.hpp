// The body of a function: scopes, labels, instructions, with names resolved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.hpp"
#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

/// What a body can name outside itself.
struct ModuleNames {
  struct Entry {
    bool is_function = false;
    std::uint32_t index = 0;
  };
  std::unordered_map<std::string_view, Entry> names;
  std::unordered_map<std::int64_t, std::uint16_t> files;  // number of a .file to index + 1
  const std::vector<Function>* functions = nullptr;
  const std::vector<Variable>* variables = nullptr;
};

/// Fills what `Function::parsed` stands for; `offset` is that of the byte behind the body's `{`.
Status parse_body(std::string_view text, std::size_t offset, std::uint32_t line,
                  const ModuleNames& module, Function& function);

}  // namespace microscale::emulator::ptx
