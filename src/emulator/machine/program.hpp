// An entry and every function it calls, decoded: one array of operations, and what a warp needs to
// run them. Read-only once made; shared by all host threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "emulator/ops/handler.hpp"
#include "emulator/ptx/ast.hpp"

namespace microscale::emulator {

/// A register that some wgmma accumulates in or takes A from, or that some tcgen05.ld fills.
struct MatrixRegister {
  std::uint32_t reg = 0;  // index of the warp's written masks
  Slot slot = 0;
  bool accumulates = false;
};
struct MatrixUse {
  std::uint32_t index = 0;  // in Program::matrix_registers
  bool write = false;       // or read and write
};

/// What is asked of an operation when it has something to report, and before it runs when a
/// register may be unwritten.
struct OpInfo {
  std::string_view opcode;  // of the text, which outlives the program
  std::uint32_t line = 0;   // of the PTX
  ptx::SourceLine source;
  std::uint32_t function = 0;                // index in Program::functions
  std::vector<std::uint32_t> reads, writes;  // registers, as indexes of the warp's written masks
  // All that it reads but for late_reads; `reads` keeps those that are not proven written.
  std::vector<std::uint32_t> sources;
  std::uint32_t guard_reads = 0;  // how many of `reads` are the guard: read by all lanes
  std::uint32_t late_reads = 0;   // how many, the last ones, only the handler knows to be reads
  std::vector<MatrixUse> matrix;  // of `reads` and `writes`; those that are written first
  bool own_matrix = false;        // a wgmma.mma_async or tcgen05.ld: `matrix` is what it takes
};

/// A special register's row, filled when a warp starts.
struct SpecialRow {
  ptx::SpecialRegister special;
  std::uint8_t component;
  Slot slot;
};

/// Part of a row of constants.
struct alignas(64) ConstantBytes {
  std::uint8_t bytes[64] = {};
};

struct ProgramFunction {
  std::string name;
  std::uint32_t begin = 0, end = 0;            // of its operations
  std::uint32_t params = 0;                    // of its .param bytes in a lane's call memory
  std::uint32_t first_register = 0;            // of its written masks
  std::vector<std::string> registers;          // names
  std::vector<std::uint32_t> slots;            // of each: a row, or a predicate's index
  std::vector<int> bits;                       // of each: 1 for a predicate
  std::uint32_t call_begin = 0, call_end = 0;  // of all its bytes in a lane's call memory
};

/// The arguments and results of one call: bytes to copy between places of the call memory.
struct CallCopy {
  std::uint32_t from = 0, to = 0, bytes = 0;
};
struct CallSite {
  std::uint32_t target = 0, back = 0;  // operations
  std::vector<CallCopy> arguments, results;
  // Whose registers and parameters the callee may overwrite, because it may come back to it: an
  // index of Program::functions, kept for the time of the call. -1: none.
  std::int32_t keeps = -1;
};
/// A call through a register: the call site for each function that it can reach, by address.
using IndirectCall = std::map<std::uint64_t, std::uint32_t>;

/// Where a module's variable ends up; the launch fills in the addresses of global ones.
struct Program {
  std::string name;
  std::vector<Op> code;
  std::vector<OpInfo> info;  // as many
  std::vector<std::unique_ptr<std::uint32_t[]>> lists;
  std::vector<ProgramFunction> functions;  // the entry first
  std::vector<CallSite> calls;
  std::vector<IndirectCall> indirect_calls;
  std::vector<std::vector<std::uint32_t>> branch_tables;

  std::vector<ConstantBytes> constants;  // rows; the first element is none (Slot says why)
  std::uint32_t row_bytes = 0;           // of a warp's own rows
  std::uint32_t predicate_count = 3, register_count = 0;
  std::uint32_t carry_predicate = 2;  // of add.cc and its like
  std::vector<SpecialRow> specials;
  std::vector<MatrixRegister> matrix_registers;
  std::vector<bool> tracked;  // of each register, whether its written mask is kept from the start

  std::int64_t param_bytes = 0;   // of the entry
  std::int64_t call_bytes = 0;    // of a lane: params of functions and of calls
  std::int64_t shared_bytes = 0;  // static
  bool tensor_memory = false;     // has instructions of tcgen05
  int cta_group = 0;              // of those: 1 or 2; 0: none has one
  bool reserved_shared = false;   // names the shared memory that the system keeps for itself
  std::int64_t local_bytes = 0;   // of a thread, functions included
  ptx::Extent max_threads, required_threads, required_cluster;
  bool explicit_cluster = false;
};

/// Whether it reads what a cooperative launch gives this_grid(): %envreg1 and %envreg2.
bool asks_for_grid(const Program& program);

}  // namespace microscale::emulator
