// Attention on the CPU beside the limits of the same run: reading the same cache, multiplying out
// of registers, and moving the same bytes for append_kv.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cpu_limits.hpp"
#include "microscale/attention.hpp"
#include "result.hpp"

namespace microscale::bench {

enum class AttentionKind { decode, prefill, append };

/// 32 query heads, 8 kv heads, d = 128 (prefill: 8 and 8).
struct AttentionCase {
  std::string name;
  AttentionKind kind = AttentionKind::decode;
  bool dense = false;  // k and v in BF16 instead of a cache
  KvFormat format = KvFormat::nvfp4;
  std::int64_t batch = 1, length = 0;
  std::int64_t page_size = 0;  // 0: contiguous; else pages in random order
  std::int64_t window = 0, recent = 0;
  ScaleRule rule = ScaleRule::search;  // append
  bool transformed = false;            // append: keys by RoPE, minus a mean, by Hadamard

  std::int64_t q_heads() const { return kind == AttentionKind::prefill ? 8 : 32; }
  std::int64_t q_length() const { return kind == AttentionKind::prefill ? length : 1; }
  double operations() const;  ///< of both products, of the keys that are seen
  double bytes() const;       ///< of the cache that are read; append: of tokens read and written
};

/// append_kv of `batch` sequences of `length` new tokens into pages of 64, `shape` in their names:
/// formats, rules, and keys that are transformed.
std::vector<AttentionCase> append_cases(std::int64_t batch, std::int64_t length,
                                        const std::string& shape);

/// `quick`: so small that the times mean nothing.
std::vector<AttentionCase> cpu_attention_cases(bool quick);

struct CpuAttentionOptions {
  Context context;
  std::size_t rotate = std::size_t{256} << 20;  // bytes of cache before one comes round again
  int runs = 7;
  std::string filter;
  bool brief = false;  // the loop of arithmetic, too short to mean anything
};

/// Each in turn with its limit. Of each decode over a cache the query heads of one kv head are
/// compared with FP64 sums, in units of the bound of docs/attention.md. Throws Error.
void measure_attention_cases(const std::vector<AttentionCase>& cases,
                             const CpuAttentionOptions& options, const Watcher& watcher);

}  // namespace microscale::bench
