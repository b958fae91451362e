#include "emulator/ptx/listing_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

constexpr std::size_t longest_name = 40;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_unsigned(Type type) { return is_one_of(name_of(type), {"u8", "u16", "u32", "u64"}); }

}  // namespace

bool is_real(const Instruction& instruction) {
  return std::ranges::any_of(instruction.modifiers, [](std::string_view each) {
    return each.starts_with("f16") || each.starts_with("f32") || each.starts_with("f64") ||
           each.starts_with("bf16");
  });
}

Forms::Forms(const Module& module, const Function& body, const Extent& block)
    : module_(module),
      body_(body),
      regions_(body),
      places_(places_of(body)),
      reaching_(body, places_),
      symbols_(block) {
  definitions_.resize(body.registers.size());
  auto before = values_;
  auto written_before = written_;
  for (int pass = 0;
       pass == 0 || before != values_ || written_before != written_ || symbols_.changed(); ++pass) {
    if (pass == most_passes) {
      give_up();
      break;
    }
    before = values_;
    written_before = written_;
    for (auto& each : definitions_) each.clear();
    for (at_ = 0; at_ < body.code.size(); ++at_) read(body.code[at_]);
    settle(pass);
    if (pass < patience) continue;
    for (auto& [reg, form] : values_) {  // what still changes is given up, so this ends
      if (form == before[reg]) continue;
      given_up_.insert(reg);
      form = opaque(reg, true);
    }
  }
}

void Forms::give_up() {
  for (auto& [reg, form] : values_) form = opaque(reg, true);
  written_.clear();
}

Form Forms::address(const Operand& operand, std::uint32_t at) const {
  Form base;
  if (operand.base != Kind::sink) {
    Operand named = operand;
    named.kind = operand.base;
    named.value = 0;
    base = value(named, at);
  }
  return base.plus(Form(operand.value));
}

bool Forms::unknown(const Form& form) {
  return std::ranges::any_of(form.terms(), [](const auto& term) {
    return std::ranges::any_of(term.first, [](const std::string& each) { return each[0] == '?'; });
  });
}

bool Forms::varies(const Form& form) const {
  if (unknown(form)) return true;
  if (!symbols_.has_lanes(form)) return false;
  const LaneForm lanes = symbols_.lanes(form);
  return lanes.unknown() || lanes.varies();
}

const Variable& Forms::variable(const Operand& operand) const {
  return operand.scope == Scope::module ? module_.variables()[operand.index]
                                        : body_.variables[operand.index];
}

// What only one instruction can have written, else what the register holds anywhere.
Form Forms::held(std::uint32_t reg, std::uint32_t at) const {
  const auto write = reaching_.only_write(reg, at);
  if (write && !given_up_.contains(reg)) {
    const auto form = written_.find({*write, reg});
    if (form != written_.end() && lanes_agree(*write, at)) return form->second;
  }
  const auto known = values_.find(reg);
  return known == values_.end() ? self(reg) : known->second;
}

