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

TEST(Mutations, nvfp4_tensor_is_clean) { expect_clean(nvfp4_tensor); }
TEST(Mutations, tensor_pair_is_clean) { expect_clean(tensor_pair); }

}  // namespace
}  // namespace microscale::emulator::mutations
