// PTX as the parser gives it: names resolved to indexes, every modifier kept as written, nothing
// decided about what an instruction does. Decoding (machine/decode) comes after.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace microscale::emulator::ptx {

enum class Space : std::uint8_t { generic, global, shared, local, constant, param };

/// A fundamental type: what stands after `.reg`, in a `.param`, or as an instruction's suffix.
enum class Type : std::uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  u16x2,
  s16x2
};
int bits_of(Type type);  // 1 for pred

/// Where a line of PTX came from, by its `.loc`; file 0 when there is none. Inlined code names the
/// innermost place, and the outermost call that it was inlined at.
struct SourceLine {
  std::uint16_t file = 0;  // index in Module::files, 1-based
  std::uint16_t outer_file = 0;
  std::uint32_t line = 0, outer_line = 0;
};

/// A register of a function. Two of the same name in different `{ }` scopes are two registers.
struct Register {
  std::string_view name;
  Type type = Type::b32;  // its width counts; nvcc declares floats as .b32
};

/// A variable with an address: `.global`, `.const`, `.shared`, `.local`, or a `.param`.
/// 64 bits of an initialiser that are where something is.
struct InitialAddress {
  std::int64_t at = 0;     // byte of the initialiser
  std::string_view name;   // of a variable or a function
  std::int64_t plus = 0;   // bytes behind it
  bool generic = false;    // in the generic address space, else in its own
  std::uint32_t line = 0;  // of the text
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  std::int64_t bytes = 0;  // of all elements; 0: `.extern .shared x[]`, dynamic
  std::int64_t align = 1;  // a power of two
  // In the function's params (inner .param variables come after its own and its results'), or in
  // its block's shared or thread's local memory. Not set for module variables: see
  // shared_layout.hpp.
  std::int64_t offset = 0;
  bool external = false;
  std::vector<std::uint8_t> initial;  // the first bytes, at most `bytes`; those after them are zero
  std::vector<InitialAddress> addresses;  // in it, where its bytes are zero
};

/// Those up to cluster_nctaid have components.
enum class SpecialRegister : std::uint8_t {
  tid,
  ntid,
  ctaid,
  nctaid,
  clusterid,
  nclusterid,
  cluster_ctaid,
  cluster_nctaid,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock64,
  globaltimer,
  dynamic_smem_size,
  total_smem_size,
  clock_hi,
  globaltimer_lo,
  globaltimer_hi,
  envreg1,
  envreg2,
  reserved_smem_offset_begin,
  reserved_smem_offset_end,
  reserved_smem_offset_cap,
  reserved_smem_offset_0,
  reserved_smem_offset_1,
  aggr_smem_size
};

/// What a variable operand refers to.
enum class Scope : std::uint8_t { module, function };

struct Operand {
  enum class Kind : std::uint8_t {
    reg,       // index: Function::registers
    integer,   // value
    real32,    // value: the 32 bits of a 0f... (or a decimal used as such)
    real64,    // value: the 64 bits of a 0d...
    special,   // special, component 0..2
    variable,  // index: the address of Module::variables or Function::variables (scope), plus value
    label,     // index: the instruction it stands before; Function::code.size() for the end
    function,  // index: Module::functions
    address,   // [base + value]: base is a register, a variable, or none; parts: coordinates of
               // a tensor, [map, {x, y}]
    vector,    // parts; for brx.idx the labels of its .branchtargets
    sink,      // `_`
  };
  Kind kind = Kind::sink;
  bool negated = false;    // `!p`
  Kind base = Kind::sink;  // of an address: reg, variable or sink (absolute)
  Scope scope = Scope::function;
  SpecialRegister special = SpecialRegister::tid;
  std::uint8_t component = 0;
  std::uint32_t index = 0;
  std::int64_t value = 0;  // an unsigned 64-bit literal is kept as its bits
  std::vector<Operand> parts;
};

struct Guard {
  bool present = false;
  bool negated = false;
  std::uint32_t reg = 0;
};

struct Instruction {
  std::string_view opcode;  // "mma", "cvt", "ld"
  std::vector<std::string_view>
      modifiers;  // "sync", "aligned", "m16n8k64", ...: `::` stays inside one
  Guard guard;
  // In the order written. `p|q` is two operands and sets `two_predicates`. A call's operands are
  // the vector of results, the function, the vector of arguments, each of the kind `variable` and
  // of the size of the function's; either vector may be empty. The function of an indirect call is
  // a register of 64 bits.
  std::vector<Operand> operands;
  bool two_predicates = false;
  std::uint32_t line = 0;  // of the PTX text, from 1
  SourceLine source;

  bool has(std::string_view modifier) const {
    for (std::string_view each : modifiers)
      if (each == modifier) return true;
    return false;
  }
};

struct Extent {
  std::int64_t x = 0, y = 0, z = 0;  // 0: not given
};

/// An entry or a `.func`. Bodies are parsed on demand (Module::body).
struct Function {
  std::string_view name;
  bool entry = false, visible = false, has_body = false;
  std::uint32_t line = 0;
  std::vector<Variable> params;   // space param; offsets as the ABI lays them out
  std::vector<Variable> results;  // of a .func
  Extent max_threads, required_threads, required_cluster;
  bool explicit_cluster = false;
  std::int64_t min_blocks = 0, max_registers = 0;

  bool parsed = false;              // what follows is there
  std::vector<Register> registers;  // those that the code names, in the order of first use
  std::vector<Variable> variables;  // params first, then results, then the body's as they come
  std::vector<Instruction> code;
  std::vector<std::pair<std::string_view, std::uint32_t>> labels;  // name, instruction
  std::int64_t shared_bytes = 0, local_bytes = 0, param_bytes = 0;
};

}  // namespace microscale::emulator::ptx
