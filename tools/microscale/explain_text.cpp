// The steps of a block as text, a paragraph a step, for any width from 40 columns on.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "console.hpp"
#include "explain.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

constexpr int text_width = 80;  // where there is no terminal to ask
constexpr std::size_t shown_candidates = 12;

std::string number(double value, int digits = 7) { return fmt::format("{:.{}g}", value, digits); }

/// Indented lines, broken at blanks; what follows a break is indented two more.
class Writer {
 public:
  explicit Writer(Console& console)
      : console_(console), width_(console.out.width > 0 ? std::min(console.out.width, 100) : text_width) {}

  void heading(const std::string& text) {
    console_.print("\n");
    wrapped(text, 0, true);
  }
  void line(const std::string& text) { wrapped(text, 3, false); }
  void raw(const std::string& text) { console_.print(text); }
  /// "label     value", the values under each other, right-aligned.
  void sum(const std::string& label, const std::string& value) {
    line(fmt::format("{:<28}{:>5}", label, value));
  }
  void table(const Table& table) {
    TextStyle style = console_.out;
    if (style.width > 0) style.width = width_;
    console_.print(table.text(style));
  }

 private:
  void wrapped(const std::string& text, int indent, bool bold) {
    std::string rest = text;
    for (int left = indent; !rest.empty(); left = indent + 2) {
      const auto room = static_cast<std::size_t>(std::max(width_ - left, 16));
      std::size_t end = rest.size();
      if (end > room) {
        end = rest.rfind(' ', room);
        if (end == std::string::npos) end = std::min(rest.find(' ', room), rest.size());
      }
      const std::string part = rest.substr(0, end);
      console_.print(std::string(static_cast<std::size_t>(left), ' ') + (bold ? console_.bold(part) : part) + "\n");
      rest.erase(0, end == rest.size() ? end : end + 1);
    }
  }

  Console& console_;
  int width_;
};

std::string with_sign(int value) { return fmt::format("{}{}", value < 0 ? "- " : "+ ", std::abs(value)); }

void write_amax(const BlockSteps& block, Writer& out) {
  out.heading("1. The largest magnitude");
  if (block.amax == 0) return out.line("Every value is zero (or NaN): amax = 0.");
  const auto bits = std::bit_cast<std::uint32_t>(block.amax);
  out.line(fmt::format("amax = |element {}| = {}, in FP32 0x{:08X}:", block.amax_index, number(block.amax), bits));
  out.line(fmt::format("sign 0 | exponent {:08b} | mantissa {:023b}", bits >> 23, bits & 0x7FFFFFu));
  if (block.infinite) return out.line("That is infinity.");
  const Magnitude m = split(block.amax);
  const double significand = 1.0 + m.fraction * 0x1p-23;
  if (bits < 0x800000u)
    out.line(fmt::format("The exponent field is 0, a subnormal: amax = {} x 2^{} once normalised.",
                         number(significand), m.exponent));
  else
    out.line(fmt::format("{} - 127 = {}, so amax = {} x 2^{}.", bits >> 23, m.exponent, number(significand),
                         m.exponent));
}

std::string carry_reason(const ExponentSteps& steps, ScaleRule rule) {
  const std::uint32_t fraction = steps.magnitude.fraction;
  switch (rule) {
    case ScaleRule::ceil:
    case ScaleRule::amax_ceil:
      return fraction ? "the mantissa is not 0, so it rounds up" : "the mantissa is 0: a power of two already";
    case ScaleRule::rceil:
      return fmt::format("mantissa 0x{:06X} is {} 0x{:06X}, that of the largest element", fraction,
                         steps.carry ? "above" : "not above", steps.largest_fraction);
    case ScaleRule::even:
    case ScaleRule::even_down:
    case ScaleRule::even_1bit:
      return fmt::format("mantissa 0x{:06X} + 0x{:06X} = 0x{:06X}, {} 0x800000", fraction, steps.addend,
                         fraction + steps.addend, steps.carry ? "a carry: it reaches" : "no carry: it is below");
    default: return "the mantissa is dropped";
  }
}

