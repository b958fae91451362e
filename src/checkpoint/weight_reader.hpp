// Reads the values of a tensor piece by piece, dense or quantized alike, so that no operation needs
// memory for a whole tensor. Rows of a quantized weight are whole blocks, so its codes and scales
// lie in the file as one long line, and a piece is a range of that line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/quantized_folder.hpp"
#include "core/result.hpp"
#include "core/threads.hpp"
#include "microscale/format.hpp"
#include "report/model_report.hpp"

namespace microscale {

/// Elements of a piece, at most: whole blocks of every format, whole runs of
/// report/error_metrics.hpp, and whole bytes even of FP4.
inline constexpr std::int64_t piece_elements = std::int64_t{1} << 18;

/// Elements [first, first + count) of a tensor in row-major order; `first` a multiple of
/// piece_elements.
struct Piece {
  const LogicalTensor* tensor = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// What was read; kept by its user from piece to piece, so that memory is allocated once.
struct PieceData {
  std::vector<std::uint8_t>
      codes;  // of blocks: packed codes; of a dense tensor: its bytes; of other codes: the values
  std::vector<std::uint8_t> scales;  // one byte per block; empty where there are no blocks
  std::vector<float> values;         // decoded
};

/// Whether values of this type can be read as FP32 (F32, F16, BF16, F64, F8_E4M3, F8_E5M2; F64 is
/// rounded).
bool has_values(const LogicalTensor& tensor);

/// The bytes of a tensor of such a type as FP32: as many values as `values` has.
void decode_dense(StoredType type, const std::vector<std::uint8_t>& bytes,
                  std::vector<float>& values);

/// Fills `codes` and `scales` only.
Status read_piece_bytes(const QuantizedFolder& folder, const Piece& piece, PieceData& data);

/// Fills everything. The tensor must have values.
Status read_piece(const QuantizedFolder& folder, const Piece& piece, PieceData& data);

/// The piece of a quantized tensor as `dtype`, in memory order; fills `codes` and `scales` on the
/// way.
Status read_piece_as(const QuantizedFolder& folder, const Piece& piece, DType dtype,
                     PieceData& data, std::vector<std::uint8_t>& out);

/// The pieces of a tensor in order, `elements` long but for the last; sixteen times that where
/// codes lie across its rows.
std::vector<Piece> pieces_of(const LogicalTensor& tensor, std::int64_t elements = piece_elements);

/// Adds the codes and scales of a piece of a quantized tensor to two histograms.
void count_codes(const PieceData& data, Format format, CodeHistogram& scale_codes,
                 CodeHistogram& element_codes);

/// Computes result(i, worker) for all i in [0, count) on `threads` threads and hands the results to
/// fold(i, result) in order, on the calling thread. Only a few results per thread are alive at a
/// time.
template <class Value>
void compute_in_order(std::int64_t count, int threads,
                      const std::function<Value(std::int64_t, int)>& result,
                      const std::function<void(std::int64_t, Value&)>& fold) {
  const int workers = threads > 0 ? threads : available_cores();
  const std::int64_t wave = std::int64_t{8} * workers;
  for (std::int64_t start = 0; start < count; start += wave) {
    std::vector<Value> values(static_cast<std::size_t>(std::min(wave, count - start)));
    parallel_for_worker(static_cast<std::int64_t>(values.size()), workers,
                        [&](std::int64_t i, int worker) {
                          values[static_cast<std::size_t>(i)] = result(start + i, worker);
                        });
    for (std::size_t i = 0; i < values.size(); ++i) {
      fold(start + static_cast<std::int64_t>(i), values[i]);
    }
  }
}

}  // namespace microscale
