// Faults in products out of tensor memory: of NVFP4 tiles with scales, by one block, and of f16
// tiles by a pair of blocks.
#include "emulator/memory/tensor_map.hpp"
#include "emulator/mutations/mutation.hpp"
#include "formats/elements.hpp"
#include "support/mma_cases.hpp"

namespace microscale::emulator::mutations {
namespace {

using enum FindingKind;

/// NVFP4 of 128 rows of A and 192 of B, K fastest, with scales 0.5, 1 and 2, so that every sum is
/// exact.
struct Fp4Tiles {
  static constexpr std::size_t tiles = 3, jobs = 3, k = 256 * tiles, a_rows = 128,
                               b_rows = 64 * jobs;
  std::vector<std::uint8_t> packed, scales_a, scales_b;
  std::vector<double> values;  // scales included

  Fp4Tiles()
      : packed((a_rows + b_rows) * k / 2),
        scales_a(tiles * 2048),
        scales_b(jobs * tiles * 2048),
        values((a_rows + b_rows) * k) {
    microscale::testing::Bits bits(11);
    constexpr std::uint8_t scale_codes[] = {0x30, 0x38, 0x40};
    for (std::size_t row = 0; row < a_rows + b_rows; ++row)
      for (std::size_t block = 0; block < k / 16; ++block) {
        const std::uint8_t scale = scale_codes[bits.below(3)];
        const std::size_t tile = block / 16, step = block / 4 % 4, byte = block % 4;
        const std::size_t line = row < a_rows ? row : (row - a_rows) % 64;
        const std::size_t at = 512 * step + line % 32 * 16 + line / 32 * 4 + byte;
        if (row < a_rows)
          scales_a[2048 * tile + at] = scale;
        else
          scales_b[2048 * ((row - a_rows) / 64 * tiles + tile) + at] = scale;
        for (std::size_t i = 16 * block; i < 16 * block + 16; ++i) {
          const auto code = static_cast<std::uint8_t>(bits.below(16));
          packed[(row * k + i) / 2] |= static_cast<std::uint8_t>(code << (i % 2 * 4));
          values[row * k + i] = double{E2M1::decode(code)} * E4M3::decode(scale);
        }
      }
  }
  bool equal(const std::vector<float>& result) const {
    for (std::size_t row = 0; row < a_rows; ++row)
      for (std::size_t column = 0; column < b_rows; ++column) {
        double sum = 0;
        for (std::size_t i = 0; i < k; ++i)
          sum += values[row * k + i] * values[(a_rows + column) * k + i];
        if (result[b_rows * row + column] != static_cast<float>(sum)) return false;
      }
    return true;
  }
};

/// Rows of `size` elements; boxes of 128 bytes of `box` rows.
TensorMapBytes rows_of(std::uint64_t address, std::uint32_t element_bytes, std::uint64_t size,
                       std::uint64_t rows, std::uint32_t box) {
  TensorMap map;
  map.rank = 2, map.element_bytes = element_bytes, map.address = address;
  map.swizzle = Swizzle::b128;
  map.size = {size, rows}, map.stride = {element_bytes, element_bytes * size};
  map.box = {128 / element_bytes, box};
  return encode(map);
}

std::vector<std::uint8_t> with_maps(const TensorMapBytes& a, const TensorMapBytes& b,
                                    const std::vector<std::uint8_t>& rest) {
  std::vector<std::uint8_t> bytes(a.begin(), a.end());
  bytes.insert(bytes.end(), b.begin(), b.end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Trial run_nvfp4(const std::string& text, const LaunchOptions& options) {
  static const Fp4Tiles tiles;
  Memory memory;
  const std::uint64_t in = upload(memory, tiles.packed), sa = upload(memory, tiles.scales_a),
                      sb = upload(memory, tiles.scales_b);
  const std::size_t results = Fp4Tiles::a_rows * Fp4Tiles::b_rows;
  const std::uint64_t out = upload(memory, std::vector<float>(results, -1.0f));
  LaunchRequest request = request_for("multiply_nvfp4", {1, 1, 1}, {192, 1, 1});
  request.dynamic_shared_bytes = 2 * 28672;
  const std::size_t row = Fp4Tiles::k / 2;
  Trial trial = run_text(memory, text, request, options, [&] {
    return with_maps(
        rows_of(in, 1, row, Fp4Tiles::a_rows, 128),
        rows_of(in + Fp4Tiles::a_rows * row, 1, row, Fp4Tiles::b_rows, 64),
        arguments(sa, sb, out, std::uint32_t{Fp4Tiles::tiles}, std::uint32_t{Fp4Tiles::jobs}));
  });
  note(trial, tiles.equal(download<float>(memory, out, results)), "the product");
  return trial;
}

/// Small integers as f16, so that every sum is exact: A of 256 rows and B of 128, K fastest.
struct PairTiles {
  static constexpr std::size_t count = 3, k = 64 * count;
  std::vector<int> values;
  std::vector<std::uint16_t> codes;

  PairTiles() : values((256 + 128) * k), codes(values.size()) {
    microscale::testing::Bits bits(6);
    constexpr std::uint16_t f16[] = {0xC000, 0xBC00, 0, 0x3C00, 0x4000};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t pick = bits.below(5);
      values[i] = static_cast<int>(pick) - 2, codes[i] = f16[pick];
    }
  }
  bool equal(const std::vector<float>& result) const {
    for (std::size_t row = 0; row < 256; ++row)
      for (std::size_t column = 0; column < 128; ++column) {
        int sum = 0;
        for (std::size_t i = 0; i < k; ++i)
          sum += values[row * k + i] * values[(256 + column) * k + i];
        if (result[128 * row + column] != static_cast<float>(sum)) return false;
      }
    return true;
  }
};

Trial run_pair(const std::string& text, const LaunchOptions& options) {
  static const PairTiles tiles;
  Memory memory;
  const std::uint64_t in = upload(memory, tiles.codes),
                      out = upload(memory, std::vector<float>(256 * 128, -1.0f));
  LaunchRequest request = request_for("multiply_pair", {2, 1, 1}, {128, 1, 1});
  request.dynamic_shared_bytes = 2 * 24576;
  const std::uint64_t b = in + 2 * 256 * PairTiles::k;
  Trial trial = run_text(memory, text, request, options, [&] {
    return with_maps(rows_of(in, 2, PairTiles::k, 256, 128), rows_of(b, 2, PairTiles::k, 128, 64),
                     arguments(out, std::uint32_t{PairTiles::count}));
  });
  note(trial, tiles.equal(download<float>(memory, out, 256 * 128)), "the product");
  return trial;
}

constexpr Kernel nvfp4_tensor{"nvfp4_tensor.ptx", run_nvfp4},
    tensor_pair{"tensor_pair.ptx", run_pair};

constexpr Fault nvfp4_faults[] = {
    {"tensor memory: D is loaded before the commit has arrived",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r55], %r56;  // the accumulator is ready",
     "setp.eq.u32 done, %r56, %r56;", finding(missing_wait, "tcgen05.ld"),
     "no tcgen05.commit behind it"},
    {"tensor memory: no commit for the accumulator, a plain arrive",
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r336];",
     "mbarrier.arrive.shared::cta.b64 _, [%r336];", finding(missing_wait, "tcgen05.ld"),
     "no tcgen05.commit behind it"},
    {"tensor memory: no commit for the accumulator",
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r336];", "",
     finding(deadlock, "bar.sync")},
    {"tensor memory: fence before the loads dropped",
     "tcgen05.fence::after_thread_sync;  // the accumulator is ready", "",
     finding(missing_fence, "tcgen05.ld"), "no tcgen05.fence::after_thread_sync"},
    {"tensor memory: fence behind the loads dropped",
     "tcgen05.fence::before_thread_sync;  // the accumulator is taken", "",
     finding(missing_fence, "tcgen05.mma"), "no tcgen05.fence::before_thread_sync"},
    {"tensor memory: fence before the accumulator is used again dropped",
     "tcgen05.fence::after_thread_sync;  // the accumulator is free", "",
     finding(missing_fence, "tcgen05.mma"), "no tcgen05.fence::after_thread_sync"},
    {"tensor memory: the accumulator is used again while it is loaded",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r269], %r270;  // the accumulator is free",
     "setp.eq.u32 done, %r270, %r270;", finding(missing_wait, "tcgen05.mma"), "tcgen05.wait::ld"},
    {"tensor memory: D is used before wait::ld",
     "tcgen05.wait::ld.sync.aligned;  // the first half", "",
     finding(missing_wait, "st.global.u32"), "no tcgen05.wait::ld"},
    {"tensor memory: a stage is given back before its products are done",
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r308];",
     "mbarrier.arrive.shared::cta.b64 _, [%r308];",
     finding(missing_wait, "cp.async.bulk.tensor.2d"), "no tcgen05.commit behind it"},
    {"tensor memory: no thread waits for a free stage",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r341], %r342;  // the stage is free",
     "setp.eq.u32 done, %r342, %r342;", finding(missing_wait, "cp.async.bulk.tensor.2d")},
    {"tensor memory: copies and products do not wait for the tile",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r278], %r279;  // the tile is here",
     "setp.eq.u32 done, %r279, %r279;", finding(missing_wait, "tcgen05.cp")},
    {"tensor memory: a warp loads the lanes of its neighbour", "add.s32 \t%r89, %r261, %r254;",
     "add.s32 \t%r89, %r261, %r254; xor.b32 %r89, %r89, 0x200000;", finding(misuse, "tcgen05.ld"),
     "has lanes"},
    {"tensor memory: never given back", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;",
     "", finding(misuse, "tcgen05.alloc"), "tcgen05.dealloc is missing"},
    {"tensor memory: half of it given back",
     "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;",
     "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;", finding(misuse, "tcgen05.dealloc")},
    {"tensor memory: given back while others load",
     "tcgen05.fence::before_thread_sync;  // all is done\n\t// end inline asm\n\t.loc\t1 175 "
     "3\n\tbar.sync "
     "\t0;",
     "// end inline asm", finding(missing_wait, "tcgen05.dealloc"), "gives back"},
    {"tensor memory: the second stage is taken to be further on",
     "mad.lo.s32 \t%r316, %r310, 28672, %r315;", "mad.lo.s32 \t%r316, %r310, 57344, %r315;",
     finding(out_of_bounds, "tcgen05.cp")},
    {"tensor memory: the last scales of B are not copied",
     "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r28], %rd21;  // scales of B", "",
     finding(uninitialised_memory, "tcgen05.mma"), "the scales of B"},
    {"tensor memory: scales are copied behind what was allocated",
     "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r28], %rd21;  // scales of B",
     "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r28+128], %rd21;",
     finding(out_of_bounds, "tcgen05.cp"), "not all allocated"},
    {"tensor memory: a scale id that four scales do not have", "mov.b32 \t%r304, 135267456;",
     "mov.b32 \t%r304, 135267472;", finding(bad_selector, "tcgen05.mma"), "scale id"},
    {"tensor memory: the scales are taken for UE8M0", "mov.b32 \t%r304, 135267456;",
     "mov.b32 \t%r304, 143656064;", check("the product")},
    {"tensor memory: UE4M3 scales of blocks of 32", ".block_scale.block16 [%r33], %rd22",
     ".block_scale.block32 [%r33], %rd22", finding(misuse, "tcgen05.mma"), "need .block16"},
    {"tensor memory: M of 64 with scales", "mov.b32 \t%r304, 135267456;",
     "mov.b32 \t%r304, 1049728;", finding(misuse, "tcgen05.mma"), "M 0"},
    {"tensor memory: all lanes issue the products", "setp.ne.s32 \t%p4, %r1, 32;",
     "setp.ne.s32 \t%p4, %r52, 32;", finding(misuse, "tcgen05.cp"), "elect.sync"},
    {"tensor memory: the descriptor of A knows no swizzle",
     "or.b64  \t%rd22, %rd39, 4611756662049538048;", "or.b64  \t%rd22, %rd39, 70643622150144;",
     check("the product")},
    {"tensor memory: a descriptor without its constant",
     "or.b64  \t%rd22, %rd39, 4611756662049538048;", "or.b64  \t%rd22, %rd39, 0x4000004000010000;",
     finding(misuse, "tcgen05.mma"), "bits 48-46"},
    {"tensor memory: the last step along K leaves the row", "add.s64 \t%rd28, %rd22, 6;",
     "add.s64 \t%rd28, %rd22, 7;", finding(misaligned, "tcgen05.mma")},
    {"tensor memory: the first product accumulates", "setp.ne.b32 p, %r383, 0;",
     "setp.ne.b32 p, %r383, -1;", finding(uninitialised_memory, "tcgen05.mma"), "reads D"},
    {"tensor memory: scales as scale_vec::4X, which the family does not have",
     ".block_scale.block16 [%r33], %rd22", ".block_scale.scale_vec::4X [%r33], %rd22",
     refusal("needs sm_100a")},
    {"tensor memory: given back as that of a pair", "tcgen05.dealloc.cta_group::1",
     "tcgen05.dealloc.cta_group::2", refusal("has another .cta_group")},
    {"tensor memory: 48 columns", "[%r53], 256;", "[%r53], 48;", refusal("no power of two")},
    {"tensor memory: built for sm_100", ".target sm_100f", ".target sm_100",
     refusal("needs sm_100a")},
};

