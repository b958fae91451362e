// The one number: MICROSCALE_VERSION is project(VERSION) of CMakeLists.txt.
#include "microscale/version.hpp"

namespace microscale {

std::string_view version() { return MICROSCALE_VERSION; }

}  // namespace microscale
