// ldmatrix and stmatrix: rows of 16 bytes at addresses that lanes supply, spread by
// tensor/ldmatrix. movmatrix, which transposes in registers.
#include "emulator/tensor/ldmatrix.hpp"

#include <algorithm>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/matrix.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// The addresses, and which lanes' count. False after a report that one is no multiple of 16.
bool row_addresses(const Op& op, Warp& warp, u32 lanes, const tensor::MatrixMove& move,
                   u64 (&address)[32], u32& supplying) {
  const AccessBits access{op.extra};
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  const int count = address_lanes(move);
  supplying = lanes & (count == 32 ? ~0u : (1u << count) - 1);
  for (u32 rest = supplying; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (address[lane] % 16 == 0) continue;
    warp.report(op, FindingKind::misaligned, lane, "names a row whose address is no multiple of 16",
                true);
    return false;
  }
  return true;
}

/// `bytes` from `first` on of every row.
void load_part(const Op& op, Warp& warp, u32 lanes, const u64 (&address)[32], std::size_t first,
               int bytes, tensor::MatrixRows& rows, UndefinedBytes& undefined) {
  u64 at[32];
  for (std::size_t lane = 0; lane < 32; ++lane) at[lane] = address[lane] + first;
  LaneWords words;
  warp.block().memory().load(warp.agent(op), {.lanes = lanes, .bytes = bytes, .address = at}, words,
                             &undefined);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    for (std::size_t byte = 0; byte < static_cast<std::size_t>(bytes); ++byte)
      rows[lane][first + byte] =
          static_cast<std::uint8_t>(words.word[byte / 4][lane] >> (8 * (byte % 4)));
  }
}

/// op.list: destinations; op.a, op.value, op.extra: the address; op.mode: the move.
Step load_matrix(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const tensor::MatrixMove move = unpack_move(op.mode);
  u64 address[32];
  u32 supplying = 0;
  if (!row_addresses(op, warp, lanes, move, address, supplying)) return Step::stop;
  tensor::MatrixRows rows{};
  const bool packed4 = move.format == tensor::RowFormat::b4x16_p64,
             packed6 = move.format == tensor::RowFormat::b6x16_p32;
  UndefinedBytes undefined;
  load_part(op, warp, supplying, address, 0, packed4 || packed6 ? 8 : 16, rows,
            undefined);  // padding is not read
  if (packed6) load_part(op, warp, supplying, address, 8, 4, rows, undefined);
  alignas(64) u32 loaded[4][32];
  u32* const d[4] = {loaded[0], loaded[1], loaded[2], loaded[3]};
  ldmatrix(move, rows, d);
  for (int reg = 0; reg < op.count; ++reg) {
    u32* to = warp.row32(op.list[reg]);
    MICROSCALE_LANES for (int lane = 0; lane < 32; ++lane) to[lane] =
        (lanes & lane_bit[lane]) ? loaded[reg][lane] : to[lane];
  }
  if (!undefined.lanes) [[likely]]
    return Step::next;
  // Which lanes get a row is the move's affair: the registers of a matrix are undefined as a whole.
  const int registers = registers_of(move) / move.count,
            rows_each = address_lanes(move) / move.count;
  for (int reg = 0; reg < op.count; ++reg) {
    const int first = reg / registers * rows_each;
    const u32 of_matrix = (rows_each == 32 ? ~0u : (1u << rows_each) - 1) << first;
    if (undefined.lanes & of_matrix) warp.became_undefined(op, op.list[reg], lanes, undefined);
  }
  return warp.carry_on();
}

Step store_matrix(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const tensor::MatrixMove move = unpack_move(op.mode);
  u64 address[32];
  u32 supplying = 0;
  if (!row_addresses(op, warp, lanes, move, address, supplying)) return Step::stop;
  const u32* registers[4] = {};
  for (int reg = 0; reg < op.count; ++reg) registers[reg] = warp.row32(op.list[reg]);
  tensor::MatrixRows rows{};
  stmatrix(move, registers, rows);
  LaneWords words{};
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t byte = 0; byte < 16; ++byte)
      words.word[byte / 4][lane] |= static_cast<u32>(rows[lane][byte]) << (8 * (byte % 4));
  warp.block().memory().store(warp.agent(op), {.lanes = supplying, .bytes = 16, .address = address},
                              words);
  return Step::next;
}

/// op.list: the destination, the source: eight rows of eight 16-bit elements, row r in lanes 4 r to
/// 4 r + 3.
Step transpose_matrix(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const u32* const from = warp.row32(op.list[1]);
  u32 moved[32];
  for (int lane = 0; lane < 32; ++lane) {
    const int column = lane / 4, row = 2 * (lane % 4), shift = 16 * (column % 2);
    moved[lane] = (from[4 * row + column / 2] >> shift & 0xFFFF) |
                  (from[4 * (row + 1) + column / 2] >> shift & 0xFFFF) << 16;
  }
  std::copy_n(moved, 32, warp.row32(op.list[0]));
  return Step::next;
}

}  // namespace

Family ldmatrix_family() {
  static constexpr HandlerEntry entries[] = {
      {"ldmatrix", load_matrix}, {"stmatrix", store_matrix}, {"movmatrix", transpose_matrix}};
  return entries;
}

}  // namespace microscale::emulator
