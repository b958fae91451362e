// mma.sync: rows of registers to tensor/mma and back, and what it noticed as findings.
#include "emulator/ops/matrix.hpp"

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/tensor/mma.hpp"

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
          "{} of {} has bits set beside its codes: an e2m1 code stands in bits 5-2 of a byte, "
          "a 6-bit code in bits 5-0",
          lane_list(lanes), operand == 'a' ? "A" : "B"));
}

Step report_sign(const Op& op, Warp& warp, char operand, u32 lanes) {
  if (!lanes) return Step::next;
  return warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                     fmt::format("{} gives a ue4m3 scale of {} with bit 7 set", lane_list(lanes),
                                 operand == 'a' ? "A" : "B"));
}

Step report_selector(const Op& op, Warp& warp, char operand, tensor::ScaleSelector select,
                     int scales) {
  return warp.report(
      op, FindingKind::bad_selector, 0,
      fmt::format(
          "the scale selector of {} is byte-id {}, thread-id {}; with {} scales a byte-id is a "
          "multiple of {} up to {}, a thread-id 0 to {}",
          operand == 'a' ? "A" : "B", select.byte, select.thread, scales, scales, 4 - scales,
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

}  // namespace

std::int64_t MatrixInstruction::pack() const {
  const auto field = [](auto value, int at) { return static_cast<std::int64_t>(value) << at; };
  return field(shape.kind, 0) | field(shape.k, 4) | field(shape.a, 12) | field(shape.b, 16) |
         field(shape.c, 20) | field(shape.d, 22) | field(shape.scale, 24) |
         field(shape.scale_vector, 26) | field(shape.saturate, 29) | field(generation, 30);
}

MatrixInstruction MatrixInstruction::unpack(std::int64_t value) {
  const auto field = [value](int at, int bits) {
    return static_cast<int>(value >> at & ((1 << bits) - 1));
  };
  MatrixInstruction out;
  out.shape.kind = static_cast<tensor::Kind>(field(0, 4));
  out.shape.k = field(4, 8);
  out.shape.a = static_cast<tensor::Operand>(field(12, 4));
  out.shape.b = static_cast<tensor::Operand>(field(16, 4));
  out.shape.c = static_cast<tensor::Result>(field(20, 2));
  out.shape.d = static_cast<tensor::Result>(field(22, 2));
  out.shape.scale = static_cast<tensor::ScaleType>(field(24, 2));
  out.shape.scale_vector = field(26, 3);
  out.shape.saturate = field(29, 1) != 0;
  out.generation = static_cast<tensor::Generation>(field(30, 1));
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
  static constexpr HandlerEntry entries[] = {{"mma", multiply}};
  return entries;
}

}  // namespace microscale::emulator
