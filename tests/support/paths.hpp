// Where the tests find their files and the program. paths.cpp alone is compiled with the paths of a
// checkout: every other object of a test is the same in two checkouts, so a compiler cache shares
// it.
#pragma once

#include <string>

namespace microscale::testing {

/// The folder tests/ of this checkout.
std::string test_data();

/// The program `microscale` of this build.
std::string program();

}  // namespace microscale::testing
