#include "emulator/machine/decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/machine/assignment.hpp"
#include "emulator/machine/binder.hpp"
#include "emulator/machine/matrix_registers.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/ops/system_calls.hpp"
#include "emulator/ptx/calls.hpp"

namespace microscale::emulator {
namespace {

using ptx::Operand;
using ptx::Space;

Failure failure(const std::string& message) { return {ErrorCode::unsupported, message}; }

class Decoder {
 public:
  Decoder(const ptx::Module& module, std::size_t entry, const VariableAddresses& addresses)
      : module_(module), entry_(entry), addresses_(addresses), rows_(program_) {}

  Result<Program> run() {
    Result<ptx::SharedLayout> shared = ptx::shared_layout(module_, entry_);
    if (!shared) return shared.failure();
    shared_ = std::move(shared.value());
    if (Status status = add_function(entry_); !status) return status.failure();
    for (std::size_t i = 0; i < functions_.size(); ++i) {  // grows while bodies are looked through
      const ptx::Function& text = *functions_[i].text;
      for (const ptx::Instruction& in : text.code)
        if (in.opcode == "call")
          if (Status status = add_callees(text, in); !status) return status.failure();
    }
    find_reachable();
    if (Status status = refuse_recursive_arrays(); !status) return status.failure();
    for (FunctionState& function : functions_)
      if (Status status = decode_body(function); !status) return status.failure();
    finish();
    return std::move(program_);
  }

 private:
  // Rows for its registers, places for its variables.
  Status add_function(std::size_t index) {
    Result<const ptx::Function*> body = module_.body(index);
    if (!body) return body.failure();
    const ptx::Function& text = *body.value();
    if (!text.has_body)
      return failure(fmt::format("function {} has no body in this module", text.name));
    FunctionState state;
    state.text = &text;
    state.index = index;
    state.number = static_cast<std::uint32_t>(functions_.size());
    state.entry = functions_.empty();
    state.shared_base = std::max<std::int64_t>(0, shared_.function_offset[index]);
    state.local_base = (program_.local_bytes + 15) / 16 * 16;
    program_.local_bytes = state.local_base + text.local_bytes;
    ProgramFunction function;
    function.name = std::string(text.name);
    function.first_register = program_.register_count;
    for (const ptx::Register& reg : text.registers) {
      function.registers.emplace_back(reg.name);
      state.registers.push_back(reg.type == ptx::Type::pred ? rows_.predicate()
                                                            : rows_.own(ptx::bits_of(reg.type)));
      function.bits.push_back(ptx::bits_of(reg.type));
    }
    function.slots = state.registers;
    program_.register_count += static_cast<std::uint32_t>(text.registers.size());
    function.call_begin = static_cast<std::uint32_t>(program_.call_bytes);
    for (std::size_t i = 0; i < text.variables.size(); ++i) {
      const ptx::Variable& variable = text.variables[i];
      std::int64_t offset = -1;
      if (variable.space == Space::param && !(state.entry && i < text.params.size())) {
        program_.call_bytes = (program_.call_bytes + 15) / 16 * 16;
        offset = program_.call_bytes;
        program_.call_bytes += variable.bytes;
      }
      state.call_offset.push_back(offset);
    }
    function.call_end = static_cast<std::uint32_t>(program_.call_bytes);
    program_.functions.push_back(std::move(function));
    functions_.push_back(std::move(state));
    return success();
  }

  Status add_callees(const ptx::Function& caller, const ptx::Instruction& in) {
    if (in.operands[1].kind == Operand::Kind::function) {
      if (system_callee(in)) return success();
      return add_once(in.operands[1].index);
    }
    for (std::size_t i = 0; i < module_.functions().size(); ++i)
      if (ptx::may_call(caller, in, module_.functions()[i]))
        if (Status status = add_once(i); !status) return status;
    return success();
  }

  Status add_once(std::size_t index) {
    for (const FunctionState& each : functions_)
      if (each.index == index) return success();
    return add_function(index);
  }

  // The functions that a call may go to, by their number.
  std::vector<std::uint32_t> callees(const FunctionState& caller,
                                     const ptx::Instruction& in) const {
    std::vector<std::uint32_t> found;
    for (const FunctionState& each : functions_) {
      const ptx::Function& text = module_.functions()[each.index];
      if (in.operands[1].kind == Operand::Kind::function ? each.index == in.operands[1].index
                                                         : ptx::may_call(*caller.text, in, text))
        found.push_back(each.number);
    }
    return found;
  }

