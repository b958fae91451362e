#include "microscale/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace microscale {
namespace {

TEST(Error, every_code_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (ErrorCode code :
       {ErrorCode::invalid_argument, ErrorCode::bad_input, ErrorCode::unsupported,
        ErrorCode::check_failed, ErrorCode::out_of_memory, ErrorCode::io, ErrorCode::interrupted})
    names.insert(to_string(code));
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace microscale
