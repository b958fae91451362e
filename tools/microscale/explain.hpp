// One block on its way from numbers to bytes, as data: what `explain` shows as text or JSON. All of
// it is had from the library's own codecs and scale rules.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "formats/e8m0.hpp"
#include "report/error_metrics.hpp"

namespace microscale {

/// A scale that was tried. Errors are the sums the choice was made by, in units of the input.
struct ScaleCandidate {
  std::uint8_t code = 0;
  double scale = 0;  ///< the code's value
  double error = 0;  ///< sum of squared (four_over_six_mae: absolute) errors of the block
  bool chosen = false;
};

/// How an E8M0 byte follows from amax: exponent + carry - emax + 127, clamped.
struct ExponentSteps {
  Magnitude magnitude;                 ///< amax = 1.fraction * 2^exponent
  int carry = 0;                       ///< what the rule adds to the exponent
  int emax = 0;                        ///< what it subtracts; 0 for the amax_ rules
  std::uint32_t largest_fraction = 0;  ///< fraction bits of the element's largest value
  std::uint32_t addend = 0;            ///< what the `even` rules add to the fraction; 0: none
  int byte = 0;                        ///< before clamping
};

struct GlobalScaleSteps {
  float value = 1;           ///< the decode multiplier g
  bool given = false;        ///< by --global-scale
  float factor = 0;          ///< 1 / (6 g), rounded twice
  float quotient = 0;        ///< amax * factor: what is rounded to E4M3
  std::uint8_t nearest = 0;  ///< the E4M3 code nearest to it
};

struct ElementSteps {
  float value = 0;
  float scaled = 0;  ///< value * multiplier
  float below = 0;   ///< neighbouring magnitudes, equal if it is one or lies beyond the largest
  float above = 0;
  std::uint8_t below_code = 0;
  std::uint8_t above_code = 0;
  float midpoint = 0;  ///< between the two; NaN if they are equal
  std::uint8_t code = 0;
  std::string bits;    ///< of the code: "0 11 1"
  float restored = 0;  ///< decoded code * step
  std::string note;    ///< "tie: to even", "saturates", ...; may be empty
};

struct BlockSteps {
  FormatInfo format;
  Numerics numerics;
  int code_width = 0;  ///< bits of a code that mean something: 4, 6 or 8
  std::string fields;  ///< how a code's bits are named: "S EE M"
  int given = 0;       ///< values given; the rest of the block is zero
  float amax = 0;
  int amax_index = -1;                     ///< of the first element that has it; -1: all zero
  bool nan_block = false;                  ///< made NaN as a whole
  bool infinite = false;                   ///< has an infinity; the scale is the largest there is
  std::optional<ExponentSteps> exponent;   ///< E8M0 formats, finite amax above 0
  std::optional<GlobalScaleSteps> global;  ///< NVFP4
  std::vector<ScaleCandidate> candidates;  ///< empty where the rule does not search
  std::uint8_t scale_code = 0;
  float scale = 0;                     ///< the code's value
  float multiplier = 0;                ///< what elements are multiplied by
  float step = 0;                      ///< what codes are multiplied by
  std::vector<ElementSteps> elements;  ///< the given ones
  std::vector<std::uint8_t> bytes;     ///< packed codes of the whole block
  ErrorSums error;                     ///< over the given ones
};

BlockSteps block_steps(const ExplainCommand& command);

/// Bits of `code`, its fields apart: "0 11 1".
std::string code_bits(Element element, std::uint8_t code);
/// An E8M0 or E4M3 scale byte: "10000011", "0 1111 110".
std::string scale_bits(const FormatInfo& format, std::uint8_t code);

/// The block under one rule and rounding, or in a reference codec.
struct Alternative {
  std::string rule;  ///< of the scale
  std::string rounding;
  std::string scale;  ///< "131 0x83", or a number for a reference codec
  std::string codes;  ///< one hexadecimal number an element, of the given ones
  ErrorSums error;
  bool best = false;       ///< no other alternative has less error
  bool reference = false;  ///< not the format asked for: E3M0 or NF4 with an FP32 scale
};

std::vector<Alternative> alternatives(const ExplainCommand& command);

class Console;
void print_steps(const BlockSteps& steps, Console& console);
void print_alternatives(const ExplainCommand& command, const std::vector<Alternative>& alternatives,
                        Console& console);
nlohmann::ordered_json to_json(const BlockSteps& steps);
nlohmann::ordered_json to_json(const ExplainCommand& command,
                               const std::vector<Alternative>& alternatives);

}  // namespace microscale
