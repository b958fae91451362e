// What the machine noticed that hardware would hide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace microscale::emulator {

enum class FindingKind : std::uint8_t {
  uninitialised_register, uninitialised_memory, out_of_bounds, misaligned, race, missing_wait,
  missing_fence, divergent_aligned, bad_selector, padding, deadlock, endless, misuse
};
const char* name_of(FindingKind kind);  // "uninitialised-register"

/// One sentence about one place. Equal places (kind, instruction) are counted, not repeated.
struct Finding {
  FindingKind kind = FindingKind::misuse;
  std::string kernel;
  std::uint32_t block[3] = {}, thread[3] = {};  // of the first occurrence
  std::uint32_t ptx_line = 0;
  std::string source;   // "file.cu:120", empty without .loc
  std::string message;  // "reads register %r7, which lane 5 never wrote"
  std::uint64_t count = 1;
};

/// "uninitialised-register: kernel k, block (0,0,0), thread (5,0,0), PTX line 120 (file.cu:14): reads ..."
std::string to_sentence(const Finding& finding);

/// Where findings go; safe to call from several host threads. After `fatal` the launch ends.
class FindingSink {
 public:
  virtual ~FindingSink() = default;
  virtual void add(Finding finding, bool fatal) = 0;
};

}  // namespace microscale::emulator
