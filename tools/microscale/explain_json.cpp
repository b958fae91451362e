// The steps of a block as JSON; what is not finite is null.
#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "explain.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

Json byte_json(const FormatInfo& format, std::uint8_t code) {
  return {
      {"byte", code}, {"hex", fmt::format("0x{:02X}", code)}, {"bits", scale_bits(format, code)}};
}

Json scale_json(const BlockSteps& block) {
  Json json = byte_json(block.format, block.scale_code);
  json["value"] = block.scale;
  json["multiplier"] = block.multiplier;
  json["step"] = block.step;
  if (block.exponent) {
    json["exponent"] = {{"of_amax", block.exponent->magnitude.exponent},
                        {"carry", block.exponent->carry},
                        {"emax", block.exponent->emax},
                        {"byte_before_clamping", block.exponent->byte}};
  }
  if (!block.candidates.empty()) {
    Json candidates = Json::array();
    for (const ScaleCandidate& candidate : block.candidates) {
      Json entry = byte_json(block.format, candidate.code);
      entry["value"] = candidate.scale;
      entry["error"] = candidate.error;
      entry["chosen"] = candidate.chosen;
      candidates.push_back(std::move(entry));
    }
    json["candidates"] = std::move(candidates);
  }
  return json;
}

Json element_json(const FormatInfo& format, int index, const ElementSteps& e) {
  return {{"index", index},
          {"value", e.value},
          {"scaled", e.scaled},
          {"below", {{"code", e.below_code}, {"value", e.below}}},
          {"above", {{"code", e.above_code}, {"value", e.above}}},
          {"midpoint", e.midpoint},
          {"code", e.code},
          {"hex", fmt::format("0x{:0{}X}", e.code, format.code_bits / 4)},
          {"bits", e.bits},
          {"restored", e.restored},
          {"error", static_cast<double>(e.restored) - e.value},
          {"note", e.note}};
}

}  // namespace

Json to_json(const BlockSteps& block) {
  const auto bits = std::bit_cast<std::uint32_t>(block.amax);
  Json json = {{"format", block.format.name},
               {"block", block.format.block},
               {"given", block.given},
               {"scale_rule", to_string(block.numerics.scale_rule)},
               {"rounding", to_string(block.numerics.rounding)},
               {"compat", to_string(block.numerics.compat)}};
  json["amax"] = {{"value", block.amax},
                  {"index", block.amax_index},
                  {"fp32", fmt::format("0x{:08X}", bits)},
                  {"exponent_bits", fmt::format("{:08b}", bits >> 23)},
                  {"mantissa_bits", fmt::format("{:023b}", bits & 0x7FFFFFu)}};
  if (block.global) {
    json["global_scale"] = {{"value", block.global->value},
                            {"given", block.global->given},
                            {"block_scale_before_rounding", block.global->quotient},
                            {"nearest", byte_json(block.format, block.global->nearest)}};
  }
  json["scale"] = scale_json(block);
  json["elements"] = Json::array();
  for (std::size_t i = 0; i < block.elements.size(); ++i)
    json["elements"].push_back(element_json(block.format, static_cast<int>(i), block.elements[i]));
  json["bytes"] = block.bytes;
  json["error"] = {{"mse", block.error.squared_error / static_cast<double>(block.error.elements)},
                   {"relative_mse", block.error.relative_mse()},
                   {"sqnr_db", block.error.sqnr_db()},
                   {"max_error", block.error.max_error}};
  return json;
}

}  // namespace microscale
