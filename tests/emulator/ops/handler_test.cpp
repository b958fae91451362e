#include "emulator/ops/handler.hpp"

#include <cstring>

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

TEST(Handlers, both_instruction_sets_compute_the_same_bits) {
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2";
  for (const Family family :
       {avx2::integer_family(), avx2::bits_family(), avx2::scalar_family(), avx2::packed_family(),
        avx2::convert_family(), avx2::compare_family()})
    for (const HandlerEntry& entry : family) {
      alignas(64) std::uint8_t rows[2][5][256];
      std::uint32_t predicates[2][8];
      std::uint64_t state = 1;
      for (std::uint8_t& byte : rows[0][0]) byte = 0;
      for (int r = 0; r < 5; ++r)
        for (std::uint8_t& byte : rows[0][r])
          byte = static_cast<std::uint8_t>((state = state * 6364136223846793005u + 1) >> 56);
      std::memcpy(rows[1], rows[0], sizeof rows[0]);
      const std::uint32_t list[2] = {1024, 1024};
      for (int set = 0; set < 2; ++set) {
        for (std::uint32_t& p : predicates[set]) p = 0x0f0f3355;
        Warp warp;
        warp.base[0] = rows[set][0];
        warp.predicates = predicates[set];
        Op op;
        op.d = 0, op.a = 256, op.b = 512, op.c = 768, op.list = list;
        const std::string_view key = entry.key;
        if (key.starts_with("setp") || key.starts_with("testp") || key == "pred")
          op.d = 3, op.extra = 4, op.c = 5;
        if (key == "pred") op.a = 5, op.b = 6;
        if (key.starts_with("set.") || key.starts_with("selp")) op.c = 5;
        if (key.starts_with("carried")) op.extra = 3, op.mode = 3;
        if (key.starts_with("directed")) op.mode = 1;
        if (key.starts_with("integer.")) op.value = 16 | 8 << 8 | 1 << 16;
        if (key.find("i.") == 2 || key.find("ftz") != key.npos)
          op.value = op.value ? op.value : 32 | 256;
        find_handler(key, set == 1)(op, warp, 0xfffffff7u);
      }
      EXPECT_EQ(std::memcmp(rows[0], rows[1], sizeof rows[0]), 0) << entry.key;
      EXPECT_EQ(std::memcmp(predicates[0], predicates[1], sizeof predicates[0]), 0) << entry.key;
    }
}

}  // namespace
}  // namespace microscale::emulator
