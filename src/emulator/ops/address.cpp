#include "emulator/ops/address.hpp"

namespace microscale::emulator {

void generic_addresses(const Warp& warp, Slot slot, bool wide, ptx::Space space,
                       std::int64_t offset, std::uint64_t* out) {
  if (space == ptx::Space::shared) {
    for (int i = 0; i < warp_lanes; ++i)
      out[i] = generic_address(warp, slot, wide, space, offset, i);
    return;
  }
  const std::uint64_t window = space == ptx::Space::local      ? local_window
                               : space == ptx::Space::constant ? constant_window
                               : space == ptx::Space::param    ? param_window
                                                               : 0;
  const auto by = static_cast<std::uint64_t>(offset);
  const std::uint64_t kept = window ? ~window_mask : ~std::uint64_t{0};  // also of what is below 0
  if (wide) {
    const std::uint64_t* base = warp.row64(slot);
    for (int i = 0; i < warp_lanes; ++i) out[i] = ((base[i] + by) & kept) | window;
  } else {
    const std::uint32_t* base = warp.row32(slot);
    for (int i = 0; i < warp_lanes; ++i) out[i] = ((base[i] + by) & kept) | window;
  }
}

}  // namespace microscale::emulator
