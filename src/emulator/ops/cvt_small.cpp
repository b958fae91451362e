// cvt of pairs of block scales, E8M0: rounded toward zero or up, and back; of pairs of integers
// that are packed. The element formats are in cvt_lanes.cpp. The first source goes to the high
// part. op.mode: bit 0 .satfinite.
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"
#include "formats/e8m0.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;

struct Floats {
  float high, low;
};
struct FromF32 {
  static Floats load(const Op& op, const Warp& warp, int i) {
    return {std::bit_cast<float>(warp.row32(op.a)[i]), std::bit_cast<float>(warp.row32(op.b)[i])};
  }
};
struct FromBf16x2 {
  static Floats load(const Op& op, const Warp& warp, int i) {
    const u32 a = warp.row32(op.a)[i];
    return {bf16_to_float(static_cast<std::uint16_t>(a >> 16)),
            bf16_to_float(static_cast<std::uint16_t>(a))};
  }
};

/// The exponent of a magnitude as an E8M0 byte, rounded toward zero or up; the sign is ignored.
u32 scale_byte(float value, bool up, bool satfinite) {
  const u32 magnitude = std::bit_cast<u32>(value) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 255;
  if (magnitude == 0x7f800000u) return satfinite ? 254 : 255;
  const u32 exponent = magnitude >> 23, fraction = magnitude & 0x7fffffu;
  if (!up) return exponent;
  // Below 2^-126 the byte 0 is 2^-127, whose fraction is 0x400000.
  if (exponent == 0) return fraction > 0x400000u ? 1 : 0;
  const u32 byte = exponent + (fraction != 0);
  return byte > 254 && satfinite ? 254 : byte;
}
template <class From, bool Up>
Step to_scale(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Floats from = From::load(op, warp, i);
    warp.row32(op.d)[i] =
        scale_byte(from.high, Up, op.mode & 1) << 8 | scale_byte(from.low, Up, op.mode & 1);
  }
  return Step::next;
}
Step from_scale(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 a = warp.row32(op.a)[i];
    warp.row32(op.d)[i] =
        static_cast<u32>(float_to_bf16(decode_e8m0(static_cast<std::uint8_t>(a >> 8)))) << 16 |
        float_to_bf16(decode_e8m0(static_cast<std::uint8_t>(a)));
  }
  return Step::next;
}

/// op.mode: bits of each; op.value: signed.
Step pack_integers(const Op& op, Warp& warp, u32 lanes) {
  const std::int64_t top = std::int64_t{1} << (op.mode - (op.value ? 1 : 0));
  const std::int64_t lowest = op.value ? -top : 0, highest = top - 1;
  const auto saturated = [&](Slot slot, int lane) {
    const std::int64_t value = static_cast<std::int32_t>(warp.row32(slot)[lane]);
    const std::int64_t kept = value < lowest ? lowest : value > highest ? highest : value;
    return static_cast<u32>(kept) & ((1u << op.mode) - 1);
  };
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 above = op.mode == 16 ? 0 : warp.row32(op.c)[i] << (2 * op.mode);
    warp.row32(op.d)[i] = above | saturated(op.a, i) << op.mode | saturated(op.b, i);
  }
  return Step::next;
}

}  // namespace

Family cvt_small_family() {
  static constexpr HandlerEntry entries[] = {
      {"small.ue8m0x2.f32.rz", to_scale<FromF32, false>},
      {"small.ue8m0x2.f32.rp", to_scale<FromF32, true>},
      {"small.ue8m0x2.bf16x2.rz", to_scale<FromBf16x2, false>},
      {"small.ue8m0x2.bf16x2.rp", to_scale<FromBf16x2, true>},
      {"small.bf16x2.ue8m0x2", from_scale},
      {"pack.integers", pack_integers},
  };
  return entries;
}

}  // namespace microscale::emulator
