// An Error's code and words, of a call that must throw one.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "microscale/error.hpp"

namespace microscale::cuda::test {

template <class Call>
void expect_error(ErrorCode code, const std::string& words, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace microscale::cuda::test
