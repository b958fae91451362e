#include "checkpoint/containers/gguf_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

// Part `number` of `count` with the tensors named, of one value each.
std::string part(std::uint16_t number, std::uint16_t count, const std::string& tensors,
                 std::int32_t all) {
  GgufBuilder builder;
  builder.value("split.no", gguf_number(GgufValueType::u16, number));
  builder.value("split.count", gguf_number(GgufValueType::u16, count));
  builder.value("split.tensors.count", gguf_number(GgufValueType::i32, all));
  if (number == 0) builder.value("general.architecture", gguf_text("llama"));
  for (const char name : tensors) {
    builder.tensor(std::string(1, name), GgufType::f32, {1}, std::string(4, name));
  }
  return builder.file();
}

class SplitFile : public ::testing::Test {
 protected:
  void write(int number, const std::string& bytes) { write_file(path(number), bytes); }
  std::filesystem::path path(int number) const {
    return folder / ("m-0000" + std::to_string(number) + "-of-00003.gguf");
  }
  void SetUp() override {
    write(1, part(0, 3, "ca", 4));
    write(2, part(1, 3, "d", 4));
    write(3, part(2, 3, "b", 4));
  }

  const TemporaryFolder folder;
};

TEST(GgufFile, one_file_is_one_part) {
  const TemporaryFolder folder;
  GgufBuilder builder;
  builder.value("general.name", gguf_text("small"));
  builder.tensor("b", GgufType::f32, {2}, float_bytes({3, 4}));
  builder.tensor("a", GgufType::f32, {2}, float_bytes({1, 2}));
  write_file(folder / "m.gguf", builder.file());
  const auto file = open_gguf(folder / "m.gguf");
  ASSERT_TRUE(succeeds(file));
  ASSERT_EQ(file.value().tensors.size(), 2u);
  EXPECT_EQ(file.value().tensors[0].name(), "a");
  EXPECT_EQ(file.value().find("c"), nullptr);
  EXPECT_EQ(file.value().value("general.name")->text(), "small");
  std::array<std::uint8_t, 4> bytes{};
  ASSERT_TRUE(succeeds(read_gguf(file.value(), *file.value().find("b"), 4, bytes)));
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), float_bytes({4}));
}

TEST_F(SplitFile, any_part_opens_all) {
  for (int number = 1; number <= 3; ++number) {
    const auto file = open_gguf(path(number));
    ASSERT_TRUE(succeeds(file));
    std::string names;
    for (const auto& tensor : file.value().tensors) {
      std::array<std::uint8_t, 4> bytes{};
      ASSERT_TRUE(succeeds(read_gguf(file.value(), tensor, 0, bytes)));
      EXPECT_EQ(std::string(bytes.begin(), bytes.end()), std::string(4, tensor.name()[0]));
      names += tensor.name();
    }
    EXPECT_EQ(names, "abcd");
    EXPECT_EQ(file.value().value("general.architecture")->text(), "llama");
  }
}

TEST_F(SplitFile, a_missing_part_is_named) {
  std::filesystem::remove(path(2));
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "'m-00002-of-00003.gguf' is missing"));
}

TEST_F(SplitFile, parts_under_other_names_are_refused) {
  for (const char* name :
       {"m.gguf", "m-00001-of-00004.gguf", "m-0000x-of-00003.gguf", "-00001-of-00003.gguf"}) {
    std::filesystem::copy_file(path(1), folder / name);
    EXPECT_TRUE(fails_with(open_gguf(folder / name), "give the parts the names")) << name;
  }
}

TEST_F(SplitFile, a_part_of_another_model_is_refused) {
  write(2, part(2, 3, "d", 4));
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "says that it is part 3 of 3, not 2 of 3"));
  write(2, part(1, 4, "d", 4));
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "says that it is part 2 of 4, not 2 of 3"));
  write(2, GgufBuilder().file());
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "says that it is part ? of 1"));
}

TEST_F(SplitFile, tensors_are_counted_and_in_one_part) {
  write(2, part(1, 3, "a", 4));
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "tensor 'a' is in two parts"));
  write(2, part(1, 3, "", 4));
  EXPECT_TRUE(
      fails_with(open_gguf(path(1)), "says that the parts hold 4 tensors, and they hold 3"));
}

TEST_F(SplitFile, a_damaged_part_is_named) {
  write(3, part(2, 3, "b", 4).substr(0, 50));
  EXPECT_TRUE(fails_with(open_gguf(path(1)), "m-00003-of-00003.gguf': "));
}

TEST(GgufFile, impossible_numbers_of_parts_are_refused) {
  const TemporaryFolder folder;
  for (const std::string& count :
       {gguf_text("three"), gguf_u32(100'000), gguf_number<std::int32_t>(GgufValueType::i32, -1)}) {
    write_file(folder / "m.gguf", GgufBuilder().value("split.count", count).file());
    EXPECT_TRUE(fails_with(open_gguf(folder / "m.gguf"), "which is no number of parts"));
  }
}

TEST(GgufFile, what_cannot_be_opened_is_named) {
  EXPECT_TRUE(fails_with(open_gguf("/nowhere/m.gguf"), "/nowhere/m.gguf"));
}

}  // namespace
}  // namespace microscale
