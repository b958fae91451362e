#include "emulator/ptx/targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/lexer.hpp"
#include "emulator/ptx/targets_table.hpp"

namespace microscale::emulator::ptx {
namespace {

// Takes the next word of a list; empty at its end.
std::string_view next_word(std::string_view& list) {
  const std::size_t start = list.find_first_not_of(' ');
  if (start == std::string_view::npos) return list = {};
  const std::size_t end = std::min(list.find(' ', start), list.size());
  const std::string_view word = list.substr(start, end - start);
  list.remove_prefix(end);
  return word;
}

bool matches(std::string_view modifier, std::string_view word) {
  if (!word.ends_with('*')) return modifier == word;
  return modifier.starts_with(word.substr(0, word.size() - 1));
}

struct Known {
  std::vector<std::string_view> modifiers;
  std::vector<const Rule*> rules;
};

std::unordered_map<std::string_view, Known> make_known() {
  std::unordered_map<std::string_view, Known> known;
  for (const Spelling& spelling : target_spellings()) {
    Known& opcode = known[spelling.opcode];
    std::string_view list = spelling.modifiers;
    for (std::string_view word = next_word(list); !word.empty(); word = next_word(list)) {
      std::string_view group = word.starts_with('$') ? target_group(word) : word;
      for (std::string_view each = next_word(group); !each.empty(); each = next_word(group)) {
        opcode.modifiers.push_back(each);
      }
    }
  }
  for (const Rule& rule : target_rules()) known[rule.opcode].rules.push_back(&rule);
  return known;
}

bool names_cluster(const Instruction& instruction) {
  return std::ranges::any_of(instruction.operands, [](const Operand& each) {
    return each.kind == Operand::Kind::special && each.special >= SpecialRegister::clusterid &&
           each.special <= SpecialRegister::is_explicit_cluster;
  });
}

bool holds(const Rule& rule, const Instruction& instruction) {
  auto from = instruction.modifiers.begin();
  const auto end = instruction.modifiers.end();
  std::string_view list = rule.when;
  for (std::string_view word = next_word(list); !word.empty(); word = next_word(list)) {
    if (word == "%cluster") {
      if (!names_cluster(instruction)) return false;
    } else if (word[0] == '#') {
      if (instruction.operands.size() != static_cast<std::size_t>(word[1] - '0')) return false;
    } else if (word[0] == '-') {
      const auto has = [&](std::string_view each) { return matches(each, word.substr(1)); };
      if (std::ranges::any_of(instruction.modifiers, has)) return false;
    } else {
      from = std::find_if(from, end, [&](std::string_view each) { return matches(each, word); });
      if (from == end) return false;
      ++from;
    }
  }
  return true;
}

bool has(const Target& target, Needs needs) {
  const int number = target.number;
  const bool a = target.suffix == 'a', specific = target.suffix != 0;
  const bool datacenter = number >= 100 && number < 120;
  switch (needs) {
    case Needs::any:
      return true;
    case Needs::sm80:
      return number >= 80;
    case Needs::sm86:
      return number >= 86;
    case Needs::sm89:
      return number >= 89;
    case Needs::sm90:
      return number >= 90;
    case Needs::sm100:
      return number >= 100;
    case Needs::hopper_specific:
      return number == 90 && a;
    case Needs::specific:
      return specific;
    case Needs::blackwell_specific:
      return number >= 100 && specific;
    case Needs::datacenter:
      return datacenter && specific;
    case Needs::datacenter_a:
      return datacenter && a;
    case Needs::sm100_sm103:
      return (number == 100 || number == 103) && specific;
    case Needs::sm100a_sm103a:
      return (number == 100 || number == 103) && a;
    case Needs::sm100a_sm110a:
      return (number == 100 || number == 110) && a;
    case Needs::rtx:
      return number >= 120 && specific;
    case Needs::none:
      return false;
  }
  return false;
}

std::string_view text_of(Needs needs) {
  switch (needs) {
    case Needs::any:
      return "any target";
    case Needs::sm80:
      return "sm_80 or later";
    case Needs::sm86:
      return "sm_86 or later";
    case Needs::sm89:
      return "sm_89 or later";
    case Needs::sm90:
      return "sm_90 or later";
    case Needs::sm100:
      return "sm_100 or later";
    case Needs::hopper_specific:
      return "sm_90a";
    case Needs::specific:
      return "sm_90a, or sm_100a or sm_100f or a later one with a or f";
    case Needs::blackwell_specific:
      return "sm_100a or sm_100f or a later one with a or f";
    case Needs::datacenter:
      return "sm_100a, sm_100f, sm_103a, sm_103f, sm_110a or sm_110f";
    case Needs::datacenter_a:
      return "sm_100a, sm_103a or sm_110a";
    case Needs::sm100_sm103:
      return "sm_100a, sm_100f, sm_103a or sm_103f";
    case Needs::sm100a_sm103a:
      return "sm_100a or sm_103a";
    case Needs::sm100a_sm110a:
      return "sm_100a or sm_110a";
    case Needs::rtx:
      return "sm_120a or sm_120f (or sm_121a, sm_121f)";
    case Needs::none:
      return "more than any target has";
  }
  return {};
}

std::string spelled(const Instruction& instruction) {
  std::string text(instruction.opcode);
  for (const std::string_view each : instruction.modifiers) (text += '.') += each;
  if (text.size() > 160) (text.resize(160), text += "...");
  return text;
}

Failure refuse(const Instruction& instruction, const std::string& why) {
  return {ErrorCode::unsupported,
          fmt::format("PTX line {}: {} {}", instruction.line, spelled(instruction), why)};
}

constexpr std::array target_numbers = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

// Without a suffix, or with 'a' (one architecture) or 'f' (its family).
bool has_suffix(int number, char suffix) {
  return suffix == 0 || (suffix == 'a' && number >= 90) || (suffix == 'f' && number >= 100);
}

}  // namespace

std::string target_names() {
  std::string names;
  for (const int number : target_numbers)
    for (const char suffix : {char{0}, 'a', 'f'})
      if (has_suffix(number, suffix))
        names += (names.empty() ? "" : ", ") + name_of({number, suffix});
  return names;
}

std::optional<Target> target_of(std::string_view word) {
  if (!word.starts_with("sm_")) return std::nullopt;
  word.remove_prefix(3);
  Target target;
  while (!word.empty() && word[0] >= '0' && word[0] <= '9' && target.number < 1000) {
    target.number = target.number * 10 + (word[0] - '0');
    word.remove_prefix(1);
  }
  if (word.size() > 1 || std::ranges::find(target_numbers, target.number) == target_numbers.end())
    return std::nullopt;
  if (!word.empty()) target.suffix = word[0];
  return has_suffix(target.number, target.suffix) ? std::optional(target) : std::nullopt;
}

std::string name_of(const Target& target) {
  std::string name = "sm_" + std::to_string(target.number);
  if (target.suffix != 0) name += target.suffix;
  return name;
}

Status check(const Instruction& instruction, const Target& target, Version version) {
  static const auto known = make_known();
  const auto found = known.find(instruction.opcode);
  if (found == known.end())
    return refuse(instruction, "is no instruction of PTX 9.0 that is known here");
  for (const std::string_view modifier : instruction.modifiers) {
    const auto takes = [&](std::string_view each) { return matches(modifier, each); };
    if (std::ranges::none_of(found->second.modifiers, takes)) {
      return refuse(instruction,
                    fmt::format("carries {}, which {} cannot", quoted('.' + std::string(modifier)),
                                instruction.opcode));
    }
  }
  for (const Rule* rule : found->second.rules) {
    if (!holds(*rule, instruction)) continue;
    if (rule->needs == Needs::none)
      return refuse(instruction, "is a combination that no target has");
    if (!has(target, rule->needs)) {
      return refuse(instruction, fmt::format("needs {}; this module is for {}",
                                             text_of(rule->needs), name_of(target)));
    }
    if (version < Version{rule->major, rule->minor}) {
      return refuse(instruction,
                    fmt::format("needs PTX {}.{}; this module is PTX {}.{}", rule->major,
                                rule->minor, version.major, version.minor));
    }
  }
  return success();
}

Status check_all(const Function& body, const Target& target, Version version) {
  for (const Instruction& instruction : body.code) {
    Status status = check(instruction, target, version);
    if (!status) return status;
  }
  return success();
}

}  // namespace microscale::emulator::ptx
