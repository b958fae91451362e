// attention() as one call: what the check, the resolving and the running of it share, on a host and
// on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "core/memory_range.hpp"
#include "microscale/attention.hpp"

namespace microscale {

/// The sizes of a call, and its strides with the packed ones filled in.
struct AttentionCall {
  const AttentionOptions& options;
  bool on_device = false;
  std::int64_t sequences = 0, q_heads = 0, kv_heads = 0, d = 0;
  std::int64_t q_tokens = 0;  // of all sequences
  double scale = 1;
  ProbabilityRule probabilities = ProbabilityRule::exact;
  bool two_term = false;
  /// Whether a dense q is quantized first (never in accuracy `storage`), and the formats that q and
  /// v have then.
  bool round_query = false;
  Format query_format = Format::nvfp4, v_format = Format::nvfp4;
  /// What the call reads and writes; null where there is none.
  std::vector<MemoryRange> memory{};

  const KvCache* cache() const { return options.cache ? &*options.cache : nullptr; }
  const HeadsView* q_dense() const { return std::get_if<HeadsView>(&options.q); }
  const BlockHeadsView* q_blocks() const { return std::get_if<BlockHeadsView>(&options.q); }
  std::int64_t group() const { return q_heads / kv_heads; }

  // Host memory only.
  std::int64_t q_first(
      std::int64_t sequence) const;  ///< token in q, were batch and tokens one axis
  std::int64_t q_length(std::int64_t sequence) const;
  std::int64_t kv_first(std::int64_t sequence) const;  ///< dense and block-scaled k and v
  std::int64_t kv_length(std::int64_t sequence) const;
};

}  // namespace microscale
