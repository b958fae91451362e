// A parsed module whose variables have storage, and the programs decoded from it so far.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/machine/decode.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/memory/global_memory.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/targets.hpp"

namespace microscale::emulator {

class LoadedModule {
 public:
  /// `target`: whose instructions may be used; empty for the module's own.
  static Result<std::unique_ptr<LoadedModule>> load(GlobalMemory& memory, std::string text,
                                                    std::string_view target);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const ptx::Module& text() const { return text_; }
  /// The entry of that name, decoded at the first call. Safe to call from several threads.
  Result<std::shared_ptr<const Program>> program(const std::string& entry) const;
  /// What is at constant_window.
  const std::vector<std::uint8_t>& constants() const { return constants_; }
  /// Of a .global variable; 0 if there is none.
  std::uint64_t address(std::string_view variable) const;
  /// The first bytes of a .global or .const variable; a failure names the variables there are, or
  /// the bytes it has.
  Status write_variable(std::string_view variable, const void* from, std::int64_t bytes);
  Status read_variable(std::string_view variable, void* to, std::int64_t bytes) const;
  /// What is at an offset of constant_window: a variable's name and the bytes behind its first.
  std::pair<std::string_view, std::uint64_t> constant_at(std::uint64_t offset) const;
  /// "file.cu:120", empty where the text does not say.
  std::string source(const ptx::SourceLine& line) const;
  /// The same of the outermost call that inlined it; empty where it was not inlined.
  std::string inlined_at(const ptx::SourceLine& line) const;

 private:
  LoadedModule(GlobalMemory& memory, ptx::Module text, ptx::Target target);
  void place_variables();
  Status fill_in_addresses();
  std::string place(std::uint16_t file, std::uint32_t line) const;
  /// Its index, if it has storage and that many bytes.
  Result<std::size_t> stored(std::string_view variable, std::int64_t bytes) const;
  /// What an initialiser means by a name; a failure where the module has none of it.
  Result<std::uint64_t> address_of(const ptx::InitialAddress& named) const;

  GlobalMemory& memory_;
  ptx::Module text_;
  ptx::Target target_;
  VariableAddresses addresses_;
  std::vector<std::uint8_t> constants_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Program>> programs_;
};

}  // namespace microscale::emulator
