// Attention whose kernels are chosen once and which runs many times: for who calls with the same
// shapes again and again, and has no microseconds to spare on a host. attention() is a plan and its
// run.
//
//   const AttentionPlan plan({.q = q, .cache = cache, .output = o}, context);
//   ... allocate plan.workspace_bytes() of device memory ...
//   plan.run({.q = q, .cache = cache, .output = o}, context);      // or with other memory
//
// A plan is made of options as attention() takes them, all pointers set, and checks them as
// attention() does. run() takes the same options with other memory: pointers, global scales, the
// stream and the workspace may differ, and so may what lengths, offsets and page tables hold;
// shapes, strides, types, formats, bounds, scalars, which of the optional pointers are null (but
// for sinks and log_sum_exp), the backend and its GPU may not. It checks what pointers can break:
// null, overlap, alignment, where memory is, and on a host what lengths, offsets and tables say.
// On Backend::cuda, a plan that was made for a cache of records takes no other cache.
//
// A plan is a value that does not change: threads may run one at once, each with a workspace of its
// own. It keeps no memory of the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "microscale/attention.hpp"
#include "microscale/context.hpp"

namespace microscale {

class AttentionPlan {
 public:
  /// Throws Error as attention() would.
  explicit AttentionPlan(const AttentionOptions& options, const Context& context = {});
  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;
  ~AttentionPlan();

  /// Bytes of Context::workspace that run() takes; 0 but on Backend::cuda.
  std::int64_t workspace_bytes() const;
  /// Which kernels, and how work is cut among them: "attention_decode_nvfp4_128_4, 8 items of 4
  /// rows in 15 parts; workspace 253440 bytes", or the CPU's backend. For people: the words may
  /// change.
  std::string describe() const;

  /// Attention into the memory of `options`. Throws Error{invalid_argument} where they are not the
  /// plan's, and before anything is written.
  void run(const AttentionOptions& options, const Context& context = {}) const;

 private:
  struct Kept;
  std::unique_ptr<const Kept> kept_;
};

}  // namespace microscale
