#include "emulator/ptx/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "emulator/ptx/affine.hpp"
#include "emulator/ptx/listing_regions.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_real(const Instruction& instruction) {
  return std::ranges::any_of(instruction.modifiers, [](std::string_view each) {
    return each.starts_with("f16") || each.starts_with("f32") || each.starts_with("f64") ||
           each.starts_with("bf16");
  });
}

// Forms of the registers, found by reading the code over until nothing changes. A symbol that
// starts with `?` stands for a value that differs from lane to lane in a way that is not known.
class Forms {
 public:
  Forms(const Module& module, const Function& body)
      : module_(module), body_(body), regions_(body), places_(places_of(body)) {
    definitions_.resize(body.registers.size());
    std::map<std::uint32_t, Form> before;
    for (int pass = 0; pass == 0 || before != values_; ++pass) {
      before = values_;
      for (auto& each : definitions_) each.clear();
      for (const Instruction& each : body.code) read(each);
      settle(pass);
      if (pass < patience) continue;
      for (auto& [reg, form] : values_) {  // what still changes is given up, so this ends
        if (form == before[reg]) continue;
        given_up_.insert(reg);
        form = opaque(reg, true);
      }
    }
  }

  Form address(const Operand& operand) const {
    Form base;
    if (operand.base != Kind::sink) {
      Operand named = operand;
      named.kind = operand.base;
      named.value = 0;
      base = value(named);
    }
    return base.plus(Form(operand.value));
  }

  static bool varies(const Form& form) {
    return form.has("%tid.x") || form.has("%laneid") || unknown(form);
  }
  static bool unknown(const Form& form) {
    return std::ranges::any_of(form.terms(), [](const auto& term) {
      return std::ranges::any_of(term.first,
                                 [](const std::string& each) { return each[0] == '?'; });
    });
  }

 private:
  static constexpr int patience = 6;

  const Variable& variable(const Operand& operand) const {
    return operand.scope == Scope::module ? module_.variables()[operand.index]
                                          : body_.variables[operand.index];
  }

  Form value(const Operand& operand) const {
    switch (operand.kind) {
      case Kind::reg: {
        const auto known = values_.find(operand.index);
        return known == values_.end() ? self(operand.index) : known->second;
      }
      case Kind::integer:
        return Form(operand.value);
      case Kind::variable:
        return Form("&" + std::string(variable(operand).name)).plus(Form(operand.value));
      case Kind::special: {
        std::string name(ptx::name_of(operand.special));
        if (special_of(name)->has_components)
          (name += '.') += static_cast<char>('x' + operand.component);
        return Form(name);
      }
      default:
        return Form("?");
    }
  }

  std::string name(std::uint32_t reg) const { return std::string(body_.registers[reg].name); }
  Form self(std::uint32_t reg) const { return Form("=" + name(reg)); }  // before it is settled

  // A result that is no form: one symbol, that says whether lanes may differ.
  Form opaque(std::uint32_t reg, bool differs) const {
    return Form((differs ? "?" : "") + name(reg));
  }

  // "[k_param_0+8]" when it reads the entry's parameters, which are the same for all lanes, by name
  // or through a register; results of calls and a function's own parameters may differ.
  std::optional<Form> kernel_param(const Instruction& in) const {
    if (!body_.entry || !in.has("param") || in.operands.size() != 2) return std::nullopt;
    const Form from = address(in.operands[1]);
    for (const Variable& each : body_.params) {
      const auto offset = from.plus(Form("&" + std::string(each.name)), -1).constant();
      if (!offset) continue;
      return Form(*offset == 0 ? fmt::format("[{}]", each.name)
                               : fmt::format("[{}+{}]", each.name, *offset));
    }
    return std::nullopt;
  }

  std::optional<Form> computed(const Instruction& in) const {
    const auto& given = in.operands;
    const auto count = given.size();
    const auto in_form = [&](std::size_t i) { return value(given[i]); };
    if (is_real(in)) return std::nullopt;
    if ((in.opcode == "mov" || in.opcode == "cvta") && count == 2) return in_form(1);
    if (in.opcode == "cvt" && count == 2) {
      const auto wide = in.modifiers.empty() ? std::nullopt : type_of(in.modifiers[0]);
      if (wide && bits_of(*wide) >= 32) return in_form(1);
    }
    if (in.opcode == "ld") return kernel_param(in);
    if (in.opcode == "add" && count == 3) return in_form(1).plus(in_form(2));
    if (in.opcode == "sub" && count == 3) return in_form(1).plus(in_form(2), -1);
    if (in.opcode == "neg" && count == 2) return Form().plus(in_form(1), -1);
    if (in.opcode == "shl" && count == 3) {
      const auto by = in_form(2).constant();
      if (by && *by >= 0 && *by < 63) return Form().plus(in_form(1), std::int64_t{1} << *by);
    }
    if (in.has("hi")) return std::nullopt;
    if (in.opcode == "mul" && count == 3) return in_form(1).times(in_form(2));
    if (in.opcode == "mad" && count == 4) {
      const auto product = in_form(1).times(in_form(2));
      if (product) return product->plus(in_form(3));
    }
    return std::nullopt;
  }

