// Both forms of llama.cpp's importance matrix, made by hand.
#include "checkpoint/imatrix.hpp"

#include <gtest/gtest.h>

#include "checkpoint/importance.hpp"
#include "containers/gguf_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::fails_with;
using testing::succeeds;

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

template <class T>
std::string bytes_of(T value) {
  return testing::little_endian(value);
}

// A weight of the binary form.
std::string weight(const std::string& name, const std::vector<float>& values) {
  return bytes_of(static_cast<std::int32_t>(name.size())) + name + bytes_of(std::int32_t{7}) +
         bytes_of(static_cast<std::int32_t>(values.size())) + testing::float_bytes(values);
}

class ImatrixTest : public ::testing::Test {
 protected:
  Result<std::optional<Imatrix>> open(const std::string& bytes) {
    testing::write_file(folder / "imatrix", bytes);
    file.emplace(take(InputFile::open(folder / "imatrix")));
    return Imatrix::open(*file);
  }

  std::vector<float> read(const Imatrix& imatrix, const std::string& module, std::int64_t cols) {
    const auto begin = take(imatrix.find(module, cols));
    if (!begin) return {};
    std::vector<float> values(static_cast<std::size_t>(cols));
    take(file->read_at(
        *begin, {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)}));
    return values;
  }

  const std::string dense =
      bytes_of(std::int32_t{2}) + weight("blk.0.attn_q.weight", numbers(64, 1)) +
      weight("blk.3.ffn_up_exps.weight", numbers(96, 100)) + bytes_of(std::int32_t{12});
  testing::TemporaryFolder folder;
  std::optional<InputFile> file;
};

TEST_F(ImatrixTest, gguf_and_the_binary_form_have_the_numbers_of_each_weight_and_expert) {
  testing::GgufBuilder builder;
  builder.tensor("blk.0.attn_q.weight.in_sum2", GgufType::f32, {64, 1},
                 testing::float_bytes(numbers(64, 1)));
  builder.tensor("blk.0.attn_q.weight.counts", GgufType::f32, {1, 1}, testing::float_bytes({512}));
  builder.tensor("blk.3.ffn_up_exps.weight.in_sum2", GgufType::f32, {32, 3},
                 testing::float_bytes(numbers(96, 100)));
  for (const std::string& bytes : {dense, builder.file()}) {
    const auto found = open(bytes);
    ASSERT_TRUE(succeeds(found));
    ASSERT_TRUE(found.value().has_value());
    const Imatrix& imatrix = *found.value();
    EXPECT_EQ(read(imatrix, attention + "q_proj", 64), numbers(64, 1));
    EXPECT_EQ(read(imatrix, "model.layers.3.mlp.experts.2.up_proj", 32), numbers(32, 164));
    EXPECT_EQ(read(imatrix, attention + "k_proj", 64), std::vector<float>());
    EXPECT_TRUE(fails_with(imatrix.find(attention + "q_proj", 32), "64 numbers for"));
    EXPECT_TRUE(fails_with(imatrix.find("model.layers.3.mlp.experts.3.up_proj", 32),
                           "it is another model's"));
  }
}

TEST_F(ImatrixTest, other_files_are_none_and_halves_are_refused) {
  for (const std::string& bytes : {std::string(), std::string("abc"), std::string(200, '\0'),
                                   bytes_of(std::uint64_t{20}) + "{}"}) {
    const auto found = open(bytes);
    ASSERT_TRUE(succeeds(found));
    EXPECT_FALSE(found.value().has_value());
  }
  EXPECT_TRUE(fails_with(open(dense.substr(0, 400)), "with 2 weights and ends after 1"));
  EXPECT_TRUE(fails_with(open(testing::GgufBuilder().file()), "without sums of squares"));
}

TEST_F(ImatrixTest, is_importance) {
  testing::sample_model().write(folder / "in");
  const ModelPlan plan = take(make_model_plan(testing::options_for(folder, Format::nvfp4)));
  ASSERT_TRUE(succeeds(open(dense)));
  const auto importance = Importance::open(folder / "imatrix", plan);
  ASSERT_TRUE(succeeds(importance));
  EXPECT_TRUE(importance.value().has(attention + "q_proj"));
  EXPECT_FALSE(importance.value().has(attention + "o_proj"));
  std::vector<float> piece(16);
  EXPECT_TRUE(succeeds(importance.value().read(attention + "q_proj", 16, piece)));
  EXPECT_EQ(piece, numbers(16, 17));
  ASSERT_TRUE(
      succeeds(open(bytes_of(std::int32_t{1}) + weight("blk.9.attn_q.weight", numbers(64, 1)))));
  EXPECT_TRUE(
      fails_with(Importance::open(folder / "imatrix", plan), "no weight of the importance"));
}

}  // namespace
}  // namespace microscale
