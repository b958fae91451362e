#include "microscale/kv_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "microscale/attention.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

TEST(KvCache, of_records_places_the_parts) {
  const KvPageShape shape{KvFormat::nvfp4, 3, 64, 32};
  ASSERT_EQ(shape.record_bytes(), 2 * 32 * (32 + 4));
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(5 * shape.page_bytes()));
  const KvCache cache = kv_cache_of_records(shape, memory);
  EXPECT_EQ(cache.pages, 5);
  EXPECT_EQ(cache.k_codes.data, memory.data());
  EXPECT_EQ(cache.k_scales.data, memory.data() + 32 * 32);
  EXPECT_EQ(cache.v_codes.data, memory.data() + 32 * 36);
  EXPECT_EQ(cache.v_scales.data, memory.data() + 32 * 68);
  EXPECT_EQ(cache.v_scales.token_stride, 4);
  EXPECT_EQ(cache.v_scales.head_stride, shape.record_bytes());
  EXPECT_EQ(cache.v_scales.page_stride, 3 * shape.record_bytes());
}

TEST(KvCache, of_records_refuses_what_is_no_cache) {
  std::vector<std::uint8_t> memory(2 * 16 * 144 + 16);
  const auto refused = [&](const KvPageShape& shape, std::size_t bytes, std::size_t at = 0) {
    EXPECT_THROW(kv_cache_of_records(shape, std::span(memory).subspan(at, bytes)), Error);
  };
  const std::size_t bytes = 2 * 16 * 72;
  kv_cache_of_records({KvFormat::nvfp4, 1, 128, 16}, std::span(memory).first(bytes));
  refused({KvFormat::nvfp4, 1, 128, 16}, bytes - 1);
  refused({KvFormat::nvfp4, 1, 128, 16}, bytes, 1);
  refused({KvFormat::nvfp4, 1, 100, 16}, bytes);
  refused({KvFormat::nvfp4, 1, 288, 16}, bytes);
  refused({KvFormat::nvfp4, 0, 128, 16}, bytes);
  refused({KvFormat::nvfp4, 1, 128, 8}, bytes);
  refused({KvFormat::nvfp4, 1, 32, std::int64_t{1} << 62},
          bytes);  // bytes of a page: 0 modulo 2^64
  refused({KvFormat::nvfp4, std::int64_t{1} << 62, 128, 16}, bytes);
  refused({static_cast<KvFormat>(9), 1, 128, 16}, bytes);
  for (const KvPageShape& shape : {KvPageShape{KvFormat::nvfp4, 1, -128, 16},
                                   {KvFormat::nvfp4, 1, 128, std::int64_t{1} << 62},
                                   {static_cast<KvFormat>(9), 1, 128, 16}})
    EXPECT_THROW(shape.record_bytes(), Error);
}

TEST(KvCache, rope_tables_are_cosine_and_sine) {
  std::vector<float> cos(10 * 4), sin(10 * 4);
  fill_rope_tables(10000.0, 10, 8, cos, sin);
  for (int p = 0; p < 10; ++p)
    for (int i = 0; i < 4; ++i) {
      const double angle = p * std::pow(10000.0, -i / 4.0);
      EXPECT_EQ(cos[static_cast<std::size_t>(4 * p + i)], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(sin[static_cast<std::size_t>(4 * p + i)], static_cast<float>(std::sin(angle)));
    }
  EXPECT_THROW(fill_rope_tables(10000.0, 10, 7, cos, sin), Error);
  EXPECT_THROW(fill_rope_tables(10000.0, 9, 8, cos, sin), Error);
  EXPECT_THROW(fill_rope_tables(0.0, 10, 8, cos, sin), Error);
  EXPECT_THROW(fill_rope_tables(10000.0, (std::int64_t{1} << 62) + 10, 8, cos, sin), Error);
}

}  // namespace
}  // namespace microscale
