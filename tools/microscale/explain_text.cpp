// The steps of a block as text, a paragraph a step, for any width from 40 columns on.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "console.hpp"
#include "explain.hpp"
#include "formats/compat.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

constexpr int widest_line = 100;
constexpr std::size_t shown_candidates = 12;

std::string number(double value, int digits = 7) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, digits);
}

/// Headings, indented lines and tables, as wide as the terminal; lines no longer than is good to
/// read.
class Writer {
 public:
  explicit Writer(Console& console)
      : console_(console), width_(std::min(console.out.width, widest_line)) {}

  void title(const std::string& text) { console_.print(console_.bold(paragraph(text, width_))); }
  void heading(const std::string& text) {
    console_.print("\n" + console_.bold(paragraph(text, width_)));
  }
  void line(const std::string& text) { console_.print(paragraph(text, width_, 3)); }
  /// "label     value", the values under each other, right-aligned.
  void sum(const std::string& label, const std::string& value) {
    line(fmt::format("{:<28}{:>5}", label, value));
  }
  void table(const Table& table) { console_.print(table.text(console_.out)); }

 private:
  Console& console_;
  int width_;
};

std::string with_sign(int value) {
  return fmt::format("{}{}", value < 0 ? "- " : "+ ", std::abs(value));
}

void write_amax(const BlockSteps& block, Writer& out) {
  out.heading("1. The largest magnitude");
  if (block.amax == 0) return out.line("Every value is zero (or NaN): amax = 0.");
  const auto bits = std::bit_cast<std::uint32_t>(block.amax);
  out.line(fmt::format("amax = |element {}| = {}, in FP32 0x{:08X}:", block.amax_index,
                       number(block.amax), bits));
  out.line(
      fmt::format("sign 0 | exponent {:08b} | mantissa {:023b}", bits >> 23, bits & 0x7FFFFFu));
  if (block.infinite) return out.line("That is infinity.");
  const Magnitude m = split(block.amax);
  const double significand = 1.0 + m.fraction * 0x1p-23;
  if (bits < 0x800000u)
    out.line(fmt::format("The exponent field is 0, a subnormal: amax = {} x 2^{} once normalised.",
                         number(significand), m.exponent));
  else
    out.line(fmt::format("{} - 127 = {}, so amax = {} x 2^{}.", bits >> 23, m.exponent,
                         number(significand), m.exponent));
}

std::string carry_reason(const ExponentSteps& steps, ScaleRule rule) {
  const std::uint32_t fraction = steps.magnitude.fraction;
  switch (rule) {
    case ScaleRule::ceil:
    case ScaleRule::amax_ceil:
      return fraction ? "the mantissa is not 0, so it rounds up"
                      : "the mantissa is 0: a power of two already";
    case ScaleRule::rceil:
      return fmt::format("mantissa 0x{:06X} is {} 0x{:06X}, that of the largest element", fraction,
                         steps.carry ? "above" : "not above", steps.largest_fraction);
    case ScaleRule::even:
    case ScaleRule::even_down:
    case ScaleRule::even_1bit:
      return fmt::format("mantissa 0x{:06X} + 0x{:06X} = 0x{:06X}, {} its 23 bits", fraction,
                         steps.addend, fraction + steps.addend, steps.carry ? "past" : "within");
    default:
      return "the mantissa is dropped";
  }
}

