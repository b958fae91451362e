#include "checkpoint/tensor_hashes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>

#include "core/threads.hpp"

namespace microscale {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TEST(TensorHash, is_the_published_one_and_has_a_text) {
  // XXH3-128 of nothing, and of "abc", from the specification's own program.
  EXPECT_EQ(to_string(hash_of({})), "99aa06d3014798d86001c324468d497f");
  const std::array<std::uint8_t, 3> abc{'a', 'b', 'c'};
  EXPECT_EQ(to_string(hash_of(abc)), "06b05ab6733a618578af5f94892f3950");
  const TensorHash hash{0x0123456789abcdef, 0x00000000000000ff};
  EXPECT_EQ(to_string(hash), "0123456789abcdef00000000000000ff");
  EXPECT_EQ(tensor_hash_from(to_string(hash)), hash);
  EXPECT_EQ(tensor_hash_from("0123456789abcdef00000000000000f"), std::nullopt);
  EXPECT_EQ(tensor_hash_from("0123456789abcdef000000000000 0ff"), std::nullopt);
  EXPECT_EQ(tensor_hash_from("0123456789abcdefg000000000000000"), std::nullopt);
}

TEST(TensorHashes, are_those_of_the_bytes_in_order) {
  const std::vector<Bytes> tensors{random_bytes(1'000'003, 1), Bytes(), random_bytes(1, 2),
                                   random_bytes(300'000, 3)};
  struct Piece {
    std::size_t tensor;
    std::size_t begin, length;
  };
  std::vector<Piece> pieces;
  std::mt19937 random(4);
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    for (std::size_t at = 0; at < tensors[tensor].size();) {
      const std::size_t length =
          std::min<std::size_t>(1 + random() % 100'000, tensors[tensor].size() - at);
      pieces.push_back({tensor, at, length});
      at += length;
    }
  }
  for (const int threads : {1, 2, 8}) {
    for (int round = 0; round < 4; ++round) {
      std::shuffle(pieces.begin(), pieces.end(), random);
      // Backwards once: every piece but the first waits.
      if (round == 0) {
        std::sort(pieces.begin(), pieces.end(),
                  [](const Piece& a, const Piece& b) { return a.begin > b.begin; });
      }
      std::vector<std::uint64_t> lengths;
      for (const Bytes& tensor : tensors) lengths.push_back(tensor.size());
      TensorHashes hashes(lengths);
      parallel_for_worker(static_cast<std::int64_t>(pieces.size()), threads,
                          [&](std::int64_t i, int) {
                            const Piece& piece = pieces[static_cast<std::size_t>(i)];
                            const Bytes& tensor = tensors[piece.tensor];
                            hashes.add(piece.tensor, piece.begin,
                                       std::span(tensor).subspan(piece.begin, piece.length),
                                       [&](std::uint64_t at, std::span<std::uint8_t> out) {
                                         std::memcpy(out.data(), tensor.data() + at, out.size());
                                       });
                          });
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(hashes.of(i), hash_of(tensors[i])) << i << " on " << threads << " threads";
      }
    }
  }
}

TEST(TensorHashes, read_back_only_what_came_early) {
  const Bytes bytes = random_bytes(4000, 5);
  TensorHashes hashes({bytes.size()});
  std::vector<std::uint64_t> read;
  const auto add = [&](std::size_t at, std::size_t length) {
    hashes.add(0, at, std::span(bytes).subspan(at, length),
               [&](std::uint64_t from, std::span<std::uint8_t> out) {
                 read.push_back(from);
                 std::memcpy(out.data(), bytes.data() + from, out.size());
               });
  };
  add(0, 1000);
  add(1000, 500);
  EXPECT_TRUE(read.empty());
  add(2000, 2000);
  EXPECT_TRUE(read.empty());
  add(1500, 500);
  EXPECT_EQ(read, std::vector<std::uint64_t>{2000});
  EXPECT_EQ(hashes.of(0), hash_of(bytes));
}

}  // namespace
}  // namespace microscale
