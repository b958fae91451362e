// Every rule of the strict reader, each with the words of its refusal.
#include "checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::length_bytes;
using testing::safetensors_file;
using testing::succeeds;
using namespace std::string_literals;

// Parses a header whose file has `data_bytes` bytes behind it.
Result<SafetensorsHeader> parse(std::string_view json, std::uint64_t data_bytes = 0) {
  return parse_safetensors_header({reinterpret_cast<const std::uint8_t*>(json.data()), json.size()},
                                  8 + json.size() + data_bytes);
}

// A header with the one tensor "t" given by the text of its three values.
std::string one_tensor(const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
  return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(ParseSafetensorsHeader, reads_tensors_in_file_order_with_file_offsets) {
  const std::string json = R"({"__metadata__":{"z":"1","format":"pt"},)"
                           R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                           R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}})";
  const auto header = parse(json, 16);
  ASSERT_TRUE(succeeds(header));
  const std::uint64_t start = 8 + json.size();
  EXPECT_EQ(header.value().data_start, start);
  const std::vector<TensorEntry> wanted{{"a", StoredType::f32, {}, start, start + 4},
                                        {"b", StoredType::bf16, {2, 3}, start + 4, start + 16}};
  EXPECT_EQ(header.value().tensors, wanted);
  EXPECT_EQ(header.value().tensors[1].bytes(), 12u);
  const SafetensorsMetadata metadata{{"z", "1"}, {"format", "pt"}};
  EXPECT_EQ(header.value().metadata, metadata);
}

TEST(ParseSafetensorsHeader, a_file_without_tensors_is_legal) {
  for (const char* json : {"{}", "{\"__metadata__\":{}}"}) {
    const auto header = parse(json);
    ASSERT_TRUE(succeeds(header)) << json;
    EXPECT_TRUE(header.value().tensors.empty());
  }
  EXPECT_TRUE(fails_with(parse("{}", 1), "1 bytes after its last tensor"));
}

TEST(ParseSafetensorsHeader, whitespace_around_the_object_is_legal) {
  const std::string json = one_tensor("\"U8\"", "[1]", "[0,1]");
  EXPECT_TRUE(succeeds(parse(json + "     ", 1)));
  EXPECT_TRUE(succeeds(parse("\n\t\r " + json + "\r\n\t ", 1)));
  EXPECT_TRUE(succeeds(parse(std::string(4096, ' ') + json, 1)));
  for (const std::string& padding : {"\0"s, "\v"s, "\xc2\xa0"s, "x"s, "{}"s, ","s}) {
    EXPECT_TRUE(fails_with(parse(json + padding, 1), "JSON")) << padding;
  }
}

TEST(ParseSafetensorsHeader, empty_and_rank_0_tensors_are_legal) {
  const auto header = parse(R"({"z":{"dtype":"F32","shape":[0,4],"data_offsets":[1,1]},)"
                            R"("s":{"dtype":"I8","shape":[],"data_offsets":[0,1]},)"
                            R"("e":{"dtype":"F4","shape":[3,0],"data_offsets":[1,1]},)"
                            R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                            1);
  ASSERT_TRUE(succeeds(header));
  std::string order;
  for (const TensorEntry& tensor : header.value().tensors) order += tensor.name;
  EXPECT_EQ(order, "asez");
}

TEST(ParseSafetensorsHeader, every_type_is_read) {
  for (int i = 0; i < stored_type_count; ++i) {
    const auto type = static_cast<StoredType>(i);
    const int bytes = bits_per_element(type);  // of 8 elements
    const std::string name = "\"" + std::string(to_string(type)) + "\"";
    const auto header = parse(one_tensor(name, "[8]", "[0," + std::to_string(bytes) + "]"), bytes);
    ASSERT_TRUE(succeeds(header)) << name;
    EXPECT_EQ(header.value().tensors[0].type, type);
  }
}

