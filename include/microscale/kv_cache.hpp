// A cache of keys and values in 4 or 8 bits, and appending to it.
//
// The cache is pages of `page_size` tokens. Token t of a sequence lies in page page_table[t /
// page_size] of that sequence, at t % page_size; without a page table sequence s has page s alone,
// which is then as long as a sequence can become. A page has one record per kv head,
//
//   [K codes | K scales | V codes | V scales]     tokens in order, d codes or their scales each
//
// every part at a multiple of 16 bytes (src/layouts/kv_page.hpp has the arithmetic). 4-bit codes
// lie two to a byte, the even element in the low nibble; scales are linear, not tiled. Strides say
// where each part is, so codes and scales in tensors of their own (FlashInfer, vLLM) are read and
// written, too: docs/attention.md has the strides.
//
// Every token is in the pages. Copies of the first and of the most recent tokens may be kept in
// BF16 as well; attention reads those instead of the pages' codes, within the one softmax.
//
// The caller owns all memory. Page tables, lengths and offsets are read when the work runs; on
// Backend::cuda they are device memory, and the calls may be captured into a graph. A page outside
// [0, pages), or a length beyond what pages and table (or RoPE's tables) can hold, is
// Error{invalid_argument} on a host; a GPU leaves such tokens out: it reads and writes nothing
// there.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"
#include "microscale/heads.hpp"
#include "microscale/kv_format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// Codes or scales of K or V: those of one token and head are contiguous, at data + page *
/// page_stride + head * head_stride + token * token_stride (bytes).
///
/// Backend::cuda wants codes with all strides at multiples of 16 bytes. Scales may lie anywhere for
/// append_kv, and for plain attention on compute capability 9.0. With few queries that is fast
/// where they lie as records have them: at multiples of 16 bytes, tokens side by side. So they must
/// lie for BF16 copies, a mean of K, a Hadamard transform and several splits, and on Blackwell
/// (where q is block-scaled, or the accuracy not `storage`: at multiples of 4 bytes).
struct KvPart {
  std::uint8_t* data = nullptr;
  std::int64_t page_stride = 0, head_stride = 0, token_stride = 0;
};

/// BF16 copies of tokens, [batch, count, kv_heads, d] packed, as the pages have them: after RoPE,
/// without the mean, transformed. `recent` is of the length at the last append: a sequence that is
/// made shorter has lost the copies of its now most recent tokens; append those again.
struct KvCopies {
  std::int64_t count = 0;      ///< tokens per sequence; 0: none
  std::uint16_t* k = nullptr;  ///< Backend::cuda: at a multiple of 16 bytes
  std::uint16_t* v = nullptr;
};

/// A view; attention only reads through it.
struct KvCache {
  KvFormat format = KvFormat::nvfp4;
  std::int64_t batch = 0;  ///< sequences
  std::int64_t kv_heads = 0;
  std::int64_t d = 0;          ///< a multiple of 32, up to 256
  std::int64_t page_size = 0;  ///< tokens: 16, 32 or 64; without a page table any multiple of 16
  std::int64_t pages = 0;      ///< in memory; without a page table `batch`
  KvPart k_codes{}, k_scales{}, v_codes{}, v_scales{};  ///< no scales for KvFormat::fp8

  const std::int32_t* page_table = nullptr;  ///< [batch, max_pages]; null: sequence s has page s
  std::int64_t max_pages = 0;                ///< of one sequence: columns of the table
  const std::int32_t* lengths = nullptr;     ///< [batch], tokens of each sequence, 0 or more

  /// Decode multipliers of NVFP4 and FP8; MX formats have none.
  float k_global_scale = 1.0f, v_global_scale = 1.0f;
  const float* device_global_scales = nullptr;  ///< Backend::cuda, instead: K's, then V's

  KvCopies first{};   ///< positions [0, count): position p at p
  KvCopies recent{};  ///< positions [length - count, length): position p at p % count

