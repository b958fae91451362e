#include "emulator/ops/address.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Addresses, a_row_an_offset_and_a_space_make_a_generic_address) {
  EXPECT_EQ(generic_shared(0x40), shared_window + 0x40);
  EXPECT_EQ(generic_shared(0x03000040), cluster_shared(2, 0x40));
  alignas(64) std::uint8_t rows[256];
  Warp warp;
  warp.base[0] = rows;
  std::uint64_t out[32];
  for (int i = 0; i < 32; ++i) warp.row32(0)[i] = static_cast<std::uint32_t>(4 * i);
  generic_addresses(warp, 0, false, ptx::Space::local, 8, out);
  EXPECT_EQ(out[3], local_window + 20);
  EXPECT_EQ(generic_address(warp, 0, false, ptx::Space::shared, -4, 3), shared_window + 8);
}

TEST(Addresses, an_access_survives_its_packing) {
  const AccessBits access =
      AccessBits::make(ptx::Space::shared, true, 3, true, 2, Order::acquire, MemoryScope::gpu, 5);
  EXPECT_EQ(access.space(), ptx::Space::shared);
  EXPECT_TRUE(access.wide_address());
  EXPECT_EQ(access.element_log2(), 3);
  EXPECT_TRUE(access.sign_extends());
  EXPECT_EQ(access.container_log2(), 2);
  EXPECT_EQ(access.order(), Order::acquire);
  EXPECT_EQ(access.scope(), MemoryScope::gpu);
  EXPECT_EQ(access.rest(), 5u);
}

}  // namespace
}  // namespace microscale::emulator
