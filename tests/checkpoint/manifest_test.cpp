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
      manifest_text({{{"one.safetensors", &first, {{1, 2}, {3, 0xffffffffffffffff}}},
                      {"two.safetensors", &second, {}}},
                     {},
                     {}},
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
  ASSERT_EQ(manifest.tensors.size(), 2u);
  EXPECT_EQ(manifest.tensors.at("a.weight"),
            (ManifestTensor{"one.safetensors", StoredType::bf16, {2, 3}, {1, 2}}));
  EXPECT_EQ(manifest.tensors.at("quote\"d").hash, (TensorHash{3, 0xffffffffffffffff}));
}

TEST(Manifest, lists_copied_files_and_what_the_folder_was_made_of) {
  const ManifestContents contents{
      {}, {{"a\"b.json", {7, {1, 2}}}, {"mtp.safetensors", {0, {}}}}, {{"option format", "nvfp4"}}};
  const std::string text = manifest_text(contents, "t");
  EXPECT_NE(text.find("\n\"made_of\": {\n\"option format\": \"nvfp4\"\n},\n\"files\": {\n},\n"
                      "\"other_files\": {\n\"a\\\"b.json\": {\"bytes\": 7, \"hash\": "
                      "\"00000000000000010000000000000002\"},\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(nlohmann::json::accept(text));
  const Manifest manifest = take(parse_manifest(text));
  EXPECT_EQ(manifest.other_files, contents.other_files);
  EXPECT_EQ(manifest.made_of, contents.made_of);
}

TEST(Manifest, hashes_a_file_as_its_bytes_at_once) {
  const testing::TemporaryFolder folder;
  std::string bytes(3'000'001, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  testing::write_file(folder / "a", bytes);
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  EXPECT_EQ(take(hash_file(folder / "a")),
            (ManifestFile{bytes.size(), hash_of({data, bytes.size()})}));
  EXPECT_TRUE(fails_with(hash_file(folder / "b"), "cannot open"));
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
  const auto beside = [](const std::string& member) {
    return parse_manifest(R"({"manifest": 1, "hash": "xxh3_128", "files": {}, )" + member + "}");
  };
  EXPECT_TRUE(beside(R"("other_files": {"f": {"bytes": 1, )" + hash + "}}").ok());
  EXPECT_TRUE(fails_with(beside(R"("other_files": [])"), "other_files is no object"));
  EXPECT_TRUE(fails_with(beside(R"("other_files": {"f": 1})"), "'f' is no object"));
  EXPECT_TRUE(fails_with(beside(R"("other_files": {"f": {"bytes": 1}})"), "'f' lacks bytes or"));
  EXPECT_TRUE(fails_with(beside(R"("other_files": {"f": {"bytes": -1}})"), "the bytes of 'f'"));
  EXPECT_TRUE(fails_with(beside(R"("other_files": {"f": {"hash": "0"}})"), "the hash of 'f'"));
  EXPECT_TRUE(fails_with(beside(R"("made_of": 1)"), "made_of is no object"));
  EXPECT_TRUE(fails_with(beside(R"("made_of": {"a": 1})"), "'a' of made_of is no text"));
  const std::string one = R"({"t": {"dtype": "U8", "shape": [1], )" + hash + "}}";
  EXPECT_TRUE(fails_with(parse_manifest(with_files(R"({"f": )" + one + R"(, "g": )" + one + "}")),
                         "'t' is in two files"));
}

// verify opens what the manifest names, so that must lie in the folder.
TEST(Manifest, that_names_files_elsewhere_is_refused) {
  const std::string hash = std::string(R"("hash": ")") + zeros + '"';
  const auto naming = [&](const std::string& name) {
    return parse_manifest(R"({"manifest": 1, "hash": "xxh3_128", "files": {}, "other_files": {")" +
                          name + R"(": {"bytes": 1, )" + hash + "}}}");
  };
  for (const char* name : {"../a", "a/../../b", "/etc/passwd", "", "..", "a/"}) {
    EXPECT_TRUE(fails_with(naming(name), "is no file within the folder")) << name;
  }
  for (const char* name : {"a", "a/b", ".a", "a..b", "..a/b"})
    EXPECT_TRUE(naming(name).ok()) << name;
  const std::string one = R"({"t": {"dtype": "U8", "shape": [1], )" + hash + "}}";
  EXPECT_TRUE(fails_with(parse_manifest(with_files(R"({"../f": )" + one + "}")),
                         "'../f' is no file within the folder"));
}

}  // namespace
}  // namespace microscale
