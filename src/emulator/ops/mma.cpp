// mma.sync: rows of registers to tensor/mma and back, and what it noticed as findings.
#include "emulator/ops/matrix.hpp"

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/tensor/mma.hpp"
#include "emulator/tensor/mma_double.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;

/// A selector of scales: row 0's value, which all lanes must share.
Step read_selector(const Op& op, Warp& warp, Slot byte, Slot thread,
                   tensor::ScaleSelector& select) {
  const u32 *bytes = warp.row32(byte), *threads = warp.row32(thread);
  for (int lane = 1; lane < warp_lanes; ++lane)
    if (bytes[lane] != bytes[0] || threads[lane] != threads[0])
      return warp.report(
          op, FindingKind::bad_selector, lane,
          fmt::format("a scale selector is {{{}, {}}} in lane {} and {{{}, {}}} in lane 0",
                      bytes[lane], threads[lane], lane, bytes[0], threads[0]),
          true);
  select = {static_cast<int>(bytes[0] & 0xffff), static_cast<int>(threads[0] & 0xffff)};
  return Step::next;
}

Step report_padding(const Op& op, Warp& warp, char operand, u32 lanes) {
  if (!lanes) return Step::next;
  return warp.report(
      op, FindingKind::padding, std::countr_zero(lanes),
      fmt::format(
          "{} in {} has bits set beside its codes: an e2m1 code stands in bits 5-2 of a byte, "
          "a 6-bit code in bits 5-0",
          operand == 'a' ? "A" : "B", lane_list(lanes)));
}

Step report_sign(const Op& op, Warp& warp, char operand, u32 lanes) {
  if (!lanes) return Step::next;
  return warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                     fmt::format("the ue4m3 scales of {} in {} have bit 7 set",
                                 operand == 'a' ? "A" : "B", lane_list(lanes)));
}

Step report_selector(const Op& op, Warp& warp, char operand, tensor::ScaleSelector select,
                     int scales) {
  return warp.report(op, FindingKind::bad_selector, 0,
                     fmt::format("the scale selector of {} is byte-id {}, thread-id {}; for "
                                 "scale_vec::{}X a byte-id is {}, "
                                 "a thread-id 0 to {}",
                                 operand == 'a' ? "A" : "B", select.byte, select.thread, scales,
                                 scales == 1   ? "0 to 3"
                                 : scales == 2 ? "0 or 2"
                                               : "0",
                                 operand == 'a' ? 1 : 3),
                     true);
}

/// op.list: D, A, B, C, then scale-a, byte, thread, scale-b, byte, thread. op.value: the shape,
/// packed.
Step multiply(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const MatrixInstruction what = MatrixInstruction::unpack(op.value);
  const tensor::MmaShape& shape = what.shape;
  const u32* slot = op.list;
  const auto results = static_cast<std::size_t>(result_registers(shape, shape.d));
  const u32* destination = slot;
  slot += results;
  tensor::MmaOperands in;
  for (std::size_t i = 0; i < static_cast<std::size_t>(a_registers(shape)); ++i)
    in.a[i] = warp.row32(*slot++);
  for (std::size_t i = 0; i < static_cast<std::size_t>(b_registers(shape)); ++i)
    in.b[i] = warp.row32(*slot++);
  for (std::size_t i = 0; i < results; ++i) in.c[i] = warp.row32(*slot++);
  if (shape.scale != tensor::ScaleType::none) {
    in.scale_a = warp.row32(slot[0]);
    in.scale_b = warp.row32(slot[3]);
    Step step = read_selector(op, warp, slot[1], slot[2], in.select_a);
    if (step == Step::next) step = read_selector(op, warp, slot[4], slot[5], in.select_b);
    if (step != Step::next) return step;
  }
  alignas(64) u32 results_of[4][32];
  std::array<u32*, 4> d{results_of[0], results_of[1], results_of[2], results_of[3]};
  const tensor::MmaFindings findings = mma(shape, what.generation, in, d);
  if (findings.any()) {
    if (findings.bad_selector_a)
      return report_selector(op, warp, 'a', in.select_a, shape.scale_vector);
    if (findings.bad_selector_b)
      return report_selector(op, warp, 'b', in.select_b, shape.scale_vector);
    report_padding(op, warp, 'a', findings.padding_a);
    report_padding(op, warp, 'b', findings.padding_b);
    report_sign(op, warp, 'a', findings.scale_sign_a);
    report_sign(op, warp, 'b', findings.scale_sign_b);
  }
  for (std::size_t i = 0; i < results; ++i) {
    u32* to = warp.row32(destination[i]);
    MICROSCALE_LANES for (int lane = 0; lane < 32; ++lane) to[lane] =
        (lanes & lane_bit[lane]) ? results_of[i][lane] : to[lane];
  }
  return Step::next;
}

