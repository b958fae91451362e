#include "emulator/ptx/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "emulator/ptx/listing_forms.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

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

using Offsets = std::vector<std::int64_t>;  // bytes above the lowest address

// Lanes whose addresses differ by numbers, beside the symbols that these share, in order.
std::vector<Offsets> runs_of(const LaneForm& address) {
  std::map<std::map<Form::Product, std::int64_t>, Offsets> runs;
  for (int lane = 0; lane < 32; ++lane) {
    const Form form = address.of_lane(lane);
    auto symbols = form.terms();
    symbols.erase(Form::Product());
    runs[symbols].push_back(address.constant_part()[static_cast<std::size_t>(lane)]);
  }
  std::vector<Offsets> result;
  for (auto& [symbols, offsets] : runs) {
    const std::int64_t lowest = *std::ranges::min_element(offsets);
    for (std::int64_t& each : offsets) each -= lowest;
    result.push_back(std::move(offsets));
  }
  return result;
}

// Distinct sectors of 32 bytes when the lowest address is a sector's first, and the fewest that
// hold as many distinct bytes.
struct Sectors {
  std::size_t touched = 0, bytes = 0;
  std::size_t least() const { return (bytes + 31) / 32; }
};

Sectors sectors(const std::vector<Offsets>& runs, std::int64_t bytes) {
  Sectors sum;
  for (const Offsets& run : runs) {
    std::set<std::int64_t> touched, moved;
    for (const std::int64_t offset : run)
      for (std::int64_t byte = 0; byte < bytes; ++byte) {
        moved.insert(offset + byte);
        touched.insert((offset + byte) >> 5);
      }
    sum.touched += touched.size();
    sum.bytes += moved.size();
  }
  return sum;
}

// The most distinct 4-byte words that one of the 32 banks must give in one of the warp's phases.
std::size_t bank_ways(const Offsets& offsets, std::int64_t bytes) {
  const std::size_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  std::size_t ways = 0;
  for (std::size_t first = 0; first < offsets.size(); first += lanes) {
    std::array<std::set<std::int64_t>, 32> banks;
    for (std::size_t lane = first; lane < first + lanes; ++lane) {
      for (std::int64_t byte = 0; byte < bytes; byte += std::min<std::int64_t>(bytes, 4)) {
        const std::int64_t word = (offsets[lane] + byte) >> 2;
        banks[static_cast<std::size_t>(word & 31)].insert(word);
      }
    }
    for (const auto& each : banks) ways = std::max(ways, each.size());
  }
  return ways;
}

// "4": from each lane to the next; "4 (28 of 31), 100 (3 of 31)": of 31 steps, the usual ones
// first.
std::string stride_of(const LaneForm& address) {
  constexpr std::size_t most = 4;
  struct Step {
    Form bytes;
    int first, count;
  };
  std::vector<Step> steps;
  for (int lane = 0; lane < 31; ++lane) {
    const Form step = address.of_lane(lane + 1).plus(address.of_lane(lane), -1);
    const auto known = std::ranges::find(steps, step, &Step::bytes);
    if (known == steps.end())
      steps.push_back({step, lane, 1});
    else
      ++known->count;
  }
  if (steps.size() == 1) return steps[0].bytes.text();
  std::ranges::sort(steps, [](const Step& a, const Step& b) {
    return a.count != b.count ? a.count > b.count : a.first < b.first;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, steps.size()); ++i)
    text +=
        fmt::format("{}{} ({} of 31)", i == 0 ? "" : ", ", steps[i].bytes.text(), steps[i].count);
  return steps.size() > most ? text + ", .." : text;
}

std::string verdict_of(const Instruction& in, const LaneForm& address, const std::string& stride) {
  const std::int64_t bytes = access_bytes(in);
  const bool shared = in.has("shared") || in.has("shared::cta") || in.has("shared::cluster");
  if (!address.varies()) return "one address for all lanes";
  const std::vector<Offsets> runs = runs_of(address);
  if (shared && in.opcode != "cp") {
    if (runs.size() > 1 || bytes <= 0) return "bank conflicts depend on the stride";
    const std::size_t ways = bank_ways(runs[0], bytes);
    return ways <= 1 ? "no bank conflict" : fmt::format("{}-way bank conflict", ways);
  }
  if (bytes <= 0) return "cannot tell: how many bytes a lane moves is not in the listing";
  const Sectors found = sectors(runs, bytes);
  const bool least = found.touched <= found.least();
  if (runs.size() == 32 && !least)
    return fmt::format("not coalesced, unless {} is {}", stride, bytes);
  const std::string apart =
      runs.size() > 1 ? fmt::format(" in {} runs", runs.size()) : std::string();
  return least ? fmt::format("coalesced: {} sectors of 32 bytes{}, the least", found.touched, apart)
               : fmt::format("not coalesced: {} sectors of 32 bytes{}, {} would do", found.touched,
                             apart, found.least());
}

