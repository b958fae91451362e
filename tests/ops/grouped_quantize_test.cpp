// Grouped quantize on the host against one call per expert.
#include <gtest/gtest.h>

#include <algorithm>

#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

constexpr std::uint8_t untouched = 0xA5;

struct Call {
  test::Matrix input = test::gaussian(DType::bf16, 400, 96);
  std::vector<std::int32_t> offsets{3, 3, 5, 133, 133, 262, 390};  // rows 0-2 and 390-399: nobody's
  std::vector<float> global_scales{1e-3f, 2e-3f, 1.5e-3f, 1e-4f, 5e-4f, 3e-3f};
  GroupedQuantizeOptions options;
  std::vector<std::uint8_t> codes, scales;

  Call(Format format, Layout layout) {
    options.input = input.view();
    options.groups = {offsets.data(), OffsetType::i32, 6};
    options.format = format;
    options.layout = layout;
    options.global_scale = GlobalScale::per_expert(global_scales.data());
    codes.assign(static_cast<std::size_t>(BlockShape{400, 96, format}.code_bytes()), untouched);
    scales.assign(static_cast<std::size_t>(grouped_scale_bytes(400, 96, 6, format, layout)),
                  untouched);
  }
  void run() { grouped_quantize_into(options, codes, scales); }
  std::pair<std::int64_t, std::int64_t> rows_of(std::size_t e) const {
    if (options.groups.counts == nullptr) return {offsets[e], offsets[e + 1] - offsets[e]};
    return {static_cast<std::int64_t>(e) * options.groups.capacity,
            static_cast<const std::int32_t*>(options.groups.counts)[e]};
  }
};

// Byte for byte, and every other byte untouched.
void expect_one_call_per_expert(const Call& call) {
  const GroupedQuantizeOptions& o = call.options;
  std::vector<std::uint8_t> codes(call.codes.size(), untouched),
      scales(call.scales.size(), untouched);
  for (std::size_t e = 0; e < 6; ++e) {
    const auto [begin, rows] = call.rows_of(e);
    QuantizeOptions part{
        .input = call.input.view(), .format = o.format, .numerics = o.numerics, .layout = o.layout};
    part.input.rows = rows;
    part.input.data = call.input.bytes.data() + begin * 96 * 2;
    part.first_index = o.first_index + static_cast<std::uint64_t>(begin * 96);
    if (o.format == Format::nvfp4) part.global_scale = call.global_scales[e];
    const BlockTensor wanted = quantize(part);
    const std::int64_t line = wanted.shape().code_bytes_per_line();
    std::copy(wanted.codes().begin(), wanted.codes().end(), codes.begin() + begin * line);
    std::copy(wanted.scales().begin(), wanted.scales().end(),
              scales.begin() + grouped_scale_offset(o.groups, static_cast<std::int64_t>(e), 96,
                                                    o.format, o.layout));
  }
  EXPECT_TRUE(call.codes == codes);
  EXPECT_TRUE(call.scales == scales);
}

TEST(GroupedQuantize, gives_the_bytes_of_one_call_per_expert) {
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3})
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
      SCOPED_TRACE(std::string(info(format).name) + std::to_string(static_cast<int>(layout)));
      Call call(format, layout);
      call.run();
      expect_one_call_per_expert(call);
      call.options.numerics.rounding = Rounding::stochastic;
      call.options.first_index = 77;
      call.run();
      expect_one_call_per_expert(call);
    }
}

TEST(GroupedQuantize, takes_wide_offsets) {
  Call call(Format::nvfp4, Layout::tiled_128x4);
  const std::vector<std::int64_t> wide(call.offsets.begin(), call.offsets.end());
  call.options.groups = {wide.data(), OffsetType::i64, 6};
  call.run();
  expect_one_call_per_expert(call);
}

TEST(GroupedQuantize, takes_counts_of_rows_and_touches_no_other) {
  const std::vector<std::vector<std::int32_t>> all{
      {0, 66, 1, 17, 0, 65}, {0, 0, 0, 0, 0, 0}, {66, 66, 66, 66, 66, 66}};
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3})
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
      for (const std::vector<std::int32_t>& counts : all) {
        Call call(format, layout);
        call.options.groups = {nullptr, OffsetType::i32, 6, counts.data(), 66};
        call.run();
        expect_one_call_per_expert(call);
      }
}

