#include "ops/check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "microscale/error.hpp"
#include "microscale/tensor.hpp"

namespace microscale {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Check, places_name_operation_and_argument) {
  EXPECT_STREQ(Place("matmul", "a").c_str(), "matmul: a");
  EXPECT_STREQ(Place("", "").c_str(), ": ");
  const std::string whole(300, 'x');
  EXPECT_EQ(std::string(Place("matmul", whole.c_str()).c_str()), "matmul: " + whole.substr(0, 119));
  EXPECT_EQ(std::string(Place(whole.c_str(), "a").c_str()), whole.substr(0, 127));
}

TEST(Check, a_view_needs_sizes_a_stride_and_data) {
  const int data = 0;
  EXPECT_EQ(message_of([&] { check_view("op", &data, 2, 3, 3); }), "");
  EXPECT_EQ(message_of([] { check_view("op", nullptr, 0, 3, 0); }), "");
  EXPECT_EQ(message_of([&] { check_view("op", &data, 1, 3, 0); }), "");  // one row needs no stride
  EXPECT_NE(message_of([&] { check_view("op", &data, -2, 3, 3); }).find("op: a matrix of -2 x 3"),
            std::string::npos);
  EXPECT_NE(message_of([&] { check_view("op", &data, 2, 3, 2); }).find("row_stride is 2"),
            std::string::npos);
  EXPECT_NE(message_of([] { check_view("op", nullptr, 2, 3, 3); }).find("data is null"),
            std::string::npos);
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  for (const auto& [rows, cols, stride] :
       {std::array{huge, huge, huge}, {2, 3, huge}, {1, huge, 0}, {0, huge, 0}, {huge, 3, 3}})
    EXPECT_NE(
        message_of([&] { check_view("op", &data, rows, cols, stride); }).find("more than fits"),
        std::string::npos);
  EXPECT_EQ(message_of([&] { check_view("op", &data, 1, 3, huge); }), "");
}

TEST(Check, element_types_are_those_that_there_are) {
  const float data = 0;
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_EQ(message_of([&] { check_view("op", TensorView{&data, type, 1, 1, 1}); }), "");
  EXPECT_NE(message_of([&] {
              check_view("op", TensorView{&data, static_cast<DType>(77), 1, 1, 1});
            }).find("op: DType 77 is no element type"),
            std::string::npos);
}

TEST(Check, buffers_have_exactly_their_size) {
  EXPECT_EQ(message_of([] { check_bytes("op", "codes", 8, 8); }), "");
  EXPECT_NE(
      message_of([] { check_bytes("op", "codes", 7, 8); }).find("codes has 7 bytes, 8 are needed"),
      std::string::npos);
}

TEST(Check, numerics_are_those_that_there_are) {
  const auto of = [](auto&& spoil) {
    Numerics n;
    spoil(n);
    return message_of([&] { check_numerics("op", n, Format::mxfp4); });
  };
  EXPECT_EQ(of([](auto&) {}), "");
  EXPECT_NE(of([](auto& n) { n.scale_rule = ScaleRule::nearest; }).find("no scale rule nearest"),
            std::string::npos);
  EXPECT_NE(of([](auto& n) { n.rounding = static_cast<Rounding>(9); }).find("rounding is 9"),
            std::string::npos);
  EXPECT_NE(of([](auto& n) { n.nan = static_cast<NanPolicy>(9); }).find("nan is 9"),
            std::string::npos);
  EXPECT_NE(of([](auto& n) { n.inf = static_cast<InfPolicy>(9); }).find("inf is 9"),
            std::string::npos);
  EXPECT_NE(of([](auto& n) { n.zero_code = static_cast<ZeroCode>(9); }).find("zero_code is 9"),
            std::string::npos);
  EXPECT_NE(of([](auto& n) { n.compat = static_cast<Compat>(77); }).find("compat is 77"),
            std::string::npos);
}

TEST(Check, arrays_are_aligned) {
  const std::array<float, 2> data{};
  const auto* byte = reinterpret_cast<const char*>(data.data());
  EXPECT_EQ(message_of([&] { check_aligned("op", "sinks", byte, 4); }), "");
  EXPECT_EQ(message_of([] { check_aligned("op", "sinks", nullptr, 4); }), "");
  EXPECT_NE(message_of([&] {
              check_aligned("op", "sinks", byte + 2, 4);
            }).find("op: sinks is at an address that is no multiple of 4"),
            std::string::npos);
}

TEST(Check, a_row_stride_of_0_means_rows_side_by_side) {
  const float data[6]{};
  EXPECT_EQ(message_of([&] { check_view("op", data, 2, 3, 0); }), "");
  EXPECT_NE(message_of([&] { check_view("op", data, 2, 3, 1); }).find("or to 0 for packed rows"),
            std::string::npos);
  EXPECT_EQ(with_row_stride(TensorView{data, DType::f32, 2, 3}).row_stride, 3);
  EXPECT_EQ(with_row_stride(TensorView{data, DType::f32, 2, 3, 4}).row_stride, 4);
}

TEST(Check, global_scales_are_positive_and_normal) {
  EXPECT_EQ(message_of([] { check_global_scale("op", 1e-30f); }), "");
  for (float bad : {0.0f, -1.0f, 1e-40f, static_cast<float>(INFINITY), static_cast<float>(NAN)})
    EXPECT_NE(message_of([&] { check_global_scale("op", bad); }).find("global scale"),
              std::string::npos)
        << bad;
}

TEST(Check, global_scales_lie_where_the_call_runs) {
  const float numbers[] = {0.5f, -1.0f};
  const auto refused = [](const char* part, const GlobalScale& scale, bool on_device,
                          std::int64_t experts = 0) {
    const std::string text =
        message_of([&] { check_global_scale("op", scale, on_device, experts); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto there = GlobalScale::on_device(numbers);
  EXPECT_EQ(message_of([&] { check_global_scale("op", there, true); }), "");
  EXPECT_EQ(message_of([] { check_global_scale("op", 0.5f, false); }), "");
  refused("wants its global scale beforehand", {}, false);
  refused("wants its global scale beforehand", GlobalScale::on_device(nullptr), true);
  refused("backend cuda reads the global scale from device memory", 0.5f, true);
  refused("is in device memory, which a host backend does not read", there, false);
  refused("this call has no experts", GlobalScale::per_expert(numbers), false);
  refused("global scale -1", GlobalScale::per_expert(numbers), false, 2);
  EXPECT_EQ(
      message_of([&] { check_global_scale("op", GlobalScale::per_expert(numbers), false, 1); }),
      "");
}

}  // namespace
}  // namespace microscale
