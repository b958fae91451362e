#include "emulator/ops/handler.hpp"

#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Handlers, both_instruction_sets_offer_the_same_keys) {
  for (const char* key :
       {"add.32", "fma.f32", "setp.lt.u32", "fma.bf16x2", "f32.f16", "selp.64", "prmt"}) {
    EXPECT_NE(find_handler(key, false), nullptr) << key;
    if (has_avx2()) {
      EXPECT_NE(find_handler(key, true), find_handler(key, false)) << key;
    }
  }
  EXPECT_EQ(find_handler("no.such"), nullptr);
  EXPECT_NE(find_handler("ld"), nullptr);
}

struct State {
  alignas(64) std::uint8_t rows[5][256];
  std::uint32_t predicates[8];

  bool operator==(const State& other) const {
    return std::memcmp(rows, other.rows, sizeof rows) == 0 &&
           std::memcmp(predicates, other.predicates, sizeof predicates) == 0;
  }
};

/// What the handler leaves of random bits, performed by one part of a warp after another.
State after(std::string_view key, bool avx2, std::initializer_list<std::uint32_t> parts) {
  State state;
  std::uint64_t random = 1;
  for (auto& row : state.rows)
    for (std::uint8_t& byte : row)
      byte = static_cast<std::uint8_t>((random = random * 6364136223846793005u + 1) >> 56);
  for (std::uint32_t& p : state.predicates) p = 0x0f0f3355;
  const std::uint32_t list[2] = {1024, 768};
  Warp warp;
  warp.base[0] = state.rows[0];
  warp.predicates = state.predicates;
  Op op;
  op.d = 0, op.a = 256, op.b = 512, op.c = 768, op.list = list;
  if (key.starts_with("setp") || key.starts_with("testp") || key == "pred")
    op.d = 3, op.extra = 4, op.c = 5;
  if (key == "pred") op.a = 5, op.b = 6;
  if (key.starts_with("set.") || key.starts_with("selp")) op.c = 5;
  if (key.starts_with("carried")) op.extra = 3, op.mode = 3;
  if (key.starts_with("directed")) op.mode = 1;
  if (key.starts_with("pack") || key.starts_with("unpack"))
    op.count = 2, op.mode = key.ends_with("64") ? 32 : 16;
  if (key.starts_with("integer.")) op.value = 16 | 8 << 8 | 1 << 16;
  if (key.starts_with("lop3") || key.starts_with("set.")) op.value = 0xca;
  if (key == "prmt.constant") op.value = 0x7250;
  if (key.find("i.") == 2 || key.find("ftz") != key.npos) op.value = op.value ? op.value : 32 | 256;
  for (const std::uint32_t lanes : parts) find_handler(key, avx2)(op, warp, lanes);
  return state;
}

std::vector<std::string_view> keys() {
  std::vector<std::string_view> all;
  for (const Family family :
       {portable::integer_family(), portable::bits_family(), portable::scalar_family(),
        portable::packed_family(), portable::convert_family(), portable::compare_family(),
        portable::cvt_lanes_family()})
    for (const HandlerEntry& entry : family) all.push_back(entry.key);
  return all;
}

TEST(Handlers, both_instruction_sets_compute_the_same_bits) {
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2";
  for (const std::string_view key : keys()) {
    EXPECT_TRUE(after(key, false, {0xfffffff7}) == after(key, true, {0xfffffff7})) << key;
    EXPECT_TRUE(after(key, false, {~0u}) == after(key, true, {~0u})) << key;
  }
}

TEST(Handlers, a_whole_warp_computes_what_its_parts_do) {
  for (const std::string_view key : keys())
    for (const bool avx2 : {false, has_avx2()})
      EXPECT_TRUE(after(key, avx2, {~0u}) == after(key, avx2, {0x0f0f3355, 0xf0f0ccaa})) << key;
}

}  // namespace
}  // namespace microscale::emulator
