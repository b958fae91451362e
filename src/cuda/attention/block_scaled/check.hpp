// What attention on consumer Blackwell does not serve, whatever its formats: says so.
#pragma once

#include <cstdint>
#include <string>

#include "seam/attention_call.hpp"

namespace microscale::cuda::block_attention {

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

}  // namespace microscale::cuda::block_attention
