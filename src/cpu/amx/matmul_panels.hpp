// Panels of weights for tile products: which there are, in which order, and how they are expanded
// a piece at a time. Included inside a target region, after expand.hpp.

inline constexpr std::int64_t panel_columns = 2 * tile_side;
inline constexpr std::int64_t panel_bytes = 2 * most_chunk_steps * tile_bytes;
inline constexpr std::int64_t tile_stride = 64;  // bytes of a tile's row

/// The weights of 32 columns of a tile over a chunk of k.
struct Panel {
  std::int64_t col = 0, at = 0, steps = 0;  // steps 0: there is none
};

/// The panels of a tile in the order in which they are multiplied, chunk by chunk.
template <Format From>
class Panels {
 public:
  static constexpr bool fp4 = From == Format::nvfp4 || From == Format::mxfp4;
  static constexpr std::int64_t group_bytes = fp4 ? group_elements / 2 : group_elements,
                                block = From == Format::nvfp4 ? 16 : 32,
                                group_scales = group_elements / block;

  Panels(const MatmulTile& tile, const MatmulProduct& product)
      : b_(tile.b), cols_(tile.cols), k_(product.k), most_steps_(chunk_steps(product.m)) {}

  Panel first() const { return sized({0, 0, 0}); }
  Panel after(const Panel& p) const {
    const bool last = p.col + panel_columns >= cols_;
    return sized({last ? 0 : p.col + panel_columns, last ? p.at + most_steps_ * step : p.at, 0});
  }
  /// Groups of 128 elements.
  static std::int64_t units(const Panel& p) { return p.steps / group_vectors * panel_columns; }
  std::int64_t columns(const Panel& p) const {
    return cols_ - p.col < panel_columns ? cols_ - p.col : panel_columns;
  }
  /// Groups of a column, from the panel on, that k fills up; of the one behind it only rest().
  std::int64_t whole_groups(const Panel& p) const { return (k_ - p.at) / group_elements; }
  std::int64_t rest() const { return k_ % group_elements; }
  const MatmulRows& rows() const { return b_; }
  const std::uint8_t* codes(const Panel& p) const {
    return b_.data + p.col * b_.stride + p.at / group_elements * group_bytes;
  }
  const std::uint8_t* scales(const Panel& p) const {
    return b_.scales + p.col * b_.scale_stride + p.at / block;
  }

 private:
  Panel sized(Panel p) const {
    const std::int64_t left = (padded(k_) - p.at) / step;
    p.steps = left < most_steps_ ? left : most_steps_;
    return p;
  }

  const MatmulRows& b_;
  std::int64_t cols_, k_, most_steps_;
};

/// 128 E4M3 elements in order, `scales` four bytes. As FP16 a code is 2^-8 times its value; times
/// 2^8 it is a normal number, whose fields are moved and get the scale. NaN goes the slower way.
inline void expand_e4m3(const std::uint8_t* codes, const std::uint8_t* scales,
                        Int v[group_vectors]) {
  const Int magnitude = set8(0x7F);
  const __mmask64 nan = _mm512_cmpeq_epi8_mask(and_(load(codes), magnitude), magnitude) |
                        _mm512_cmpeq_epi8_mask(and_(load(codes + 64), magnitude), magnitude);
  std::uint32_t word;
  __builtin_memcpy(&word, scales, sizeof word);
  const std::uint32_t nan_scale = (~word - 0x01010101u) & word & 0x80808080u;  // a byte of 255
  if (__builtin_expect(nan != 0 || nan_scale != 0, 0)) {
    MICROSCALE_UNROLL
    for (int i = 0; i < group_vectors; ++i)
      v[i] = expand_mxfp8<Format::mxfp8_e4m3>(codes + i * step, scales + i);
    return;
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < group_vectors; ++i) {
    const Int half = and_(shl16<7>(widen8_signed(codes + i * step)), set16(-0x4001));  // 0xBFFF
    const Int normal = _mm512_castph_si512(
        _mm512_mul_ph(_mm512_castsi512_ph(half), _mm512_castsi512_ph(set16(0x5C00))));
    const Int value = and_(_mm512_srai_epi16(normal, 3), set16(-0x7001));  // 0x8FFF
    const __mmask32 some = _mm512_test_epi16_mask(value, set16(0x7FFF));
    v[i] = _mm512_mask_add_epi16(value, some, value, set16((scales[i] - 127 + 112) << 7));
  }
}

/// One group of 128 elements to BF16, in four vectors.
template <Format From>
inline void expand_group(const std::uint8_t* codes, const std::uint8_t* scales,
                         Int v[group_vectors]) {
  if constexpr (From == Format::nvfp4) {
    expand_nvfp4(load(codes), scales, v);
  } else if constexpr (From == Format::mxfp4) {
    expand_mxfp4(load(codes), scales, v);
  } else if constexpr (From == Format::mxfp8_e4m3) {
    expand_e4m3(codes, scales, v);
  } else {
    MICROSCALE_UNROLL
    for (int i = 0; i < group_vectors; ++i) v[i] = expand_mxfp8<From>(codes + i * step, scales + i);
  }
}

