// BF16 to NVFP4 without leaving 16-bit integers. Under one scale an element's code is a step
// function of its bit pattern, and a doubled magnitude is a pattern 128 larger: codes 3, 5 and 7
// (from 1.25, 2.5 and 5 on) begin 128 apart, so do 4 and 6 (1.75 and 3.5), and a shift counts each
// such row of steps. Four numbers per scale code, made from the reference's own arithmetic at the
// start of a call, say where the rows and codes 1 and 2 begin. Included inside a target region.

/// Encodes blocks by the patterns at which their codes change. As ByMultiplier.
class BySteps {
 public:
  explicit BySteps(const Nvfp4Call& call) : covers_call_(call.global_scale >= 0x1p-100f) {
    for (int s = 0; s < 128; s += lanes) make_steps(s, call);
  }
  void start() {}
  void add_scales(int i, Int code, Float) { store(rows_ + i, shl32<2>(code)); }
  /// Steps among subnormal BF16 do not come in rows.
  bool covers_call() const { return covers_call_; }

  template <bool>
  void encode(const std::uint8_t* x, int count, std::uint8_t* codes, bool past_cache) const {
    for (int i = 0; i < count; i += lanes) {
      prefetch(x + i * 32 + dense_ahead + 64, lanes * 32, 2);
      MICROSCALE_UNROLL
      for (int k = i; k < i + lanes; k += 4)
        put(codes + k * 8,
            merge_nibbles(two_blocks(x + k * 32, rows_ + k),
                          two_blocks(x + k * 32 + 64, rows_ + k + 2)),
            past_cache);
    }
  }

 private:
  /// The last pattern that rounds down at `midpoint`, for each lane's step = scale * global scale
  /// and multiplier; twice, in 16 bits. Products and quotients err by far less than one pattern, so
  /// it is one of three.
  static Int last_below(float midpoint, bool tie_is_below, Float step, Float multiplier) {
    Int pattern =
        shr32<16>(as_int(mul(step, set_float(midpoint))));  // or the next, or the one before
    const Float y = mul(as_float(shl32<16>(pattern)), multiplier);
    const Float z = mul(as_float(shl32<16>(add32(pattern, set32(1)))), multiplier);
    const Float limit = set_float(midpoint);
    const Mask y_above = tie_is_below ? less(limit, y) : not_less(y, limit);
    const Mask z_above = tie_is_below ? less(limit, z) : not_less(z, limit);
    pattern = add32(add32(pattern, set32(1)), add32(as_int(y_above), as_int(z_above)));
    return or_(pattern, shl32<16>(pattern));
  }

  /// For scale codes s ... s + 7. Tied elements go to even codes.
  void make_steps(int s, const Nvfp4Call& call) {
    const Int code =
        add32(set32(static_cast<std::uint32_t>(s)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const Float scale = decode_ue4m3(code), multiplier = nvfp4_multipliers(scale, call);
    const Float step = mul(scale, set_float(call.global_scale));
    const float midpoints[4] = {0.25f, 0.75f, 1.25f, 1.75f};
    for (int i = 0; i < 4; ++i) {
      Int last = last_below(midpoints[i], i % 2 == 0, step, multiplier);
      last = choose32(equal32(code, zero()), set16(0x7FFF), last);  // scale 0: code 0
      if (i >= 2) last = sub16(last, set16(127));  // the next pattern is 128 above it
      alignas(32) std::uint32_t lane[lanes];
      store(lane, last);
      for (int k = 0; k < lanes; ++k) steps_[(s + k) * 4 + i] = lane[k];
    }
  }

  /// Codes of 16 elements of one block in 16-bit lanes, without sign or upper limit.
  static Int count_steps(Int x, const std::uint32_t* step) {
    const Int m = and_(x, set16(0x7FFF));
    const Int rows =
        add16(shr16<7>(subs16(m, set32(step[2]))), shr16<7>(subs16(m, set32(step[3]))));
    return sub16(rows, add16(greater16(m, set32(step[0])), greater16(m, set32(step[1]))));
  }

  /// Two blocks' codes, packed as pack16 packs.
  Int two_blocks(const std::uint8_t* x, const std::uint32_t* rows) const {
    const Int x0 = load(x), x1 = load(x + 32);
    const Int codes = pack16(count_steps(x0, steps_ + rows[0]), count_steps(x1, steps_ + rows[1]));
    return or_(min8(codes, set8(7)),
               sign_nibbles(x0, x1));  // a small scale may lie far below the largest element
  }

  bool covers_call_;
  alignas(64) std::uint32_t rows_[nvfp4_chunk];  // where a block's four numbers begin
  alignas(64) std::uint32_t steps_[128 * 4];  // last patterns of codes 0 and 1, starts of two rows
};
