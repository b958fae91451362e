#include "checkpoint/file_kind.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::write_file;
using namespace std::string_literals;

TEST(KindOfBytes, tells_what_people_take_for_weights) {
  const std::vector<std::pair<std::string, FileKind>> samples{
      {"", FileKind::empty},
      {std::string(64, '\0'), FileKind::zeros},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 4\n",
       FileKind::git_lfs_pointer},
      {"<!DOCTYPE html><html>", FileKind::html},
      {"\xEF\xBB\xBF\n  <HTML lang=\"en\">", FileKind::html},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", FileKind::xml},
      {"{\"error\":\"Repository not found\"}", FileKind::json},
      {"[1, 2]", FileKind::json},
      {"PK\x03\x04"s + std::string(26, '\0') + "archive/data.pkl", FileKind::pytorch_zip},
      {"PK\x03\x04"s + std::string(26, '\0') + "mel_80.npy", FileKind::numpy_zip},
      {"PK\x03\x04"s + std::string(26, '\0') + "readme", FileKind::zip},
      {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19.", FileKind::pickle},
      {"GGUF\x03\0\0\0"s, FileKind::gguf},
      {"tjgg\x01\0\0\0"s, FileKind::ggml},
      {"\x08\x07\x12\x07pytorch", FileKind::onnx},
      {"\x89HDF\r\n\x1A\n", FileKind::hdf5},
      {"\x93NUMPY\x01", FileKind::numpy},
      {"\x82\xA6params\x81", FileKind::msgpack},
      {"\x1C\0\0\0TFL3"s, FileKind::tflite},
      {"\x1F\x8B\x08\0"s, FileKind::archive},
      {std::string(257, 'x') + "ustar\0\0"s, FileKind::archive},
      {"Access to model is restricted\n", FileKind::text},
      {safetensors_file("{}"), FileKind::unknown},
      {"\xFF\xFE\xFD\xFC\x01\x02\x03", FileKind::unknown},
  };
  for (const auto& [bytes, kind] : samples) {
    EXPECT_EQ(static_cast<int>(kind_of_bytes(bytes)), static_cast<int>(kind)) << bytes;
    EXPECT_EQ(explain_kind(kind, bytes).empty(), kind == FileKind::unknown) << bytes;
  }
}

// A header of 640 bytes begins as a pickle of protocol 2 does, one of 2184 as other things.
TEST(KindOfBytes, never_takes_safetensors_for_something_else) {
  for (std::size_t length = 2; length < 70'000; ++length) {
    const std::string file = testing::length_bytes(length) + "{}      ";
    ASSERT_EQ(static_cast<int>(kind_of_bytes(file)), static_cast<int>(FileKind::unknown)) << length;
  }
}

TEST(ExplainFile, quotes_a_servers_answer_and_names_the_command_that_helps) {
  TemporaryFolder folder;
  write_file(folder / "a", "{\"error\":\"Invalid username\"}");
  EXPECT_NE(explain_file(folder / "a").find("Invalid username"), std::string::npos);
  write_file(folder / "b", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_NE(explain_file(folder / "b").find("`git lfs pull`"), std::string::npos);
  EXPECT_EQ(explain_file(folder / "none"), "");
}

TEST(ExplainMisdownload, is_silent_about_what_a_side_file_may_be) {
  TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  EXPECT_EQ(explain_misdownload(folder / "config.json"), "");
  write_file(folder / "config.json", "<html>sign in</html>");
  EXPECT_NE(explain_misdownload(folder / "config.json").find("is a web page"), std::string::npos);
  EXPECT_FALSE(is_git_lfs_pointer(folder / "config.json"));
}

}  // namespace
}  // namespace microscale