  // Of a call: the function that the machine has in place of a body; null if it is none.
  const SystemFunction* system_callee(const ptx::Instruction& in) const {
    if (in.operands[1].kind != Operand::Kind::function) return nullptr;
    const ptx::Function& callee = module_.functions()[in.operands[1].index];
    return callee.has_body ? nullptr : system_function(callee.name);
  }

  const FunctionState& function_of(std::size_t index) const {
    return *std::find_if(functions_.begin(), functions_.end(),
                         [&](const FunctionState& f) { return f.index == index; });
  }

  // Which function can come to which by calls.
  void find_reachable() {
    const std::size_t count = functions_.size();
    reaches_.assign(count, std::vector<bool>(count, false));
    for (std::size_t start = 0; start < count; ++start) {
      std::vector<std::size_t> work{start};
      while (!work.empty()) {
        const FunctionState& from = functions_[work.back()];
        work.pop_back();
        for (const ptx::Instruction& in : from.text->code) {
          if (in.opcode != "call") continue;
          for (const std::uint32_t to : callees(from, in))
            if (!reaches_[start][to]) {
              reaches_[start][to] = true;
              work.push_back(to);
            }
        }
      }
    }
  }

  // A variable in local memory has one place for all calls of its function.
  Status refuse_recursive_arrays() const {
    for (const FunctionState& each : functions_)
      if (reaches_[each.number][each.number] && each.text->local_bytes > 0)
        return failure(fmt::format(
            "line {}: {} can call itself and has arrays in local memory, of which this machine "
            "keeps one for all calls",
            each.text->line, each.text->name));
    return success();
  }

  std::int64_t call_offset(const FunctionState& function, const Operand& operand) const {
    return operand.kind == Operand::Kind::variable && operand.scope == ptx::Scope::function
               ? function.call_offset[operand.index]
               : -1;
  }

  void bind_system_call(Binder& binder, const FunctionState& function,
                        const SystemFunction& callee) {
    const auto &arguments = binder.in.operands[2].parts, &results = binder.in.operands[0].parts;
    if (static_cast<int>(arguments.size()) != callee.arguments ||
        results.size() > (callee.result_bytes ? 1u : 0u))
      return binder.refuse(
          fmt::format("calls {} with other arguments or results than it has", callee.name));
    std::vector<std::uint32_t> places;
    const auto add = [&](const Operand& operand, int bytes) {
      const std::int64_t offset = call_offset(function, operand);
      if (offset < 0 || function.text->variables[operand.index].bytes < bytes)
        return binder.refuse("has an argument or result that is no .param variable of its size");
      places.push_back(static_cast<std::uint32_t>(offset));
    };
    for (std::size_t i = 0; i < arguments.size(); ++i) add(arguments[i], callee.argument_bytes[i]);
    for (const Operand& result : results) add(result, callee.result_bytes);
    binder.op.mode = static_cast<std::uint8_t>(results.size());
    binder.lists(places);
    binder.use(std::string(callee.key));
  }

  void bind_call(Binder& binder, const FunctionState& function) {
    binder.take("uni");
    const ptx::Instruction& in = binder.in;
    if (const SystemFunction* callee = system_callee(in))
      return bind_system_call(binder, function, *callee);
    if (in.operands[1].kind == Operand::Kind::reg) {
      IndirectCall call;
      for (const std::uint32_t to : callees(function, in))
        call[function_window + 16 * functions_[to].index] = add_site(binder, function, to);
      binder.op.a = binder.source(in.operands[1], ptx::Type::b64);
      binder.op.extra = static_cast<std::uint32_t>(program_.indirect_calls.size());
      program_.indirect_calls.push_back(std::move(call));
      return binder.use("call.indirect");
    }
    binder.op.extra = add_site(binder, function, function_of(in.operands[1].index).number);
    binder.use("call");
  }

