#include "checkpoint/containers/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

GgufHeader parsed(const std::string& file) {
  return take(parse_gguf_header({file.begin(), file.end()}, file.size()));
}

GgufMetadata metadata_of(const GgufHeader& header) {
  GgufMetadata metadata;
  for (const auto& [key, value] : header.metadata) metadata.set(key, value);
  return metadata;
}

// One value of every type, arrays in arrays too.
GgufBuilder every_value() {
  GgufBuilder builder;
  builder.value("u8", gguf_number<std::uint8_t>(GgufValueType::u8, 200))
      .value("i8", gguf_number<std::int8_t>(GgufValueType::i8, -3))
      .value("u16", gguf_number<std::uint16_t>(GgufValueType::u16, 65000))
      .value("f32", gguf_number(GgufValueType::f32, 1.5f))
      .value("yes", gguf_number<std::uint8_t>(GgufValueType::boolean, 1))
      .value("text", gguf_text("a \xE2\x98\x83"))
      .value("none", gguf_text(""))
      .value("i64", gguf_number<std::int64_t>(GgufValueType::i64, -5'000'000'000))
      .value("f64", gguf_number(GgufValueType::f64, 0.1))
      .value("texts", gguf_texts({"ab", "", "c"}))
      .value("empty", gguf_array(GgufValueType::f32, 0, ""))
      .value("nested", gguf_array(GgufValueType::array, 2,
                                  gguf_texts({"x"}).substr(4) + gguf_texts({}).substr(4)));
  return builder;
}

TEST(GgufWriter, gives_the_bytes_that_a_file_had) {
  GgufBuilder builder = every_value();
  builder.tensor("a", GgufType::q8_0, {64, 3}, std::string(204, 'a'))
      .tensor("b.weight", GgufType::f32, {5}, std::string(20, 'b'))
      .tensor("none", GgufType::f32, {0}, "")
      .tensor("c", GgufType::nvfp4, {64, 2, 2}, std::string(144, 'c'));
  const std::string file = builder.file();
  const GgufLayout layout = take(plan_gguf_file(metadata_of(parsed(file)), 32,
                                                {{"a", GgufType::q8_0, {3, 64}},
                                                 {"b.weight", GgufType::f32, {5}},
                                                 {"none", GgufType::f32, {0}},
                                                 {"c", GgufType::nvfp4, {2, 2, 64}}}));
  EXPECT_EQ(layout.header, file.substr(0, layout.header.size()));
  EXPECT_EQ(layout.file_size, file.size());
  EXPECT_EQ(layout.tensors, parsed(file).tensors);
}

TEST(GgufWriter, keeps_the_alignment_of_the_file) {
  GgufBuilder builder;
  builder.alignment = 256;
  builder.value("general.alignment", gguf_u32(256))
      .tensor("a", GgufType::f32, {3}, std::string(12, 'a'))
      .tensor("b", GgufType::f32, {1}, std::string(4, 'b'));
  const std::string file = builder.file();
  const GgufLayout layout = take(plan_gguf_file(
      metadata_of(parsed(file)), 256, {{"a", GgufType::f32, {3}}, {"b", GgufType::f32, {1}}}));
  EXPECT_EQ(layout.header, file.substr(0, layout.header.size()));
  EXPECT_EQ(layout.tensors[1].begin - layout.tensors[0].begin, 256u);
  EXPECT_EQ(layout.file_size, file.size());
}

TEST(GgufWriter, values_are_set_in_place_added_and_erased) {
  const std::string file = every_value().value("general.file_type", gguf_u32(7)).file();
  GgufMetadata metadata = metadata_of(parsed(file));
  metadata.set_u32("u8", 39);  // another type
  metadata.set_u32("new", 2);
  metadata.erase("text");
  metadata.erase("nobody");
  const GgufLayout layout = take(plan_gguf_file(metadata, 32, {}));
  const GgufHeader header = parsed(layout.header);
  EXPECT_EQ(header.metadata.size(), 13u);
  EXPECT_EQ(header.metadata.front().first, "u8");
  EXPECT_EQ(header.find("u8")->whole(), 39u);
  EXPECT_EQ(header.metadata.back().first, "new");
  EXPECT_EQ(header.find("new")->whole(), 2u);
  EXPECT_EQ(header.find("text"), nullptr);
  EXPECT_EQ(header.find("general.file_type")->whole(), 7u);
}

TEST(GgufWriter, refuses_what_its_reader_would_refuse) {
  const GgufMetadata none;
  EXPECT_TRUE(fails_with(plan_gguf_file(none, 32, {{"a", GgufType::nvfp4, {2, 96}}}), "'a'"));
  EXPECT_TRUE(fails_with(
      plan_gguf_file(none, 32, {{"a", GgufType::f32, {1}}, {"a", GgufType::f32, {1}}}), "'a'"));
  EXPECT_TRUE(fails_with(plan_gguf_file(none, 32, {{"", GgufType::f32, {1}}}), "name"));
  EXPECT_TRUE(
      fails_with(plan_gguf_file(none, 32, {{"a", GgufType::f32, {1, 1, 1, 1, 1}}}), "dimensions"));
}

TEST(GgufWriter, values_of_its_own_are_those_a_file_has) {
  GgufMetadata metadata;
  metadata.set_u32("u32", 7);
  metadata.set_f32("f32", 1.5f);
  metadata.set_bool("yes", true);
  metadata.set_text("text", "a");
  metadata.set_texts("texts", {"ab", ""});
  metadata.set_i32s("i32s", {-1, 2});
  metadata.set_f32s("f32s", {0.5f});
  GgufBuilder builder;
  builder.value("u32", gguf_u32(7))
      .value("f32", gguf_number(GgufValueType::f32, 1.5f))
      .value("yes", gguf_number<std::uint8_t>(GgufValueType::boolean, 1))
      .value("text", gguf_text("a"))
      .value("texts", gguf_texts({"ab", ""}))
      .value("i32s", gguf_array(GgufValueType::i32, 2, little_endian(-1) + little_endian(2)))
      .value("f32s", gguf_array(GgufValueType::f32, 1, float_bytes({0.5f})));
  EXPECT_EQ(metadata.entries(), metadata_of(parsed(builder.file())).entries());
}

}  // namespace
}  // namespace microscale
