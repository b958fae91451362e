#include "support/paths.hpp"

namespace microscale::testing {

std::string test_data() { return MICROSCALE_TEST_DATA; }

std::string program() { return MICROSCALE_PROGRAM; }

std::string sanitizers() { return MICROSCALE_TEST_SANITIZERS; }

}  // namespace microscale::testing
