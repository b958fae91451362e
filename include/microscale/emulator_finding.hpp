// What the machine that runs PTX notices (microscale/emulator.hpp), one sentence about one place.
#pragma once

#include <cstdint>
#include <string>

namespace microscale::emulator {

enum class FindingKind : std::uint8_t {
  uninitialised_register,
  uninitialised_memory,
  out_of_bounds,
  misaligned,
  absent_block,
  race,
  missing_wait,
  missing_fence,
  divergent_aligned,
  bad_selector,
  padding,
  deadlock,
  endless,
  misuse,
  assertion
};
const char* name_of(FindingKind kind);  ///< "uninitialised-register"

/// One sentence about one place. Equal places (kind, instruction) are counted, not repeated.
struct Finding {
  FindingKind kind = FindingKind::misuse;
  std::string kernel;
  std::uint32_t block[3] = {}, thread[3] = {};  ///< of the first occurrence
  std::uint32_t ptx_line = 0;
  std::string source;      ///< "file.cu:120", empty without .loc
  std::string inlined_at;  ///< "file.cu:14": of code from a header, the outermost call; else empty
  std::string message;     ///< "reads register %r7, which lane 5 never wrote"
  std::uint64_t address = 0;  ///< generic, of the memory it is about; 0: none
  std::string access;         ///< there: "reads", "writes" or "updates"; else empty
  std::string object;         ///< what is there: "x + 1000", "tile + 4"; empty: no name is known
  std::uint64_t count = 1;
};

/// "uninitialised-register: kernel k, block (0,0,0), thread (5,0,0), PTX line 120 (file.cu:14):
/// reads ..."
std::string to_sentence(const Finding& finding);
/// What it is in CUDA's words, and what mends it: one sentence each.
std::string cuda_words(const Finding& finding);
std::string cure_of(const Finding& finding);

}  // namespace microscale::emulator