/// op.list: D, A, B, C, rows of 64 bits.
Step multiply_doubles(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const tensor::MmaShape shape = MatrixInstruction::unpack(op.value).shape;
  const auto results = static_cast<std::size_t>(result_registers(shape, shape.d));
  const u32* slot = op.list + results;
  tensor::MmaDoubles in;
  for (std::size_t i = 0; i < static_cast<std::size_t>(a_registers(shape)); ++i)
    in.a[i] = warp.row64(*slot++);
  for (std::size_t i = 0; i < static_cast<std::size_t>(b_registers(shape)); ++i)
    in.b[i] = warp.row64(*slot++);
  for (std::size_t i = 0; i < results; ++i) in.c[i] = warp.row64(*slot++);
  alignas(64) std::uint64_t results_of[4][32];
  mma_double(shape, in, {results_of[0], results_of[1], results_of[2], results_of[3]});
  for (std::size_t i = 0; i < results; ++i) {
    std::uint64_t* to = warp.row64(op.list[i]);
    for (int lane = 0; lane < 32; ++lane)
      if (lanes & lane_bit[lane]) to[lane] = results_of[i][lane];
  }
  return Step::next;
}

}  // namespace

std::int64_t MatrixInstruction::pack() const {
  const auto field = [](auto value, int at) { return static_cast<std::int64_t>(value) << at; };
  return field(shape.kind, 0) | field(shape.k, 4) | field(shape.a, 13) | field(shape.b, 17) |
         field(shape.c, 21) | field(shape.d, 23) | field(shape.scale, 25) |
         field(shape.scale_vector, 27) | field(shape.saturate, 30) | field(generation, 31) |
         field(shape.m == 8, 32) | field(shape.ands, 33) | field(shape.rounding, 34);
}

MatrixInstruction MatrixInstruction::unpack(std::int64_t value) {
  const auto field = [value](int at, int bits) {
    return static_cast<int>(value >> at & ((1 << bits) - 1));
  };
  MatrixInstruction out;
  out.shape.kind = static_cast<tensor::Kind>(field(0, 4));
  out.shape.k = field(4, 9);
  out.shape.a = static_cast<tensor::Operand>(field(13, 4));
  out.shape.b = static_cast<tensor::Operand>(field(17, 4));
  out.shape.c = static_cast<tensor::Result>(field(21, 2));
  out.shape.d = static_cast<tensor::Result>(field(23, 2));
  out.shape.scale = static_cast<tensor::ScaleType>(field(25, 2));
  out.shape.scale_vector = field(27, 3);
  out.shape.saturate = field(30, 1) != 0;
  out.generation = static_cast<tensor::Generation>(field(31, 1));
  out.shape.m = field(32, 1) ? 8 : 16;
  out.shape.ands = field(33, 1) != 0;
  out.shape.rounding = static_cast<tensor::Rounding>(field(34, 2));
  return out;
}

Step gather_whole_warp(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = warp.gather(op, warp.live(), lanes); step != Step::next) return step;
  const u32 gone = ~warp.live();
  if (!gone) return Step::next;
  return warp.report(op, FindingKind::divergent_aligned, std::countr_zero(lanes),
                     fmt::format("{} needs all 32 lanes; {} have exited or never were",
                                 warp.program().info[warp.index_of(op)].opcode, lane_list(gone)));
}

Family mma_family() {
  static constexpr HandlerEntry entries[] = {{"mma", multiply}, {"mma.f64", multiply_doubles}};
  return entries;
}

}  // namespace microscale::emulator
