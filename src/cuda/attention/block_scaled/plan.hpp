// Attention by block-scaled matrix instructions on consumer Blackwell (compute capability 12.x):
// what is dense is quantized into the workspace first, and parts of the keys are merged by a launch
// of their own.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/attention/items.hpp"
#include "cuda/device/facts.hpp"
#include "seam/attention_call.hpp"

namespace microscale::cuda::attention::block_scaled {

/// Codes and scales of an operand.
struct Codes {
  std::int64_t codes = 0, scales = 0;  // offsets into the workspace
};
/// A launch that quantizes a dense operand.
struct Prepare {
  Entry<PrepareHeadsArgs> kernel;
  std::int64_t blocks = 0;  // 0: there is none
  PrepareHeadsArgs args{};  // without memory
};

struct Plan {
  Items items;
  int terms = 1;
  bool along_tokens = false;  // V's blocks
  Entry<Args> kernel, merge;  // merge: none without parts
  int threads = 0, shared_bytes = 0;
  // What is quantized, in this order, and where in the workspace that lies.
  Prepare q, k, v;             // along d
  PrepareValuesArgs values{};  // along the tokens
  std::int64_t value_blocks = 0;
  Codes q_at[2], k_at, v_at;
  std::int64_t q_factors = 0, partial = 0, workspace_bytes = 0;
  Args args{};  // without memory
};

/// Throws Error{unsupported} where no kernel serves the call.
Plan plan_of(const DeviceFacts& facts, const AttentionCall& call);

/// "quantizes q k v, attention_block_scaled_two_level_nvfp4_128_1, 4 items of 64 rows"
std::string describe(const Plan& plan);

/// A call of the plan's shapes. Throws Error where its memory lies otherwise than the plan needs.
void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream);

// What attention on consumer Blackwell does not serve, whatever its formats: says so.

inline constexpr const char* operation = "attention";

/// Throws Error{unsupported}: what it does instead, and what to take.
[[noreturn]] void refuse(const std::string& sentence);

/// d, accuracy and probabilities.
void check_served(const AttentionCall& call);
void check_cache_served(const KvCache& cache);
/// Formats of q, k and v as the kernel takes them; `along_tokens`: V's blocks.
void check_formats(const AttentionCall& call, Format q, Format k, Format v, bool along_tokens);
/// Four scales are read at a time.
void check_scales_aligned(const KvCache& cache);
/// Null: no codes. Throws Error{invalid_argument}.
void check_aligned(const char* name, const BlockHeadsView* view);
/// Bytes from token to token.
void check_stride(std::int64_t stride);

}  // namespace microscale::cuda::attention::block_scaled
