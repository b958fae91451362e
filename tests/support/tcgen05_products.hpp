// Products by tcgen05 for tests: matrices placed in an image of shared memory by formulas of their
// own, one small kernel that multiplies them, and an FP64 sum that knows neither.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator/run_ptx.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {

/// One product of A (m rows) and B (n rows), `steps` instructions of 32 bytes of K each.
struct Tcgen05Case {
  std::string kind = "f16";  // of .kind::
  std::string scales = "";   // ".block_scale.block16", ...; "" without
  tensor::Operand a = tensor::Operand::f16, b = tensor::Operand::f16;
  int m = 128, n = 64, steps = 1;
  int scale_vector = 0;  // scales of a row in one step
  bool ue4m3 = false;
  int swizzle = 0;  // bytes of its row: 0, 32, 64, 128
  bool a_in_tensor = false;
  bool mn_major_b = false;  // of elements of 8 or 16 bits, without swizzle or with 128 bytes

  bool packed() const { return kind.starts_with("mxf4"); }
  bool small() const { return kind.ends_with("f8f6f4"); }
  int k() const { return packed() ? 64 : kind == "f16" ? 16 : kind == "tf32" ? 8 : 32; }
  int row_bytes() const { return 32 * steps; }

  std::uint32_t format(tensor::Operand type) const {
    using tensor::Operand;
    if (packed()) return 1;
    if (type == Operand::tf32) return 2;
    if (type == Operand::bf16) return 1;
    if (type == Operand::f16 || type == Operand::e4m3) return 0;
    return type == Operand::e5m2 ? 1 : type == Operand::e2m3 ? 3 : type == Operand::e3m2 ? 4 : 5;
  }
  std::uint32_t descriptor(int scale_id_a = 0, int scale_id_b = 0) const {
    const auto u = [](int value) { return static_cast<std::uint32_t>(value); };
    std::uint32_t bits = format(a) << 7 | format(b) << 10 | u(n / 8) << 17;
    if (mn_major_b) bits |= 1u << 16;
    if (scales.empty()) return bits | 1u << 4 | u(m / 16) << 24;
    return bits | u(scale_id_b) << 4 | (ue4m3 ? 0u : 1u << 23) | u(m / 128) << 27 |
           u(scale_id_a) << 29;
  }
};

/// The value of a code of a type, from the formats' own decoders.
inline double value_of(tensor::Operand type, std::uint32_t code) {
  using tensor::Operand;
  const auto byte = static_cast<std::uint8_t>(code);
  switch (type) {
    case Operand::f16:
      return f16_to_float(static_cast<std::uint16_t>(code));
    case Operand::bf16: {
      const std::uint32_t word = code << 16;
      return std::bit_cast<float>(word);
    }
    case Operand::tf32:
      return std::bit_cast<float>(code & ~0x1FFFu);
    case Operand::e4m3:
      return E4M3::decode(byte);
    case Operand::e5m2:
      return E5M2::decode(byte);
    case Operand::e2m3:
      return E2M3::decode(byte);
    case Operand::e3m2:
      return E3M2::decode(byte);
    default:
      return E2M1::decode(byte);
  }
}
inline double scale_value(bool ue4m3, std::uint8_t code) {
  return ue4m3 ? static_cast<double>(E4M3::decode(code)) : std::ldexp(1.0, code - 127);
}

/// Codes of a matrix, row by row, and its scales, `scale_vector` for each step.
struct Tcgen05Matrix {
  std::vector<std::uint32_t> codes;  // [row][steps * k]
  std::vector<std::uint8_t> scales;  // [row][steps * scale_vector]
};

class Tcgen05Operands {
 public:
  Tcgen05Operands(const Tcgen05Case& what, std::uint64_t seed) : what(what), a(what.m), b(what.n) {
    Bits bits(seed);
    fill(bits, what.a, what.m, a_);
    fill(bits, what.b, what.n, b_);
  }