  void read(const Instruction& in) {
    if (in.operands.empty() || is_one_of(in.opcode, {"st", "red", "bra", "call", "cp", "bar"}))
      return;
    const bool guarded =
        in.guard.present && (!values_.contains(in.guard.reg) || varies(values_[in.guard.reg]));
    bool differs =
        guarded || is_one_of(in.opcode, {"ld", "atom", "shfl", "ldmatrix", "mma", "wgmma"});
    const std::size_t results = in.two_predicates ? 2 : 1;
    for (std::size_t i = results; i < in.operands.size(); ++i) {
      const Operand& each = in.operands[i];
      if (each.kind == Kind::address)
        differs = guarded ||
                  (differs && (varies(address(each)) || (in.has("param") && !kernel_param(in))));
      if (each.kind == Kind::reg || each.kind == Kind::special)
        differs = differs || varies(value(each));
      if (each.kind == Kind::vector) differs = true;
    }
    const auto define = [&](const Operand& result, const std::optional<Form>& form) {
      if (result.kind != Kind::reg) return;
      if (given_up_.contains(result.index)) return;
      const bool small = form && form->terms().size() <= Form::max_terms;
      Form known = small ? *form : opaque(result.index, differs);
      definitions_[result.index].push_back(known);
      if (definitions_[result.index].size() == 1 && !settled_many_.contains(result.index)) {
        values_[result.index] = std::move(known);
      }
    };
    const Operand& first = in.operands[0];
    for (const Operand& part : first.parts) define(part, std::nullopt);
    if (in.two_predicates) define(in.operands[1], std::nullopt);
    define(first, guarded ? std::nullopt : computed(in));
  }

  // Registers written in several places: the first value plus something that all lanes share, if
  // each further one adds only that to it or to the register, and if no branch that parts the lanes
  // lets them meet with different ones; else unknown.
  void settle(int pass) {
    for (std::uint32_t reg = 0; reg < definitions_.size(); ++reg) {
      const auto& all = definitions_[reg];
      if (all.size() < 2) continue;
      const std::string loop = "~" + name(reg);
      const Form old = values_[reg];
      bool good = !unknown(all[0]) && !all[0].has(loop), same = true;
      for (const Form& each : all) {
        const Form added = each.plus(old, -1);
        same = same && each == all[0];
        good = good && (!varies(each.plus(all[0], -1)) ||
                        (!varies(added) && (pass == 0 || !added.has(loop))));
      }
      if (!same)
        values_[reg] = good && lanes_agree(reg) ? all[0].plus(Form(loop)) : opaque(reg, true);
      settled_many_.insert(reg);
    }
  }

  bool lanes_agree(std::uint32_t reg) const {
    if (regions_.has_table()) return false;
    return std::ranges::all_of(regions_.branches(), [&](const Regions::Branch& each) {
      const auto guard = values_.find(each.guard);
      const bool parts = guard != values_.end() && varies(guard->second);
      return !parts || Regions::keeps_apart(each, places_[reg]);
    });
  }

  const Module& module_;
  const Function& body_;
  const Regions regions_;
  const std::vector<Places> places_;
  std::map<std::uint32_t, Form> values_;
  std::vector<std::vector<Form>> definitions_;
  std::set<std::uint32_t> settled_many_, given_up_;
};

// Bytes one lane moves: the last type times the vector; of cp.async its operand.
std::int64_t access_bytes(const Instruction& in) {
  if (in.opcode == "cp") {
    return in.operands.size() > 2 && in.operands[2].kind == Kind::integer ? in.operands[2].value
                                                                          : 0;
  }
  const auto type = in.modifiers.empty() ? std::nullopt : type_of(in.modifiers.back());
  const std::int64_t width = in.has("v2") ? 2 : in.has("v4") ? 4 : in.has("v8") ? 8 : 1;
  return type ? width * std::max(1, bits_of(*type) / 8) : 0;
}

// Distinct 32-byte sectors of a warp whose lane 0 is aligned.
std::size_t sectors(std::int64_t stride, std::int64_t bytes) {
  std::set<std::int64_t> touched;
  for (std::int64_t lane = 0; lane < 32; ++lane)
    for (std::int64_t byte = 0; byte < bytes; ++byte) touched.insert((lane * stride + byte) >> 5);
  return touched.size();
}