  // The site of a call of function `number`: its index.
  std::uint32_t add_site(Binder& binder, const FunctionState& function, std::uint32_t number) {
    const ptx::Instruction& in = binder.in;
    const FunctionState& callee = functions_[number];
    const std::size_t params = callee.text->params.size();
    CallSite site;
    for (std::size_t i = 0; i < in.operands[2].parts.size() && i < params; ++i)
      site.arguments.push_back(
          {static_cast<std::uint32_t>(call_offset(function, in.operands[2].parts[i])),
           static_cast<std::uint32_t>(callee.call_offset[i]),
           static_cast<std::uint32_t>(callee.text->params[i].bytes)});
    for (std::size_t i = 0; i < in.operands[0].parts.size() && i < callee.text->results.size(); ++i)
      site.results.push_back(
          {static_cast<std::uint32_t>(callee.call_offset[params + i]),
           static_cast<std::uint32_t>(call_offset(function, in.operands[0].parts[i])),
           static_cast<std::uint32_t>(callee.text->results[i].bytes)});
    if (site.arguments.size() != params || site.results.size() != callee.text->results.size())
      binder.refuse("has other arguments or results than the function");
    for (const std::vector<CallCopy>* copies : {&site.arguments, &site.results})
      for (const CallCopy& copy : *copies)
        if (copy.from >= program_.call_bytes || copy.to >= program_.call_bytes)
          binder.refuse("has an argument or result that is no .param variable");
    site.target = callee.number;  // a function still
    site.back = static_cast<std::uint32_t>(program_.code.size() + 1);
    if (callee.number == function.number || reaches_[callee.number][function.number])
      site.keeps = static_cast<std::int32_t>(function.number);
    program_.calls.push_back(std::move(site));
    return static_cast<std::uint32_t>(program_.calls.size() - 1);
  }

  Status decode_body(const FunctionState& function) {
    const std::uint32_t begin = static_cast<std::uint32_t>(program_.code.size());
    program_.functions[function.number].begin = begin;
    const std::size_t first_table = program_.branch_tables.size();
    if (function.entry) program_.param_bytes = param_bytes(*function.text);
    for (const ptx::Instruction& in : function.text->code) {
      Binder binder(module_, shared_, addresses_, program_, rows_, function, in);
      if (in.opcode == "call")
        bind_call(binder, function);
      else if (!bind(binder))
        binder.refuse("is not known to this machine");
      if (std::string problem = binder.finish(); !problem.empty())
        return failure(fmt::format("{} {}: {}", function.entry ? "kernel" : "function",
                                   function.text->name, problem));
      if (in.opcode == "bra") binder.op.extra += begin;
      program_.code.push_back(binder.op);
      program_.info.push_back(std::move(binder.info));
    }
    Op end;  // behind the last instruction
    end.run = find_handler("ret");
    OpInfo info;
    info.opcode = "ret";
    info.line = function.text->code.empty() ? function.text->line : function.text->code.back().line;
    info.function = function.number;
    program_.code.push_back(end);
    program_.info.push_back(info);
    for (std::size_t i = first_table; i < program_.branch_tables.size(); ++i)
      for (std::uint32_t& target : program_.branch_tables[i]) target += begin;
    program_.functions[function.number].end = static_cast<std::uint32_t>(program_.code.size());
    return success();
  }

  static std::int64_t param_bytes(const ptx::Function& text) {
    std::int64_t bytes = 0;
    for (const ptx::Variable& each : text.params) bytes = std::max(bytes, each.offset + each.bytes);
    return bytes;
  }

  static bool bind(Binder& b) {
    return decode_integer(b) || decode_float(b) || decode_bits(b) || decode_compare(b) ||
           decode_convert(b) || decode_move(b) || decode_memory(b) || decode_atomic(b) ||
           decode_async(b) || decode_mbarrier(b) || decode_control(b) || decode_warp(b) ||
           decode_matrix(b) || decode_wgmma(b) || decode_tcgen05(b);
  }

  void finish() {
    const ptx::Function& text = *functions_.front().text;
    program_.name = std::string(text.name);
    for (CallSite& site : program_.calls) site.target = program_.functions[site.target].begin;
    program_.call_bytes = (program_.call_bytes + 15) / 16 * 16;
    program_.shared_bytes = shared_.static_bytes;
    program_.max_threads = text.max_threads;
    program_.required_threads = text.required_threads;
    program_.required_cluster = text.required_cluster;
    program_.explicit_cluster = text.explicit_cluster;
    mark_matrix_registers(program_);
    mark_unproven(program_);
  }

  const ptx::Module& module_;
  const std::size_t entry_;
  const VariableAddresses& addresses_;
  ptx::SharedLayout shared_;
  Program program_;
  Rows rows_;
  std::vector<FunctionState> functions_;
  std::vector<std::vector<bool>> reaches_;  // by number: whether one can come to the other by calls
};

}  // namespace

Result<Program> decode(const ptx::Module& module, std::size_t entry,
                       const VariableAddresses& addresses) {
  return Decoder(module, entry, addresses).run();
}

}  // namespace microscale::emulator
