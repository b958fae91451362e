// Reads the golden vectors of tests/golden; scripts/golden/README.md describes the files.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "microscale/format.hpp"
#include "support/paths.hpp"

namespace microscale::golden {

/// One input block of 32 elements.
struct Case {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint32_t> bits;  ///< of `dtype`
};

/// What a tool made of a case.
struct Line {
  int number = 0;              ///< of the case
  float amax = 0, global = 1;  ///< NVFP4: tensor magnitude given, and the tool's own number
  std::vector<std::uint8_t> scales, codes;  ///< one code per byte
};

struct File {
  std::map<std::string, std::string> header;  ///< tool, version, source, format, rule, convention
  std::vector<Line> lines;
};

inline std::uint32_t hex(const std::string& digits) {
  return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
}

inline std::vector<std::uint32_t> hex_words(const std::string& digits, std::size_t width) {
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < digits.size(); i += width)
    words.push_back(hex(digits.substr(i, width)));
  return words;
}

inline std::vector<std::uint8_t> hex_bytes(const std::string& digits, std::size_t width) {
  const auto words = hex_words(digits, width);
  return {words.begin(), words.end()};
}

inline std::string path(const std::string& stem) {
  return microscale::testing::test_data() + "/golden/" + stem + ".txt";
}

inline std::vector<Case> read_cases() {
  std::ifstream stream(path("inputs"));
  std::vector<Case> cases;
  for (std::string text; std::getline(stream, text);) {
    std::istringstream fields(text);
    std::string word, number, name, dtype, magnitude, elements;
    fields >> word >> number >> name >> dtype >> magnitude >> elements;
    if (word != "case") continue;
    const auto type = parse_dtype(dtype);
    if (!type) {
      ADD_FAILURE() << name << ": dtype " << dtype;
      return cases;
    }
    cases.push_back(
        {name, *type, hex_words(elements, static_cast<std::size_t>(2 * size_of(*type)))});
    EXPECT_EQ(cases.back().bits.size(), 32u) << name;
    EXPECT_EQ(std::to_string(cases.size() - 1), number);
  }
  return cases;
}

inline File read_file(const std::string& stem) {
  std::ifstream stream(path(stem));
  File file;
  for (std::string text; std::getline(stream, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream fields(text);
    std::string first;
    fields >> first;
    if (first.find_first_not_of("0123456789") != std::string::npos) {
      file.header[first] = text.substr(first.size() + 1);
      continue;
    }
    const auto format = parse_format(file.header["format"]);
    if (!format) {
      ADD_FAILURE() << stem << ": no format in the header";
      return file;
    }
    Line line;
    line.number = std::stoi(first);
    std::string scales, codes, amax, global;
    if (!info(*format).e8m0_scale) {
      fields >> amax >> global;
      line.amax = std::bit_cast<float>(hex(amax));
      line.global = std::bit_cast<float>(hex(global));
    }
    fields >> scales >> codes;
    line.scales = hex_bytes(scales, 2);
    line.codes = hex_bytes(codes, info(*format).code_bits == 4 ? 1 : 2);
    file.lines.push_back(line);
  }
  return file;
}

}  // namespace microscale::golden
