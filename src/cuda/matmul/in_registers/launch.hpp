// Matrix products of packed weights and many rows of a, on Hopper: prepares a in a workspace, if it
// is not dense, then multiplies. No arithmetic here, nothing allocated, nothing waited for.
#pragma once

#include <cstdint>
#include <optional>

#include "seam/matmul_call.hpp"
#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"
#include "microscale/format.hpp"
#include "microscale/tensor.hpp"

namespace microscale::cuda {

/// a: dense rows, or codes with block scales. Rows of all matrices lie in one buffer, row r at r *
/// stride.
struct WideInput {
  std::optional<Format> format;  ///< none: dense, of `type`
  DType type = DType::bf16;      ///< dense: bf16 or f16
  const void* data = nullptr;    ///< dense: aligned to 2 bytes; codes: to 16
  std::int64_t stride = 0;       ///< bytes from row to row; codes: a row's bytes. Dense rows at
                                 ///< multiples of 16 bytes, fewer than 2^40 apart, are read as they
                                 ///< are
  const std::uint8_t* scales = nullptr;
  Layout layout = Layout::row_major;  ///< tiled: of each matrix by itself, expert by expert
};

/// Weights that are not packed: rows of codes, and block scales, matrix after matrix.
struct PlainWeights {
  const std::uint8_t* codes = nullptr;  ///< aligned to 16 bytes
  const std::uint8_t* scales = nullptr;
  Layout layout = Layout::row_major;  ///< of the scales
};

struct WideCall {
  WideInput a;
  Format b_format = Format::mxfp4;
  const std::uint8_t* b = nullptr;  ///< packed (layouts/fragment_tiles.hpp), aligned to 16 bytes
  bool b_is_constant = false;       ///< MatmulOptions::constant_weights
  bool b_is_plain = false;  ///< not packed: where matmul_dense serves, without FP8, and NVFP4
                            ///< by NVFP4 whose k is a multiple of 64
  PlainWeights plain{}, plain_up{};  ///< then in its stead
  std::int64_t n = 0;                ///< columns of d
  std::int64_t k = 0;                ///< a multiple of both blocks
  ProductRows rows{};
  ProductOutput output{};
  /// MXFP4 by MXFP4 on FP8's tensor cores, at twice the rate: products are exact as ever, sums of
  /// 128 elements keep 13 bits behind their leading one before FP32 takes them. Counts where there
  /// are very many rows (matmul_dense.hpp). Operands whose scales FP8 has no room for
  /// (cuda/matmul/fp8_window.cuh) are found on the device, and computed without.
  bool fp8 = false;
  /// d as blocks: codes and scales instead of output.d. Only where matmul_dense serves and takes it
  /// (dense_quantizes).
  const QuantizedOutput* quantized = nullptr;
  void* workspace = nullptr;  ///< wide_workspace_bytes of them, aligned to 256 bytes
};

/// Whether the GPU multiplies this format at all.
bool has_kernels(Format format);

/// Whether there are kernels for these operands on this device: sm_90a; b MXFP4, NVFP4 or MXFP8; a
/// BF16 or one of these formats, or FP16 where b is NVFP4 (FP16 cannot hold a weight of MX with its
/// scale, nor BF16 an element of FP16).
bool wide_takes(const DeviceInfo& device, const WideInput& a, Format b_format);

/// Whether kernels read plain weights as they are: NVFP4 by rows of NVFP4, k a multiple of 64,
/// codes at multiples of 16 bytes and scales at multiples of 4.
bool wide_takes_plain(const WideCall& call);

/// Rows of a matrix, or of an expert if all have equally many, from which on these kernels serve.
inline constexpr std::int64_t wide_least_rows = 9;

/// The call as these kernels take it, all but the workspace; none where rows are few, there are no
/// kernels, or weights are not packed and have to be. `rows`, `output`: of the call. A quantized d
/// is `quantized` where it is made so in one pass, else it goes to output.d.
std::optional<WideCall> wide_call(const DeviceInfo& device, const MatmulCall& call,
                                  const ProductRows& rows, const ProductOutput& output);

/// What a call needs: a in tiles unless it is read as it is, 2 bytes an element, rows filled up to
/// 8 a matrix, k to 64; where tiles of d are cut, sums of ranges of k. Looks at a (all but what
/// data hold), b_format, n, k, rows, output.gated and fp8. Of very many rows what matmul_dense
/// needs.
std::int64_t wide_workspace_bytes(const DeviceInfo& device, const WideCall& call);

/// Operands as checked by the caller, and taken (wide_takes). One launch for dense rows of 16-byte
/// pieces, else two; none where d has no element; very many rows are left to matmul_dense. Sums are
/// FP32 in the order of k, 16 elements an instruction, which aligns its products and the sum so far
/// to the largest of them and truncates; of up to 16 rows, 64 elements in turn go to one of two
/// such sums, which are added. Where whole tiles of d would leave multiprocessors idle, up to
/// wide_most_ranges sums of ranges of k are added: to the last range's the others', in their order.
/// An element of d is within wide_roundings(k) * 2^-24 * (sum of |a_i b_i|) of the exact sum before
/// the epilogue. The order depends on shapes, format, how many rows each expert has, and the
/// device's number of multiprocessors alone.
void matmul_wide(Device& device, const char* operation, const WideCall& call, Stream stream);

/// Cycles of its own kernels, predicted (wide_geometry.hpp).
std::int64_t wide_cycles_of(const DeviceInfo& device, const WideCall& call);

/// What matmul_dense shares: NVFP4 elements fit FP16 with their scale. So NVFP4 weights may be
/// multiplied by rows of FP16; and by rows of NVFP4, unless the kernel decodes packed weights,
/// whose order is that of BF16.
bool multiplies_f16(const WideInput& a, Format b_format, bool decodes_packed);
/// Blocks of a kernel that most likely finds nothing to do.
inline constexpr std::int64_t blocks_that_rarely_work = 256;
/// a to the beginning of the workspace, in tiles of 16-bit elements; and rows of any operand.
PrepareTilesArgs prepare_wide_args(const WideCall& call, bool f16);
void prepare_wide(Device& device, const char* operation, const std::optional<Format>& format,
                  const PrepareTilesArgs& args, Stream stream);
/// Whether every piece of eight columns of d begins at a multiple of 16 bytes.
bool has_vectors(const ProductOutput& out);

/// Of 17 terms an instruction drops less than 2^-25 of the largest each, and rounding the result
/// toward zero less than 2 * 2^-24 of it: 10.5 for 16 elements. Then two sums, and those of ranges,
/// are added.
constexpr std::int64_t wide_roundings(std::int64_t k) {
  return 11 * ((k + 63) / 64 * 4) + wide_most_ranges;
}

}  // namespace microscale::cuda
