// A PTX text: its target, files, variables and functions. Bodies are parsed when asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

struct Version {
  int major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
};

class Module {
 public:
  /// Owns the text; everything below points into it. Fails with line and column.
  static Result<Module> parse(std::string text);

  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  ~Module();

  Version version() const;
  std::string_view target() const;                     // "sm_90a"
  int address_size() const;                            // 64
  const std::vector<std::string_view>& files() const;  // a SourceLine's file is 1 + the index here
  const std::vector<Variable>& variables() const;
  /// Heads; only what body() has returned has registers and code.
  const std::vector<Function>& functions() const;
  std::optional<std::size_t> find(std::string_view function) const;
  std::optional<std::size_t> find_variable(std::string_view name) const;

  /// The function with its code; parsed at the first call. Safe to call from several threads. The
  /// pointer lives as long as the module.
  Result<const Function*> body(std::size_t function) const;

 private:
  struct State;
  explicit Module(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace microscale::emulator::ptx
