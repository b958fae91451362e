// Which weights may be decoded with their scales inside: those that are then normal numbers of BF16
// (of FP32 nearly so: E4M3 is decoded to 2^-8 of its value, which FP32 still holds exactly).
// Included inside a target region (cpu/target_region.hpp).

/// Scale bytes of a format whose values are normal numbers with every code but zero.
struct ScaleRange {
  int first, last;
};
inline ScaleRange exact_scales(Format format) {
  if (format == Format::mxfp4) return {2, 252};        // 0.5 to 6
  if (format == Format::mxfp8_e4m3) return {10, 246};  // 2^-9 to 448
  return {17, 239};                                    // E5M2: 2^-16 to 57344
}

inline bool all_zero(const std::uint8_t* codes, Format format) {
  const int bytes = format == Format::mxfp4 ? 16 : 32, mask = format == Format::mxfp4 ? 0x77 : 0x7F;
  for (int i = 0; i < bytes; ++i)
    if (codes[i] & mask) return false;
  return true;
}

/// Blocks [first, last) of a row, one by one.
inline bool blocks_in_range(const MatmulRows& b, std::int64_t row, std::int64_t first,
                            std::int64_t last) {
  const ScaleRange range = exact_scales(b.format);
  const std::int64_t block_bytes = b.format == Format::mxfp4 ? 16 : 32;
  for (std::int64_t i = first; i < last; ++i) {
    const int scale = b.scales[row * b.scale_stride + i];
    const bool outside = (scale < range.first || scale > range.last) && scale != 255;
    if (outside && !all_zero(b.data + row * b.stride + i * block_bytes, b.format)) return false;
  }
  return true;
}

/// Whether no value of b's n rows is outside the normal numbers, but for zeros and NaN.
inline bool rows_in_range(const MatmulRows& b, std::int64_t n, std::int64_t k) {
  if (b.format == Format::nvfp4) return true;
  const ScaleRange range = exact_scales(b.format);
  const Int first = set8(range.first), width = set8(range.last - range.first);
  const std::int64_t blocks = k / 32;
  for (std::int64_t row = 0; row < n; ++row) {
    const std::uint8_t* scales = b.scales + row * b.scale_stride;
    std::int64_t i = 0;
    for (; i + vector_bytes <= blocks; i += vector_bytes)
      if (any_below8(width, sub8(load(scales + i), first)) &&
          !blocks_in_range(b, row, i, i + vector_bytes))
        return false;
    if (!blocks_in_range(b, row, i, blocks)) return false;
  }
  return true;
}
