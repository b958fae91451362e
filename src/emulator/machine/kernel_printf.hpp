// What printf of a kernel prints: the format read as C has it, the arguments out of the buffer that
// the compiler lays out for vprintf.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace microscale::emulator {

/// Where its arguments are.
struct PrintfArguments {
  /// 4 or 8 bytes at an offset of the buffer; false when they cannot be read, which ends the text.
  std::function<bool(std::uint64_t offset, int bytes, void* to)> number;
  /// The string at an address, for %s; false as above.
  std::function<bool(std::uint64_t address, std::string& to)> text;
};

struct Printed {
  std::string text;
  int count = 0;         // conversions done; -1: the format ends in the middle of one
  bool readable = true;  // false: an argument could not be read
};
/// Widths and precisions are held to 4096 characters; %n prints nothing.
Printed print_formatted(std::string_view format, const PrintfArguments& arguments);

/// What the blocks of a launch have printed, in the order in which they did.
class PrintedText {
 public:
  static constexpr std::size_t most = std::size_t{1} << 20;  // bytes, as CUDA keeps; then no more

  void add(std::string_view text);
  std::string take();

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace microscale::emulator
