#include "sass/counts.hpp"

#include <algorithm>
#include <initializer_list>

namespace microscale::sass {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool starts_with_one_of(std::string_view word, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view b) { return word.substr(0, b.size()) == b; });
}

bool is_min_max(std::string_view base) {
  return base.find("MNMX") != std::string_view::npos;  // FMNMX, VIMNMX3, HMNMX2, VIADDMNMX, ...
}

}  // namespace

Class class_of(std::string_view opcode) {
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  if (starts_with_one_of(base, {"HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA",
                                "QGMMA", "BGMMA", "UTC", "LDT", "STT"}))
    return Class::matrix;
  if (starts_with_one_of(
          base, {"LDG", "STG", "ATOMG", "RED", "UBLKCP", "UTMA", "UBLKRED", "LDE", "STE"}) &&
      !is_one_of(base, {"LDGDEPBAR", "REDUX"}))
    return Class::global;
  if (starts_with_one_of(base, {"LDS", "STS", "ATOMS"})) return Class::shared;
  if (is_one_of(base, {"LDL", "STL"})) return Class::local;
  if (is_one_of(base, {"SHFL", "VOTE", "VOTEU", "REDUX", "CREDUX", "MATCH"})) return Class::shuffle;
  if (is_one_of(base, {"BRA", "BRX", "BRXU", "JMP", "JMX", "EXIT", "CALL", "RET", "BSSY", "BSYNC",
                       "BREAK", "WARPSYNC", "YIELD", "KILL", "ENDCOLLECTIVE", "BMOV", "NANOSLEEP"}))
    return Class::branch;
  if (is_one_of(base, {"BAR", "DEPBAR", "LDGDEPBAR", "MEMBAR", "SYNCS", "ARRIVES", "FENCE",
                       "ERRBAR", "UCGABAR_ARV", "UCGABAR_WAIT"}))
    return Class::barrier;
  if (base == "LDC" || base == "R2UR" || base == "S2UR" || (base.size() > 1 && base[0] == 'U') ||
      base == "LDCU")
    return Class::uniform;
  if (starts_with_one_of(base, {"F2", "I2F", "FRND"})) return Class::conversion;
  if (is_one_of(base, {"S2R", "CS2R", "NOP", "PMTRIG", "CCTL", "CCTLL", "CCTLT", "R2B", "B2R"}))
    return Class::other;
  if (base == "HADD2" || base == "HFMA2" || base == "HMUL2" || base == "HMNMX2" ||
      base == "HSETP2" || base == "HSET2" || base == "VHMNMX")
    return Class::half;
  if (base[0] == 'F' && base != "FLO") return Class::fp32;
  if (base == "MUFU") return Class::fp32;
  if (starts_with_one_of(
          base, {"I", "V", "LOP", "SHF", "SHL", "SHR", "LEA", "PRMT", "SEL", "MOV", "PLOP", "P2R",
                 "R2P", "POPC", "FLO", "BREV", "SGXT", "BMSK", "LOP3"}))
    return Class::integer;
  return Class::other;
}

int access_bytes(std::string_view opcode) {
  if (has_modifier(opcode, "U8") || has_modifier(opcode, "S8")) return 1;
  if (has_modifier(opcode, "U16") || has_modifier(opcode, "S16")) return 2;
  if (has_modifier(opcode, "64")) return 8;
  if (has_modifier(opcode, "128")) return 16;
  return has_modifier(opcode, "ENL2") || has_modifier(opcode, "256") ? 32 : 4;
}

Counts count(const Function& function) {
  Counts counts;
  for (const Instruction& i : function.code) {
    const std::string_view base = i.base();
    if (base == "NOP") continue;
    const Class which = class_of(i.opcode);
    ++counts.instructions;
    ++counts.by_class[static_cast<std::size_t>(which)];
    counts.calls += base == "CALL";
    if (access_bytes(i.opcode) == 1) {
      counts.byte_global += which == Class::global;
      counts.byte_shared += which == Class::shared;
    }
    counts.compares += base.find("SETP") != std::string_view::npos;
    counts.selects += base == "SEL" || base == "FSEL" || base == "USEL";
    counts.min_max += is_min_max(base);
    counts.local_loads += base == "LDL";
    counts.local_stores += base == "STL";
    if (base == "F2FP" && !has_modifier(i.opcode, "UNPACK_B")) {
      counts.fp4_conversions += has_modifier(i.opcode, "E2M1");
      counts.fp8_conversions += has_modifier(i.opcode, "E4M3") || has_modifier(i.opcode, "E5M2");
    }
  }
  return counts;
}

}  // namespace microscale::sass