/// The first `count` elements of a group, the others zero.
template <Format From>
inline void expand_rest(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t count,
                        Int v[group_vectors]) {
  using P = Panels<From>;
  alignas(64) std::uint8_t rest[P::group_bytes] = {}, rest_scales[P::group_scales] = {};
  __builtin_memcpy(rest, codes, static_cast<std::size_t>(count * P::group_bytes / group_elements));
  __builtin_memcpy(rest_scales, scales, static_cast<std::size_t>(count / P::block));
  expand_group<From>(rest, rest_scales, v);
}

/// Expands a panel into tiles, column by column, a group of 128 elements at a time; beside it asks
/// for the weights of the panel after it.
template <Format From>
class Expansion {
 public:
  using P = Panels<From>;
  Expansion(const P& panels, const Panel& panel, std::uint8_t* output)
      : output_(output), codes_(panels.codes(panel)), scales_(panels.scales(panel)) {
    groups_ = panel.steps / group_vectors;
    whole_groups_ = panels.whole_groups(panel);
    columns_ = panels.columns(panel);
    rest_ = panels.rest();
    code_jump_ = panels.rows().stride - groups_ * P::group_bytes;
    scale_jump_ = panels.rows().scale_stride - groups_ * P::group_scales;
    const Panel next = panels.after(panel);
    if (next.steps == 0) return;
    codes_ahead_ = panels.codes(next) - codes_;
    scales_ahead_ = panels.scales(next) - scales_;
  }

  /// The next groups.
  void expand(std::int64_t count) {
    Expansion e = *this;  // in registers: a store to tiles may change any memory
    for (; count > 0; --count) e.expand_one();
    *this = e;
  }

 private:
  void expand_one() {
    Int v[group_vectors];
    if (__builtin_expect(column_ >= columns_, 0)) {
      MICROSCALE_UNROLL
      for (int i = 0; i < group_vectors; ++i) v[i] = zero();
    } else if (__builtin_expect(group_ >= whole_groups_, 0)) {
      expand_rest<From>(codes_, scales_, rest_, v);
    } else {
      ask(codes_, codes_ahead_);
      if constexpr (!P::fp4) ask(codes_, codes_ahead_ + 64);
      if (group_ == 0) ask(scales_, scales_ahead_);
      expand_group<From>(codes_, scales_, v);
    }
    MICROSCALE_UNROLL
    for (int s = 0; s < group_vectors; ++s) store(output_ + s * tile_bytes, v[s]);
    codes_ += P::group_bytes;
    scales_ += P::group_scales;
    output_ += group_vectors * tile_bytes;
    if (++group_ == groups_) next_column();
  }
  void next_column() {
    group_ = 0;
    codes_ += code_jump_;
    scales_ += scale_jump_;
    output_ += tile_stride - groups_ * group_vectors * tile_bytes;
    if (++column_ == tile_side) output_ += groups_ * group_vectors * tile_bytes - tile_bytes;
  }
  static void ask(const std::uint8_t* p, std::int64_t ahead) {
    const auto address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead);
    _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T1);
  }

  std::uint8_t* output_;
  const std::uint8_t *codes_, *scales_;
  std::int64_t group_ = 0, groups_, whole_groups_, rest_, column_ = 0, columns_;
  std::int64_t code_jump_, scale_jump_, codes_ahead_ = 0, scales_ahead_ = 0;
};

/// What is done beside the steps of a panel: the next one is expanded, and `count` lines of a,
/// which are needed later, are asked for.
template <Format From>
class WorkBeside {
 public:
  WorkBeside(const Panels<From>& panels, const Panel& next, std::uint8_t* output,
             std::int64_t steps, const std::uint8_t* lines, std::int64_t count)
      : expansion_(panels, next, output),
        units_(Panels<From>::units(next)),
        steps_(steps),
        lines_(lines),
        last_(lines + count * 64) {}

  void step() {
    due_ += units_;
    if (due_ >= steps_) {
      std::int64_t count = 0;
      for (; due_ >= steps_; due_ -= steps_) ++count;
      expansion_.expand(count);
    }
    for (int i = 0; i < 4 && lines_ < last_; ++i, lines_ += 64)
      _mm_prefetch(reinterpret_cast<const char*>(lines_), _MM_HINT_T1);
  }

 private:
  Expansion<From> expansion_;
  std::int64_t units_, steps_, due_ = 0;  // `due_` in units of 1 / steps_ units
  const std::uint8_t *lines_, *last_;
};
