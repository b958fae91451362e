// What is asked of a launch's results: a comparison with a file, the first elements, elements that
// no thread wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "npy.hpp"

namespace microscale {

/// NAME=FILE.npy[:TOLERANCE]
struct ResultCheck {
  std::string name;
  std::filesystem::path file;
  double tolerance = 0;  ///< |a - b| <= tolerance + tolerance |b|
};
/// NAME:COUNT
struct ResultPrint {
  std::string name;
  std::int64_t count = 8;
};
/// Throw Error{invalid_argument}.
ResultCheck result_check(const std::string& word);
ResultPrint result_print(const std::string& word);

/// The element as a number; whole numbers beyond 2^53 rounded.
double value_of(const Array& array, std::int64_t element);

/// A sentence where `got` is not what the file holds, else nothing. Equal bits are equal, NaN and
/// NaN too. Throws Error where the file cannot be read, or has another number of elements.
std::string difference(const std::string& name, const Array& got, const ResultCheck& check);
/// "o: 1 2.5 3".
std::string first_elements(const std::string& name, const Array& array, std::int64_t count);

}  // namespace microscale
