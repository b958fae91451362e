// The public face: what is inside fails with a Result, what is here throws.
#include <fmt/format.h>

#include <utility>

#include "emulator/machine/launch.hpp"
#include "emulator/machine/loaded_module.hpp"
#include "emulator/ptx/names.hpp"
#include "emulator/public_state.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

struct Module::State {
  std::unique_ptr<LoadedModule> module;
};

Memory::Memory() : state_(std::make_unique<State>()) {}
Memory::~Memory() = default;

std::uint64_t Memory::allocate(std::int64_t bytes, const std::string& name) {
  if (bytes < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("emulator memory: {} bytes asked for; ask for 0 or more", bytes));
  return state_->global.allocate(static_cast<std::uint64_t>(bytes), name);
}
void Memory::release(std::uint64_t address) { state_->global.release(address); }
void Memory::write(std::uint64_t to, const void* from, std::int64_t bytes) {
  if (bytes > 0) state_->global.write(to, from, static_cast<std::uint64_t>(bytes));
}
void Memory::read(void* to, std::uint64_t from, std::int64_t bytes) const {
  if (bytes > 0) state_->global.read(from, to, static_cast<std::uint64_t>(bytes));
}
void Memory::fill(std::uint64_t to, int byte, std::int64_t bytes) {
  if (bytes > 0)
    state_->global.fill(to, static_cast<std::uint8_t>(byte), static_cast<std::uint64_t>(bytes));
}

std::int64_t Memory::first_unwritten(std::uint64_t from, std::int64_t bytes) const {
  if (bytes <= 0) return -1;
  const auto found = state_->global.first_unwritten(from, static_cast<std::uint64_t>(bytes));
  return found ? static_cast<std::int64_t>(*found - from) : -1;
}

Module::Module(Memory& memory, std::string text, std::string target)
    : state_(std::make_unique<State>()) {
  state_->module = take(LoadedModule::load(memory.state().global, std::move(text), target));
}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const ptx::Function& each : state_->module->text().functions())
    if (each.entry) names.emplace_back(each.name);
  return names;
}

KernelInfo Module::info(const std::string& kernel) const {
  const auto program = take(state_->module->program(kernel));
  const ptx::Module& text = state_->module->text();
  std::vector<KernelParameter> parameters;
  for (const ptx::Variable& each : text.functions()[*text.find(kernel)].params)
    parameters.push_back({.name = std::string(each.name),
                          .type = std::string(ptx::name_of(each.type)),
                          .offset = each.offset,
                          .bytes = each.bytes,
                          .align = each.align});
  return {.name = kernel,
          .parameters = std::move(parameters),
          .argument_bytes = program->param_bytes,
          .shared_bytes = program->shared_bytes,
          .max_threads = static_cast<std::uint32_t>(program->max_threads.x),
          .grid_barrier = asks_for_grid(*program)};
}

std::uint64_t Module::variable(const std::string& name) const {
  return state_->module->address(name);
}
std::vector<ModuleVariable> Module::variables() const {
  std::vector<ModuleVariable> list;
  for (const ptx::Variable& each : state_->module->text().variables())
    if (each.space == ptx::Space::global || each.space == ptx::Space::constant)
      list.push_back({.name = std::string(each.name),
                      .type = std::string(ptx::name_of(each.type)),
                      .bytes = each.bytes});
  return list;
}
void Module::write_variable(const std::string& name, const void* from, std::int64_t bytes) {
  take(state_->module->write_variable(name, from, bytes));
}
void Module::read_variable(const std::string& name, void* to, std::int64_t bytes) const {
  take(state_->module->read_variable(name, to, bytes));
}

LaunchReport launch(Memory& memory, const Module& module, const LaunchRequest& request) {
  return take(run_launch(memory.state().global, *module.state().module, request));
}

}  // namespace microscale::emulator
