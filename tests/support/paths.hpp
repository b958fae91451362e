// What the tests know of their build: where their files and the program are, and whether it is one
// for sanitizers. paths.cpp alone is compiled with that: every other object of a test is the same
// in two checkouts, so a compiler cache shares it, and in builds for sanitizers, which link those
// of another build (MICROSCALE_TEST_OBJECTS).
#pragma once

#include <string>

namespace microscale::testing {

/// The folder tests/ of this checkout.
std::string test_data();

/// The program `microscale` of this build.
std::string program();

/// The sanitizers that the libraries are compiled for: "address,undefined", "thread" or none.
std::string sanitizers();

}  // namespace microscale::testing
