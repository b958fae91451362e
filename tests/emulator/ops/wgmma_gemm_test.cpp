// A whole matrix product of 64 x 64 x 64 in f16: operands brought by plain stores into a swizzled
// tile, or by bulk copies into an unswizzled one; four products in one group.
#include <cmath>

#include "emulator/run_ptx.hpp"
#include "emulator/tensor/wgmma.hpp"
#include "support/mma_cases.hpp"
#include "support/mma_kernels.hpp"

namespace microscale::emulator {
namespace {

using testing::Ran;
using Words = std::vector<std::uint32_t>;

// Chunk %r10 of 16 bytes: row %r10 / 8, at %r10 % 8 turned by the row.
const std::string by_stores = [] {
  std::string text;
  for (int i = 0; i < 8; ++i)  // A, then B
    text += fmt::format(
        "add.u32 %r10, %r50, {}; mul.wide.u32 %rd5, %r10, 16; add.s64 %rd5, %rd5, %rd30;\n"
        "ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd5];\n"
        "shr.u32 %r11, %r10, 3; and.b32 %r12, %r11, 7; and.b32 %r13, %r10, 7; "
        "xor.b32 %r13, %r13, %r12;\n"
        "shl.b32 %r11, %r11, 7; shl.b32 %r13, %r13, 4; add.u32 %r11, %r11, %r13; "
        "add.u32 %r11, %r11, %r1;\nst.shared.v4.b32 [%r11], {{%r20, %r21, %r22, %r23}};\n",
        128 * i);
  return text + "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
}();

const std::string by_bulk_copies =
    "mov.u32 %r10, full; setp.eq.u32 %p2, %r50, 0; @!%p2 bra READY;\n"
    "mbarrier.init.shared::cta.b64 [%r10], 1; fence.mbarrier_init.release.cluster;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 16384;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd30], 16384, "
    "[%r10];\n"
    "READY: bar.sync 0;\nLANDED: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0; @!%p3 "
    "bra "
    "LANDED;\n";

/// `step`: of the descriptors, along K.
std::string kernel(const std::string& bring, std::uint64_t descriptor, int step) {
  std::string text =
      ".shared .align 1024 .b8 tile[16384]; .shared .align 8 .b64 full; .reg .f32 %d<32>;\n" +
      testing::own_word + "mov.u32 %r1, tile;\n" + bring +
      fmt::format(
          "shr.u32 %r2, %r1, 4; cvt.u64.u32 %rd1, %r2; or.b64 %rd1, %rd1, {:#x}; "
          "add.s64 %rd2, %rd1, 512;\n",
          descriptor) +
      "wgmma.fence.sync.aligned;\n";
  for (int k = 0; k < 4; ++k)
    text += fmt::format(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {}, %rd1, %rd2, {}, 1, 1, 0, 0;\n"
        "add.s64 %rd1, %rd1, {}; add.s64 %rd2, %rd2, {};\n",
        microscale::testing::register_list("d", 0, 32), k > 0 ? 1 : 0, step, step);
  text +=
      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
      // Row 16 warp + lane / 4, column 2 (lane % 4), of 64 floats behind A and B.
      "shr.u32 %r3, %r50, 5; shl.b32 %r3, %r3, 4; and.b32 %r4, %r50, 31; shr.u32 %r5, %r4, 2;\n"
      "add.u32 %r3, %r3, %r5; shl.b32 %r3, %r3, 6; and.b32 %r4, %r4, 3; shl.b32 %r4, %r4, 1;\n"
      "add.u32 %r3, %r3, %r4; mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd6, %rd30;\n";
  for (int i = 0; i < 32; ++i)
    text += fmt::format("st.global.f32 [%rd6+{}], %d{};\n",
                        16384 + 4 * ((i >> 1 & 1) * 512 + (i >> 2) * 8 + (i & 1)), i);
  return testing::entry(text, "", "sm_90a");
}

struct Product {
  std::vector<std::uint32_t> a, b;  // codes, 64 x 64, K fastest

