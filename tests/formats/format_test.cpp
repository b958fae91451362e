#include "microscale/format.hpp"

#include <gtest/gtest.h>

#include <string>

#include "microscale/error.hpp"

namespace microscale {
namespace {

TEST(Format, table_is_indexed_by_format_and_names_round_trip) {
  for (const FormatInfo& format : all_formats()) {
    EXPECT_EQ(info(format.format).name, format.name);
    EXPECT_EQ(parse_format(format.name), format.format);
    EXPECT_NE(format_names().find(format.name), std::string::npos);
    EXPECT_DOUBLE_EQ(format.bits_per_element, format.code_bits + 8.0 / format.block);
  }
  EXPECT_EQ(parse_format("mxfp8"), Format::mxfp8_e4m3);
  EXPECT_FALSE(parse_format("fp4"));
}

TEST(Format, of_no_name_is_refused) {
  for (const int number : {7, 77, 255}) {
    try {
      info(static_cast<Format>(number));
      ADD_FAILURE() << number << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      const std::string message = error.what();
      EXPECT_NE(message.find("Format " + std::to_string(number) + " "), std::string::npos)
          << message;
      EXPECT_NE(message.find("mxint8"), std::string::npos) << message;
    }
  }
}

TEST(Format, code_bytes_rounds_up_to_whole_bytes) {
  EXPECT_EQ(code_bytes(info(Format::mxfp4), 32), 16);
  EXPECT_EQ(code_bytes(info(Format::mxfp4), 33), 17);
  EXPECT_EQ(code_bytes(info(Format::mxfp8_e4m3), 33), 33);
}

TEST(DType, names_and_sizes) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_EQ(parse_dtype(to_string(type)), type);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_FALSE(parse_dtype("int8"));
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
}

}  // namespace
}  // namespace microscale
