#include "emulator/machine/loaded_module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace microscale::emulator {

using ptx::Space;

Result<std::unique_ptr<LoadedModule>> LoadedModule::load(GlobalMemory& memory, std::string text,
                                                         std::string_view target) {
  Result<ptx::Module> parsed = ptx::Module::parse(std::move(text));
  if (!parsed) return parsed.failure();
  const std::string wanted(target.empty() ? parsed.value().target() : target);
  const auto found = ptx::target_of(wanted);
  if (!found)
    return Failure{ErrorCode::unsupported,
                   fmt::format("the target {} is not one that this machine knows; choose one of {}",
                               wanted, ptx::target_names())};
  std::unique_ptr<LoadedModule> made(new LoadedModule(memory, std::move(parsed.value()), *found));
  if (const Status filled = made->fill_in_addresses(); !filled) return filled.failure();
  return made;
}

LoadedModule::LoadedModule(GlobalMemory& memory, ptx::Module text, ptx::Target target)
    : memory_(memory), text_(std::move(text)), target_(target) {
  place_variables();
}

LoadedModule::~LoadedModule() {
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    if (text_.variables()[i].space == Space::global && addresses_[i])
      memory_.release(addresses_[i]);
}

// Global and constant variables begin as their initial values, and zeros behind them.
void LoadedModule::place_variables() {
  for (const ptx::Variable& variable : text_.variables()) {
    std::uint64_t address = 0;
    const auto bytes = static_cast<std::uint64_t>(variable.bytes);
    if (variable.space == Space::global) {
      address = memory_.allocate(bytes, std::string(variable.name));
      if (bytes) memory_.fill(address, 0, bytes);
      if (!variable.initial.empty())
        memory_.write(address, variable.initial.data(), variable.initial.size());
    } else if (variable.space == Space::constant) {
      const auto align = static_cast<std::size_t>(std::max<std::int64_t>(1, variable.align));
      address = (constants_.size() + align - 1) / align * align;
      constants_.resize(address + bytes);
      std::copy(variable.initial.begin(), variable.initial.end(),
                constants_.begin() + static_cast<std::ptrdiff_t>(address));
    }
    addresses_.push_back(address);
  }
}

Status LoadedModule::fill_in_addresses() {
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const ptx::Variable& variable = text_.variables()[i];
    for (const ptx::InitialAddress& named : variable.addresses) {
      const Result<std::uint64_t> value = address_of(named);
      if (!value) return value.failure();
      const std::uint64_t place = addresses_[i] + static_cast<std::uint64_t>(named.at);
      if (variable.space == Space::global)
        memory_.write(place, &value.value(), sizeof value.value());
      else
        std::memcpy(constants_.data() + place, &value.value(), sizeof value.value());
    }
  }
  return success();
}

Result<std::uint64_t> LoadedModule::address_of(const ptx::InitialAddress& named) const {
  const auto plus = static_cast<std::uint64_t>(named.plus);
  if (const auto index = text_.find_variable(named.name)) {
    const Space space = text_.variables()[*index].space;
    if (space == Space::global) return addresses_[*index] + plus;
    if (space == Space::constant)
      return addresses_[*index] + plus + (named.generic ? constant_window : 0);
    return Failure{ErrorCode::unsupported,
                   fmt::format("PTX line {}: an initialiser names '{}', which is not in global or "
                               "constant memory and so has no address before the launch",
                               named.line, named.name)};
  }
  for (std::size_t i = 0; i < text_.functions().size(); ++i)
    if (text_.functions()[i].name == named.name) return function_window + 16 * i + plus;
  return Failure{ErrorCode::bad_input,
                 fmt::format("PTX line {}: an initialiser names '{}', which the text does not "
                             "declare",
                             named.line, named.name)};
}

Result<std::shared_ptr<const Program>> LoadedModule::program(const std::string& entry) const {
  std::lock_guard lock(mutex_);
  if (const auto found = programs_.find(entry); found != programs_.end()) return found->second;
  const auto index = text_.find(entry);
  if (!index || !text_.functions()[*index].entry)
    return Failure{ErrorCode::invalid_argument, fmt::format("the module has no kernel {}", entry)};
  Result<Program> program = decode(text_, *index, addresses_);
  if (!program) return program.failure();
  for (const ProgramFunction& each : program.value().functions) {
    const Result<const ptx::Function*> body = text_.body(*text_.find(each.name));
    if (!body) return body.failure();
    if (const Status status = ptx::check_all(*body.value(), target_, text_.version()); !status)
      return status.failure();
  }
  return programs_[entry] = std::make_shared<const Program>(std::move(program.value()));
}

std::uint64_t LoadedModule::address(std::string_view variable) const {
  const auto index = text_.find_variable(variable);
  return index && text_.variables()[*index].space == Space::global ? addresses_[*index] : 0;
}

Result<std::size_t> LoadedModule::stored(std::string_view variable, std::int64_t bytes) const {
  const auto index = text_.find_variable(variable);
  const Space space = index ? text_.variables()[*index].space : Space::shared;
  if (space != Space::global && space != Space::constant) {
    std::string names;
    for (const ptx::Variable& each : text_.variables())
      if (each.space == Space::global || each.space == Space::constant)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("the module has no variable '{}' in global or constant memory; {}",
                               variable, names.empty() ? "it has none" : "it has " + names)};
  }
  const std::int64_t has = text_.variables()[*index].bytes;
  if (bytes < 0 || bytes > has)
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("{} bytes for the variable '{}', which has {}; give as many", bytes,
                               variable, has)};
  return *index;
}

Status LoadedModule::write_variable(std::string_view variable, const void* from,
                                    std::int64_t bytes) {
  const Result<std::size_t> index = stored(variable, bytes);
  if (!index) return index.failure();
  if (text_.variables()[index.value()].space == Space::global)
    memory_.write(addresses_[index.value()], from, static_cast<std::uint64_t>(bytes));
  else
    std::memcpy(constants_.data() + addresses_[index.value()], from,
                static_cast<std::size_t>(bytes));
  return success();
}

Status LoadedModule::read_variable(std::string_view variable, void* to, std::int64_t bytes) const {
  const Result<std::size_t> index = stored(variable, bytes);
  if (!index) return index.failure();
  if (text_.variables()[index.value()].space == Space::global)
    memory_.read(addresses_[index.value()], to, static_cast<std::uint64_t>(bytes));
  else
    std::memcpy(to, constants_.data() + addresses_[index.value()], static_cast<std::size_t>(bytes));
  return success();
}

std::pair<std::string_view, std::uint64_t> LoadedModule::constant_at(std::uint64_t offset) const {
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const ptx::Variable& each = text_.variables()[i];
    if (each.space == Space::constant && offset >= addresses_[i] &&
        offset - addresses_[i] < static_cast<std::uint64_t>(each.bytes))
      return {each.name, offset - addresses_[i]};
  }
  return {};
}

std::string LoadedModule::place(std::uint16_t number, std::uint32_t line) const {
  if (number == 0 || number > text_.files().size()) return {};
  std::string_view file = text_.files()[number - 1u];
  if (const std::size_t slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, line);
}

std::string LoadedModule::source(const ptx::SourceLine& line) const {
  return place(line.file, line.line);
}

std::string LoadedModule::inlined_at(const ptx::SourceLine& line) const {
  return place(line.outer_file, line.outer_line);
}

}  // namespace microscale::emulator
