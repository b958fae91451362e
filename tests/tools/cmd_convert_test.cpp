// convert: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Convert, writes_another_container_and_says_that_values_are_the_same) {
  const Folders folders;
  const std::string out = folders.dense() + "_modelopt";
  const Outcome dry =
      microscale({"convert", folders.quantized(), "-o", out, "--to", "modelopt", "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_NE(dry.out.find("keep as nvfp4"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("tensors keep their codes"), std::string::npos) << dry.out;
  EXPECT_FALSE(std::filesystem::exists(out));
  const Outcome done = microscale({"convert", folders.quantized(), "-o", out, "--to", "modelopt"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("went into modelopt with their codes"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("Values before and after are the same: hash "), std::string::npos);
  EXPECT_EQ(microscale({"verify", out}).code, 0);
  EXPECT_EQ(microscale({"compare", folders.quantized(), out, "--max-mse", "0"}).code, 0);
  const Outcome again =
      microscale({"convert", folders.quantized(), "-o", out, "--to", "modelopt", "--resume"});
  EXPECT_NE(again.out.find("Already done"), std::string::npos) << again.out;
  const Json json = Json::parse(
      microscale({"convert", out, "-o", out + "2", "--to", "compressed-tensors", "--json"}).out);
  EXPECT_EQ(json["same_values"], true);
  EXPECT_EQ(json["hash_before"], json["hash_after"]);
  EXPECT_EQ(json["blocks_cast"], 0);
  EXPECT_EQ(json["container"], "compressed-tensors");
}

TEST(Convert, ends_as_the_exit_codes_say) {
  const Folders folders;
  const std::string out = folders.dense();
  EXPECT_EQ(microscale({"convert", folders.quantized(), "-o", out}).code, 2);  // no --to
  EXPECT_EQ(microscale({"convert", folders.quantized(), "-o", out, "--to", "pickle"}).code, 2);
  EXPECT_EQ(
      microscale({"convert", folders.quantized(), "-o", folders.quantized(), "--to", "modelopt"})
          .code,
      2);
  const Outcome broken = microscale({"convert", folders.broken(), "-o", out, "--to", "modelopt"});
  EXPECT_EQ(broken.code, 3);
  EXPECT_NE(broken.err.find("convert: tensor"), std::string::npos) << broken.err;
  EXPECT_EQ(microscale({"convert", folders.nowhere(), "-o", out, "--to", "modelopt"}).code, 4);
}

}  // namespace
}  // namespace microscale::testing