TEST(ParseSafetensorsHeader, offsets_must_cover_the_data_exactly) {
  const auto two = [](const std::string& a, const std::string& b, std::uint64_t data_bytes) {
    return parse(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                     R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                 data_bytes);
  };
  EXPECT_TRUE(succeeds(two("[4,8]", "[0,4]", 8)));
  EXPECT_TRUE(
      fails_with(two("[0,4]", "[5,9]", 9),
                 "tensor 'b' leaves a hole after 'a': it begins at byte 5 of the data, not"));
  EXPECT_TRUE(fails_with(two("[0,4]", "[3,7]", 7), "tensor 'b' overlaps 'a'"));
  EXPECT_TRUE(fails_with(two("[0,4]", "[0,4]", 4), "tensor 'b' overlaps 'a'"));
  EXPECT_TRUE(fails_with(two("[1,5]", "[5,9]", 9), "tensor 'a' leaves a hole after the header"));
  EXPECT_TRUE(fails_with(two("[0,4]", "[4,8]", 9), "the file has 1 bytes after its last tensor"));
  EXPECT_TRUE(fails_with(two("[0,4]", "[4,8]", 7),
                         "tensor 'b' ends at byte 8 of the data, but the file has only 7"));
}

TEST(ParseSafetensorsHeader, ten_tensors_on_one_range_are_refused) {
  std::string json = "{";
  for (char name = 'a'; name < 'k'; ++name) {
    json += (json.size() > 1 ? ",\""s : "\""s) + name +
            R"(":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})";
  }
  EXPECT_TRUE(fails_with(parse(json + "}", 16), "overlaps"));
}

TEST(ParseSafetensorsHeader, size_must_follow_from_dtype_and_shape) {
  EXPECT_TRUE(fails_with(parse(one_tensor("\"F32\"", "[2]", "[0,4]"), 4),
                         "tensor 't' has 4 bytes between its data_offsets, but its dtype and shape "
                         "need 8"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"F32\"", "[0]", "[0,4]"), 4), "need 0"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"F32\"", "[1]", "[4,0]"), 4),
                         "tensor 't' ends at byte 0 of the data, before it begins at 4"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"F4\"", "[3]", "[0,2]"), 2),
                         "tensor 't' has an impossible size: 3 elements of 4 bits"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[281474976710656,281474976710656]", "[0,0]")),
                         "product of its dimensions overflows"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[281474976710656]", "[0,281474976710656]"), 9),
                         "but the file has only 9"));
}

TEST(ParseSafetensorsHeader, numbers_must_be_small_whole_and_not_negative) {
  for (const char* number : {"-1", "-0"}) {
    const std::string list = "["s + number + "]";
    EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", list, "[0,1]"), 1),
                           "tensor 't' has a negative number in its shape"));
  }
  for (const char* number : {"1.0", "1e0", "\"1\"", "null", "true", "[1]", "{}",
                             "18446744073709551616", "99999999999999999999999"}) {
    const std::string text = number;
    EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[" + text + "]", "[0,1]"), 1),
                           "tensor 't' has something in its shape that is not an integer"))
        << number;
    EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[1]", "[0," + text + "]"), 1),
                           "tensor 't' has something in its data_offsets that is not an integer"))
        << number;
  }
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[281474976710657]", "[0,1]"), 1),
                         "has the number 281474976710657 in its shape, which is above 2^48"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[1]", "[0,18446744073709551615]"), 1),
                         "in its data_offsets, which is above 2^48"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[01]", "[0,1]"), 1), "not valid JSON"));
}

