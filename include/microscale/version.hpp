// Which microscale this is: the number in CMakeLists.txt, as the library was built.
//
// Versions below 1.0 may change the API from one minor version to the next (CHANGELOG.md lists
// what); a patch version changes none. Bytes that are written follow docs/formats/, whatever the
// version.
#pragma once

#include <string_view>

namespace microscale {

/// "0.2.0": major, minor and patch.
std::string_view version();

}  // namespace microscale
