// Decoders, and a run of a row's elements decoded into memory, each times its block's scale.
// Included inside a target region (cpu/target_region.hpp), after the decoders.
//
// A decoder B turns `elements` elements of a row, a step, into `vectors` vectors, in an order of
// its own:
//   load(codes), load_scales(scales)     one step of a row
//   vector(codes, i)                     the i-th vector; its lane l is element B::element(i, l)
//   scale(scales, g)                     lanewise, of the g-th group of vectors / groups vectors
//   factor                               by which all results must be multiplied yet
// and, where that is faster,
//   load_part(codes, bytes)              as load, of a step that ends there, after a multiple of
//                                        four bytes; zeros behind it
//   load_inside(codes)                   as load, of a step behind which there is another one
//   load_two_scales(scales, q)           of two steps

/// Asks for the line `ahead` bytes behind p, wherever that is. Inlined at once: g++ drops calls of
/// functions that only prefetch, as they have no effect.
[[gnu::always_inline]] inline void prefetch_line(const std::uint8_t* p, std::int64_t ahead) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead);
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
}

/// Asks for all lines of `bytes` from p on.
[[gnu::always_inline]] inline void ask_for(const std::uint8_t* p, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) prefetch_line(p, i);
}

/// One step of a row: values times B::factor^-1.
template <class B>
inline void decode_step(const typename B::Codes& w, const typename B::Scales& q, float* output) {
  constexpr int together = B::vectors / B::groups;
  MICROSCALE_UNROLL
  for (int g = 0; g < B::groups; ++g) {
    const Float scale = B::scale(q, g);
    MICROSCALE_UNROLL
    for (int i = g * together; i < (g + 1) * together; ++i)
      store_float(output + i * lanes, mul(B::vector(w, i), scale));
  }
}

/// The first `rest` elements of a step, filled up with zeros.
template <class B>
inline void decode_part(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rest,
                        float* output) {
  const std::int64_t bytes = rest * B::code_bytes / B::elements,
                     own_scales = rest * B::scale_bytes / B::elements;
  std::uint64_t last_scales = 0;       // in a register until they are whole: what is stored byte by
  static_assert(B::scale_bytes <= 8);  // byte has to reach the cache before it is loaded
  for (std::int64_t i = 0; i < own_scales; ++i) last_scales |= std::uint64_t{scales[i]} << (8 * i);
  const typename B::Scales q = B::load_scales(reinterpret_cast<const std::uint8_t*>(&last_scales));
  if constexpr (requires { B::load_part(codes, bytes); }) {
    decode_step<B>(B::load_part(codes, bytes), q, output);
  } else {
    alignas(64) std::uint8_t last_codes[B::code_bytes] = {};
    __builtin_memcpy(last_codes, codes, static_cast<std::size_t>(bytes));
    decode_step<B>(B::load(last_codes), q, output);
  }
}

/// `count` elements; the last step is filled up with zeros.
template <class B>
inline void decode_run(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t count,
                       float* output) {
  const std::int64_t whole = count / B::elements, rest = count % B::elements;
  for (std::int64_t s = 0; s < whole; ++s)
    decode_step<B>(B::load(codes + s * B::code_bytes), B::load_scales(scales + s * B::scale_bytes),
                   output + s * B::elements);
  if (rest > 0)
    decode_part<B>(codes + whole * B::code_bytes, scales + whole * B::scale_bytes, rest,
                   output + whole * B::elements);
}
