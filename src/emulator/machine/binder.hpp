// Binds one instruction of the text to an Op: operands to slots, modifiers ticked off one by one.
// The families' decoders (machine/decode_*.cpp) ask it for what an instruction should have; the
// first thing that is not so becomes the sentence of the refusal.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/decode.hpp"
#include "emulator/ptx/shared_layout.hpp"

namespace microscale::emulator {

/// A function while its code is decoded.
struct FunctionState {
  const ptx::Function* text = nullptr;
  std::size_t index = 0;                 // in Module::functions
  std::uint32_t number = 0;              // in Program::functions
  std::vector<std::uint32_t> registers;  // slot of each, or predicate index
  std::vector<std::int64_t>
      call_offset;  // of each .param variable in call memory, -1: the entry's own
  std::int64_t shared_base = 0, local_base = 0;
  bool entry = false;
};

/// Rows and constants of the program, while it grows.
class Rows {
 public:
  explicit Rows(Program& program);
  Slot own(int bits);  // a new row of the warp's
  std::uint32_t predicate() { return program_.predicate_count++; }
  Slot constant32(std::uint32_t value);
  Slot constant64(std::uint64_t value);
  Slot special(ptx::SpecialRegister special, int component);
  Slot scratch() const { return scratch_; }  // written, never read
  const std::uint32_t* list(const std::vector<std::uint32_t>& slots);

 private:
  template <class T>
  Slot constant(T value);

  Program& program_;
  Slot scratch_;
  std::map<std::uint32_t, Slot> constants32_;
  std::map<std::uint64_t, Slot> constants64_;
  std::map<std::pair<int, int>, Slot> specials_;
};

class Binder {
 public:
  Binder(const ptx::Module& module, const ptx::SharedLayout& shared,
         const VariableAddresses& addresses, Program& program, Rows& rows,
         const FunctionState& function, const ptx::Instruction& in);

  const ptx::Instruction& in;
  Op op;
  OpInfo info;

  // Modifiers: each must be taken by somebody.
  bool take(std::string_view modifier);
  /// The first of the words that is there, or "".
  std::string_view take_one_of(std::initializer_list<std::string_view> words);
  /// Takes the next modifier, in the order written, that is a fundamental type.
  bool take_type(ptx::Type& type);
  /// Takes the first that no caller has taken; "" if there is none.
  std::string_view take_next();

  // Operands by position; each knows the type the instruction sees.
  std::size_t count() const { return in.operands.size(); }
  const ptx::Operand& operand(std::size_t position);
  Slot source(std::size_t position, ptx::Type type) { return source(operand(position), type); }
  Slot source(const ptx::Operand& operand, ptx::Type type, bool wider = false);
  Slot destination(std::size_t position, ptx::Type type) {
    return destination(operand(position), type);
  }
  Slot destination(const ptx::Operand& operand, ptx::Type type, bool wider = false);
  /// position: bit in Op::negate.
  std::uint32_t predicate(const ptx::Operand& operand, int position);
  std::uint32_t predicate_destination(const ptx::Operand& operand);  // 0 for a sink
  bool is_predicate(const ptx::Operand& operand) const;
  /// Bits of the row that holds an operand: 64 for a 64-bit register, 32 for others; immediates as
  /// `type`.
  int row_bits(const ptx::Operand& operand, ptx::Type type) const;
  bool immediate(const ptx::Operand& operand, std::int64_t& value) const;

  /// The address of a variable in its own space (generic for global).
  bool variable_address(const ptx::Operand& operand, std::int64_t& address, ptx::Space& space);
  const ptx::Variable& variable(const ptx::Operand& operand) const;

  /// Sets the handler; refuses when there is none of that key.
  void use(const std::string& key);
  void lists(const std::vector<std::uint32_t>& slots);
  void refuse(const std::string& what);
  bool refused() const { return !problem_.empty(); }
  /// The sentence: what was refused before, or a modifier that no handler took.
  std::string finish();

  Program& program() { return program_; }
  Rows& rows() { return rows_; }
  const FunctionState& function() const { return function_; }
  const ptx::Module& module() const { return module_; }

 private:
  std::uint32_t bind_register(const ptx::Operand& operand, ptx::Type type, bool wider, bool writes);

  const ptx::Module& module_;
  const ptx::SharedLayout& shared_;
  const VariableAddresses& addresses_;
  Program& program_;
  Rows& rows_;
  const FunctionState& function_;
  std::uint64_t taken_ = 0;
  std::string problem_;
};

/// The families: each answers whether the opcode is one of its own, and binds it if so.
bool decode_integer(Binder& binder);
bool decode_float(Binder& binder);
bool decode_bits(Binder& binder);
bool decode_compare(Binder& binder);
bool decode_convert(Binder& binder);
bool decode_move(Binder& binder);
bool decode_memory(Binder& binder);
bool decode_atomic(Binder& binder);
bool decode_async(Binder& binder);
bool decode_mbarrier(Binder& binder);
bool decode_control(Binder& binder);
bool decode_warp(Binder& binder);
bool decode_matrix(Binder& binder);
bool decode_wgmma(Binder& binder);
bool decode_tcgen05(Binder& binder);

// Words the decoders share.
bool is_float(ptx::Type type);
bool is_signed(ptx::Type type);
bool is_pair(ptx::Type type);          // of 16-bit values
std::string width_of(ptx::Type type);  // "16", "32", "64", "16x2"

}  // namespace microscale::emulator