void write_candidates(const BlockSteps& block, Writer& out) {
  const bool absolute = block.numerics.scale_rule == ScaleRule::four_over_six_mae;
  Table table({{"  "}, {"byte", Align::right}, {"bits"}, {"scale", Align::right},
               {absolute ? "sum of errors" : "squared error", Align::right}});
  // Of many candidates the best, in the order of their codes.
  std::vector<const ScaleCandidate*> shown;
  for (const ScaleCandidate& candidate : block.candidates) shown.push_back(&candidate);
  if (shown.size() > shown_candidates) {
    std::stable_sort(shown.begin(), shown.end(),
                     [](auto* a, auto* b) { return a->error < b->error; });
    shown.resize(shown_candidates);
    std::sort(shown.begin(), shown.end(), [](auto* a, auto* b) { return a->code < b->code; });
  }
  for (const ScaleCandidate* candidate : shown)
    table.add_row({candidate->chosen ? "->" : "", fmt::format("{} 0x{:02X}", candidate->code, candidate->code),
                   scale_bits(block.format, candidate->code), number(candidate->scale),
                   number(candidate->error, 6)});
  out.line(fmt::format("{} scales tried, each with every element rounded to nearest even{}; the least error "
                       "wins:",
                       block.candidates.size(),
                       shown.size() < block.candidates.size() ? fmt::format(" (the best {} shown)", shown.size())
                                                              : ""));
  out.table(table);
}

// What is the same for both kinds of scale; true if nothing more is to be said.
bool write_special_scale(const BlockSteps& block, Writer& out) {
  const std::string byte = fmt::format("byte {} = 0x{:02X}", block.scale_code, block.scale_code);
  if (block.nan_block)
    out.line("A NaN (or an infinity, where the profile says so) makes the whole block NaN: " + byte + ".");
  else if (block.infinite)
    out.line("An infinity takes the largest scale there is: " + byte + ".");
  else if (block.amax == 0)
    out.line("Nothing to scale: " + byte + ".");
  else
    return false;
  return true;
}

void write_e8m0(const BlockSteps& block, Writer& out) {
  const ScaleRule rule = block.numerics.scale_rule;
  out.heading(fmt::format("2. The scale, by rule {}", to_string(rule)));
  if (write_special_scale(block, out)) return;
  const ExponentSteps& steps = *block.exponent;
  out.sum("exponent of amax", std::to_string(steps.magnitude.exponent));
  out.sum("carry", with_sign(steps.carry));
  if (steps.emax) out.sum("exponent of the largest code", with_sign(-steps.emax));
  out.sum("bias of E8M0", with_sign(127));
  const int clamped = std::clamp(steps.byte, 0, static_cast<int>(e8m0_max));
  out.sum("byte", fmt::format("= {}", steps.byte));
  out.line(fmt::format("Carry {}: {}.", steps.carry, carry_reason(steps, rule)));
  if (clamped != steps.byte) out.line(fmt::format("There are bytes 0 to 254 only: {}.", clamped));
  if (!block.candidates.empty()) {
    write_candidates(block, out);
  } else if (clamped != block.scale_code) {
    out.line(fmt::format("{} comes to another byte: {}.", to_string(block.numerics.compat), block.scale_code));
  }
  out.line(fmt::format("scale byte {} = 0x{:02X} = {:08b}: 2^({} - 127) = 2^{} = {}", block.scale_code,
                       block.scale_code, block.scale_code, block.scale_code, block.scale_code - 127,
                       number(block.scale)));
}

void write_nvfp4(const BlockSteps& block, Writer& out) {
  const GlobalScaleSteps& global = *block.global;
  out.heading("2. The global scale, one for the whole tensor");
  if (global.given)
    out.line(fmt::format("g = {}, as given: value = code x block scale x g.", number(global.value)));
  else
    out.line(fmt::format("g = {} = amax / (6 x 448), as if these values were the whole tensor; --global-scale "
                         "gives a tensor's. value = code x block scale x g.",
                         number(global.value)));
  out.heading(fmt::format("3. The block scale, by rule {}", to_string(block.numerics.scale_rule)));
  if (!write_special_scale(block, out)) {
    out.line(fmt::format("amax / 6 / g = {} x {} = {}", number(block.amax), number(global.factor),
                         number(global.quotient)));
    out.line(fmt::format("nearest E4M3 code {} = 0x{:02X} = {}", global.nearest, global.nearest,
                         scale_bits(block.format, global.nearest)));
    if (!block.candidates.empty()) {
      write_candidates(block, out);
    } else if (global.nearest != block.scale_code) {
      out.line(fmt::format("{} comes to another byte: {}.", to_string(block.numerics.compat), block.scale_code));
    }
  }
  out.line(fmt::format("block scale byte {} = 0x{:02X} = {} = {}; x g = {}", block.scale_code, block.scale_code,
                       scale_bits(block.format, block.scale_code), number(block.scale), number(block.step)));
}