/// Whether a symbol of an address stands for memory: a parameter, which is taken as a pointer to
/// the beginning of an allocation, or a variable.
bool is_pointer(const LaneForm::Product& product) {
  return product.size() == 1 && (product[0].starts_with('[') || product[0].starts_with('&'));
}

/// What is said behind the verdict where a lane's address is no multiple of what it moves although
/// the pointer is one; nothing where that depends on a number that is not known.
std::string misalignment(const Instruction& in, const LaneForm& address) {
  const std::int64_t bytes = access_bytes(in);
  if (bytes <= 1 || (bytes & (bytes - 1)) != 0) return "";
  for (const auto& [product, coefficients] : address.terms())
    if (!product.empty() && !is_pointer(product) &&
        std::ranges::any_of(coefficients, [&](std::int64_t each) { return each % bytes != 0; }))
      return "";
  const LaneForm::Lanes offsets = address.constant_part();
  const auto off =
      std::ranges::find_if(offsets, [&](std::int64_t each) { return each % bytes != 0; });
  if (off == offsets.end()) return "";
  return fmt::format(
      "; misaligned: lane {} is {} bytes off a multiple of {}, if the pointer is one",
      off - offsets.begin(), (*off % bytes + bytes) % bytes, bytes);
}

struct Judgement {
  std::string stride, verdict;
};

Judgement judged(const Instruction& in, const LaneForm& lanes) {
  // Known for one warp only: products of %tid.x, which differ from warp to warp.
  const bool by_warp = std::ranges::any_of(lanes.terms(), [](const auto& term) {
    return std::ranges::find(term.first, "%warp") != term.first.end() &&
           std::ranges::adjacent_find(term.second, std::not_equal_to()) != term.second.end();
  });
  if (by_warp) return {"?", "cannot tell: not the same in every warp"};
  const std::string stride = stride_of(lanes);
  return {stride, verdict_of(in, lanes, stride) + misalignment(in, lanes)};
}

// The different ones, "A; or B"; of more than a few the rest is dots.
std::string alternatives(const std::vector<std::string>& texts) {
  constexpr std::size_t most = 3;
  std::vector<std::string> different;
  for (const std::string& each : texts)
    if (std::ranges::find(different, each) == different.end()) different.push_back(each);
  const bool more = different.size() > most;
  if (more) different.resize(most);
  return fmt::format("{}{}", fmt::join(different, "; or "), more ? "; or .." : "");
}

void judge(const Instruction& in, const Forms& forms, const Form& address, Note& note) {
  constexpr std::size_t most_choices = 4;
  note.address = address.text();
  const LaneForm lanes = forms.lanes(address);
  note.stride = "?";
  note.verdict = "cannot tell: the lanes differ by data, or by a number of the launch";
  if (Forms::unknown(address) || lanes.unknown()) return;
  const std::vector<std::string> choices = choices_in(lanes);
  if (choices.size() > most_choices) return;
  std::vector<std::string> strides, verdicts;
  for (unsigned picked = 0; picked < 1u << choices.size(); ++picked) {
    LaneForm one = lanes;
    for (std::size_t i = 0; i < choices.size(); ++i)
      one = chosen(one, choices[i], static_cast<int>(picked >> i & 1));
    Judgement now = judged(in, one);
    strides.push_back(std::move(now.stride));
    verdicts.push_back(std::move(now.verdict));
  }
  note.stride = alternatives(strides);
  note.verdict = alternatives(verdicts);
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

std::vector<Note> explain(const Module& module, const Function& body, const Extent& block) {
  const Forms forms(module, body, block);
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
    if (address != nullptr)
      judge(in, forms, forms.address(*address, static_cast<std::uint32_t>(notes.size() - 1)), note);
  }
  return notes;
}

}  // namespace microscale::emulator::ptx
