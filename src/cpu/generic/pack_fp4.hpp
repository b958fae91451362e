// E2M1 codes to nibbles. Included inside a target region (cpu/target_region.hpp).

alignas(16) inline constexpr std::uint8_t fp4_low[16] = {0, 1, 1, 1, 1, 1, 1, 2,
                                                         2, 2, 3, 3, 4, 4, 5, 5};
alignas(16) inline constexpr std::uint8_t fp4_high[16] = {6, 6, 7};

/// Codes of magnitudes given as k = "quarter binades above 1/4, rounded up or down so that each of
/// E2M1's midpoints is a step of k": 0 at zero; 1, 7, 10, 12, 14, 16 and 18 begin codes 1 to 7.
inline Int fp4_from_steps(Int k0, Int k1) {
  const Int k = min8(pack16(k0, k1), set8(18));
  return or_(lookup8(table16(fp4_low), add8(k, set8(0x70))),
             lookup8(table16(fp4_high), sub8(k, set8(16))));
}

/// Bit 3 of each byte: the sign of 16-bit lanes, packed as pack16 packs.
inline Int sign_nibbles(Int x0, Int x1) { return and_(shr16<4>(pack16_signed(x0, x1)), set8(8)); }

/// Two vectors of codes, each from one pack of 16-bit lanes: two codes to a byte, in order.
inline Int merge_nibbles(Int a, Int b) {
  const Int weights = set16(0x1001);  // low + 16 * high
  return in_order_twice(pack16(dot8(a, weights), dot8(b, weights)));
}
