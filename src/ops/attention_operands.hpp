// The operands of a call of attention on a host, row by row: queries as exact numbers, keys as
// runs of evenly strided rows.
#pragma once

#include <cstdint>
#include <vector>

#include "seam/attention_kernels.hpp"
#include "seam/attention_call.hpp"

namespace microscale {

class AttentionOperands {
 public:
  /// Rounds dense k and v where the mode says so; keeps `call` by reference.
  AttentionOperands(const AttentionCall& call, const Context& context);

  /// What a kernel must support for such a call; no memory is read.
  static AttentionNeeds needs_of(const AttentionCall& call);

  /// Query `token` of a sequence, of query head `head`: d values as the scores take them. Returns
  /// what is added to its scores: scale * q . mean of K.
  double query(std::int64_t sequence, std::int64_t token, std::int64_t head, double* row) const;

  /// The keys at positions [begin, end) of a sequence and kv head, appended in order.
  void keys(std::int64_t sequence, std::int64_t kv_head, std::int64_t begin, std::int64_t end,
            std::vector<AttentionKeys>& list) const;

 private:
  struct Side {  // dense or block-scaled k or v
    MatmulRows rows;
    double factor = 1;
    std::int64_t batch_stride = 0, token_stride = 0, head_stride = 0;  // in rows' bytes
    std::int64_t scale_token_stride = 0, scale_head_stride = 0;
    std::int64_t tokens = 0;  // per batch

    MatmulRows at(std::int64_t token, std::int64_t head) const;
  };

  static Side side_of(const AttentionInput& input);
  Side rounded(const HeadsView& input, bool along_tokens, std::vector<float>& values,
               const Context& context) const;
  void cached_keys(std::int64_t sequence, std::int64_t kv_head, std::int64_t begin,
                   std::int64_t end, std::vector<AttentionKeys>& list) const;

  const AttentionCall& call_;
  Side q_, k_, v_;
  std::vector<float> k_values_, v_values_;
};

}  // namespace microscale