  /// Sum over K in FP64, and the sum of magnitudes beside it.
  double sum(int row, int column, double& magnitude) const {
    const int ks = what.k() * what.steps, per = what.scale_vector * what.steps;
    double total = 0;
    magnitude = 0;
    for (int k = 0; k < ks; ++k) {
      double term = value_of(what.a, a_.codes[at(row, k, ks)]) *
                    value_of(what.b, b_.codes[at(column, k, ks)]);
      if (per > 0) {
        const int group = k / (ks / per);
        term *= scale_value(what.ue4m3, a_.scales[at(row, group, per)]) *
                scale_value(what.ue4m3, b_.scales[at(column, group, per)]);
      }
      total += term;
      magnitude += std::abs(term);
    }
    return total;
  }

  static constexpr std::uint32_t header = 64;  // bytes before the image in the buffer
  static constexpr std::uint32_t a_at = 0, b_at = 16384, sfa_at = 32768, sfb_at = 36864,
                                 image_bytes = 45056;

  /// The image of shared memory: A, B, and for each step 512 bytes of A's scales and 512 for every
  /// 128 columns of B's, as 32 rows of 16 bytes.
  std::vector<std::uint8_t> image() const {
    std::vector<std::uint8_t> bytes(image_bytes);
    place(a_, what.a, what.m, bytes.data() + a_at);
    if (what.mn_major_b)
      place_across(b_, what.n, bytes.data() + b_at);
    else
      place(b_, what.b, what.n, bytes.data() + b_at);
    place_scales(a_, what.m, bytes.data() + sfa_at);
    place_scales(b_, what.n, bytes.data() + sfb_at);
    return bytes;
  }