// The most distinct 4-byte words that one of the 32 banks must give in one of the warp's phases.
std::size_t bank_ways(std::int64_t stride, std::int64_t bytes) {
  const std::int64_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  std::array<std::set<std::int64_t>, 32> banks;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    for (std::int64_t byte = 0; byte < bytes; byte += std::min<std::int64_t>(bytes, 4)) {
      const std::int64_t word = (lane * stride + byte) >> 2;
      banks[static_cast<std::size_t>(word & 31)].insert(word);
    }
  }
  std::size_t ways = 0;
  for (const auto& each : banks) ways = std::max(ways, each.size());
  return ways;
}

void judge(const Instruction& in, const Form& address, Note& note) {
  note.address = address.text();
  const auto by_thread = address.step("%tid.x"), by_lane = address.step("%laneid");
  if (Forms::unknown(address) || !by_thread || !by_lane) {
    note.stride = "?";
    note.verdict = "cannot tell: not affine in the lane";
    return;
  }
  const Form step = by_thread->plus(*by_lane);
  note.stride = step.text();
  const std::int64_t bytes = access_bytes(in);
  const auto stride = step.constant();
  const bool shared = in.has("shared") || in.has("shared::cta") || in.has("shared::cluster");
  constexpr std::int64_t limit = std::int64_t{1} << 32;
  if (stride && *stride == 0) {
    note.verdict = "one address for all lanes";
  } else if (!stride || bytes <= 0 || *stride > limit || *stride < -limit) {
    note.verdict = shared ? "bank conflicts depend on the stride"
                          : fmt::format("not coalesced, unless {} is {}", note.stride, bytes);
  } else if (shared && in.opcode != "cp") {
    const std::size_t ways = bank_ways(*stride, bytes);
    note.verdict = ways <= 1 ? "no bank conflict" : fmt::format("{}-way bank conflict", ways);
  } else {
    const std::size_t touched = sectors(std::abs(*stride), bytes), least = sectors(bytes, bytes);
    note.verdict =
        touched <= least
            ? fmt::format("coalesced: {} sectors of 32 bytes, the least", touched)
            : fmt::format("not coalesced: {} sectors of 32 bytes, {} would do", touched, least);
  }
}

Role role_of(const Instruction& in) {
  const std::string_view op = in.opcode;
  const bool special = std::ranges::any_of(in.operands, [](const Operand& each) {
    return each.kind == Kind::special || each.kind == Kind::variable;
  });
  if (op == "ld") return in.has("param") ? Role::set_up : Role::load;
  if (is_one_of(op, {"ldmatrix", "ldu"})) return Role::load;
  if (op == "st" || op == "stmatrix") return in.has("param") ? Role::set_up : Role::store;
  if (is_one_of(op, {"atom", "red"})) return Role::atomic;
  if (is_one_of(op, {"bar", "barrier", "mbarrier", "fence", "membar"})) return Role::barrier;
  if (op == "cp") return in.operands.size() > 1 ? Role::load : Role::barrier;
  if (is_one_of(op, {"mma", "wgmma", "tcgen05"})) return Role::matrix;
  if (is_one_of(op, {"bra", "brx", "ret", "exit", "call", "trap"})) {
    return in.guard.present ? Role::bounds : Role::control;
  }
  if (op == "cvta" || (op == "mov" && special)) return Role::set_up;
  if (op == "setp" || in.has("pred")) return Role::bounds;
  return is_real(in) ? Role::arithmetic : Role::index;
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::set_up:
      return "set-up";
    case Role::index:
      return "index arithmetic";
    case Role::bounds:
      return "bounds";
    case Role::load:
      return "load";
    case Role::store:
      return "store";
    case Role::atomic:
      return "atomic";
    case Role::barrier:
      return "barrier";
    case Role::matrix:
      return "matrix";
    case Role::arithmetic:
      return "arithmetic";
    case Role::control:
      return "control";
  }
  return "";
}

std::vector<Note> explain(const Module& module, const Function& body) {
  const Forms forms(module, body);
  std::vector<Note> notes;
  notes.reserve(body.code.size());
  for (const Instruction& in : body.code) {
    Note& note = notes.emplace_back();
    note.line = in.line;
    note.role = role_of(in);
    if (note.role != Role::load && note.role != Role::store && note.role != Role::atomic) continue;
    if (is_one_of(in.opcode, {"ldmatrix", "stmatrix"}) || in.has("bulk")) continue;
    // A copy's far side is its second address: the global one.
    const Operand* address = nullptr;
    for (const Operand& each : in.operands)
      if (each.kind == Kind::address && (address == nullptr || in.opcode == "cp")) address = &each;
    if (address != nullptr) judge(in, forms.address(*address), note);
  }
  return notes;
}

}  // namespace microscale::emulator::ptx
