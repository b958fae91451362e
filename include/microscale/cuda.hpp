// NVIDIA GPUs: Backend::cuda in a Context makes operations take device memory and run on
// Context::stream. Those of quantizing, with the bytes of every other backend: quantize_into,
// quantize_both_into, grouped_quantize_into, silu_mul_, rms_norm_ and hadamard_quantize_into,
// dequantize, repack_scales and those of container.hpp. And pack_weights, the products of
// matmul.hpp, append_kv and attention, as their headers say. What follows is about quantizing.
//
// Stream-ordered: a call allocates nothing, waits for nothing, and may be captured into a CUDA
// graph (call load_kernels() before the capture). It runs on the calling thread's current device,
// where all pointers must live. Data, codes and scales start at multiples of 16 bytes and rows are
// multiples of 16 bytes apart. Blocks lie along rows, along columns or, from one read, along both
// (quantize_both_into). Not offered (Error{unsupported}): padding, importance weights, the profiles
// of other tools, and NonFinite::refuse, which would have to wait.
#pragma once

#include <string>

namespace microscale::cuda {

/// GPUs of this machine; 0 without one, without a driver, and in a build without CUDA. Never
/// throws.
int device_count();

/// Why device_count() is 0, in words; empty otherwise.
std::string unavailable_reason();

/// Makes GPU `ordinal` the calling thread's current one, as cudaSetDevice does. Throws Error.
void select_device(int ordinal);

/// Name of the current GPU and the architecture of the kernels it will run: "NVIDIA H200 (sm_90a)".
/// Throws Error{unsupported} where there is no GPU, or none that this build has kernels for.
std::string device_name();

/// Loads the kernels for the current GPU, which the first operation would do otherwise. Throws
/// Error.
void load_kernels();

}  // namespace microscale::cuda
