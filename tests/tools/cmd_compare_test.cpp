// compare: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Compare, measures_and_holds_against_a_limit) {
  const Folders folders;
  ASSERT_EQ(
      microscale({"dequantize", folders.quantized(), "-o", folders.dense(), "--dtype", "bf16"})
          .code,
      0);
  const Outcome text = microscale({"compare", folders.dense(), folders.quantized()});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("Worst by relative MSE:"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("3 tensors are identical"), std::string::npos) << text.out;
  // BF16 has 8 bits of significand: an error of 1e-6 or so.
  EXPECT_EQ(microscale({"compare", folders.dense(), folders.quantized(), "--max-mse", "1e-4"}).code,
            0);
  const Outcome over =
      microscale({"compare", folders.dense(), folders.quantized(), "--max-mse", "1e-9", "--json"});
  EXPECT_EQ(over.code, 1);
  const Json json = Json::parse(over.out);
  EXPECT_EQ(json["within_max_mse"], false);
  EXPECT_EQ(json["identical"], 3);
  EXPECT_EQ(json["worst"].size(), 6u);
  // A NaN is no pass.
  EXPECT_EQ(microscale({"compare", folders.dense(), folders.broken(), "--max-mse", "1"}).code, 1);
}

}  // namespace
}  // namespace microscale::testing
