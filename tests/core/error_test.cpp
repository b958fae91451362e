#include "microscale/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/result.hpp"

namespace microscale {
namespace {

TEST(Error, every_code_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::bad_input, ErrorCode::unsupported,
                         ErrorCode::check_failed, ErrorCode::out_of_memory, ErrorCode::io,
                         ErrorCode::interrupted})
    names.insert(to_string(code));
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(names.count("unknown"), 0u);
}

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

}  // namespace
}  // namespace microscale
