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

TEST(Dequantize, refuses_nan_unless_told_to_go_on) {
  const Folders folders;
  const Outcome refused = microscale({"dequantize", folders.broken(), "-o", folders.dense()});
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find("the scale is NaN (0x7F), so the whole block is"), std::string::npos)
      << refused.err;
  EXPECT_EQ(microscale({"dequantize", folders.broken(), "-o", folders.dense(), "--allow-nan"}).code,
            0);
}

}  // namespace
}  // namespace microscale::testing
