#include "profile/profile_of.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "emulator/ptx/module.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {
namespace {

using Class = InstructionClass;
using ptx::Instruction;
using ptx::Operand;

bool any_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool has_space(const Instruction& in, std::string_view space) {
  return std::any_of(in.modifiers.begin(), in.modifiers.end(), [&](std::string_view each) {
    return each.substr(0, each.find(':')) == space;
  });
}

bool is_real(const Instruction& in) {
  return !in.modifiers.empty() &&
         any_of(in.modifiers.back(), {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"});
}

Class class_of(const Instruction& in) {
  const std::string_view op = in.opcode;
  if (op == "ld" || op == "st") {
    const bool load = op == "ld";
    if (has_space(in, "shared")) return load ? Class::load_shared : Class::store_shared;
    if (has_space(in, "param") || has_space(in, "const") || has_space(in, "local"))
      return Class::other_memory;
    return load ? Class::load_global : Class::store_global;
  }
  if (any_of(op, {"ldu", "prefetch", "prefetchu", "applypriority", "discard"}))
    return Class::other_memory;
  if (op == "ldmatrix") return Class::load_shared;
  if (op == "stmatrix") return Class::store_shared;
  if (any_of(op, {"atom", "red", "multimem"})) return Class::atomic;
  if (op == "cp") return Class::copy;
  if (any_of(op, {"mma", "wgmma", "wmma", "tcgen05"})) return Class::matrix;
  if (any_of(op, {"shfl", "vote", "match", "redux", "activemask", "elect"})) return Class::exchange;
  if (any_of(op, {"bar", "barrier", "mbarrier", "fence", "membar", "griddepcontrol", "setmaxnreg"}))
    return Class::barrier;
  if (any_of(op, {"bra", "brx", "call", "ret", "exit", "trap", "nanosleep"})) return Class::control;
  if (op == "cvt") return Class::convert;
  if (any_of(op, {"setp", "set", "selp", "slct", "min", "max"})) return Class::compare;
  if (any_of(op, {"mov", "cvta", "prmt", "isspacep", "mapa"})) return Class::move;
  return is_real(in) ? Class::floating : Class::integer;
}

void add_specials(const Operand& operand, std::vector<std::string>& names) {
  if (operand.kind == Operand::Kind::special) {
    std::string name(ptx::name_of(operand.special));
    if (operand.special <= ptx::SpecialRegister::cluster_nctaid)
      name += fmt::format(".{}", "xyz"[std::min<int>(operand.component, 2)]);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const Operand& part : operand.parts) add_specials(part, names);
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

/// The line with single blanks, and parameters without the long name of their function before them.
std::string tidied(std::string_view line, const std::string& function) {
  std::string text;
  for (const char c : line) {
    const char blank = c == '\t' ? ' ' : c;
    if (blank != ' ' || !text.ends_with(' ')) text += blank;
  }
  const std::string prefix = function + "_param_";
  for (std::size_t at; (at = text.find(prefix)) != text.npos;) text.erase(at, function.size() + 1);
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

KernelProfile profile_of(const std::string& ptx, const std::string& kernel, LaunchReport report) {
  const ptx::Module module = take(ptx::Module::parse(ptx));
  KernelProfile profile;
  profile.kernel = profile.title = kernel;
  profile.target = std::string(module.target());
  for (const std::string_view file : module.files())
    profile.files.push_back({std::string(file), {}});
  const std::vector<std::string_view> lines = lines_of(ptx);

  std::map<std::string, std::size_t> taken;  // instructions of each function so far
  for (std::size_t i = 0; i < report.instructions.size(); ++i) {
    ProfiledInstruction each;
    each.count = std::move(report.instructions[i]);
    const auto index = module.find(each.count.function);
    const ptx::Function* function = index ? take(module.body(*index)) : nullptr;
    const std::size_t at = taken[each.count.function]++;
    if (function && at < function->code.size()) {
      const Instruction& in = function->code[at];
      each.which = class_of(in);
      each.stores = each.which == Class::store_global || each.which == Class::atomic;
      for (const auto& [label, target] : function->labels)
        if (target == at) each.label = std::string(label);
      for (const Operand& operand : in.operands) add_specials(operand, each.specials);
      each.file = std::min<std::size_t>(in.source.file, profile.files.size());
      each.line = in.source.line;
      if (in.line >= 1 && in.line <= lines.size())
        each.text = tidied(lines[in.line - 1], each.count.function);
    } else {  // the return that stands behind a body's last instruction
      each.which = Class::control;
      each.text = "(end)";
      each.implied = true;
    }
    profile.instructions.push_back(std::move(each));
  }
  report.instructions.clear();
  profile.report = std::move(report);
  return profile;
}

}  // namespace microscale::emulator
