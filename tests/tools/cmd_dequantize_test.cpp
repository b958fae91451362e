// dequantize: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Dequantize, writes_a_folder_and_says_so) {
  const Folders folders;
  const Outcome outcome = microscale({"dequantize", folders.quantized(), "-o", folders.dense()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "Wrote '" + folders.dense() + "' with bf16 weights.\n");
  EXPECT_EQ(microscale({"dequantize", folders.quantized(), "-o", folders.dense()}).code, 2);
  EXPECT_EQ(microscale({"dequantize", folders.dense(), "-o", folders.nowhere()}).code, 3);
  const Outcome json = microscale(
      {"dequantize", folders.quantized(), "-o", folders.nowhere(), "--dtype", "f32", "--json"});
  EXPECT_EQ(Json::parse(json.out)["dtype"], "f32");
}

}  // namespace
}  // namespace microscale::testing