  explicit Product(std::uint64_t seed) : a(4096), b(4096) {
    microscale::testing::Bits bits(seed);
    const microscale::testing::Fields f16{5, 10, 2};
    for (std::uint32_t& code : a)
      code = random_float(bits, f16, microscale::testing::Spread::moderate);
    for (std::uint32_t& code : b)
      code = random_float(bits, f16, microscale::testing::Spread::moderate);
  }
  /// The buffer; `tiled`: eight rows of 16 bytes together, as without a swizzle.
  Words words(bool tiled) const {
    Words made(4096);
    for (std::size_t i = 0; i < 8192; ++i) {
      const std::size_t row = i / 64, k = i % 64;
      const std::size_t at = tiled ? row / 8 * 512 + k / 8 * 64 + row % 8 * 8 + k % 8 : i;
      made[at / 2] |= (i < 4096 ? a[i] : b[i - 4096]) << (16 * (at % 2));
    }
    return made;
  }
  /// By the model of the instruction, four times.
  Words expected() const {
    tensor::WgmmaShape shape;
    shape.n = 64;
    Words registers(128 * 32, 0u), d(4096);
    std::vector<std::uint32_t*> rows;
    for (std::size_t i = 0; i < 128; ++i) rows.push_back(registers.data() + 32 * i);
    for (std::size_t step = 0; step < 4; ++step) {
      tensor::WgmmaTile left, right;
      for (std::size_t line = 0; line < 64; ++line)
        for (std::size_t k = 0; k < 16; ++k) {
          left.codes[line][k] = a[64 * line + 16 * step + k];
          right.codes[line][k] = b[64 * line + 16 * step + k];
        }
      wgmma(shape, {}, left, right, rows.data());
    }
    for (std::size_t row = 0; row < 64; ++row)
      for (std::size_t column = 0; column < 64; ++column)
        d[64 * row + column] = rows[row / 16 * 32 + column / 8 * 4 + row % 16 / 8 * 2 + column % 2]
                                   [row % 8 * 4 + column % 8 / 2];
    return d;
  }
  double exact(std::size_t row, std::size_t column) const {
    const auto value = [](std::uint32_t code) {  // normal numbers only
      const double size = std::ldexp(1024 + (code & 1023), static_cast<int>(code >> 10 & 31) - 25);
      return code >> 15 ? -size : size;
    };
    double sum = 0;
    for (std::size_t k = 0; k < 64; ++k) sum += value(a[64 * row + k]) * value(b[64 * column + k]);
    return sum;
  }
};

void expect_product(const std::string& text, bool tiled) {
  int turn = 0;
  for (const Completion completion : {Completion::latest, Completion::eager, Completion::random}) {
    const Product product(static_cast<std::uint64_t>(++turn));
    Words words = product.words(tiled);
    words.resize(4096 + 4096);
    const Ran ran = testing::launch_words(
        text, words,
        testing::shaped(
            1, 128,
            {.schedule = static_cast<Schedule>(turn % 3), .completion = completion, .seed = 5}));
    EXPECT_EQ(ran.findings(), "");
    const Words expected = product.expected();
    for (std::size_t i = 0; i < 4096; ++i) {
      const std::uint32_t got = ran.words[4096 + i];
      ASSERT_EQ(got, expected[i]) << "row " << i / 64 << " column " << i % 64;
      ASSERT_NEAR(std::bit_cast<float>(got), product.exact(i / 64, i % 64), 0.02);
    }
  }
}

TEST(WgmmaProduct, of_tiles_that_threads_have_stored_with_a_swizzle) {
  expect_product(kernel(by_stores, std::uint64_t{1} << 62 | std::uint64_t{64} << 32 | 1 << 16, 2),
                 false);
}

TEST(WgmmaProduct, of_tiles_that_a_bulk_copy_has_brought) {
  expect_product(kernel(by_bulk_copies, std::uint64_t{64} << 32 | 8 << 16, 16), true);
}

TEST(WgmmaProduct, of_the_wrong_swizzle_is_another) {
  const Product product(1);
  Words words = product.words(false);
  words.resize(8192);
  const Ran ran = testing::launch_words(
      kernel(by_stores, std::uint64_t{2} << 62 | std::uint64_t{64} << 32 | 1 << 16, 2), words,
      testing::shaped(1, 128));
  const Words expected = product.expected();
  EXPECT_FALSE(std::equal(expected.begin(), expected.end(), ran.words.begin() + 4096));
}

}  // namespace
}  // namespace microscale::emulator
