// How a call of attention runs on a GPU: which family of kernels attends, and all that its launches
// need but memory. choose() makes a plan, once a call; its workspace and its launches are read off
// it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "cuda/attention/block_scaled/launch.hpp"
#include "cuda/attention/decode/launch.hpp"
#include "cuda/attention/prefill/launch.hpp"
#include "cuda/device/facts.hpp"

namespace microscale::cuda {

struct AttentionPlan {
  std::variant<decode::Plan, prefill::Plan, block_attention::Plan> family;

  std::int64_t items() const;  // 0: there is nothing to do
  std::int64_t workspace_bytes() const;
};

/// A function of the device's facts, and of the call's shapes, formats, strides and alignments:
/// device memory is not read. The call is one that check_attention passes. Throws
/// Error{unsupported} where no kernel serves it.
AttentionPlan choose(const DeviceFacts& facts, const AttentionCall& call);

/// "attention_decode_nvfp4_128_4, 8 items of 4 rows in 15 parts; workspace 253440 bytes": the
/// kernels in order, and how work is cut.
std::string describe(const AttentionPlan& plan);
std::string describe_kernels(const AttentionPlan& plan);  // without the workspace

}  // namespace microscale::cuda
