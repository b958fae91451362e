// Any bytes as PTX: what is refused is refused with a place; in what is accepted every index points
// at something, and its instructions can be checked against any target.
#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/shared_layout.hpp"
#include "emulator/ptx/targets.hpp"
#include "require.hpp"

namespace {

using namespace microscale::emulator::ptx;
using Kind = Operand::Kind;

void require_place(const microscale::Failure& failure) {
  REQUIRE(failure.message.starts_with("PTX line ") && failure.message.size() < 600);
  for (const char each : failure.message) REQUIRE(each >= ' ' && each <= '~');
}

void require_inside(const Operand& operand, const Module& module, const Function& function) {
  const Kind kind = operand.kind == Kind::address ? operand.base : operand.kind;
  if (kind == Kind::reg) REQUIRE(operand.index < function.registers.size());
  if (kind == Kind::label) REQUIRE(operand.index <= function.code.size());
  if (kind == Kind::function) REQUIRE(operand.index < module.functions().size());
  if (kind == Kind::variable) {
    const auto& variables =
        operand.scope == Scope::module ? module.variables() : function.variables;
    REQUIRE(operand.index < variables.size());
  }
  for (const Operand& part : operand.parts) require_inside(part, module, function);
}

void require_sound(const Variable& variable) {
  REQUIRE(variable.bytes >= 0 && variable.align > 0 && variable.offset >= 0);
  REQUIRE(static_cast<std::int64_t>(variable.initial.size()) <= variable.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = Module::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!parsed) {
    require_place(parsed.failure());
    return 0;
  }
  const Module& module = parsed.value();
  const Target target = target_of(module.target()).value_or(Target{90, 'a'});
  for (const Variable& each : module.variables()) require_sound(each);
  for (std::size_t i = 0; i < module.functions().size(); ++i) {
    const auto body = module.body(i);
    if (!body) {
      require_place(body.failure());
      continue;
    }
    const Function& function = *body.value();
    for (const Variable& each : function.variables) require_sound(each);
    for (const auto& label : function.labels) REQUIRE(label.second <= function.code.size());
    for (const Instruction& instruction : function.code) {
      if (instruction.guard.present) REQUIRE(instruction.guard.reg < function.registers.size());
      REQUIRE(instruction.source.file <= module.files().size());
      for (const Operand& operand : instruction.operands) require_inside(operand, module, function);
      const auto status = check(instruction, target, module.version());
      if (!status) require_place(status.failure());
    }
    REQUIRE(explain(module, function).size() == function.code.size());
    const auto layout = shared_layout(module, i);
    if (layout) REQUIRE(layout.value().static_bytes >= 0);
  }
  return 0;
}
