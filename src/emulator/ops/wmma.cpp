// wmma.load, wmma.store and wmma.mma: fragments from and to memory, element by element as
// tensor/wmma says who holds which; products by tensor/wmma and tensor/mma_double.
//   moves: op.a the address, op.value its offset, op.b the stride in elements, op.list registers,
//   op.c the matrix (pack_wmma), op.mode 1 column-major; products: op.list D, A, B, C
#include "emulator/ops/wmma.hpp"

#include <fmt/format.h>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/matrix.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/tensor/mma_double.hpp"

namespace microscale::emulator {
namespace {

using tensor::WmmaMatrix, tensor::WmmaShape;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// What all lanes must agree on: address and stride.
Step check_uniform(const Op& op, Warp& warp, u32 lanes, const u64* address) {
  const u32* stride = warp.row32(op.b);
  const int first = std::countr_zero(lanes);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (address[lane] == address[first] && stride[lane] == stride[first]) continue;
    return warp.report(
        op, FindingKind::misuse, lane,
        fmt::format("{} has address {:#x} and stride {} in lane {}, {:#x} and {} in lane {}; all "
                    "lanes must name the same matrix",
                    warp.program().info[warp.index_of(op)].opcode, address[lane], stride[lane],
                    lane, address[first], stride[first], first),
        true);
  }
  return Step::next;
}

struct Move {
  WmmaShape shape;
  WmmaMatrix matrix;
  bool column_major;
  int bits;   // of an element
  int group;  // elements of a register that lie side by side in memory
  u64 base;
  u64 stride;

  /// Of the element at `item` of each lane's register.
  void addresses(int reg, int item, u64 (&to)[32]) const {
    for (int lane = 0; lane < 32; ++lane) {
      const tensor::Coordinate at = wmma_place(shape, matrix, {lane, reg, item});
      const auto row = static_cast<u64>(at.row), column = static_cast<u64>(at.column);
      const u64 element = column_major ? column * stride + row : row * stride + column;
      to[lane] = base + element * static_cast<u64>(bits) / 8;
    }
  }
};

Move move_of(const Op& op, const Warp& warp, u32 lanes, const u64* address) {
  Move move;
  move.matrix = static_cast<WmmaMatrix>(op.c & 3);
  move.shape = unpack_wmma(op.c);
  move.column_major = op.mode & 1;
  move.bits = wmma_element_bits(move.shape, move.matrix);
  const int first = std::countr_zero(lanes);
  move.base = address[first];
  move.stride = warp.row32(op.b)[first];
  const tensor::Coordinate one = wmma_place(move.shape, move.matrix, {0, 0, 0}),
                           next = wmma_place(move.shape, move.matrix, {0, 0, 1});
  const bool along_row = one.row == next.row;
  move.group = move.bits >= 32 ? 1 : along_row != move.column_major ? 32 / move.bits : 1;
  return move;
}

Step load(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const AccessBits access{op.extra};
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  if (const Step step = check_uniform(op, warp, lanes, address); step != Step::next) return step;
  const Move move = move_of(op, warp, lanes, address);
  const int items = move.bits >= 32 ? 1 : 32 / move.bits;
  const int bytes = std::max(move.bits * move.group / 8, 1);
  bool carries = false;
  for (int reg = 0; reg < op.count; ++reg) {
    u64 value[32] = {};
    UndefinedBytes undefined;
    for (int item = 0; item < items; item += move.group) {
      move.addresses(reg, item, address);
      LaneWords words;
      warp.block().memory().load(
          warp.agent(op), {.lanes = lanes, .bytes = bytes, .address = address}, words, &undefined);
      for (std::size_t lane = 0; lane < 32; ++lane)
        value[lane] |= (bytes == 8 ? u64{words.word[1][lane]} << 32 | words.word[0][lane]
                                   : u64{words.word[0][lane]})
                       << (item * move.bits);
    }
    for (u32 rest = lanes; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (move.bits == 64)
        warp.row64(op.list[reg])[lane] = value[lane];
      else
        warp.row32(op.list[reg])[lane] = static_cast<u32>(value[lane]);
    }
    if (!undefined.lanes) continue;
    warp.became_undefined(op, op.list[reg], lanes & undefined.lanes, undefined);
    carries = true;
  }
  return carries ? warp.carry_on() : Step::next;
}

Step store(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const AccessBits access{op.extra};
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  if (const Step step = check_uniform(op, warp, lanes, address); step != Step::next) return step;
  const Move move = move_of(op, warp, lanes, address);
  const int items = move.bits >= 32 ? 1 : 32 / move.bits;
  const int bytes = move.bits * move.group / 8;
  for (int reg = 0; reg < op.count; ++reg)
    for (int item = 0; item < items; item += move.group) {
      move.addresses(reg, item, address);
      LaneWords words;
      for (std::size_t lane = 0; lane < 32; ++lane) {
        const u64 value = move.bits == 64 ? warp.row64(op.list[reg])[lane]
                                          : warp.row32(op.list[reg])[lane] >> (item * move.bits);
        words.word[0][lane] = static_cast<u32>(value);
        words.word[1][lane] = static_cast<u32>(value >> 32);
      }
      warp.block().memory().store(warp.agent(op),
                                  {.lanes = lanes, .bytes = bytes, .address = address}, words);
    }
  return Step::next;
}

Step multiply(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const WmmaShape shape = unpack_wmma(op.c);
  const auto of_d = static_cast<std::size_t>(wmma_registers(shape, WmmaMatrix::d));
  const auto of_a = static_cast<std::size_t>(wmma_registers(shape, WmmaMatrix::a));
  const auto of_b = static_cast<std::size_t>(wmma_registers(shape, WmmaMatrix::b));
  const auto of_c = static_cast<std::size_t>(wmma_registers(shape, WmmaMatrix::c));
  const u32* slot = op.list + of_d;
  if (shape.a == tensor::Operand::f64) {
    alignas(64) u64 doubles[2][32];
    tensor::MmaDoubles in;
    in.a[0] = warp.row64(slot[0]), in.b[0] = warp.row64(slot[1]);
    in.c[0] = warp.row64(slot[2]), in.c[1] = warp.row64(slot[3]);
    mma_double(wmma_part(shape), in, {doubles[0], doubles[1]});
    for (std::size_t i = 0; i < 2; ++i)
      for (u32 rest = lanes; rest; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        warp.row64(op.list[i])[lane] = doubles[i][lane];
      }
    return Step::next;
  }
  std::array<const u32*, 8> a{}, b{}, c{};
  for (std::size_t i = 0; i < of_a; ++i) a[i] = warp.row32(*slot++);
  for (std::size_t i = 0; i < of_b; ++i) b[i] = warp.row32(*slot++);
  for (std::size_t i = 0; i < of_c; ++i) c[i] = warp.row32(*slot++);
  alignas(64) u32 rows[8][32];
  std::array<u32*, 8> d{};
  for (std::size_t i = 0; i < 8; ++i) d[i] = rows[i];
  wmma(shape, static_cast<tensor::Generation>(op.mode), a, b, c, d);
  for (std::size_t i = 0; i < of_d; ++i) {
    u32* to = warp.row32(op.list[i]);
    for (u32 rest = lanes; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      to[lane] = rows[i][lane];
    }
  }
  return Step::next;
}

}  // namespace

