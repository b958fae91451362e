// NVIDIA GPUs. With Backend::cuda, or Backend::automatic and views of device memory, an operation
// runs on Context::stream of the calling thread's current GPU. It allocates nothing, waits for
// nothing, and may be captured into a CUDA graph; call load_kernels() before the capture.
//
// These operations run there:
// - quantize_into, quantize_both_into, grouped_quantize_into, silu_mul_quantize_into,
//   rms_norm_quantize_into, hadamard_quantize_into, dequantize, repack_scales, and the two of
//   container.hpp, with the bytes of every other backend;
// - pack_weights and the products of matmul.hpp, append_kv and attention; their headers say which
//   formats and what bounds.
// Others throw Error{unsupported}.
//
// For the first list: data, codes and scales start at multiples of 16 bytes, and rows are multiples
// of 16 bytes apart. Blocks lie along rows, along columns or, from one read, along both
// (quantize_both_into). Padding, importance weights, the profiles of other tools and
// NonFinite::refuse (which would have to wait) are Error{unsupported}.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace microscale::cuda {

/// The number of GPUs; 0 without one, without a driver, and in a build without CUDA. Never throws.
int device_count();

/// Says why device_count() is 0; empty otherwise.
std::string unavailable_reason();

/// Makes GPU `ordinal` the calling thread's current one, as cudaSetDevice does. Throws Error.
void select_device(int ordinal);

/// The number of the calling thread's current GPU, which the emulated one has too: 0. Throws
/// Error{unsupported} where there is none.
int current_device();

/// Returns the current GPU's name and the architecture of the kernels it will run: "NVIDIA H200
/// (sm_90a)". Throws Error{unsupported} where there is no GPU, or none that this build has kernels
/// for.
std::string device_name();

/// Loads all kernels of the current GPU, which operations otherwise do when they first need one.
/// Throws Error.
void load_kernels();

/// Waits for all work of `stream` (a cudaStream_t; null: the default stream) on the current GPU.
/// Throws Error, that of failed work included.
void synchronize(void* stream = nullptr);

/// Writes zeros to memory of the current GPU, in the order of `stream` (a cudaStream_t; null: the
/// default stream). Waits for nothing, and may be captured. Throws Error.
void set_zero(std::span<std::uint8_t> bytes, void* stream = nullptr);

/// Whether `stream` (null: the default stream) of the current GPU is being captured into a graph.
/// Throws Error.
bool is_capturing(void* stream = nullptr);

}  // namespace microscale::cuda
