#include "emulator/machine/kernel_printf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace microscale::emulator {
namespace {

// Arguments one after the other, each aligned to its size, as nvcc stores them.
class Buffer {
 public:
  template <class Value>
  Buffer& add(Value value) {
    bytes_.resize((bytes_.size() + sizeof value - 1) / sizeof value * sizeof value);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  Printed print(std::string_view format) const {
    return print_formatted(
        format, {[this](std::uint64_t offset, int bytes, void* to) {
                   if (offset + static_cast<std::uint64_t>(bytes) > bytes_.size()) return false;
                   std::memcpy(to, bytes_.data() + offset, static_cast<std::size_t>(bytes));
                   return true;
                 },
                 [](std::uint64_t address, std::string& to) {
                   to = "text at " + std::to_string(address);
                   return true;
                 }});
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

TEST(KernelPrintf, prints_as_c_does) {
  EXPECT_EQ(Buffer().add(-5).add(7u).add('x' + 0).add(1.5).print("%d %u %c %g%%").text,
            "-5 7 x 1.5%");
  EXPECT_EQ(Buffer().add(3).add(-4LL).add(0xffu).print("%+05d|%-6lld|%#x").text,
            "+0003|-4    |0xff");
  EXPECT_EQ(Buffer().add(6).add(2).add(3.14159).print("[%*.*f]").text, "[  3.14]");
  EXPECT_EQ(Buffer().add(std::uint64_t{9}).add(300).print("%s %hhd").text, "text at 9 44");
  EXPECT_EQ(Buffer().add(std::uint64_t{0x1000}).add(0x12345).print("%p %hx").text, "0x1000 2345");
}

TEST(KernelPrintf, counts_conversions_and_says_what_it_cannot_read) {
  EXPECT_EQ(Buffer().add(1).add(2).print("%d, %d").count, 2);
  EXPECT_EQ(Buffer().print("nothing").count, 0);
  EXPECT_EQ(Buffer().print("open %").count, -1);
  EXPECT_EQ(Buffer().print("%y").text, "%y");
  const Printed short_of_one = Buffer().add(1).print("%d %d");
  EXPECT_FALSE(short_of_one.readable);
  EXPECT_EQ(short_of_one.text, "1 ");
}

TEST(KernelPrintf, widths_of_a_hostile_format_are_held) {
  EXPECT_EQ(Buffer().add(1).print("%999999999999d").text.size(), 4096u);
  EXPECT_EQ(Buffer().add(2000000000).add(1).print("%*d").text.size(), 4096u);
}

TEST(PrintedText, keeps_a_mebibyte) {
  PrintedText text;
  for (int i = 0; i < 20; ++i) text.add(std::string(100'000, 'x'));
  EXPECT_EQ(text.take().size(), PrintedText::most);
}

}  // namespace
}  // namespace microscale::emulator
