#include "checkpoint/shard_index.hpp"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

std::string index_naming(const std::string& file) {
  return R"({"weight_map":{"t":")" + file + R"("}})";
}

TEST(ParseShardIndex, reads_map_and_total) {
  const auto index = parse_shard_index(
      R"({"metadata":{"total_size":12,"total_parameters":6,"x":{"total_size":-1}},"extra":[1,{}],)"
      R"("weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}})");
  ASSERT_TRUE(succeeds(index));
  EXPECT_EQ(index.value().total_size, 12u);
  EXPECT_EQ(index.value().weight_map.at("a"), "m-1.safetensors");
  EXPECT_EQ(index.value().weight_map.size(), 2u);
}

TEST(ParseShardIndex, metadata_may_be_missing) {
  const auto index = parse_shard_index(index_naming("m.safetensors"));
  ASSERT_TRUE(succeeds(index));
  EXPECT_EQ(index.value().total_size, std::nullopt);
}

TEST(ParseShardIndex, names_that_are_not_bare_are_refused) {
  for (const char* name : {"../x.safetensors", "a/b.safetensors", "/etc/x.safetensors",
                           "..\\\\x.safetensors", "C:\\\\x.safetensors", "./x.safetensors"}) {
    EXPECT_TRUE(fails_with(parse_shard_index(index_naming(name)), "only bare file names")) << name;
  }
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming("")), "a file needs a name"));
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming("..")), "may not begin with a dot"));
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming(".x.safetensors")), "begin with a dot"));
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming("a\\n.safetensors")), "control character"));
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming("x.bin")), "only .safetensors files"));
  const std::string long_name = std::string(255, 'x') + ".safetensors";
  EXPECT_TRUE(fails_with(parse_shard_index(index_naming(long_name)), "longer than 255 bytes"));
}

TEST(ParseShardIndex, the_complaint_names_tensor_and_file) {
  EXPECT_TRUE(fails_with(parse_shard_index(R"({"weight_map":{"lm_head.weight":"../x"}})"),
                         "weight_map puts tensor 'lm_head.weight' into the file '../x'"));
}

TEST(ParseShardIndex, wrong_types_are_refused) {
  EXPECT_TRUE(fails_with(parse_shard_index("[]"), "not a JSON object"));
  EXPECT_TRUE(fails_with(parse_shard_index("1"), "not a JSON object"));
  EXPECT_TRUE(fails_with(parse_shard_index("{}"), "it has no weight_map"));
  EXPECT_TRUE(fails_with(parse_shard_index(R"({"weight_map":{}})"), "names no tensor"));
  EXPECT_TRUE(fails_with(parse_shard_index(R"({"weight_map":[]})"), "weight_map is not an object"));
  EXPECT_TRUE(fails_with(parse_shard_index(R"({"metadata":3})"), "metadata is not an object"));
  for (const char* value : {"1", "null", "[]", "{}", "[\"m.safetensors\"]", "true"}) {
    EXPECT_TRUE(fails_with(parse_shard_index(R"({"weight_map":{"t":)" + std::string(value) + "}}"),
                           "tensor 't' something that is not a file name"))
        << value;
  }
  EXPECT_TRUE(fails_with(parse_shard_index(R"({"weight_map":{"":"m.safetensors"}})"),
                         "a tensor with an empty name"));
}

TEST(ParseShardIndex, duplicate_tensors_are_refused) {
  const auto index =
      parse_shard_index(R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})");
  EXPECT_TRUE(fails_with(index, "the key 't' appears twice inside 'weight_map'"));
}

TEST(ParseShardIndex, total_size_must_make_sense) {
  const auto with_total = [](const std::string& total) {
    return parse_shard_index(R"({"metadata":{"total_size":)" + total +
                             R"(},"weight_map":{"t":"m.safetensors"}})");
  };
  for (const char* total : {"-1", "1.5", "\"12\"", "null", "1152921504606846976", "1e30", "[]"}) {
    EXPECT_TRUE(fails_with(with_total(total), "metadata.total_size is not a whole number"))
        << total;
  }
  const auto real = with_total("2.5e3");
  ASSERT_TRUE(succeeds(real));
  EXPECT_EQ(real.value().total_size, 2500u);
}

TEST(WriteShardIndex, is_laid_out_as_transformers_does) {
  const ShardIndex index{.total_size = 12,
                         .weight_map = {{"b", "m-2.safetensors"}, {"\xc3\xa9", "m-1.safetensors"}}};
  EXPECT_EQ(write_shard_index(index),
            "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n"
            "    \"b\": \"m-2.safetensors\",\n    \"\\u00e9\": \"m-1.safetensors\"\n  }\n}\n");
}

TEST(WriteShardIndex, reads_back_equal) {
  const ShardIndex index{.total_size = std::nullopt,
                         .weight_map = {{"a\"\\\n", "x.safetensors"}, {"b", "y.safetensors"}}};
  const auto again = parse_shard_index(write_shard_index(index));
  ASSERT_TRUE(succeeds(again));
  EXPECT_EQ(again.value(), index);
}

}  // namespace
}  // namespace microscale