void write_candidates(const BlockSteps& block, Writer& out) {
  const bool absolute = block.numerics.scale_rule == ScaleRule::four_over_six_mae;
  Table table({{"byte", Align::right},
               {"bits"},
               {"scale", Align::right},
               {absolute ? "sum of errors" : "squared error", Align::right},
               {""}});
  // Of many candidates the best, in the order of their codes.
  std::vector<const ScaleCandidate*> shown;
  for (const ScaleCandidate& candidate : block.candidates) shown.push_back(&candidate);
  if (shown.size() > shown_candidates) {
    std::sort(shown.begin(), shown.end(), [](auto* a, auto* b) {
      return a->error != b->error ? a->error < b->error : a->code < b->code;
    });
    shown.resize(shown_candidates);
    std::sort(shown.begin(), shown.end(), [](auto* a, auto* b) { return a->code < b->code; });
  }
  for (const ScaleCandidate* candidate : shown)
    table.add_row({fmt::format("{} 0x{:02X}", candidate->code, candidate->code),
                   scale_bits(block.format, candidate->code), number(candidate->scale),
                   number(candidate->error, 6), candidate->chosen ? "<- chosen" : ""});
  out.line(fmt::format(
      "Scales tried: {}, each with every element rounded to nearest even{}; the least error "
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
    out.line("A NaN (or an infinity, where the profile says so) makes the whole block NaN: " +
             byte + ".");
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
    out.line(fmt::format("{} comes to another byte: {}.", to_string(block.numerics.compat),
                         block.scale_code));
  }
  out.line(fmt::format("scale byte {} = 0x{:02X} = {:08b}: 2^({} - 127) = 2^{} = {}",
                       block.scale_code, block.scale_code, block.scale_code, block.scale_code,
                       block.scale_code - 127, number(block.scale)));
}

void write_nvfp4(const BlockSteps& block, Writer& out) {
  const GlobalScaleSteps& global = *block.global;
  out.heading("2. The global scale, one for the whole tensor");
  const std::string meaning = "value = code x block scale x g.";
  if (global.given) {
    out.line(fmt::format("g = {}, as given: {}", number(global.value), meaning));
  } else if (block.amax == 0) {
    out.line(
        fmt::format("g = {}, for there is nothing to scale: {}", number(global.value), meaning));
  } else {
    out.line(fmt::format("g = {}, from amax / (6 x 448) = {}: {}", number(global.value, 9),
                         number(block.amax / (6.0 * 448.0), 9), meaning));
    if (block.numerics.compat == Compat::none)
      out.line(
          "(It is the first FP32 number from there on that decodes alike whether a file keeps it "
          "or its "
          "reciprocal.)");
    out.line("This takes the values for the whole tensor; --global-scale gives a tensor's own.");
  }
  out.heading(fmt::format("3. The block scale, by rule {}", to_string(block.numerics.scale_rule)));
  if (!write_special_scale(block, out)) {
    out.line(fmt::format("amax / 6 / g = {} x {} = {}", number(block.amax), number(global.factor),
                         number(global.quotient)));
    out.line(fmt::format("nearest E4M3 code {} = 0x{:02X} = {}", global.nearest, global.nearest,
                         scale_bits(block.format, global.nearest)));
    if (!block.candidates.empty()) {
      write_candidates(block, out);
    } else if (global.nearest != block.scale_code) {
      out.line(fmt::format("{} comes to another byte: {}.", to_string(block.numerics.compat),
                           block.scale_code));
    }
  }
  out.line(fmt::format("block scale byte {} = 0x{:02X} = {} = {}; x g = {}", block.scale_code,
                       block.scale_code, scale_bits(block.format, block.scale_code),
                       number(block.scale), number(block.step)));
}

void write_elements(const BlockSteps& block, int section, Writer& out) {
  out.heading(fmt::format("{}. The elements, {} each, rounding {}", section, block.fields,
                          to_string(block.numerics.rounding)));
  if (!block.nan_block && block.format.e8m0_scale)
    out.line(fmt::format("scaled = value / {} (x {}, exactly)", number(block.scale),
                         number(block.multiplier)));
  else if (!block.nan_block)
    out.line(fmt::format("scaled = value x {}, which is 1 / (block scale x g)",
                         number(block.multiplier)));
  Table table({{"#", Align::right},
               {"value", Align::right},
               {"scaled", Align::right},
               {"below|mid|above"},  // the codes around |scaled| and the midpoint between them
               {"code"},
               {"restored", Align::right},
               {"error", Align::right},
               {"note"}});
  if (block.numerics.rounding == Rounding::stochastic && !block.nan_block)
    out.line(
        "Up where the way from below to above plus the random r (of seed and index) reaches 1.");
  // Eight-bit floats have long neighbours; four digits keep the table within 80 columns.
  const int digits = block.code_width == 8 && block.format.element != Element::int8 ? 4 : 5;
  int index = 0;
  for (const ElementSteps& e : block.elements) {
    const std::string between =
        std::isnan(e.midpoint) ? number(e.below, digits)
                               : fmt::format("{}|{}|{}", number(e.below, digits),
                                             number(e.midpoint, digits), number(e.above, digits));
    const double error = static_cast<double>(e.restored) - e.value;
    table.add_row({std::to_string(index++), number(e.value, 5),
                   block.nan_block ? "" : number(e.scaled, 5), block.nan_block ? "" : between,
                   e.bits, number(e.restored, 5), number(error, 3), e.note});
  }
  out.table(table);
  if (block.given < block.format.block)
    out.line(
        fmt::format("Elements {} to {}: zero, not given.", block.given, block.format.block - 1));
}

void write_bytes(const BlockSteps& block, int section, Writer& out) {
  out.heading(fmt::format("{}. The bytes{}", section,
                          block.format.code_bits == 4
                              ? ", two codes in each, the even element in the low half"
                              : ", one code in each"));
  if (block.format.code_bits == 4)
    out.line(fmt::format("elements 1 and 0: {:04b} {:04b} = 0x{:02X}", block.bytes[0] >> 4,
                         block.bytes[0] & 15, block.bytes[0]));
  std::string text = "codes";
  for (const std::uint8_t byte : block.bytes) text += fmt::format(" {:02X}", byte);
  out.line(text);
  out.line(fmt::format("scale {:02X}", block.scale_code));
}

}  // namespace

void print_steps(const BlockSteps& block, Console& console) {
  Writer out(console);
  out.title(fmt::format("{}: {} elements of {} bits, one {} scale", block.format.name,
                        block.format.block, block.code_width,
                        block.format.e8m0_scale ? "E8M0" : "E4M3"));
  if (block.given < block.format.block)
    out.line(fmt::format("{} given, {} zeros added to fill it", block.given,
                         block.format.block - block.given));
  if (const Numerics& n = block.numerics; n.compat != Compat::none)
    out.line(keeps_profile(n, block.format.format)
                 ? fmt::format("as {} does it", to_string(n.compat))
                 : fmt::format("not as {} does it: scale rule {}, rounding {}", to_string(n.compat),
                               to_string(n.scale_rule), to_string(n.rounding)));
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
                       format_percent(block.error.relative_mse(), 3),
                       format_decibel(block.error.sqnr_db()), number(block.error.max_error, 4)));
}

}  // namespace microscale
