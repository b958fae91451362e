#include "emulator/machine/kernel_printf.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace microscale::emulator {
namespace {

constexpr int widest = 4096;

class Formatter {
 public:
  Formatter(std::string_view format, const PrintfArguments& arguments)
      : format_(format), arguments_(arguments) {}

  Printed run() {
    while (at_ < format_.size() && printed_.readable && printed_.count >= 0) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      printed_.text += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) conversion();
    }
    return std::move(printed_);
  }

 private:
  bool next_is(std::string_view any) const {
    return at_ < format_.size() && any.find(format_[at_]) != std::string_view::npos;
  }

  // Digits or an asterisk, behind what `spec` has.
  void number(std::string& spec) {
    if (next_is("*")) {
      ++at_;
      const int value = static_cast<std::int32_t>(argument(4));
      spec += std::to_string(std::clamp(value, -widest, widest));
      return;
    }
    int value = 0;
    const bool any = next_is("0123456789");
    while (next_is("0123456789")) value = std::min(10 * value + (format_[at_++] - '0'), widest);
    if (any) spec += std::to_string(value);
  }

  void conversion() {
    std::string spec = "%";
    ++at_;
    while (next_is("-+ #0")) spec += format_[at_++];
    number(spec);
    if (next_is(".")) {
      spec += format_[at_++];
      number(spec);
    }
    std::string length;
    while (next_is("hlLjztq")) length += format_[at_++];
    if (at_ == format_.size()) {
      printed_.count = -1;
      return;
    }
    const char kind = format_[at_++];
    if (kind == '%') {
      printed_.text += '%';
      return;
    }
    // long is 8 bytes; shorter types arrive as int.
    const bool wide = length.find_first_of("lLjztq") != std::string::npos;
    if (std::strchr("di", kind)) {
      const std::uint64_t value = argument(wide ? 8 : 4);
      const auto narrow = static_cast<std::int32_t>(value);
      append(spec + "lld", wide             ? static_cast<long long>(value)
                           : length == "hh" ? static_cast<signed char>(narrow)
                           : length == "h"  ? static_cast<short>(narrow)
                                            : narrow);
    } else if (std::strchr("ouxX", kind)) {
      const std::uint64_t value = argument(wide ? 8 : 4);
      append(spec + "ll" + kind, static_cast<unsigned long long>(length == "hh"  ? value & 0xff
                                                                 : length == "h" ? value & 0xffff
                                                                                 : value));
    } else if (std::strchr("aAeEfFgG", kind)) {
      const std::uint64_t bits = argument(8);
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      append(spec + kind, value);
    } else if (kind == 'c') {
      append(spec + kind, static_cast<int>(argument(4)));
    } else if (kind == 'p') {
      append(spec + "p", reinterpret_cast<void*>(argument(8)));
    } else if (kind == 's') {
      std::string text;
      const std::uint64_t address = argument(8);
      if (printed_.readable) printed_.readable = arguments_.text(address, text);
      append(spec + "s", text.c_str());
    } else if (kind == 'n') {
      argument(8);
    } else {
      printed_.text += spec + length + kind;  // as CUDA leaves what it does not know
      return;
    }
    ++printed_.count;
  }

  std::uint64_t argument(int bytes) {
    const auto step = static_cast<std::uint64_t>(bytes);
    offset_ = (offset_ + step - 1) / step * step;
    std::uint64_t value = 0;
    if (printed_.readable) printed_.readable = arguments_.number(offset_, bytes, &value);
    offset_ += step;
    return value;
  }

  template <class Value>
  void append(const std::string& spec, Value value) {
    if (!printed_.readable) return;
    const int size = std::snprintf(nullptr, 0, spec.c_str(), value);
    if (size <= 0) return;
    std::string text(static_cast<std::size_t>(size) + 1, '\0');
    std::snprintf(text.data(), text.size(), spec.c_str(), value);
    text.pop_back();
    printed_.text += text;
  }

  std::string_view format_;
  const PrintfArguments& arguments_;
  Printed printed_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

Printed print_formatted(std::string_view format, const PrintfArguments& arguments) {
  return Formatter(format, arguments).run();
}

void PrintedText::add(std::string_view text) {
  const std::lock_guard lock(mutex_);
  text_ += text.substr(0, most - std::min(most, text_.size()));
}

std::string PrintedText::take() {
  const std::lock_guard lock(mutex_);
  return std::move(text_);
}

}  // namespace microscale::emulator