TEST(GroupedQuantize, regions_of_counts_are_those_of_full_experts) {
  const std::vector<std::int32_t> counts{0, 130, 7};
  const ExpertRows groups{nullptr, OffsetType::i32, 3, counts.data(), 130};
  const std::vector<std::int32_t> full{0, 130, 260, 390};
  const ExpertRows offsets{full.data(), OffsetType::i32, 3};
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
    for (std::int64_t e = 0; e < 3; ++e)
      EXPECT_EQ(grouped_scale_offset(groups, e, 96, Format::mxfp4, layout),
                grouped_scale_offset(offsets, e, 96, Format::mxfp4, layout));
}

TEST(GroupedQuantize, regions_of_no_expert_are_refused) {
  const std::vector<std::int32_t> offsets{0, 130, 137};
  const ExpertRows two{offsets.data(), OffsetType::i32, 2};
  const auto at = [](const ExpertRows& groups, std::int64_t expert, Layout layout) {
    return grouped_scale_offset(groups, expert, 96, Format::mxfp4, layout);
  };
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    EXPECT_EQ(at(two, 2, layout), layout == Layout::row_major ? 137 * 3 : 3 * 512);
    EXPECT_THROW(at(two, 3, layout), Error);
    EXPECT_THROW(at(two, -1, layout), Error);
    EXPECT_THROW(at({.experts = 2}, 1, layout), Error);
    const ExpertRows huge{.experts = 2, .counts = offsets.data(), .capacity = INT64_MAX};
    EXPECT_THROW(at(huge, 1, layout), Error);
    EXPECT_THROW(grouped_scale_bytes(INT64_MAX, 96, 2, Format::mxfp4, layout), Error);
    EXPECT_THROW(grouped_scale_bytes(3, 96, -1, Format::mxfp4, layout), Error);
  }
}

TEST(GroupedQuantize, regions_follow_each_other_in_whole_tiles) {
  const Call call(Format::mxfp8_e4m3, Layout::tiled_128x4);
  const auto at = [&](std::int64_t e) {
    return grouped_scale_offset(call.options.groups, e, 96, call.options.format,
                                Layout::tiled_128x4);
  };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(1), 0);     // expert 0 is empty
  EXPECT_EQ(at(2), 512);   // two rows
  EXPECT_EQ(at(3), 1024);  // 128 rows
  EXPECT_EQ(at(4), 1024);  // none
  EXPECT_EQ(at(5), 2048);  // 129 rows
  EXPECT_EQ(at(6), 2560);  // 128 rows
  EXPECT_EQ(grouped_scale_bytes(400, 96, 6, Format::mxfp8_e4m3, Layout::tiled_128x4),
            (6 + 394 / 128) * 512);
}

TEST(GroupedQuantize, no_experts_and_no_rows_write_nothing) {
  Call call(Format::mxfp4, Layout::row_major);
  call.options.groups.experts = 0;
  call.run();
  EXPECT_TRUE(std::all_of(call.codes.begin(), call.codes.end(),
                          [](std::uint8_t byte) { return byte == untouched; }));
  EXPECT_EQ(grouped_scale_bytes(0, 96, 6, Format::mxfp4, Layout::tiled_128x4), 0);
}

TEST(GroupedQuantize, says_what_is_wrong) {
  const auto message = [](auto&& change) {
    Call call(Format::nvfp4, Layout::row_major);
    change(call);
    try {
      call.run();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message([](Call& c) { c.offsets[2] = 2; }), "offset 2 is 2 after 3");
  has(message([](Call& c) { c.offsets[6] = 401; }), "offset 6 is 401");
  has(message([](Call& c) { c.options.groups.offsets = nullptr; }), "no offsets");
  has(message([](Call& c) {
        c.options.groups = {nullptr, OffsetType::i32, 6, c.offsets.data(), 66};
      }),
      "expert 3 has a count of 133 rows");
  has(message([](Call& c) { c.options.global_scale = {}; }), "pass global_scale");
  has(message([](Call& c) {
        c.global_scales[4] = -1;
        const std::vector<std::uint8_t> before = c.codes;
        EXPECT_THROW(c.run(), Error);
        EXPECT_EQ(c.codes, before);  // of no expert
      }),
      "global scale -1");
  has(message([](Call& c) { c.global_scales[1] = 0; }), "global scale 0");
  has(message([](Call& c) { c.options.input.cols = 90; }), "block of 16");
  has(message([](Call& c) { c.scales.pop_back(); }), "buffer of scales");
  has(message([](Call& c) { c.options.numerics.scale_rule = ScaleRule::floor; }),
      "has no scale rule floor");
}

}  // namespace
}  // namespace microscale
