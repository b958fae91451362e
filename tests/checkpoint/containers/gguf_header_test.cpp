// Every rule of the strict reader, each with the words of its refusal.
#include "checkpoint/containers/gguf_header.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

Result<GgufHeader> parse(const std::string& file) {
  return parse_gguf_header({file.begin(), file.end()}, file.size());
}

GgufBuilder one_tensor() {
  return GgufBuilder().tensor("t", GgufType::f32, {4, 2}, float_bytes({1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(GgufHeader, reads_tensors_with_rows_along_the_last_dimension) {
  const std::string block(18, 'x');
  GgufBuilder builder;
  builder.value("general.architecture", gguf_text("llama"));
  builder.tensor("a", GgufType::f32, {3}, float_bytes({1, 2, 3}));
  builder.tensor("b", GgufType::q4_0, {32, 2, 1}, block + block);
  const std::string file = builder.file();
  const auto header = parse(file);
  ASSERT_TRUE(succeeds(header));
  const std::uint64_t start = header.value().data_start;
  EXPECT_EQ(start % 32, 0u);
  const std::vector<GgufTensor> wanted{
      {"a", GgufType::f32, {3}, start, start + 12},
      {"b", GgufType::q4_0, {1, 2, 32}, start + 32, start + 68},
  };
  EXPECT_EQ(header.value().tensors, wanted);
  EXPECT_EQ(header.value().find("general.architecture")->text(), "llama");
  EXPECT_EQ(header.value().find("general.name"), nullptr);
}

TEST(GgufHeader, versions_2_and_3_are_read) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufBuilder builder = one_tensor();
    builder.version = version;
    EXPECT_TRUE(succeeds(parse(builder.file()))) << version;
  }
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    GgufBuilder builder = one_tensor();
    builder.version = version;
    EXPECT_TRUE(fails_with(parse(builder.file()), "versions 2 and 3 are read")) << version;
  }
}

TEST(GgufHeader, big_endian_files_are_named) {
  std::string file = one_tensor().file();
  file.replace(4, 4, std::string("\0\0\0\3", 4));
  EXPECT_TRUE(fails_with(parse(file), "big-endian GGUF file"));
}

TEST(GgufHeader, other_files_are_refused) {
  EXPECT_TRUE(fails_with(parse("GGML" + one_tensor().file().substr(4)), "the letters GGUF"));
  EXPECT_TRUE(fails_with(parse(""), "the file has only 0"));
}

// Whatever length a file is cut to, it is refused by one sentence.
TEST(GgufHeader, every_truncation_is_refused) {
  GgufBuilder builder = one_tensor();
  builder.value("general.name", gguf_text("name"));
  builder.value("tokens", gguf_texts({"a", "bc"}));
  const std::string file = builder.file();
  for (std::size_t length = 0; length < file.size(); ++length) {
    const auto header = parse(file.substr(0, length));
    ASSERT_FALSE(header) << length;
    EXPECT_TRUE(fails_with(header, "the file is damaged or was written wrongly")) << length;
  }
  EXPECT_TRUE(succeeds(parse(file)));
}

TEST(GgufHeader, counts_are_held_against_the_size_of_the_file) {
  std::string file = one_tensor().file();
  file.replace(8, 8, little_endian(std::uint64_t{1} << 60));
  EXPECT_TRUE(fails_with(parse(file), "1152921504606846976 tensors, more than fit"));
  file = one_tensor().file();
  file.replace(16, 8, little_endian(~std::uint64_t{0}));
  EXPECT_TRUE(fails_with(parse(file), "metadata values, more than fit"));
}

TEST(GgufHeader, hostile_lengths_of_strings_and_arrays_are_refused) {
  const auto with = [](const std::string& value) {
    return parse(one_tensor().value("v", value).file());
  };
  using enum GgufValueType;
  for (const std::uint64_t length :
       {std::uint64_t{1000}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    const std::string type = little_endian(static_cast<std::uint32_t>(string));
    EXPECT_TRUE(fails_with(with(type + little_endian(length)), "the file has only")) << length;
    EXPECT_TRUE(fails_with(with(gguf_array(u64, length, "")), "more than fit")) << length;
    EXPECT_TRUE(fails_with(with(gguf_array(string, length, "")), "more than fit")) << length;
    EXPECT_TRUE(fails_with(with(gguf_array(array, length, "")), "more than fit")) << length;
  }
  EXPECT_TRUE(fails_with(parse(GgufBuilder()
                                   .value("v", gguf_u32(1))
                                   .file()
                                   .replace(24, 8, little_endian(~std::uint64_t{7}))),
                         "metadata value 1 of 1"));
}

TEST(GgufHeader, arrays_nest_4_deep) {
  const auto nested = [](int depth) {
    std::string value = gguf_array(GgufValueType::u8, 1, "x").substr(4);
    for (int i = 1; i < depth; ++i) value = gguf_array(GgufValueType::array, 1, value).substr(4);
    return parse(
        GgufBuilder()
            .value("v", little_endian(static_cast<std::uint32_t>(GgufValueType::array)) + value)
            .file());
  };
  EXPECT_TRUE(succeeds(nested(4)));
  EXPECT_TRUE(fails_with(nested(5), "'v' has arrays more than 4 deep"));
  EXPECT_TRUE(fails_with(nested(100), "'v' has arrays more than 4 deep"));
}

TEST(GgufHeader, values_of_no_type_are_refused) {
  const auto with = [](const std::string& value) {
    return parse(GgufBuilder().value("v", value).file());
  };
  EXPECT_TRUE(fails_with(with(little_endian(13u) + "xxxxxxxx"), "'v' has the unknown type 13"));
  EXPECT_TRUE(fails_with(with(gguf_array(static_cast<GgufValueType>(99), 1, "x")),
                         "'v' is an array of the unknown type 99"));
  EXPECT_TRUE(fails_with(with(gguf_number<std::uint8_t>(GgufValueType::boolean, 2)),
                         "'v' is a truth value with the byte 2"));
}

TEST(GgufHeader, names_stand_once_and_are_text) {
  EXPECT_TRUE(fails_with(parse(one_tensor().tensor("t", GgufType::f32, {1}, "abcd").file()),
                         "tensor 't' is there twice"));
  EXPECT_TRUE(
      fails_with(parse(GgufBuilder().value("k", gguf_u32(1)).value("k", gguf_u32(1)).file()),
                 "metadata value 'k' is there twice"));
  EXPECT_TRUE(
      fails_with(parse(GgufBuilder().tensor("\xFF", GgufType::f32, {1}, "abcd").file()), "UTF-8"));
  EXPECT_TRUE(
      fails_with(parse(GgufBuilder().tensor("", GgufType::f32, {1}, "abcd").file()), "UTF-8"));
  EXPECT_TRUE(fails_with(parse(GgufBuilder().value("\xC3", gguf_u32(1)).file()), "UTF-8"));
}

TEST(GgufHeader, types_that_are_unknown_or_gone_are_refused) {
  EXPECT_TRUE(fails_with(parse(GgufBuilder().tensor("t", 31u, {32}, "").file()),
                         "tensor 't' is of type 31, which llama.cpp has removed"));
  EXPECT_TRUE(fails_with(parse(GgufBuilder().tensor("t", 77u, {32}, "").file()),
                         "tensor 't' is of type 77, which is not known here"));
}

TEST(GgufHeader, impossible_shapes_are_refused) {
  const auto shaped = [](const std::vector<std::uint64_t>& shape) {
    return parse(GgufBuilder().tensor("t", GgufType::q8_0, shape, std::string(34, 'x')).file());
  };
  EXPECT_TRUE(succeeds(shaped({32, 1, 1, 1})));
  EXPECT_TRUE(fails_with(shaped({32, 1, 1, 1, 1}), "has 5 dimensions, more than GGUF's 4"));
  EXPECT_TRUE(fails_with(shaped({33}), "no whole number of Q8_0 blocks"));
  EXPECT_TRUE(fails_with(shaped({32, std::uint64_t{1} << 63}), "has an impossible size"));
  EXPECT_TRUE(fails_with(shaped({32, std::uint64_t{1} << 40, std::uint64_t{1} << 40}),
                         "has an impossible size"));
  EXPECT_TRUE(fails_with(shaped({32, std::uint64_t{1} << 40}), "but the file has only"));
}

TEST(GgufHeader, offsets_are_aligned_within_the_file_and_apart) {
  const std::string data = float_bytes({1, 2, 3, 4, 5, 6, 7, 8});
  const auto at = [&](std::uint64_t offset) {
    return parse(one_tensor().tensor_at("u", 0, {8}, offset, data).file());
  };
  EXPECT_TRUE(succeeds(at(32)));
  EXPECT_TRUE(fails_with(at(33), "tensor 'u' is at offset 33, which is no multiple of the 32"));
  EXPECT_TRUE(fails_with(at(0), "tensor 'u' overlaps 't'"));
  EXPECT_TRUE(fails_with(at(64), "tensor 'u' ends at byte"));
  EXPECT_TRUE(fails_with(at(~std::uint64_t{31}), "but the file has only"));
}

// A tensor that lost its place in the table, or part of its size, leaves bytes that are no one's.
TEST(GgufHeader, bytes_of_no_tensor_are_refused) {
  const std::string data = float_bytes({1, 2, 3, 4, 5, 6, 7, 8});
  const std::string two = data + data;
  const auto three = [&](std::uint64_t count, const std::string& bytes) {
    return parse(GgufBuilder()
                     .tensor("a", GgufType::f32, {8}, data)
                     .tensor("b", GgufType::f32, {count}, bytes)
                     .tensor("c", GgufType::f32, {8}, data)
                     .file());
  };
  EXPECT_TRUE(succeeds(three(16, two)));
  EXPECT_TRUE(succeeds(three(9, two.substr(0, 36))));  // and 28 of padding
  EXPECT_TRUE(fails_with(three(8, two), "32 bytes before tensor 'c' belong to no tensor"));
  EXPECT_TRUE(fails_with(three(0, two), "64 bytes before tensor 'c' belong to no tensor"));
  const auto last = [&](std::uint64_t count) {
    return parse(GgufBuilder().tensor("a", GgufType::f32, {count}, two).file());
  };
  EXPECT_TRUE(succeeds(last(16)));
  EXPECT_TRUE(fails_with(last(8), "32 bytes behind the last tensor belong to no tensor"));
  EXPECT_TRUE(fails_with(parse(GgufBuilder().file() + std::string(64, 'x')),
                         "behind the last tensor belong to no tensor"));
}

TEST(GgufHeader, empty_tensors_are_legal_anywhere) {
  EXPECT_TRUE(succeeds(parse(one_tensor().tensor_at("e", 0, {0, 4}, 0, "").file())));
}

TEST(GgufHeader, alignment_is_a_power_of_two) {
  const auto aligned = [](std::uint32_t said, std::uint64_t real) {
    GgufBuilder builder;
    builder.alignment = real;
    builder.value("general.alignment", gguf_u32(said));
    builder.tensor("t", GgufType::f32, {1}, "abcd").tensor("u", GgufType::f32, {1}, "efgh");
    return parse(builder.file());
  };
  for (const std::uint32_t alignment : {8u, 32u, 4096u}) {
    const auto header = aligned(alignment, alignment);
    ASSERT_TRUE(succeeds(header));
    EXPECT_EQ(header.value().data_start % alignment, 0u);
  }
  EXPECT_TRUE(fails_with(aligned(0, 32), "general.alignment is '0', which is no power of two"));
  EXPECT_TRUE(fails_with(aligned(48, 48), "general.alignment is '48'"));
  EXPECT_TRUE(fails_with(aligned(1u << 31, 32), "general.alignment is '2147483648'"));
  EXPECT_TRUE(fails_with(parse(GgufBuilder().value("general.alignment", gguf_text("x")).file()),
                         "general.alignment is 'x'"));
}

TEST(GgufHeader, a_part_of_the_header_is_not_enough) {
  const std::string file = one_tensor().file();
  EXPECT_TRUE(fails_with(parse_gguf_header({file.begin(), file.begin() + 30}, file.size()),
                         "goes on after the 30 bytes"));
}

TEST(ReadGgufHeader, long_headers_are_read_piece_by_piece) {
  const TemporaryFolder folder;
  GgufBuilder builder = one_tensor();
  builder.value("long", gguf_text(std::string(5'000'000, 'x')));
  write_file(folder / "m.gguf", builder.file());
  const auto file = take(InputFile::open(folder / "m.gguf"));
  const auto header = read_gguf_header(file);
  ASSERT_TRUE(succeeds(header));
  EXPECT_EQ(header.value().find("long")->text()->size(), 5'000'000u);
  EXPECT_EQ(header.value().tensors.size(), 1u);
}

TEST(ReadGgufHeader, failures_name_the_file_or_say_what_it_is) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    write_file(folder / "m.gguf", bytes);
    return read_gguf_header(take(InputFile::open(folder / "m.gguf")));
  };
  EXPECT_TRUE(fails_with(read(one_tensor().file().substr(0, 60)), "m.gguf': "));
  EXPECT_TRUE(fails_with(read("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
                         "m.gguf' is a Git LFS pointer"));
}

}  // namespace
}  // namespace microscale
