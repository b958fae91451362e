// Codes rounded stochastically, under scales that are there already: a scale does not depend on how
// elements are rounded. Included inside a target region (cpu/target_region.hpp).
//
// An element goes up if the highest 16 of the bits that it loses, and 16 random ones
// (formats/random.hpp), carry: the random ones are added at those bits' place, and the rest is cut.

/// mix32() of formats/random.hpp.
inline Int mixed32(Int x) {
  x = mul32(xor_(x, shr32<16>(x)), set32(0x7FEB352Du));
  x = mul32(xor_(x, shr32<15>(x)), set32(0x846CA68Bu));
  return xor_(x, shr32<16>(x));
}

/// random16() of elements `first` + offsets, whose 2^33 are those of `key`.
inline Int random_bits(std::uint64_t first, Int offsets, std::uint32_t key) {
  const Int from_even = add32(offsets, set32(static_cast<std::uint32_t>(first & 1)));
  const Int word = mixed32(
      xor_(add32(set32(static_cast<std::uint32_t>(first >> 1)), shr32<1>(from_even)), set32(key)));
  return choose32(equal32(and_(from_even, set32(1)), zero()), and_(word, set32(0xFFFFu)),
                  shr32<16>(word));
}

/// MXINT8's codes: steps of 1/64, in two's complement.
struct Int8Code {
  static constexpr int sign_bit = 0;
};
inline Int stochastic_int8(Float y, Int random) {
  const Float magnitude = min(as_float(and_(as_int(y), magnitude_mask32())), set_float(2.0f));
  const Int steps = min32_signed(
      shr32<16>(add32(to_int(mul(magnitude, set_float(0x1p22f))), random)), set32(127));
  const Int code = choose32(equal32(shr32<31>(as_int(y)), zero()), steps, sub32(zero(), steps));
  return choose32(unordered(y), zero(), and_(code, set32(0xFF)));
}

/// Those of a format with a sign, an exponent and a mantissa.
template <class Element>
inline Int stochastic_float(Float y, Int random) {
  constexpr int lost = 23 - Element::mantissa_bits;  // bits of a normal number
  const Int magnitude = and_(as_int(y), magnitude_mask32());
  const Int normal =
      sub32(shr32<lost>(add32(magnitude, shl32<lost - 16>(random))),
            set32(static_cast<std::uint32_t>(127 - Element::bias) << Element::mantissa_bits));
  // 2^16 times steps of the smallest codes.
  constexpr float steps =
      static_cast<float>(1 << (16 + Element::mantissa_bits)) / Element::smallest_normal;
  const Int small = shr32<16>(add32(to_int(mul(as_float(magnitude), set_float(steps))), random));
  const Int code = min32_signed(
      choose32(less(as_float(magnitude), set_float(Element::smallest_normal)), small, normal),
      set32(Element::max_code));
  const Int sign =
      choose32(equal32(shr32<31>(as_int(y)), zero()), zero(), set32(Element::sign_bit));
  return choose32(unordered(y), set32(Element::sign_bit - 1), or_(code, sign));
}

template <class Element>
inline Int stochastic_codes(Float y, Int random) {
  if constexpr (Element::sign_bit == 0)
    return stochastic_int8(y, random);
  else
    return stochastic_float<Element>(y, random);
}

template <class Element, int Block, DType Type>
void stochastic_run(const cpu::StochasticRun& run) {
  constexpr bool four_bits = Element::sign_bit == 8;
  constexpr int block_bytes = Block * size_of(Type), block_codes = four_bits ? Block / 2 : Block;
  alignas(64) std::uint32_t offsets[lanes];
  for (int i = 0; i < lanes; ++i) offsets[i] = static_cast<std::uint32_t>(i) * run.index_step;
  const Int offset = load(offsets);
  const std::uint64_t next = std::uint64_t{run.index_step} * lanes;
  std::uint64_t index = run.first_index;
  for (std::int64_t block = 0; block < run.blocks; ++block) {
    const Float multiplier = set_float(run.multipliers[run.scales[block]]);
    const auto* from = static_cast<const std::uint8_t*>(run.input) + block * block_bytes;
    alignas(64) std::uint8_t codes[Block];
    for (int i = 0; i < Block; i += lanes, index += next)
      store_low_bytes(codes + i, stochastic_codes<Element>(
                                     mul(load_floats<Type>(from + i * size_of(Type)), multiplier),
                                     random_bits(index, offset, run.key)));
    std::uint8_t* const to = run.codes + block * block_codes;
    if constexpr (!four_bits) {
      std::memcpy(to, codes, Block);
    } else {
      for (int i = 0; i < Block; i += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, codes + i, 8);
        const auto packed = static_cast<std::uint32_t>(_pext_u64(eight, 0x0F0F0F0F0F0F0F0Fu));
        std::memcpy(to + i / 2, &packed, 4);
      }
    }
  }
}

template <class Element, int Block = 32>
cpu::StochasticKernel stochastic_kernel(DType type) {
  return by_type(type, stochastic_run<Element, Block, DType::f32>,
                 stochastic_run<Element, Block, DType::f16>,
                 stochastic_run<Element, Block, DType::bf16>);
}

inline cpu::StochasticKernel stochastic_kernel(Format format, DType type) {
  switch (format) {
    case Format::mxfp4:
      return stochastic_kernel<Fp4>(type);
    case Format::nvfp4:
      return stochastic_kernel<Fp4, 16>(type);
    case Format::mxfp6_e2m3:
      return stochastic_kernel<Fp6E2M3>(type);
    case Format::mxfp6_e3m2:
      return stochastic_kernel<Fp6E3M2>(type);
    case Format::mxint8:
      return stochastic_kernel<Int8Code>(type);
    case Format::mxfp8_e5m2:
      return stochastic_kernel<Fp8E5M2>(type);
    default:
      return stochastic_kernel<Fp8E4M3>(type);
  }
}