TEST(ParseSafetensorsHeader, wrong_types_are_refused) {
  EXPECT_TRUE(fails_with(parse("[]"), "its header is not a JSON object"));
  EXPECT_TRUE(fails_with(parse("\"a\""), "its header is not a JSON object"));
  EXPECT_TRUE(fails_with(parse("3"), "its header is not a JSON object"));
  EXPECT_TRUE(fails_with(parse(R"({"t":[]})"), "tensor 't' is not described by an object"));
  EXPECT_TRUE(fails_with(parse(R"({"t":null})"), "tensor 't' is not described by an object"));
  EXPECT_TRUE(fails_with(parse(one_tensor("3", "[1]", "[0,1]")), "a dtype that is not a string"));
  EXPECT_TRUE(
      fails_with(parse(one_tensor("\"U8\"", "1", "[0,1]")), "a shape that is not an array"));
  EXPECT_TRUE(
      fails_with(parse(one_tensor("\"U8\"", "[1]", "{}")), "a data_offsets that is not an array"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"F3\"", "[1]", "[0,1]")), "the unknown dtype 'F3'"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"f32\"", "[1]", "[0,4]")), "the unknown dtype 'f32'"));
}

TEST(ParseSafetensorsHeader, missing_and_unknown_keys_are_refused) {
  EXPECT_TRUE(fails_with(parse(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1),
                         "tensor 't' has no dtype"));
  EXPECT_TRUE(fails_with(parse(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1),
                         "tensor 't' has no shape"));
  for (const char* offsets : {"", R"(,"data_offsets":[])", R"(,"data_offsets":[0])"}) {
    const std::string json = R"({"t":{"dtype":"U8","shape":[1])" + std::string(offsets) + "}}";
    EXPECT_TRUE(fails_with(parse(json, 1), "tensor 't' has no data_offsets [begin, end]")) << json;
  }
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", "[1]", "[0,1,2]"), 1),
                         "tensor 't' has more than 2 numbers in its data_offsets"));
  EXPECT_TRUE(
      fails_with(parse(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}})", 1),
                 "tensor 't' has the unknown key 'strides' beside dtype, shape and data_offsets"));
}

TEST(ParseSafetensorsHeader, rank_is_limited) {
  const auto of_rank = [](int rank) {
    std::string shape = "[1";
    for (int i = 1; i < rank; ++i) shape += ",1";
    return one_tensor("\"U8\"", shape + "]", "[0,1]");
  };
  EXPECT_TRUE(succeeds(parse(of_rank(64), 1)));
  EXPECT_TRUE(fails_with(parse(of_rank(65), 1), "more than 64 numbers in its shape"));
}