Form Forms::value(const Operand& operand, std::uint32_t at) const {
  switch (operand.kind) {
    case Kind::reg:
      return held(operand.index, at);
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

// Unique to the instruction: two of them may write one register.
std::string Forms::own_name(std::uint32_t reg) const {
  return fmt::format("{}@{}", name(reg), at_);
}

// A result that is no form: one symbol, that says whether lanes may differ.
Form Forms::opaque(std::uint32_t reg, bool differs) const {
  return Form((differs ? "?" : "") + name(reg));
}

// "[k_param_0+8]" when it reads the entry's parameters, which are the same for all lanes, by name
// or through a register; results of calls and a function's own parameters may differ.
std::optional<Form> Forms::kernel_param(const Instruction& in) const {
  if (!body_.entry || !in.has("param") || in.operands.size() != 2) return std::nullopt;
  const Form from = address(in.operands[1], at_);
  for (const Variable& each : body_.params) {
    const auto offset = from.plus(Form("&" + std::string(each.name)), -1).constant();
    if (!offset) continue;
    return Form(*offset == 0 ? fmt::format("[{}]", each.name)
                             : fmt::format("[{}+{}]", each.name, *offset));
  }
  return std::nullopt;
}

// A symbol for a value that is known lane by lane; `same` if it is that.
std::optional<Form> Forms::piece(const std::string& text, const std::string& name,
                                 const std::optional<LaneForm>& value, const Form& same) {
  if (!value || value->unknown()) return std::nullopt;
  if (*value == symbols_.lanes(same)) return same;
  const Form first = value->of_lane(0);
  if (!value->varies() && !first.has("%warp")) return first;
  return symbols_.define(text.size() <= longest_name ? text : name, *value);
}

// Shifts right, masks and fields.
std::optional<Form> Forms::bits(const Instruction& in) {
  const auto& given = in.operands;
  const auto type = in.modifiers.empty() ? std::nullopt : type_of(in.modifiers.back());
  if (!type || in.has("pred") || given.size() < 2 || given[0].kind != Kind::reg)
    return std::nullopt;
  const int width = bits_of(*type);
  const Form left = value(given[1]);
  if (unknown(left)) return std::nullopt;
  const std::string own = own_name(given[0].index);
  LaneForm x = symbols_.lanes(left);
  const auto number = [&](std::size_t i) -> std::optional<std::int64_t> {
    return i < given.size() ? value(given[i]).constant() : std::nullopt;
  };
  const auto by = number(2);
  const std::string text = left.text();
  const auto small = [](const auto& n) { return n && *n >= 0 && *n <= 255; };
  if (in.opcode == "cvt" && given.size() == 2) {
    const auto wide = type_of(in.modifiers[0]);
    if (!wide || in.has("sat")) return std::nullopt;
    const int count = std::min(width, bits_of(*wide));
    const bool is_signed = !is_unsigned(count == width ? *type : *wide);
    const auto low = symbols_.low_bits(x, is_signed ? count - 1 : count, own);
    if (is_signed) return low == x ? std::optional(left) : std::nullopt;
    return piece(fmt::format("({} & {})", text, (1ull << count) - 1), own, low, left);
  }
  if (in.opcode == "shr" && small(by)) {
    const bool is_signed = is_one_of(in.modifiers.back(), {"s16", "s32", "s64"});
    if (!is_signed && x.constants()) x = symbols_.low_bits(x, width, own).value_or(x);
    return piece(fmt::format("({} >> {})", text, *by), own,
                 symbols_.shifted_right(x, static_cast<int>(*by), own), left);
  }
  if (in.opcode == "bfe" && small(by) && small(number(3)) && is_unsigned(*type)) {
    const auto moved = symbols_.shifted_right(x, static_cast<int>(*by), own);
    if (!moved) return std::nullopt;
    return piece(fmt::format("({} >> {} & {})", text, *by,
                             (1ull << std::min<std::int64_t>(*number(3), 63)) - 1),
                 own, symbols_.low_bits(*moved, static_cast<int>(*number(3)), own), left);
  }
  if (in.opcode == "bfi" && given.size() == 5 && small(number(3)) && small(number(4))) {
    const Form base = value(given[2]);
    const int position = static_cast<int>(*number(3)), count = static_cast<int>(*number(4));
    if (unknown(base) || position + count > width) return std::nullopt;
    const LaneForm into = symbols_.lanes(base);
    const std::uint64_t field = (count < 64 ? 1ull << count : 0) - 1;
    const auto old = symbols_.masked(into, field << position, width, own);
    const auto low = symbols_.low_bits(x, count, own);
    if (!old || !low) return std::nullopt;
    return piece(own, own, into.plus(*old, -1).plus(*low, std::int64_t{1} << position), left);
  }
  const bool power = by && *by > 0 && std::has_single_bit(static_cast<std::uint64_t>(*by));
  if (power && is_unsigned(*type) && is_one_of(in.opcode, {"div", "rem"})) {
    const int count = std::countr_zero(static_cast<std::uint64_t>(*by));
    const bool div = in.opcode == "div";
    return piece(fmt::format("({} {} {})", text, div ? "/" : "%", *by), own,
                 div ? symbols_.shifted_right(x, count, own) : symbols_.low_bits(x, count, own),
                 left);
  }
  if (!is_one_of(in.opcode, {"and", "or", "xor"}) || given.size() != 3) return std::nullopt;
  const char op = in.opcode == "and" ? '&' : in.opcode == "or" ? '|' : '^';
  const Form right = value(given[2]);
  if (unknown(right)) return std::nullopt;
  if (by && op == '&')
    return piece(fmt::format("({} & {})", text, *by), own,
                 symbols_.masked(x, static_cast<std::uint64_t>(*by), width, own), left);
  const LaneForm y = symbols_.lanes(right);
  const auto met = symbols_.joined(op, x, y, own);
  const Form sum = left.plus(right);
  return piece(fmt::format("({} {} {})", text, op, right.text()), own, met, sum);
}

// One of two forms, the same one for all lanes: exactly, but for what all lanes share.
// `name` tells this choice from others.
std::optional<Form> Forms::either(const Form& one, const Form& other, const std::string& name) {
  if (one == other) return one;
  const Form more = other.plus(one, -1);
  if (!varies(more)) return one.plus(Form("~" + name));
  const auto product = more.times(symbols_.choice(name));
  return product ? std::optional(one.plus(*product)) : std::nullopt;
}

std::optional<Form> Forms::chosen(const Instruction& in) {
  if (in.operands.size() != 4 || in.operands[0].kind != Kind::reg) return std::nullopt;
  const Form one = value(in.operands[1]), other = value(in.operands[2]);
  if (unknown(one) || unknown(other) || varies(value(in.operands[3]))) return std::nullopt;
  return either(one, other, own_name(in.operands[0].index));
}

std::optional<Form> Forms::computed(const Instruction& in) {
  const auto& given = in.operands;
  const auto count = given.size();
  const auto in_form = [&](std::size_t i) { return value(given[i]); };
  if (is_real(in)) return std::nullopt;
  if ((in.opcode == "mov" || in.opcode == "cvta") && count == 2) return in_form(1);
  if (in.opcode == "cvt" && count == 2) {
    const auto wide = in.modifiers.empty() ? std::nullopt : type_of(in.modifiers[0]);
    const auto from = in.modifiers.empty() ? std::nullopt : type_of(in.modifiers.back());
    const bool same = wide && from && bits_of(*wide) >= 32 && bits_of(*from) >= 32;
    return same ? in_form(1) : bits(in);
  }
  if (in.opcode == "ld") return kernel_param(in);
  if (in.opcode == "add" && count == 3) return in_form(1).plus(in_form(2));
  if (in.opcode == "sub" && count == 3) return in_form(1).plus(in_form(2), -1);
  if (in.opcode == "neg" && count == 2) return Form().plus(in_form(1), -1);
  if (in.opcode == "shl" && count == 3) {
    const auto by = in_form(2).constant();
    if (by && *by >= 0 && *by < 63) return Form().plus(in_form(1), std::int64_t{1} << *by);
  }
  if (in.opcode == "selp") return chosen(in);
  if (in.has("hi")) return std::nullopt;
  if (in.opcode == "mul" && count == 3) return in_form(1).times(in_form(2));
  if (in.opcode == "mad" && count == 4) {
    const auto product = in_form(1).times(in_form(2));
    if (product) return product->plus(in_form(3));
  }
  return bits(in);
}

void Forms::read(const Instruction& in) {
  if (in.operands.empty() || is_one_of(in.opcode, {"st", "red", "bra", "call", "cp", "bar"}))
    return;
  const bool guarded =
      in.guard.present && (!values_.contains(in.guard.reg) || varies(held(in.guard.reg, at_)));
  bool differs =
      guarded || is_one_of(in.opcode, {"ld", "atom", "shfl", "ldmatrix", "mma", "wgmma"});
  const std::size_t results = in.two_predicates ? 2 : 1;
  for (std::size_t i = results; i < in.operands.size(); ++i) {
    const Operand& each = in.operands[i];
    if (each.kind == Kind::address)
      differs = guarded ||
                (differs && (varies(address(each, at_)) || (in.has("param") && !kernel_param(in))));
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
    if (places_[result.index].writes.size() > 1)
      written_.insert_or_assign({at_, result.index}, known);
    if (definitions_[result.index].size() == 1 && !settled_many_.contains(result.index)) {
      values_[result.index] = std::move(known);
    }
  };
  const Operand& first = in.operands[0];
  for (const Operand& part : first.parts) define(part, std::nullopt);
  if (in.two_predicates) define(in.operands[1], std::nullopt);
  define(first, guarded ? std::nullopt : computed(in));
}

// Registers written in several places: the first value, or one other, plus something that all lanes
// share, if each further one adds only that to one of the two or to the register, and if no branch
// that parts the lanes lets them meet with different ones; else unknown.
std::optional<Form> Forms::merged(std::uint32_t reg, int pass) {
  const auto& all = definitions_[reg];
  const std::string loop = "~" + name(reg), choice = symbols_.choice(name(reg)).text();
  const Form old = values_[reg];
  if (unknown(all[0]) || all[0].has(loop) || all[0].has(choice)) return std::nullopt;
  const Form* other = nullptr;
  bool same = true;
  for (const Form& each : all) {
    const Form added = each.plus(old, -1);
    if (each == all[0] || (other != nullptr && each == *other)) continue;
    const bool further = !varies(each.plus(all[0], -1)) ||
                         (other != nullptr && !varies(each.plus(*other, -1))) ||
                         (!varies(added) && (pass == 0 || !added.has(loop)));
    same = same && !further;
    if (further) continue;
    if (other != nullptr || unknown(each) || each.has(loop) || each.has(choice))
      return std::nullopt;
    other = &each;
  }
  if (!lanes_agree(reg)) return std::nullopt;
  const auto base = other == nullptr ? std::optional(all[0]) : either(all[0], *other, name(reg));
  return !base || same ? base : base->plus(Form(loop));
}

void Forms::settle(int pass) {
  for (std::uint32_t reg = 0; reg < definitions_.size(); ++reg) {
    const auto& all = definitions_[reg];
    if (all.size() < 2) continue;
    const bool one = std::ranges::all_of(all, [&](const Form& each) { return each == all[0]; });
    if (!one) values_[reg] = merged(reg, pass).value_or(opaque(reg, true));
    settled_many_.insert(reg);
  }
}

bool Forms::parts_lanes(const Regions::Branch& branch) const {
  const auto guard = values_.find(branch.guard);
  return guard != values_.end() && varies(guard->second);
}

bool Forms::lanes_agree(std::uint32_t reg) const {
  if (regions_.has_table()) return false;
  return std::ranges::all_of(regions_.branches(), [&](const Regions::Branch& each) {
    return Regions::keeps_apart(each, places_[reg]) || !parts_lanes(each);
  });
}

bool Forms::lanes_agree(std::uint32_t write, std::uint32_t read) const {
  return std::ranges::all_of(regions_.branches(), [&](const Regions::Branch& each) {
    return Regions::keeps_apart(each, write, read) || !parts_lanes(each);
  });
}

}  // namespace microscale::emulator::ptx
