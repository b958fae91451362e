#include "core/result.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(Result, take_gives_the_value_or_throws_the_failure) {
  EXPECT_EQ(take(Result<int>(3)), 3);
  try {
    take(Result<int>(Failure{ErrorCode::io, "no such file"}));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_STREQ(error.what(), "no such file");
  }
}

TEST(Result, knows_whether_it_failed) {
  const Result<int> failed(Failure{ErrorCode::bad_input, "seven is odd"});
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.failure().message, "seven is odd");
  EXPECT_TRUE(Result<int>(7).ok());
}

}  // namespace
}  // namespace microscale