TEST(ParseSafetensorsHeader, duplicate_keys_are_refused) {
  const std::string tensor = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(fails_with(parse("{" + tensor + "," + tensor + "}", 1), "the key 't' appears twice"));
  EXPECT_TRUE(
      fails_with(parse(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                 "the key 'dtype' appears twice inside 't'"));
  EXPECT_TRUE(fails_with(parse(R"({"__metadata__":{"a":"1","a":"2"}})"),
                         "the key 'a' appears twice inside '__metadata__'"));
  EXPECT_TRUE(fails_with(parse(R"({"__metadata__":{},"__metadata__":{}})"),
                         "the key '__metadata__' appears twice"));
}

TEST(ParseSafetensorsHeader, metadata_must_map_strings_to_strings) {
  for (const char* value : {"1", "null", "true", "[]", "{}", "1.5", "-1"}) {
    EXPECT_TRUE(fails_with(parse(R"({"__metadata__":{"k":)" + std::string(value) + "}}"),
                           "__metadata__ holds something that is not a string under 'k'"))
        << value;
  }
  for (const char* value : {"null", "[]", "\"pt\"", "1"}) {
    EXPECT_TRUE(fails_with(parse(R"({"__metadata__":)" + std::string(value) + "}"),
                           "__metadata__ is not an object"))
        << value;
  }
}

TEST(ParseSafetensorsHeader, bad_names_are_refused) {
  const auto named = [](const std::string& name) {
    return parse("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  };
  EXPECT_TRUE(fails_with(named(""), "a tensor has an empty name"));
  EXPECT_TRUE(fails_with(named("a\\u0000b"), "a key holds a NUL character"));
  EXPECT_TRUE(fails_with(named("a\0b"s), "is NUL"));
  EXPECT_TRUE(fails_with(named("\xff"), "ill-formed UTF-8"));
  EXPECT_TRUE(fails_with(named("\xc0\xaf"), "ill-formed UTF-8"));
  EXPECT_TRUE(fails_with(named("\xed\xa0\x80"), "ill-formed UTF-8"));
  EXPECT_TRUE(fails_with(named("\\ud800"), "surrogate"));
  EXPECT_TRUE(fails_with(named("\\udc00x"), "surrogate"));
  EXPECT_TRUE(succeeds(named("\\ud83d\\ude00/\xc3\xa9.weight")));
}

TEST(ParseSafetensorsHeader, deep_nesting_is_refused) {
  const std::string deep = std::string(100'000, '[');
  EXPECT_TRUE(fails_with(parse(deep), "its header is not a JSON object"));
  EXPECT_TRUE(fails_with(parse("{\"t\":" + deep), "tensor 't' is not described by an object"));
  EXPECT_TRUE(fails_with(parse(one_tensor("\"U8\"", deep, "[0,1]")), "not an integer"));
}

TEST(ParseSafetensorsHeader, every_failure_says_how_to_mend_it) {
  EXPECT_TRUE(fails_with(parse("{"), "download or export it again"));
  EXPECT_TRUE(fails_with(parse("{}", 3), "download or export it again"));
}

TEST(SafetensorsHeaderLength, is_checked_before_anything_is_allocated) {
  const auto length = [](std::uint64_t claimed, std::uint64_t file_size) {
    const std::string bytes = length_bytes(claimed);
    return safetensors_header_length(
        std::span<const std::uint8_t, 8>(reinterpret_cast<const std::uint8_t*>(bytes.data()), 8),
        file_size);
  };
  EXPECT_EQ(take(length(2, 10)), 2u);
  EXPECT_EQ(take(length(100'000'000, 100'000'008)), 100'000'000u);
  EXPECT_TRUE(
      fails_with(length(100'000'001, 1'000'000'000'000), "more than the 100000000 allowed"));
  EXPECT_TRUE(fails_with(length(~std::uint64_t{0}, 20), "more than the 100000000 allowed"));
  EXPECT_TRUE(fails_with(length(3, 10), "a header of 3 bytes, but the file has only 10 bytes"));
  EXPECT_TRUE(fails_with(length(3, 4), "the file has only 4 bytes"));
  EXPECT_TRUE(fails_with(length(0, 8), "its header is empty"));
}

TEST(ReadSafetensorsHeader, failures_start_with_the_path) {
  testing::TemporaryFolder folder;
  const auto path = folder / "m.safetensors";
  testing::write_file(path, safetensors_file("{\"t\":1}"));
  const auto header = read_safetensors_header(take(InputFile::open(path)));
  EXPECT_TRUE(fails_with(header, "'" + path.string() + "': tensor 't' is not described"));
}

TEST(ReadSafetensorsHeader, a_file_cut_at_any_byte_or_too_long_is_refused) {
  testing::TemporaryFolder folder;
  const std::string whole =
      safetensors_file(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}} )",
                       "1234567");
  const auto read_first = [&](std::string_view bytes) {
    testing::write_file(folder / "m.safetensors", bytes);
    return read_safetensors_header(take(InputFile::open(folder / "m.safetensors")));
  };
  ASSERT_TRUE(succeeds(read_first(whole)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read_first(std::string_view(whole).substr(0, length)).ok()) << length;
  }
  EXPECT_TRUE(fails_with(read_first(""), "is empty; download it again"));
  EXPECT_TRUE(fails_with(read_first(whole.substr(0, 7)), "too few for the 8"));
  EXPECT_TRUE(fails_with(read_first("GGUF"),
                         "m.safetensors' is a GGUF file of llama.cpp; name it by itself"));
  EXPECT_TRUE(fails_with(read_first(whole.substr(0, 20)), "but the file has only 20 bytes"));
  EXPECT_TRUE(fails_with(read_first(whole + "8"), "1 bytes after its last tensor"));
}

}  // namespace
}  // namespace microscale
