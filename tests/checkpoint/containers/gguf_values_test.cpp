// Values of tensors, whole and in pieces, against the blocks decoded at once and sorted by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/containers/gguf_blocks.hpp"
#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

// `source` of a file that holds nothing but `bytes`.
class GgufValues : public ::testing::Test {
 protected:
  void SetUp() override { source_.begin = 3; }
  void write(const std::string& bytes) {
    write_file(folder_ / "x", "xxx" + bytes);
    source_.bytes = bytes.size();
  }
  std::vector<float> read(std::int64_t first, std::size_t count) {
    const InputFile file = take(InputFile::open(folder_ / "x"));
    std::vector<float> values(count, -99.0f);
    EXPECT_TRUE(succeeds(read_gguf_values(file, source_, first, values)));
    return values;
  }

  const TemporaryFolder folder_;
  GgufSource source_;
};

TEST_F(GgufValues, every_piece_of_a_tensor_is_that_piece_of_the_whole) {
  std::string bytes;
  for (int i = 0; i < 34 * 600; ++i) bytes += static_cast<char>(i % 34 == 1 ? 0x2C : i * 7 % 251);
  write(bytes);
  source_.type = GgufType::q8_0;
  source_.shape = {600, 32};
  std::vector<float> whole(600 * 32);
  decode_gguf_blocks(GgufType::q8_0,
                     {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, whole);
  EXPECT_EQ(read(0, whole.size()), whole);
  for (const auto& [first, count] :
       {std::pair{0, 1}, std::pair{31, 2}, std::pair{5, 8192}, std::pair{8191, 9000},
        std::pair{32, 64}, std::pair{19199, 1}, std::pair{100, 0}}) {
    EXPECT_EQ(read(first, static_cast<std::size_t>(count)),
              std::vector<float>(whole.begin() + first, whole.begin() + first + count))
        << first << " " << count;
  }
}

// Two heads of 6 rows: of each, the file has rows 0 3 1 4 2 5.
TEST_F(GgufValues, rotary_rows_are_sorted_back) {
  std::vector<float> stored, wanted;
  for (int head = 0; head < 2; ++head) {
    for (const int row : {0, 3, 1, 4, 2, 5}) {
      for (int col = 0; col < 4; ++col)
        stored.push_back(static_cast<float>((head * 6 + row) * 4 + col));
    }
  }
  for (int i = 0; i < 48; ++i) wanted.push_back(static_cast<float>(i));
  write(float_bytes(stored));
  source_.shape = {12, 4};
  source_.head_rows = 6;
  EXPECT_EQ(read(0, 48), wanted);
  EXPECT_EQ(read(14, 20), std::vector<float>(wanted.begin() + 14, wanted.begin() + 34));
}

TEST_F(GgufValues, rows_of_a_bias_are_elements) {
  write(float_bytes({0, 2, 1, 3}));
  source_.shape = {4};
  source_.head_rows = 4;
  EXPECT_EQ(read(0, 4), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(GgufValues, one_is_taken_off_and_scales_are_applied) {
  write(float_bytes({1, 1.5f, -2}));
  source_.shape = {3};
  source_.plus_one = true;
  EXPECT_EQ(read(0, 3), (std::vector<float>{0, 0.5f, -3}));
  source_.plus_one = false;
  source_.scale = 0.1f;
  EXPECT_EQ(read(1, 2), (std::vector<float>{1.5f * 0.1f, -2 * 0.1f}));
}

TEST_F(GgufValues, every_matrix_may_have_a_scale_of_its_own) {
  write(float_bytes({1, 2, 3, 4, 5, 6}));
  source_.shape = {3, 1, 2};
  source_.scales = {1, 10, 100};
  EXPECT_EQ(read(0, 6), (std::vector<float>{1, 2, 30, 40, 500, 600}));
  EXPECT_EQ(read(3, 2), (std::vector<float>{40, 500}));
}

TEST_F(GgufValues, a_file_that_has_become_shorter_is_a_failure) {
  write(float_bytes({1}));
  const InputFile file = take(InputFile::open(folder_ / "x"));
  std::vector<float> values(2);
  source_.shape = {2};
  EXPECT_FALSE(read_gguf_values(file, source_, 0, values));
}

}  // namespace
}  // namespace microscale