  /// Subtracted from K (after RoPE) when it was appended: FP32 [kv_heads, d], or null. Attention's
  /// result is that of K with its mean.
  const float* k_mean = nullptr;
  /// 16: K was multiplied (after its mean was subtracted) by the orthonormal Hadamard matrix of
  /// that order, run by run along d; attention does the same to q. 0: not.
  int hadamard = 0;
};

/// Sizes of a cache made of records, in bytes.
struct KvPageShape {
  KvFormat format = KvFormat::nvfp4;
  std::int64_t kv_heads = 0, d = 0, page_size = 0;

  std::int64_t record_bytes() const;  ///< of one page and one kv head
  std::int64_t page_bytes() const { return kv_heads * record_bytes(); }
};

/// The view of `memory`, pages * shape.page_bytes() bytes at a multiple of 16 that hold whole
/// records, page by page, head by head. Format, kv heads, d, page size, pages and the four parts
/// are set; batch, lengths, page table, global scales and the rest are for the caller. Throws
/// Error.
KvCache kv_cache_of_records(const KvPageShape& shape, std::span<std::uint8_t> memory);

/// How the scales of V lie in the pages. Kernels here take linear ones.
enum class KvScaleLayout : std::uint8_t {
  linear,  ///< [token][block], as KvPart's strides say
  /// As vLLM and SGLang store them for TensorRT-LLM's kernels on compute capability 10.x: inside
  /// each four tokens, with n = d / 16 blocks a row, that of token t and block s where the linear
  /// one of token s / (n / 4) and block s % (n / 4) * 4 + t lies.
  trtllm,
};

/// Turns V's scales of all pages of an NVFP4 cache in host memory from one of these to the other,
/// in place; strides stay. Pages, sizes and the four parts must be set; lengths are not read. d is
/// a multiple of 64. Throws Error: unsupported for Backend::cuda.
void repack_v_scales(const KvCache& cache, KvScaleLayout from, KvScaleLayout to,
                     const Context& context = {});

/// Rotary position embedding of the first `width` elements of a row, FP32 tables of cos and sin
/// [positions, width / 2]. Element pairs are (i, i + width / 2), or interleaved (2 i, 2 i + 1).
struct Rope {
  const float* cos = nullptr;  ///< null: none
  const float* sin = nullptr;
  std::int64_t positions = 0;  ///< rows of the tables: every sequence is at most as long
  std::int64_t width = 0;      ///< even, at most d
  bool interleaved = false;
};

/// Tables for Rope: cos and sin of position * theta^(-2 i / width), nearest FP32; each positions *
/// width / 2 long. Throws Error.
void fill_rope_tables(double theta, std::int64_t positions, std::int64_t width,
                      std::span<float> cos, std::span<float> sin);

/// Quantizes the rows of k and v into the pages, and copies them to `first` and `recent`. Sequences
/// may share pages, but not one that new tokens go to. cache.lengths are those with the new tokens:
/// of sequence s with n new ones they take positions [lengths[s] - n, lengths[s]), so one array
/// serves this call and the attention after it. Nothing else is written.
///
/// A row of K goes through RoPE, minus the mean, and the Hadamard transform in FP32, in this order
/// and each only if asked for; V as it is. Then both are quantized: the bytes are those of
/// quantize_into of these FP32 rows with the cache's global scale (FP8: E4M3 of value * (1 /
/// scale), nearest even, saturating), on every backend. BF16 copies are rounded to nearest even.
struct AppendKvOptions {
  KvCache cache{};
  HeadsView k{};  ///< [batch, new tokens, kv_heads, d]; with offsets [1, all new tokens, ...]
  HeadsView v{};  ///< of the same shape; dtypes may differ
  const std::int32_t* offsets = nullptr;  ///< batch + 1, first new token of each sequence; null:
                                          ///< as many for each sequence
  Rope rope{};
  Numerics numerics{};  ///< of K and V; nothing of other tools, no stochastic rounding
};
void append_kv(const AppendKvOptions& options, const Context& context = {});

}  // namespace microscale