  /// Of B, MN-major: elements of a chunk of 16 bytes are neighbours in N. Eight K are a core (or an
  /// atom of 1024 bytes of the swizzle); those along K follow each other, then those along N.
  std::uint64_t across_descriptor(std::uint32_t start, int step) const {
    const auto groups = static_cast<std::uint64_t>(what.k() * what.steps / 8);
    const std::uint64_t core = what.swizzle ? 1024 : 128;
    start += static_cast<std::uint32_t>(static_cast<std::uint64_t>(step * what.k() / 8) * core);
    const std::uint64_t along_k = core, along_n = core * groups;
    const std::uint64_t leading = what.swizzle ? along_n : along_k;
    const std::uint64_t stride = what.swizzle ? along_k : along_n;
    return (start >> 4) | leading / 16 << 16 | stride / 16 << 32 | std::uint64_t{1} << 46 |
           (what.swizzle ? std::uint64_t{2} << 61 : 0);
  }
  void place_across(const Tcgen05Matrix& matrix, int rows, std::uint8_t* to) const {
    const int ks = what.k() * what.steps, bytes = what.k() == 16 ? 2 : 1, per = 16 / bytes;
    const int core = what.swizzle ? 1024 : 128, width = what.swizzle ? 8 : 1;  // chunks along N
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < ks; ++k) {
        const int chunk = row / per, turn = what.swizzle ? k % 8 : 0;
        const int at_byte = chunk / width * core * (ks / 8) + k / 8 * core + k % 8 * 16 * width +
                            ((chunk % width) ^ turn) * 16 + row % per * bytes;
        std::memcpy(to + at_byte, &matrix.codes[at(row, k, ks)], static_cast<std::size_t>(bytes));
      }
  }

  /// Of the matrix at byte `start`, advanced by `step` instructions.
  std::uint64_t matrix_descriptor(std::uint32_t start, int rows, int step) const {
    const std::uint32_t row_bytes = static_cast<std::uint32_t>(what.row_bytes());
    std::uint64_t leading = 0, stride = 0, mode = 0;
    if (what.swizzle == 0) {
      leading = 16 * static_cast<std::uint64_t>(rows), stride = 128;
      start += static_cast<std::uint32_t>(step) * 2 * static_cast<std::uint32_t>(leading);
    } else {
      EXPECT_EQ(row_bytes, static_cast<std::uint32_t>(what.swizzle));
      leading = 16, stride = 8 * row_bytes;
      mode = what.swizzle == 128 ? 2 : what.swizzle == 64 ? 4 : 6;
      start += static_cast<std::uint32_t>(step) * 32;
    }
    return (start >> 4) | leading / 16 << 16 | stride / 16 << 32 | std::uint64_t{1} << 46 |
           mode << 61;
  }

  const Tcgen05Case what;
  const int a, b;  // rows
  Tcgen05Matrix a_, b_;

 private:
  static std::size_t at(int row, int column, int columns) {
    return static_cast<std::size_t>(row * columns + column);
  }

  void fill(Bits& bits, tensor::Operand type, int rows, Tcgen05Matrix& matrix) const {
    using tensor::Operand;
    for (int i = 0; i < rows * what.k() * what.steps; ++i) {
      std::uint32_t code = bits.next();
      if (type == Operand::f16)
        code = (code & 0x83FF) | (10 + code % 11) << 10;
      else if (type == Operand::bf16)
        code = (code & 0x807F) | (120 + code % 15) << 7;
      else if (type == Operand::tf32)
        code = (code & 0x807FE000u) | (120 + code % 15) << 23;
      else if (type == Operand::e4m3)
        code = (code & 0x7F) == 0x7F ? 0 : code & 0xFF;
      else if (type == Operand::e5m2)
        code = (code & 0x7C) == 0x7C ? 0 : code & 0xFF;
      else
        code &= type == Operand::e2m1 ? 0xF : 0x3F;
      matrix.codes.push_back(code);
    }
    for (int i = 0; i < rows * what.scale_vector * what.steps; ++i)
      matrix.scales.push_back(
          static_cast<std::uint8_t>(what.ue4m3 ? 0x20 + bits.below(0x40) : 120 + bits.below(16)));
  }

  /// The bytes of 16 along K as shared memory has them.
  void put_bytes(const Tcgen05Matrix& matrix, tensor::Operand type, int row, int chunk,
                 std::uint8_t* to) const {
    const int ks = what.k() * what.steps;
    const int per = what.packed()                             ? 32
                    : what.small() || what.kind == "mxf8f6f4" ? 16
                    : type == tensor::Operand::tf32           ? 4
                                                              : 8;
    for (int i = 0; i < per; ++i) {
      const std::uint32_t code = matrix.codes[at(row, chunk * per + i, ks)];
      const int bits = per == 4                                                         ? 32
                       : per == 8                                                       ? 16
                       : type == tensor::Operand::e2m1                                  ? 4
                       : type == tensor::Operand::e2m3 || type == tensor::Operand::e3m2 ? 6
                                                                                        : 8;
      for (int bit = 0; bit < bits; ++bit)
        if (code >> bit & 1)
          to[(i * bits + bit) / 8] |= static_cast<std::uint8_t>(1 << (i * bits + bit) % 8);
    }
  }

  void place(const Tcgen05Matrix& matrix, tensor::Operand type, int rows, std::uint8_t* to) const {
    for (int row = 0; row < rows; ++row)
      for (int chunk = 0; chunk < what.row_bytes() / 16; ++chunk) {
        int offset = chunk * 16 * rows + row * 16;  // eight rows of 16 bytes, one after the other
        if (what.swizzle) {
          const int turn = what.swizzle == 128  ? row % 8
                           : what.swizzle == 64 ? row % 8 / 2
                                                : row % 8 / 4;
          offset = row * what.swizzle + (chunk ^ turn) * 16;
        }
        put_bytes(matrix, type, row, chunk, to + offset);
      }
  }

  /// Step s, row r: in the block of 128 rows, line r % 32, word r % 128 / 32; the step's first byte
  /// is that of scale id 0.
  void place_scales(const Tcgen05Matrix& matrix, int rows, std::uint8_t* to) const {
    const int blocks = (rows + 127) / 128, per = what.scale_vector;
    for (int step = 0; per > 0 && step < what.steps; ++step)
      for (int row = 0; row < rows; ++row)
        for (int i = 0; i < per; ++i)
          to[512 * (step * blocks + row / 128) + row % 32 * 16 + row % 128 / 32 * 4 + i] =
              matrix.scales[at(row, step * per + i, per * what.steps)];
  }
};

