// K and V of a tile of attention as FP32 rows, a block of keys at a time. Included inside a target
// region (cpu/target_region.hpp), after decode_run.hpp and the decoders LongSteps and ShortSteps
// (attention.hpp).

/// Keys of a block.
inline constexpr std::int64_t attention_keys = 32;

/// Elements of a decoder's step.
template <class Steps>
inline constexpr std::int64_t row_step = Steps::Nvfp4::elements;

template <class Steps>
inline std::int64_t padded(std::int64_t d) {
  return (d + row_step<Steps> - 1) / row_step<Steps> * row_step<Steps>;
}

/// Element of each place of a decoded row.
template <class B>
inline void fill_order(std::int64_t padded_d, std::int16_t* order) {
  for (std::int64_t s = 0; s < padded_d; s += B::elements)
    for (int i = 0; i < B::vectors; ++i)
      for (int l = 0; l < lanes; ++l)
        order[s + i * lanes + l] = static_cast<std::int16_t>(s + B::element(i, l));
}

/// K or V of a block's 32 keys, FP4 of one format, 16 at a time.
struct KeyRows {
  struct Half {
    const std::uint8_t *codes, *scales;
    std::int64_t stride, scale_stride;
  };
  Format format = Format::nvfp4;
  Half half[2];

  /// Rows from `rows` on.
  void set(std::int64_t h, const MatmulRows& rows) {
    half[h] = {rows.data, rows.scales, rows.stride, rows.scale_stride};
  }
};

/// Rows that are read next. They are asked for beside the products, a few lines at a time, as what
/// is asked for at once has to wait.
struct RowsAhead {
  const std::uint8_t *codes[attention_keys], *scales[attention_keys];  // scales: null if none
  std::int32_t bytes[attention_keys];
  std::int64_t count = 0;

  void add(const MatmulRows& rows, std::int64_t row, std::int64_t d) {
    codes[count] = rows.data + row * rows.stride;
    scales[count] = rows.scales ? rows.scales + row * rows.scale_stride : nullptr;
    const bool half =
        !rows.dense() && (rows.format == Format::nvfp4 || rows.format == Format::mxfp4);
    bytes[count++] = static_cast<std::int32_t>(rows.dense() ? d * size_of(rows.dtype)
                                               : half       ? d / 2
                                                            : d);
  }
  [[gnu::always_inline]] void ask(std::int64_t row) const {
    if (row >= count) return;
    ask_for(codes[row], bytes[row]);
    if (scales[row]) prefetch_line(scales[row], 0);
  }
};

template <class B>
void decode_rows(const MatmulRows& rows, std::int64_t first, std::int64_t count, std::int64_t d,
                 float* output) {
  const std::int64_t stride = (d + B::elements - 1) / B::elements * B::elements;
  for (std::int64_t j = 0; j < count; ++j, output += stride) {
    decode_run<B>(rows.data + (first + j) * rows.stride,
                  rows.scales + (first + j) * rows.scale_stride, d, output);
  }
}

/// Dense rows, their elements in place.
template <DType Type>
void copy_rows(const MatmulRows& rows, std::int64_t first, std::int64_t count, std::int64_t d,
               std::int64_t stride, float* output) {
  for (std::int64_t j = 0; j < count; ++j, output += stride) {
    to_floats<Type>(rows.data + (first + j) * rows.stride, static_cast<int>(d), output);
    for (std::int64_t i = d; i < stride; ++i) output[i] = 0.0f;
  }
}

/// Dense rows, their elements in `order`, or in place if that is null.
inline void place_rows(const MatmulRows& rows, std::int64_t first, std::int64_t count,
                       std::int64_t d, std::int64_t stride, const std::int16_t* order,
                       float* output) {
  if (order == nullptr)
    return by_type(rows.dtype, copy_rows<DType::f32>, copy_rows<DType::f16>,
                   copy_rows<DType::bf16>)(rows, first, count, d, stride, output);
  alignas(64) float values[256 + row_step<LongSteps>];
  for (std::int64_t i = d; i < stride; ++i) values[i] = 0.0f;
  for (std::int64_t j = 0; j < count; ++j, output += stride) {
    to_floats(rows.data + (first + j) * rows.stride, rows.dtype, d, values);
    for (std::int64_t i = 0; i < stride; ++i) output[i] = values[order[i]];
  }
}

/// K or V of a tile: its rows by position, and the order in which they decode.
template <class Steps>
struct AttentionSide {
  std::int64_t d = 0;
  bool blocks = false;  // some rows are block-scaled; all of those in `format`
  Format format = Format::nvfp4;
  std::int16_t* order = nullptr;  // padded(d) places; null: elements are in place

  void choose_order(std::int16_t* memory) {
    if (!blocks) return;
    order = memory;
    if (format == Format::nvfp4 || format == Format::mxfp4)
      fill_order<typename Steps::Nvfp4>(padded<Steps>(d), order);
    else
      fill_order<typename Steps::template Mxfp8<true>>(padded<Steps>(d), order);
  }

  /// Rows [first, first + count) to `output`, as values divided by factor().
  void decode(const MatmulRows& rows, std::int64_t first, std::int64_t count, float* output) const {
    if (rows.dense()) {
      place_rows(rows, first, count, d, padded<Steps>(d), order, output);
      return;
    }
    switch (rows.format) {
      case Format::nvfp4:
        return decode<typename Steps::Nvfp4>(rows, first, count, output);
      case Format::mxfp4:
        return decode<typename Steps::Mxfp4>(rows, first, count, output);
      case Format::mxfp8_e4m3:
        return decode<typename Steps::template Mxfp8<false>>(rows, first, count, output);
      default:
        return decode<typename Steps::template Mxfp8<true>>(rows, first, count, output);
    }
  }
  static double factor(const MatmulRows& rows) {
    if (rows.dense()) return 1;
    switch (rows.format) {
      case Format::nvfp4:
        return Steps::Nvfp4::factor;
      case Format::mxfp4:
        return Steps::Mxfp4::factor;
      case Format::mxfp8_e4m3:
        return Steps::template Mxfp8<false>::factor;
      default:
        return Steps::template Mxfp8<true>::factor;
    }
  }

 private:
  template <class B>
  void decode(const MatmulRows& rows, std::int64_t first, std::int64_t count, float* output) const {
    static_assert(B::elements == row_step<Steps>, "steps of one length");
    decode_rows<B>(rows, first, count, d, output);
  }
};
