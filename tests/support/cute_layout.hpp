// A layout written as shape:stride, "((4,8),(2,2)):((32,1),(16,8))", evaluated: a number in each
// top-level mode, counted with the first part running fastest, becomes an offset.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace microscale::testing {

class CuteLayout {
 public:
  explicit CuteLayout(std::string_view text) {
    const std::size_t colon = text.find(':');
    shape_ = modes_of(text.substr(0, colon));
    stride_ = modes_of(text.substr(colon + 1));
  }

  /// Offset of the element with number `indexes[i]` in mode i.
  int operator()(const std::vector<int>& indexes) const {
    int offset = 0;
    for (std::size_t mode = 0; mode < indexes.size(); ++mode) {
      int index = indexes[mode];
      for (std::size_t part = 0; part < shape_[mode].size(); ++part) {
        const bool last = part + 1 == shape_[mode].size();
        offset += (last ? index : index % shape_[mode][part]) * stride_[mode][part];
        index /= shape_[mode][part];
      }
    }
    return offset;
  }
  int size(std::size_t mode) const {
    int size = 1;
    for (const int part : shape_[mode]) size *= part;
    return size;
  }

 private:
  static std::vector<std::vector<int>> modes_of(std::string_view text) {
    std::vector<std::vector<int>> modes;
    int depth = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '(') {
        if (++depth == 2) modes.emplace_back();
      } else if (text[at] == ')') {
        --depth;
      } else if (text[at] != ',') {
        std::size_t end = at;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
        if (depth == 1) modes.emplace_back();
        modes.back().push_back(std::atoi(std::string(text.substr(at, end - at)).c_str()));
        at = end - 1;
      }
    }
    return modes;
  }

  std::vector<std::vector<int>> shape_, stride_;
};

}  // namespace microscale::testing