/// The kernel of the operands: all threads bring the image to shared memory, thread 0 copies scales
/// and multiplies, warp w loads lanes 32 w to 32 w + 31 of D and stores them, row by row, behind
/// the image. `change` may alter the text.
inline std::string tcgen05_kernel(const Tcgen05Operands& operands) {
  const Tcgen05Case& what = operands.what;
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n"
      ".shared .align 1024 .b8 image[" +
      std::to_string(Tcgen05Operands::image_bytes) +
      "];\n"
      ".shared .align 8 .b64 full;\n.shared .align 4 .b32 base;\n"
      ".visible .entry k(.param .u64 p)\n{\n" +
      emulator::testing::registers +
      ".reg .b32 %d<128>;\n"
      "ld.param.u64 %rd0, [p];\nmov.u32 %r0, %tid.x;\nmov.u32 %r9, image;\nmov.u32 %r1, %r0;\n"
      "copy:\nsetp.ge.u32 %p1, %r1, " +
      std::to_string(Tcgen05Operands::image_bytes / 4) +
      ";\n"
      "@%p1 bra copied;\nmul.wide.u32 %rd1, %r1, 4;\nadd.s64 %rd1, %rd0, %rd1;\n"
      "ld.global.u32 %r2, [%rd1+" +
      std::to_string(Tcgen05Operands::header) +
      "];\n"
      "shl.b32 %r3, %r1, 2;\nadd.u32 %r3, %r9, %r3;\nst.shared.u32 [%r3], %r2;\n"
      "add.u32 %r1, %r1, 128;\nbra copy;\ncopied:\n"
      "setp.ne.u32 %p2, %r0, 0;\n@!%p2 mbarrier.init.shared::cta.b64 [full], 1;\n"
      "fence.proxy.async.shared::cta;  // the image\n"
      "shr.u32 %r4, %r0, 5;\nsetp.ne.u32 %p3, %r4, 0;\n@%p3 bra allocated;\n"
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 512;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nallocated:\n"
      "tcgen05.fence::before_thread_sync;\nbar.sync 0;  // the image is whole\n"
      "tcgen05.fence::after_thread_sync;\nld.shared.u32 %r10, [base];\n"
      "add.u32 %r11, %r10, 256;\nadd.u32 %r12, %r10, 384;\nadd.u32 %r13, %r10, 448;\n";
  // The address of a descriptor's start is that of the image in shared memory, which is the first
  // variable: 0.
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  if (what.a_in_tensor) {  // A's rows through registers of the thread that has the lane
    text += "shl.b32 %r5, %r4, 21;\nadd.u32 %r6, %r13, %r5;\n";
    for (int step = 0; step < what.steps; ++step) {
      std::string list;
      for (int i = 0; i < 8; ++i) {
        const int chunk = 2 * step + i / 4;
        text += "shl.b32 %r7, %r0, 4;\nadd.u32 %r7, %r9, %r7;\nld.shared.u32 %d" +
                std::to_string(i) + ", [%r7+" +
                std::to_string(Tcgen05Operands::a_at +
                               static_cast<std::uint32_t>(chunk * 16 * what.m + i % 4 * 4)) +
                "];\n";
        list += (i ? ", %d" : "%d") + std::to_string(i);
      }
      text += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r6+" + std::to_string(8 * step) + "], {" +
              list + "};\n";
    }
    text +=
        "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;  // A\nbar.sync 0;  // "
        "A is whole\n"
        "tcgen05.fence::after_thread_sync;  // A\n";
  }
  text += "@%p2 bra multiplied;\n";
  for (int step = 0; step < what.steps; ++step) {
    const auto copy = [&](std::uint32_t at, const char* to, int blocks) {
      for (int block = 0; block < blocks; ++block)
        text += "mov.b64 %rd4, " +
                number((at + 512u * static_cast<std::uint32_t>(step * blocks + block)) >> 4 |
                       std::uint64_t{8} << 16 | std::uint64_t{8} << 32 | std::uint64_t{1} << 46) +
                ";\ntcgen05.cp.cta_group::1.32x128b.warpx4 [" + to + "+" +
                std::to_string(4 * block) + "], %rd4;  // scales\n";
    };
    if (what.scale_vector) {
      copy(Tcgen05Operands::sfa_at, "%r11", 1);
      copy(Tcgen05Operands::sfb_at, "%r12", (what.n + 127) / 128);
    }
    text +=
        "mov.b64 %rd2, " + number(operands.matrix_descriptor(Tcgen05Operands::a_at, what.m, step)) +
        ";\nmov.b64 %rd3, " +
        number(what.mn_major_b ? operands.across_descriptor(Tcgen05Operands::b_at, step)
                               : operands.matrix_descriptor(Tcgen05Operands::b_at, what.n, step)) +
        ";\nmov.b32 %r8, " + number(what.descriptor()) +
        ";\ntcgen05.mma.cta_group::1.kind::" + what.kind + what.scales + " [%r10], " +
        (what.a_in_tensor ? "[%r13+" + std::to_string(8 * step) + "]" : "%rd2") + ", %rd3, %r8, " +
        (what.scale_vector ? "[%r11], [%r12], " : "") + (step ? "1" : "0") + ";  // step " +
        std::to_string(step) + "\n";
  }
  text +=
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];\nmultiplied:\n"
      "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;\n@!%p4 bra wait;  // the "
      "product\n"
      "tcgen05.fence::after_thread_sync;  // the product\n"
      "shl.b32 %r5, %r4, 21;\nadd.u32 %r6, %r10, %r5;\nmul.wide.u32 %rd5, %r0, " +
      std::to_string(4 * what.n) + ";\nadd.s64 %rd5, %rd0, %rd5;\n";
  // M of 64 has the first 16 of each 32 lanes.
  if (what.m == 64) text += "and.b32 %r14, %r0, 16;\nsetp.ne.u32 %p5, %r14, 0;\n";
  for (int column = 0; column < what.n; column += 8) {
    std::string list;
    for (int i = 0; i < 8; ++i) list += (i ? ", %d" : "%d") + std::to_string(i);
    text += "tcgen05.ld.sync.aligned.32x32b.x8.b32 {" + list + "}, [%r6+" + std::to_string(column) +
            "];\ntcgen05.wait::ld.sync.aligned;  // D\n";
    for (int i = 0; i < 8; ++i)
      text += std::string(what.m == 64 ? "@!%p5 " : "") + "st.global.u32 [%rd5+" +
              std::to_string(Tcgen05Operands::header + Tcgen05Operands::image_bytes +
                             4u * static_cast<std::uint32_t>(column + i)) +
              "], %d" + std::to_string(i) + ";\n";
  }
  text +=
      "tcgen05.fence::before_thread_sync;\nbar.sync 0;  // D is "
      "read\ntcgen05.fence::after_thread_sync;\n"
      "@%p3 bra end;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;\nend:\nret;\n}\n";
  return text;
}

/// D, 128 x n words (lanes of tensor memory), and what was found.
inline emulator::testing::Ran run_tcgen05(const Tcgen05Operands& operands, const std::string& text,
                                          emulator::LaunchOptions options = {}) {
  const std::vector<std::uint8_t> image = operands.image();
  const std::size_t first = (Tcgen05Operands::header + Tcgen05Operands::image_bytes) / 4;
  std::vector<std::uint32_t> words(first + 128u * static_cast<std::size_t>(operands.what.n));
  std::memcpy(words.data() + Tcgen05Operands::header / 4, image.data(), image.size());
  emulator::testing::Ran ran =
      emulator::testing::launch_words(text, words, emulator::testing::shaped(1, 128, options));
  ran.words.erase(ran.words.begin(), ran.words.begin() + static_cast<std::ptrdiff_t>(first));
  return ran;
}

}  // namespace microscale::testing