u32 pack_wmma(const WmmaShape& shape, WmmaMatrix matrix) {
  const auto field = [](auto value, int at) { return static_cast<u32>(value) << at; };
  return field(matrix, 0) | field(shape.m / 8, 2) | field(shape.n / 8, 5) | field(shape.k / 4, 8) |
         field(shape.a, 14) | field(shape.b, 18) | field(shape.c, 22) | field(shape.d, 24) |
         field(shape.saturate, 26) | field(shape.ands, 27) | field(shape.rounding, 28);
}

WmmaShape unpack_wmma(u32 value) {
  const auto field = [value](int at, int bits) {
    return static_cast<int>(value >> at & ((1u << bits) - 1));
  };
  WmmaShape shape;
  shape.m = 8 * field(2, 3), shape.n = 8 * field(5, 3), shape.k = 4 * field(8, 6);
  shape.a = static_cast<tensor::Operand>(field(14, 4));
  shape.b = static_cast<tensor::Operand>(field(18, 4));
  shape.c = static_cast<tensor::Result>(field(22, 2));
  shape.d = static_cast<tensor::Result>(field(24, 2));
  shape.saturate = field(26, 1) != 0;
  shape.ands = field(27, 1) != 0;
  shape.rounding = static_cast<tensor::Rounding>(field(28, 2));
  return shape;
}

Family wmma_family() {
  static constexpr HandlerEntry entries[] = {
      {"wmma.load", load}, {"wmma.store", store}, {"wmma.mma", multiply}};
  return entries;
}

}  // namespace microscale::emulator
