#include "checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;

constexpr const char* zeros = "00000000000000000000000000000000";

TEST(Manifest, is_written_a_tensor_a_line_and_read_again) {
  const std::vector<TensorEntry> first{{"a.weight", StoredType::bf16, {2, 3}, 8, 20},
                                       {"quote\"d", StoredType::u8, {}, 20, 21}};
  const std::vector<TensorEntry> second;
  const std::string text =
      manifest_text({{"one.safetensors", &first, {{1, 2}, {3, 0xffffffffffffffff}}},
                     {"two.safetensors", &second, {}}},
                    "microscale 0.2.0");
  EXPECT_EQ(text,
            "{\n\"manifest\": 1,\n\"tool\": \"microscale 0.2.0\",\n\"hash\": \"xxh3_128\",\n"
            "\"files\": {\n\"one.safetensors\": {\n"
            "\"a.weight\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"hash\": "
            "\"00000000000000010000000000000002\"},\n"
            "\"quote\\\"d\": {\"dtype\": \"U8\", \"shape\": [], \"hash\": "
            "\"0000000000000003ffffffffffffffff\"}\n},\n"
            "\"two.safetensors\": {\n}\n}\n}\n");
  EXPECT_TRUE(nlohmann::json::accept(text));
  const Manifest manifest = take(parse_manifest(text));
  ASSERT_EQ(manifest.size(), 2u);
  EXPECT_EQ(manifest.at("a.weight"),
            (ManifestTensor{"one.safetensors", StoredType::bf16, {2, 3}, {1, 2}}));
  EXPECT_EQ(manifest.at("quote\"d").hash, (TensorHash{3, 0xffffffffffffffff}));
}

std::string with_files(const std::string& files) {
  return R"({"manifest": 1, "hash": "xxh3_128", "note": [{"files": 3}], "files": )" + files + "}";
}

TEST(Manifest, may_hold_members_that_a_later_release_adds) {
  EXPECT_TRUE(parse_manifest(with_files("{}")).ok());
}

TEST(Manifest, of_another_version_is_not_read) {
  for (const char* text : {R"({"manifest": 2, "files": {}})", R"({"manifest": "1"})",
                           R"({"manifest": 1, "hash": "sha256", "files": {}})"}) {
    const auto manifest = parse_manifest(text);
    ASSERT_FALSE(manifest.ok()) << text;
    EXPECT_EQ(manifest.failure().code, ErrorCode::unsupported) << text;
  }
}

TEST(Manifest, that_is_damaged_is_refused) {
  EXPECT_TRUE(fails_with(parse_manifest("[]"), "it is no JSON object"));
  EXPECT_TRUE(fails_with(parse_manifest("{}"), "it lacks manifest, hash or files"));
  EXPECT_TRUE(fails_with(parse_manifest(with_files("[]")), "files is no object"));
  EXPECT_TRUE(fails_with(parse_manifest(with_files(R"({"f": 1})")), "'f' is no object"));
  EXPECT_TRUE(fails_with(parse_manifest(with_files(R"({"f": {"t": 1}})")), "'t' is no object"));
  const auto tensor = [](const std::string& members) {
    return parse_manifest(with_files(R"({"f": {"t": {)" + members + "}}}"));
  };
  const std::string hash = std::string(R"("hash": ")") + zeros + '"';
  EXPECT_TRUE(tensor(R"("dtype": "U8", "shape": [1], )" + hash).ok());
  EXPECT_TRUE(
      fails_with(tensor(R"("dtype": "U8", "shape": [1])"), "'t' lacks dtype, shape or hash"));
  EXPECT_TRUE(fails_with(tensor(R"("dtype": "U9", "shape": [1], )" + hash), "the dtype of 't'"));
  EXPECT_TRUE(fails_with(tensor(R"("dtype": 8, "shape": [1], )" + hash), "the dtype of 't'"));
  EXPECT_TRUE(fails_with(tensor(R"("dtype": "U8", "shape": 1, )" + hash), "the shape of 't'"));
  EXPECT_TRUE(fails_with(tensor(R"("dtype": "U8", "shape": [-1], )" + hash), "the shape of 't'"));
  EXPECT_TRUE(fails_with(tensor(R"("dtype": "U8", "shape": [[1]], )" + hash), "the shape of 't'"));
  EXPECT_TRUE(
      fails_with(tensor(R"("dtype": "U8", "shape": [1], "hash": "00")"), "the hash of 't'"));
  EXPECT_TRUE(
      fails_with(tensor(R"("size": {}, "dtype": "U8", "shape": [1], )" + hash), "the size"));
  const std::string one = R"({"t": {"dtype": "U8", "shape": [1], )" + hash + "}}";
  EXPECT_TRUE(fails_with(parse_manifest(with_files(R"({"f": )" + one + R"(, "g": )" + one + "}")),
                         "'t' is in two files"));
}

}  // namespace
}  // namespace microscale
