#include "emulator/ptx/symbols.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator::ptx {
namespace {

using Kind = Symbols::Kind;

TEST(PtxSymbols, range_gives_registers_at_first_use) {
  std::vector<Register> registers;
  Symbols symbols(registers);
  ASSERT_TRUE(symbols.declare_range("%r", std::uint64_t{1} << 40, Type::b32));
  ASSERT_NE(symbols.find("%r7"), nullptr);
  EXPECT_EQ(symbols.find("%r7")->index, 0u);
  EXPECT_EQ(symbols.find("%r1099511627775")->index, 1u);
  EXPECT_EQ(symbols.find("%r1099511627776"), nullptr);
  EXPECT_EQ(symbols.find("%r07"), nullptr);
  EXPECT_EQ(symbols.find("%r"), nullptr);
  ASSERT_EQ(registers.size(), 2u);
  EXPECT_EQ(registers[0].name, "%r7");
}

TEST(PtxSymbols, prefix_may_end_in_digits) {
  std::vector<Register> registers;
  Symbols symbols(registers);
  symbols.declare_range("%r1", 5, Type::b64);
  ASSERT_NE(symbols.find("%r14"), nullptr);
  EXPECT_EQ(registers[0].type, Type::b64);
  EXPECT_EQ(symbols.find("%r15"), nullptr);
}

TEST(PtxSymbols, inner_names_hide_outer_ones_until_the_scope_closes) {
  std::vector<Register> registers(2);
  Symbols symbols(registers);
  symbols.declare("x", Kind::reg, 0);
  symbols.open();
  EXPECT_EQ(symbols.find("x")->index, 0u);
  EXPECT_TRUE(symbols.declare("x", Kind::variable, 1));
  EXPECT_FALSE(symbols.declare("x", Kind::reg, 1));
  EXPECT_EQ(symbols.find("x")->kind, Kind::variable);
  symbols.close();
  EXPECT_EQ(symbols.find("x")->index, 0u);
  EXPECT_EQ(symbols.find("x")->kind, Kind::reg);
}

TEST(PtxSymbols, inner_range_hides_outer_register) {
  std::vector<Register> registers;
  Symbols symbols(registers);
  symbols.declare_range("t", 4, Type::b32);
  const auto outer = symbols.find("t1")->index;
  symbols.open();
  symbols.declare_range("t", 2, Type::f32);
  const auto inner = symbols.find("t1")->index;
  EXPECT_NE(inner, outer);
  EXPECT_EQ(registers[inner].type, Type::f32);
  EXPECT_EQ(registers[symbols.find("t3")->index].type, Type::b32);  // not in the inner range
  symbols.close();
  EXPECT_EQ(symbols.find("t1")->index, outer);
}

TEST(PtxSymbols, first_use_in_an_inner_scope_belongs_to_the_ranges_scope) {
  std::vector<Register> registers;
  Symbols symbols(registers);
  symbols.open();
  symbols.declare_range("t", 4, Type::b32);
  symbols.open();
  symbols.declare("y", Kind::reg, 9);
  const auto first = symbols.find("t2")->index;
  symbols.close();
  EXPECT_EQ(symbols.find("y"), nullptr);
  EXPECT_EQ(symbols.find("t2")->index, first);
  symbols.close();
  EXPECT_EQ(symbols.find("t2"), nullptr);
}

}  // namespace
}  // namespace microscale::emulator::ptx
