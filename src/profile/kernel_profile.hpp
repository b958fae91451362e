// What one launch of a kernel did, line by line: the figures behind a terminal table, a JSON
// document and a page. profile/profile_of.hpp fills it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "microscale/emulator.hpp"

namespace microscale {

/// What an instruction is for; names of the mix.
enum class InstructionClass : std::uint8_t {
  integer,
  floating,
  convert,
  compare,
  move,
  load_global,
  store_global,
  load_shared,
  store_shared,
  other_memory,
  atomic,
  copy,
  matrix,
  exchange,
  barrier,
  control
};
std::string_view name_of(InstructionClass which);  ///< "integer", "load global"

struct ProfiledInstruction {
  emulator::InstructionCount count;
  InstructionClass which = InstructionClass::integer;
  bool stores = false;                ///< its requests are stores (atomics too), not loads
  bool implied = false;               ///< not in the text: the return behind a body
  std::string text;                   ///< of the PTX line, without blanks around
  std::string label;                  ///< that stands before it
  std::size_t file = 0;               ///< 1 + index in KernelProfile::files, 0: no .loc
  std::uint32_t line = 0;             ///< in that file
  std::vector<std::string> specials;  ///< "%tid.x"
};

struct SourceFile {
  std::string name;                ///< as the PTX says
  std::vector<std::string> lines;  ///< empty: the file was not found
};

struct NamedBuffer {
  std::string name;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

struct KernelProfile {
  std::string kernel, title;   ///< mangled and readable name
  std::string ptx_name;        ///< of the file
  std::string target, launch;  ///< "sm_90a", "16 x 16 blocks of 1024 threads"
  std::string tool;
  std::vector<SourceFile> files;
  std::vector<ProfiledInstruction> instructions;  ///< in the text's order
  std::vector<NamedBuffer> buffers;
  std::vector<std::pair<std::string, std::string>> resources;  ///< figure, what of; of its cubin
  std::uint32_t watched_block = 0, watched_warp = 0;
  emulator::LaunchReport report;  ///< its instructions are moved into those above
};

/// Sums over the instructions of one source line; of one PTX line where there is no .loc at all.
struct LineSum {
  std::size_t file = 0;
  std::uint32_t line = 0;
  std::string text;
  std::uint64_t instructions = 0;  ///< static
  std::uint64_t warps = 0, lanes = 0;
  std::uint64_t loads = 0, load_sectors = 0, load_ideal = 0;  ///< requests to global memory
  std::uint64_t stores = 0, store_sectors = 0, store_ideal = 0;
  std::uint64_t shared = 0, conflicts = 0;  ///< requests to shared memory
  std::vector<std::string> specials;
};
std::vector<LineSum> by_line(const KernelProfile& profile);  ///< by file and line
LineSum total(const KernelProfile& profile);
/// "transpose.cu:38", "PTX 120".
std::string place_of(const KernelProfile& profile, std::size_t file, std::uint32_t line);

struct ClassSum {
  InstructionClass which;
  std::uint64_t instructions = 0, warps = 0;
};
std::vector<ClassSum> by_class(
    const KernelProfile& profile);  ///< of those there are, most executed first

/// Special registers in use, sorted.
std::vector<std::string> specials_of(const KernelProfile& profile);

/// a / b with one decimal, "" where there is nothing to divide by.
std::string mean_text(std::uint64_t sum, std::uint64_t count);
/// "32.0 / 4.0": sectors a request and the least that would do.
std::string sector_text(std::uint64_t sectors, std::uint64_t ideal, std::uint64_t requests);

/// The whole as one JSON document, without the trace. `indent`: as nlohmann's dump.
std::string to_json(const KernelProfile& profile, int indent);

}  // namespace microscale