void write_elements(const BlockSteps& block, int section, Writer& out) {
  out.heading(fmt::format("{}. The elements, {} each, rounding {}", section, block.fields,
                          to_string(block.numerics.rounding)));
  if (!block.nan_block)
    out.line(fmt::format("scaled = value x {}; |scaled| lies between two codes, with a midpoint", number(block.multiplier)));
  Table table({{"#", Align::right},
               {"value", Align::right},
               {"scaled", Align::right},
               {"below|mid|above"},
               {"code"},
               {"restored", Align::right},
               {"error", Align::right},
               {"note"}});
  int index = 0;
  for (const ElementSteps& e : block.elements) {
    const std::string between = std::isnan(e.midpoint)
                                    ? number(e.below, 5)
                                    : fmt::format("{}|{}|{}", number(e.below, 5), number(e.midpoint, 5),
                                                  number(e.above, 5));
    const double error = static_cast<double>(e.restored) - e.value;
    table.add_row({std::to_string(index++), number(e.value, 5), block.nan_block ? "" : number(e.scaled, 5),
                   block.nan_block ? "" : between, e.bits, number(e.restored, 5), number(error, 3), e.note});
  }
  out.table(table);
  if (block.given < block.format.block)
    out.line(fmt::format("Elements {} to {}: zero, not given.", block.given, block.format.block - 1));
}

void write_bytes(const BlockSteps& block, int section, Writer& out) {
  out.heading(fmt::format("{}. The bytes{}", section,
                          block.format.code_bits == 4 ? ", two codes in each, the even element in the low half"
                                                      : ", one code in each"));
  if (block.format.code_bits == 4)
    out.line(fmt::format("elements 1 and 0: {:04b} {:04b} = 0x{:02X}", block.bytes[0] >> 4, block.bytes[0] & 15,
                         block.bytes[0]));
  std::string text = "codes";
  for (const std::uint8_t byte : block.bytes) text += fmt::format(" {:02X}", byte);
  out.line(text);
  out.line(fmt::format("scale {:02X}", block.scale_code));
}

}  // namespace

void print_steps(const BlockSteps& block, Console& console) {
  Writer out(console);
  out.raw(console.bold(std::string(block.format.name)) +
          fmt::format(": {} elements of {} bits, one {} scale\n", block.format.block,
                      std::bit_width(with_codec(block.format.element,
                                                [](auto codec) {
                                                  return static_cast<unsigned>(decltype(codec)::code_count - 1);
                                                })),
                      block.format.e8m0_scale ? "E8M0" : "E4M3"));
  if (block.given < block.format.block)
    out.raw(fmt::format("{} given, {} zeros added to fill it\n", block.given, block.format.block - block.given));
  if (block.numerics.compat != Compat::none)
    out.raw(fmt::format("as {} does it\n", to_string(block.numerics.compat)));
  write_amax(block, out);
  int section = 3;
  if (block.format.e8m0_scale) {
    write_e8m0(block, out);
  } else {
    write_nvfp4(block, out);
    section = 4;
  }
  write_elements(block, section, out);
  write_bytes(block, section + 1, out);
  out.heading(fmt::format("{}. What it cost", section + 2));
  const double count = static_cast<double>(block.error.elements);
  out.line(fmt::format("MSE {}, relative MSE {}, SQNR {}, largest error {}",
                       number(block.error.squared_error / count, 4),
                       format_percent(block.error.relative_mse(), 3), format_decibel(block.error.sqnr_db()),
                       number(block.error.max_error, 4)));
}

}  // namespace microscale