constexpr Fault pair_faults[] = {
    {"pair: the loads begin before the other block",
     "barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;  // both have begun",
     "bar.sync 0;", finding(absent_block, "cp.async.bulk.tensor.2d")},
    {"pair: the stages of one block only are given back", "mov.b16 \t%rs1, 3;",
     "mov.b16 \t%rs1, 1;", finding(deadlock, "mbarrier.try_wait")},
    {"pair: the other block is not told of the product", "mov.b16 \t%rs2, 3;", "mov.b16 \t%rs2, 1;",
     finding(deadlock, "barrier.cluster.wait")},
    {"pair: the other block's tiles are not awaited", "[%r69], 49152;", "[%r69], 24576;",
     finding(missing_wait, "tcgen05.mma")},
    {"pair: each block is told of its own tiles", "mapa.shared::cluster.u32 %r59, %r60, 0;",
     "mov.u32 %r59, %r60;", finding(deadlock, "mbarrier.try_wait")},
    {"pair: M of one block", "mov.b32 \t%r44, 270532624;", "mov.b32 \t%r44, 136314896;",
     finding(misuse, "tcgen05.mma"), "M is 256"},
    {"pair: given back while other warps load",
     "barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;  // all is done", "",
     finding(out_of_bounds, "tcgen05.ld"), "not all allocated"},
};

TEST(Mutations, nvfp4_tensor_is_clean) { expect_clean(nvfp4_tensor); }
TEST(Mutations, nvfp4_tensor_faults_are_named) { expect_caught(nvfp4_tensor, nvfp4_faults); }
TEST(Mutations, tensor_pair_is_clean) { expect_clean(tensor_pair); }
TEST(Mutations, tensor_pair_faults_are_named) { expect_caught(tensor_pair, pair_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
