// Which matrix products are timed: one list for the CPU, one for GPUs, and the four tasks of
// "Twelve Attempts" for both (matmul_tasks.hpp). How they are timed is cpu_matmul.hpp's and
// gpu_matmul.hpp's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "microscale/tensor.hpp"
#include "result.hpp"

namespace microscale::bench {

enum class ProductKind : std::uint8_t { plain, gated, grouped };

struct MatmulCase {
  std::string name{};  // "nvfp4 1x4096x14336": BF16 times NVFP4 weights, m x n x k
  ProductKind kind = ProductKind::plain;
  std::int64_t m = 1, n = 1, k = 1;  // gated: n of the gate and of the up matrix; grouped: m of all
  Format weights = Format::nvfp4;
  std::optional<Format> input{};       // of the activations; none: `dense`
  DType dense = DType::bf16;           // BF16 or FP16
  std::int64_t batch = 1;              // products at once; not grouped
  std::vector<std::int64_t> groups{};  // grouped: rows of each expert
  bool packed = true;                  // weights through pack_weights beforehand, outside the time
  DType output = DType::bf16;
  std::optional<Format> quantized{};  // d in this format instead
  bool fast_accumulation = false;     // as in MatmulOptions; plain products
  std::string equal{};                // the plain case of the same bytes and operations

  std::int64_t matrices() const {
    return kind == ProductKind::grouped ? static_cast<std::int64_t>(groups.size()) : batch;
  }
  std::int64_t sides() const { return kind == ProductKind::gated ? 2 : 1; }
  std::int64_t rows() const { return kind == ProductKind::grouped ? m : m * batch; }  // of a and d
  BlockShape weight_shape() const { return {n, k, weights}; }  // of one matrix
  double operations() const { return 2.0 * static_cast<double>(rows() * n * k * sides()); }
  double weight_bytes() const;  // codes and scales
  double bytes() const;         // those, the activations and the result, each once
};

/// `quick`: the same cases, every length a small part (batches and experts as many): to see that
/// all of it works, not how fast.
std::vector<MatmulCase> cpu_matmul_cases(bool quick);
std::vector<MatmulCase> gpu_matmul_cases(bool quick);
/// Products of 1 to 16 rows on a GPU, one or more for each way in which few rows are multiplied:
/// packed and plain weights, every type of rows, gates, experts, batches, rows that bulk copies
/// cannot read.
std::vector<MatmulCase> few_rows_cases(bool quick);

/// Beside each row of a case with an equal plain product: that one's time, where it is in `rows`.
void add_equal_products(const std::vector<MatmulCase>& cases, std::vector<Result>& rows);

/// The lengths that stand for those of a case when quick, and "mxfp8" for MXFP8 of E4M3.
void make_quick(MatmulCase& c);
std::string short_name(Format format);

}  // namespace microscale::bench
