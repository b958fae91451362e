#include "emulator/ptx/shared_layout.hpp"

#include <algorithm>

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/declaration.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

class Walk {
 public:
  Walk(const Module& module, SharedLayout& layout) : module_(module), layout_(layout) {
    layout_.module_offset.assign(module.variables().size(), -1);
    layout_.function_offset.assign(module.functions().size(), -1);
  }

  Status reach(std::size_t entry) {
    found(entry);
    while (!waiting_.empty()) {
      const std::size_t index = waiting_.back();
      waiting_.pop_back();
      if (!module_.functions()[index].has_body) continue;  // vprintf and the like
      const auto body = module_.body(index);
      if (!body) return body.failure();
      const std::int64_t own = body.value()->shared_bytes;
      std::int64_t align = 1;
      for (const Variable& each : body.value()->variables)
        if (each.space == Space::shared) align = std::max(align, each.align);
      layout_.function_offset[index] = place(own, align);
      for (const Instruction& instruction : body.value()->code) {
        for (const Operand& operand : instruction.operands) look(operand);
        if (!is_indirect(instruction)) continue;
        for (std::size_t i = 0; i < module_.functions().size(); ++i)
          if (may_call(*body.value(), instruction, module_.functions()[i])) found(i);
      }
    }
    layout_.static_bytes = aligned(end_, dynamic_align_);
    for (const std::size_t index : dynamic_) layout_.module_offset[index] = layout_.static_bytes;
    return success();
  }

 private:
  std::int64_t place(std::int64_t bytes, std::int64_t align) {
    const std::int64_t offset = aligned(end_, align);
    if (bytes > 0) end_ = offset + bytes;
    return offset;
  }

  void found(std::size_t function) {
    if (layout_.function_offset[function] >= 0) return;
    layout_.function_offset[function] = 0;  // waits; gets its place when its body is read
    waiting_.push_back(function);
  }

  void look(const Operand& operand) {
    for (const Operand& part : operand.parts) look(part);
    if (operand.kind == Kind::function) found(operand.index);
    const bool variable = operand.kind == Kind::variable ||
                          (operand.kind == Kind::address && operand.base == Kind::variable);
    if (!variable || operand.scope != Scope::module) return;
    const Variable& named = module_.variables()[operand.index];
    std::int64_t& offset = layout_.module_offset[operand.index];
    if (named.space != Space::shared || offset >= 0) return;
    if (named.external) {
      offset = 0;
      dynamic_.push_back(operand.index);
      dynamic_align_ = std::max(dynamic_align_, named.align);
    } else {
      offset = place(named.bytes, named.align);
    }
  }

  const Module& module_;
  SharedLayout& layout_;
  std::vector<std::size_t> waiting_, dynamic_;
  std::int64_t end_ = 0, dynamic_align_ = 16;
};

}  // namespace

Result<SharedLayout> shared_layout(const Module& module, std::size_t entry) {
  SharedLayout layout;
  if (entry >= module.functions().size()) {
    return Failure{ErrorCode::invalid_argument, "shared_layout: the module has no such entry"};
  }
  const Status reached = Walk(module, layout).reach(entry);
  if (!reached) return reached.failure();
  return layout;
}

}  // namespace microscale::emulator::ptx
