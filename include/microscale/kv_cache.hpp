// A cache of keys and values in 4 or 8 bits, and appending to it.
//
// The cache consists of pages of `page_size` tokens. Token t of a sequence lies in page
// page_table[t / page_size] of that sequence, at t % page_size. Without a page table sequence s has
// page s alone, which holds the longest sequence there can be. A page has one record per kv head,
//
//   [K codes | K scales | V codes | V scales]     tokens in order, d codes or their scales each
//
// each part at a multiple of 16 bytes (src/layouts/kv_page.hpp has the arithmetic). 4-bit codes lie
// two to a byte, the even element in the low nibble; scales are linear, not tiled. Strides say
// where each part is, so codes and scales may also lie in tensors of their own, as in FlashInfer
// and vLLM; docs/attention.md has the strides.
//
// The pages hold every token. BF16 copies of the first and of the most recent tokens may be kept
// beside them; attention then reads the copies instead of the codes, within the same softmax.
//
// The caller owns all memory. Page tables, lengths and offsets lie where the pages do and are read
// when the work runs; calls on Backend::cuda may be captured into a graph. A page outside [0,
// pages), or a length beyond what pages and table (or RoPE's tables) can hold, is
// Error{invalid_argument} on a host; a GPU skips such tokens: it reads and writes nothing there.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"
#include "microscale/heads.hpp"
#include "microscale/kv_format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// Codes or scales of K or V. Those of one token and head are contiguous, at data + page *
/// page_stride + head * head_stride + token * token_stride, in bytes.
///
/// Backend::cuda takes codes whose address and strides are multiples of 16 bytes. Scales:
/// - append_kv, and attention on compute capability 9.0 without the features of the next line, take
///   them anywhere. Few queries are fastest where scales lie as in records: at multiples of 16
///   bytes, tokens side by side.
/// - BF16 copies, a mean of K, a Hadamard transform, several splits, and Blackwell require them
///   as in records. A block-scaled q, or an accuracy other than `storage`, requires multiples of 4
///   bytes.
struct KvPart {
  std::uint8_t* data = nullptr;
  std::int64_t page_stride = 0, head_stride = 0, token_stride = 0;
};

/// BF16 copies of tokens, packed [batch, count, kv_heads, d], of the values that the pages encode:
/// after RoPE, minus the mean, transformed. `recent` belongs to the length at the last append:
/// after a sequence is made shorter, append its now most recent tokens again.
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

  /// Of NVFP4 and FP8; MX formats have none. In device memory V's follows K's directly.
  GlobalScale k_global_scale = 1.0f, v_global_scale = 1.0f;

  KvCopies first{};   ///< positions [0, count): position p at p
  KvCopies recent{};  ///< positions [length - count, length): position p at p % count

  /// FP32 [kv_heads, d], or null: what append_kv subtracts from K after RoPE. Attention's result is
  /// that of K with its mean.
  const float* k_mean = nullptr;
  /// 16: append_kv multiplies K, after subtracting the mean, by the orthonormal Hadamard matrix of
  /// that order, run by run along d, and attention does the same to q. 0: neither does.
  int hadamard = 0;
  Memory memory = Memory::host;  ///< of the pages and of all that the pointers above lead to
};

/// Sizes of a cache made of records, in bytes.
struct KvPageShape {
  KvFormat format = KvFormat::nvfp4;
  std::int64_t kv_heads = 0, d = 0, page_size = 0;

  std::int64_t record_bytes() const;  ///< of one page and one kv head
  std::int64_t page_bytes() const { return kv_heads * record_bytes(); }
};

/// Returns the view of `memory` as whole records, page by page and head by head: pages *
/// shape.page_bytes() bytes at a multiple of 16. Sets format, kv heads, d, page size, pages and the
/// four parts; batch, lengths, page table, global scales and the rest are for the caller to set,
/// and on_device() marks device memory. Throws Error.
KvCache kv_cache_of_records(const KvPageShape& shape, std::span<std::uint8_t> memory);

/// How the scales of V lie in the pages. Kernels of this library read and write linear ones.
enum class KvScaleLayout : std::uint8_t {
  linear,  ///< [token][block], as KvPart's strides say
  /// As vLLM and SGLang store them for TensorRT-LLM's kernels on compute capability 10.x: within
  /// each group of four tokens, with n = d / 16 blocks a row, the scale of token t and block s lies
  /// where the linear layout has that of token s / (n / 4) and block s % (n / 4) * 4 + t.
  trtllm,
};

/// Rearranges V's scales of all pages of an NVFP4 cache in host memory, in place; strides stay.
/// Pages, sizes and the four parts must be set; lengths are not read. d is a multiple of 64. Throws
/// Error: unsupported for device memory.
void repack_v_scales(const KvCache& cache, KvScaleLayout from, KvScaleLayout to,
                     const Context& context = {});

/// Rotary position embedding of the first `width` elements of a row, from FP32 tables of cos and
/// sin [positions, width / 2] in the cache's memory. It turns the pairs of elements (i, i + width /
/// 2), or interleaved ones (2 i, 2 i + 1).
struct Rope {
  const float* cos = nullptr;  ///< null: none
  const float* sin = nullptr;
  std::int64_t positions = 0;  ///< rows of the tables; no sequence is longer
  std::int64_t width = 0;      ///< even, at most d
  bool interleaved = false;
};

/// Fills tables for Rope in host memory: cos and sin of position * theta^(-2 i / width), rounded to
/// nearest FP32; each has positions * width / 2 numbers. Throws Error.
void fill_rope_tables(double theta, std::int64_t positions, std::int64_t width,
                      std::span<float> cos, std::span<float> sin);

/// Quantizes the rows of k and v into the pages, and copies them to `first` and `recent`; writes
/// nothing else. cache.lengths count the new tokens: the n new tokens of sequence s take positions
/// [lengths[s] - n, lengths[s]), so one array serves this call and the attention after it.
/// Sequences may share pages, but not a page that new tokens go to.
///
/// A row of K goes through RoPE, the subtraction of the mean and the Hadamard transform, in this
/// order and in FP32, each only where it is set; V is taken as it is. The bytes are those of
/// quantize_into of the resulting FP32 rows with the cache's global scale, on every backend (FP8:
/// E4M3 of value * (1 / scale), to nearest even, saturating). BF16 copies are rounded to nearest
/// even.
struct AppendKvOptions {
  KvCache cache{};
  HeadsView k{};  ///< [batch, new tokens, kv_heads, d]; with offsets [1, all new tokens, ...]
  HeadsView v{};  ///< of the same shape; dtypes may differ
  const std::int32_t* offsets = nullptr;  ///< batch + 1 integers, the first new token of each
                                          ///< sequence; null: equally many for each
  Rope rope{};
  Numerics numerics{};  ///< of K and V; no other tool's profile, no stochastic rounding
};
void append_kv(const AppendKvOptions& options, const Context& context = {});

}  // namespace microscale
