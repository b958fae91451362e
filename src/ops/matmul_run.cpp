// Runs the products of a call: prepares the rows of a, then tile by tile multiplies, applies the
// epilogue and stores. No sum depends on how d is cut, so neither does a byte on the number of
// threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "formats/integers.hpp"
#include "seam/kernel_table.hpp"
#include "core/threads.hpp"
#include "layouts/repack.hpp"
#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/matmul_check.hpp"
#include "ops/matmul_products.hpp"
#include "reference/matmul.hpp"

namespace microscale {
namespace {

constexpr std::int64_t alignment = 64;

// Memory at a multiple of 64 bytes, not initialized. Large pieces stay with their thread for its
// next call: mapped anew, page by page, those of a large product would take a tenth of its time.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : block_(take(bytes)) {
    if (block_.memory) return;
    block_ = {Memory(static_cast<std::uint8_t*>(std::aligned_alloc(
                         alignment, static_cast<std::size_t>(round_up(bytes + 1, alignment)))),
                     &std::free),
              bytes};
    if (!block_.memory)
      throw Error(ErrorCode::out_of_memory,
                  "matmul: no memory for " + std::to_string(bytes) +
                      " bytes of work space; multiply fewer rows at once");
  }
  ~Scratch() {
    if (block_.bytes < least_kept || block_.bytes > most_kept) return;
    if (kept[1].memory) kept[0] = std::move(kept[1]);
    kept[1] = std::move(block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::uint8_t* data() const { return block_.memory.get(); }

 private:
  using Memory = std::unique_ptr<std::uint8_t, void (*)(void*)>;
  struct Block {
    Memory memory{nullptr, &std::free};
    std::int64_t bytes = 0;
  };
  static constexpr std::int64_t least_kept = 1 << 16, most_kept = 1 << 26;

  // A kept block of about this size, if there is one.
  static Block take(std::int64_t bytes) {
    for (Block& block : kept)
      if (block.bytes >= bytes && block.bytes / 2 <= bytes) return std::exchange(block, {});
    return {};
  }

  // The last two: the rows of a, and the work space of the threads.
  static thread_local std::array<Block, 2> kept;
  Block block_;
};
thread_local std::array<Scratch::Block, 2> Scratch::kept;

// Where in d the tiles of a call go.
struct Destination {
  std::uint8_t* data = nullptr;  // dense
  std::int64_t stride = 0;       // in bytes
  DType dtype = DType::f32;
  const QuantizedOutput* quantized = nullptr;
  std::uint8_t* scales = nullptr;  // row-major, of all rows
  QuantizeLines lines;             // what is the same for every tile
  const KernelTable* quantizer = nullptr;
};

class Runner {
 public:
  Runner(const MatmulCall& call, const Context& context, const MatmulKernels& kernels)
      : call_(call), context_(context), products_(resolve_products(call)), kernels_(&kernels) {}

  void run() {
    prepare_destination();
    if (!products_.runs.empty()) {
      cut_columns();
      prepare_rows();
      multiply();
    }
    if (!row_scales_.empty()) repack_output();
  }

 private:
  void cut_columns() {
    for (ProductRun& run : products_.runs)
      run.product.weights_in_range = run.up.weights_in_range =
          in_range(run.b, run.product) && (!call_.gated || in_range(run.up_b, run.product));
    most_cols_ = kernels_->tile_shape(largest_run().product).cols;
    const int threads = context_.threads > 0 ? context_.threads : available_cores();
    constexpr std::int64_t pieces_per_thread = 4, least_cols = 64;
    while (most_cols_ > least_cols && pieces() < pieces_per_thread * threads) most_cols_ /= 2;
  }

  bool in_range(const WeightRows& b, const MatmulProduct& product) const {
    constexpr std::int64_t together = 256;
    if (!kernels_->asks_for_range(product)) return true;
    std::atomic<bool> inside{true};
    parallel_for((product.n + together - 1) / together, context_.threads, [&](std::int64_t piece) {
      if (!inside) return;
      MatmulProduct part = product;
      part.n = std::min(together, product.n - piece * together);
      std::vector<std::uint8_t> scratch(static_cast<std::size_t>(b.scratch_bytes(part.n)));
      if (!kernels_->weights_in_range(part, b.tile(piece * together, part.n, scratch.data())))
        inside = false;
    });
    return inside;
  }

  // a in the kernel's own order, the rows of each product filled up to as many as it prepares at a
  // time.
  void prepare_rows() {
    struct Piece {
      ProductRun* run;
      std::int64_t row, count;
    };
    std::vector<Piece> pieces;
    std::vector<std::int64_t> begins;
    std::int64_t rows = 0, bytes = 0;
    for (ProductRun& run : products_.runs) {
      const MatmulProduct& product = run.product;
      const std::int64_t row_bytes = kernels_->prepared_row_bytes(product);
      run.prepared_row = rows;
      begins.push_back(bytes);
      rows += product.m;
      if (row_bytes == 0) continue;
      const std::int64_t together = kernels_->prepared_rows(product);
      for (std::int64_t r = 0; r < product.m; r += together)
        pieces.push_back({&run, r, std::min(together, product.m - r)});
      bytes += round_up(round_up(product.m, together) * row_bytes, alignment);
    }
    if (bytes == 0) return;
    prepared_ = std::make_unique<Scratch>(bytes);
    odd_.resize(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < begins.size(); ++i) {
      ProductRun& run = products_.runs[i];
      run.product.prepared = run.up.prepared = prepared_->data() + begins[i];
    }
    parallel_for(static_cast<std::int64_t>(pieces.size()), context_.threads, [&](std::int64_t i) {
      const auto& [run, row, count] = pieces[static_cast<std::size_t>(i)];
      kernels_->prepare(run->product, row, count, const_cast<void*>(run->product.prepared),
                        odd_.data() + run->prepared_row);
    });
  }

  void prepare_destination() {
    Destination& d = destination_;
    if (const MutableTensorView* dense = call_.d_dense()) {
      d.data = static_cast<std::uint8_t*>(dense->data);
      d.stride = dense->row_stride * size_of(dense->dtype);
      d.dtype = dense->dtype;
      return;
    }
    d.quantized = call_.quantized();
    const BlockShape shape{call_.rows(), call_.n(), d.quantized->format};
    d.scales = d.quantized->scales.data();
    if (d.quantized->layout != Layout::row_major) {
      const std::int64_t matrices = call_.groups ? 1 : call_.matrices;
      row_scales_.resize(static_cast<std::size_t>(matrices * shape.scale_bytes()));
      d.scales = row_scales_.data();
    }
    d.lines.input_type = DType::f32;
    d.lines.format = d.quantized->format;
    d.lines.numerics = d.quantized->numerics;
    d.lines.index_line_stride = static_cast<std::uint64_t>(call_.n());
    d.lines.code_stride = shape.code_bytes_per_line();
    d.lines.scale_stride = shape.blocks_per_line();
    Context context = context_;  // the product's backend need not have a quantizer of this kind
    context.backend =
        context.backend == Backend::reference ? Backend::reference : Backend::automatic;
    d.quantizer = &choose_backend(d.lines, context);
  }

  void multiply() {
    struct Piece {
      const ProductRun* run;
      std::int64_t row, col;
    };
    std::vector<Piece> pieces;
    const std::int64_t cols = std::min(most_cols_, round_up(call_.n(), alignment));
    for (const ProductRun& run : products_.runs) {
      const MatmulTileShape shape = shape_of(run);
      for (std::int64_t row = 0; row < run.product.m; row += shape.rows)
        for (std::int64_t col = 0; col < run.product.n; col += shape.cols)
          pieces.push_back({&run, row, col});
      values_bytes_ = std::max(values_bytes_,
                               round_up(std::min(shape.rows, run.product.m) * cols * 4, alignment));
      work_bytes_ =
          std::max(work_bytes_, round_up(kernels_->workspace_bytes(run.product), alignment));
    }
    const ProductRun& front = products_.runs.front();
    scales_bytes_ =
        round_up(std::max(front.b.scratch_bytes(cols), front.up_b.scratch_bytes(cols)), alignment);
    const std::int64_t worker_bytes =
        values_bytes_ * (call_.gated ? 2 : 1) + work_bytes_ + scales_bytes_;
    const int threads = static_cast<int>(
        std::min<std::int64_t>(context_.threads > 0 ? context_.threads : available_cores(),
                               static_cast<std::int64_t>(pieces.size())));
    const Scratch scratch(threads * worker_bytes);
    parallel_for_worker(static_cast<std::int64_t>(pieces.size()), threads,
                        [&](std::int64_t index, int worker) {
                          const Piece& p = pieces[static_cast<std::size_t>(index)];
                          tile(*p.run, p.row, p.col, scratch.data() + worker * worker_bytes);
                        });
  }

  const ProductRun& largest_run() const {
    return *std::max_element(
        products_.runs.begin(), products_.runs.end(),
        [](const ProductRun& a, const ProductRun& b) { return a.product.m < b.product.m; });
  }

  // Each product's kernel has a shape of its own.
  MatmulTileShape shape_of(const ProductRun& run) const {
    MatmulTileShape shape = kernels_->tile_shape(run.product);
    shape.cols = std::min(shape.cols, most_cols_);
    return shape;
  }

  // Tiles of all products.
  std::int64_t pieces() const {
    std::int64_t count = 0;
    for (const ProductRun& run : products_.runs) {
      const MatmulTileShape shape = shape_of(run);
      count += round_up(run.product.m, shape.rows) / shape.rows *
               (round_up(run.product.n, shape.cols) / shape.cols);
    }
    return count;
  }

  void tile(const ProductRun& run, std::int64_t row, std::int64_t col, std::uint8_t* memory) const {
    MatmulTile t;
    t.row = row;
    const MatmulTileShape shape = shape_of(run);
    t.rows = std::min(shape.rows, run.product.m - row);
    t.col = col;
    t.cols = std::min(shape.cols, run.product.n - col);
    t.output = reinterpret_cast<float*>(memory);
    t.output_stride = round_up(t.cols, 16);
    std::uint8_t* const scales = memory + values_bytes_ * (call_.gated ? 2 : 1);
    t.workspace = scales + scales_bytes_;
    t.b = run.b.tile(col, t.cols, scales);
    product_tile(run, run.product, t);
    if (call_.gated) {
      MatmulTile u = t;
      u.output = reinterpret_cast<float*>(memory + values_bytes_);
      u.b = run.up_b.tile(col, t.cols, scales);
      product_tile(run, run.up, u);
      for (std::int64_t r = 0; r < t.rows; ++r)
        kernels_->activate(call_.activation, t.output + r * t.output_stride,
                           u.output + r * t.output_stride, t.cols);
    }
    if (call_.row_weights)
      for (std::int64_t r = 0; r < t.rows; ++r) {
        const float weight = call_.row_weights[run.first_row + row + r];
        for (std::int64_t c = 0; c < t.cols; ++c) t.output[r * t.output_stride + c] *= weight;
      }
    write(run, t);
  }

  // The kernel's tile; rows outside its exact range by the reference.
  void product_tile(const ProductRun& run, const MatmulProduct& product,
                    const MatmulTile& t) const {
    kernels_->multiply(product, t);
    if (odd_.empty()) return;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      if (!odd_[static_cast<std::size_t>(run.prepared_row + t.row + r)]) continue;
      const Scratch scratch(reference_matmul.workspace_bytes(product));
      const std::int64_t most = reference_matmul.tile_shape(product).cols;
      for (std::int64_t c = 0; c < t.cols; c += most) {
        MatmulTile one = t;
        one.row = t.row + r;
        one.rows = 1;
        one.col = t.col + c;
        one.cols = std::min(most, t.cols - c);
        one.b = t.b.from(c);
        one.output = t.output + r * t.output_stride + c;
        one.workspace = scratch.data();
        reference_matmul.multiply(product, one);
      }
    }
  }

  void write(const ProductRun& run, const MatmulTile& t) const {
    const Destination& d = destination_;
    const std::int64_t row = run.first_row + t.row;
    if (d.quantized == nullptr) {
      for (std::int64_t r = 0; r < t.rows; ++r)
        kernels_->store(t.output + r * t.output_stride, t.cols, d.dtype,
                        d.data + (row + r) * d.stride + t.col * size_of(d.dtype));
      return;
    }
    const FormatInfo& format = info(d.quantized->format);
    QuantizeLines part = d.lines;
    part.input = t.output;
    part.input_stride = t.output_stride;
    part.lines = t.rows;
    part.blocks = t.cols / format.block;
    part.global_scale = run.d_global_scale;
    part.first_index = static_cast<std::uint64_t>(row * call_.n() + t.col);
    part.codes = d.quantized->codes.data() + row * part.code_stride + code_bytes(format, t.col);
    part.scales = d.scales + row * part.scale_stride + t.col / format.block;
    d.quantizer->quantize(part);
  }

  // Row-major scales to the layout asked for, matrix by matrix or expert by expert.
  void repack_output() {
    const QuantizedOutput& o = *destination_.quantized;
    std::int64_t at = 0;
    for (std::int64_t e = 0; e < call_.matrices; ++e) {
      const auto [first, count] = call_.rows_of(e);
      const BlockShape rows{count, call_.n(), o.format};
      BlockShape target = rows;
      target.layout = o.layout;
      repack_scale_bytes(rows,
                         std::span(row_scales_)
                             .subspan(static_cast<std::size_t>(first * rows.blocks_per_line()),
                                      static_cast<std::size_t>(rows.scale_bytes())),
                         o.layout,
                         o.scales.subspan(static_cast<std::size_t>(at),
                                          static_cast<std::size_t>(target.scale_bytes())));
      target.rows = call_.region_rows(count);
      at += target.scale_bytes();
    }
  }

  const MatmulCall& call_;
  const Context& context_;
  MatmulProducts products_;
  const MatmulKernels* kernels_;
  Destination destination_;
  std::unique_ptr<Scratch> prepared_;
  std::vector<std::uint8_t> odd_, row_scales_;
  std::int64_t most_cols_ = 0;  // of a tile
  std::int64_t values_bytes_ = 0, work_bytes_ = 0, scales_bytes_ = 0;
};

}  // namespace

const MatmulKernels* choose_matmul_kernels(const MatmulCall& call, const Context& context) {
  if (call.rows() == 0 || call.n() == 0 || call.matrices == 0) return nullptr;
  MatmulProduct product;
  if (const TensorView* a = call.a_dense()) {
    product.a.dtype = a->dtype;
  } else {
    product.a.format = call.a_blocks()->shape.format;
    product.a.scales = call.a_blocks()->scales.data();
  }
  product.b_format = call.b_shape().format;
  product.m = call.rows(), product.n = call.n(), product.k = call.k();
  return choose_backend(product, context).matmul;
}

void run_matmul(const MatmulCall& call, const Context& context, const MatmulKernels* kernels) {
  if (kernels != nullptr) Runner(call, context, *kernels).run();
}

}  // namespace microscale
