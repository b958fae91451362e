#include "cuda/matmul/in_registers/launch.hpp"

#include <string>

#include "cuda/device/call_ticket.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/matmul/expanded/launch.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {
namespace {

int tile_bytes_of(Format format) {
  const FormatInfo& facts = info(format);
  return static_cast<int>(fragment_tiles::tile_bytes(facts.code_bits, facts.block));
}

WidePlan plan_of(const DeviceInfo& device, const WideCall& call) {
  return wide_plan(call.n, call.k, call.output.gated != 0, call.rows.m, call.rows.matrices,
                   call.rows.expert_rows != nullptr, tile_bytes_of(call.b_format), call.b_is_plain,
                   device.multiprocessors);
}

// Whether the product's kernel reads a as it is.
bool reads_rows(const WideInput& a) {
  return !a.format && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && a.stride % 16 == 0 &&
         a.stride < std::int64_t{1} << 40;
}

WidePlainArgs plain_args(const WideCall& call, const PlainWeights& b) {
  const bool tiled = b.layout == Layout::tiled_128x4;
  const std::int64_t blocks = call.k / 16;
  return {.codes = b.codes,
          .scales = b.scales,
          .codes_matrix = call.n * call.k / 2,
          .scales_matrix = tiled ? tiled_128x4::bytes(call.n, blocks) : call.n * blocks,
          .tiled = tiled};
}

// MatmulWideArgs::dense.
TensorBoxes dense_boxes(const WideCall& call, WideShape shape) {
  const bool experts = call.rows.expert_rows != nullptr;
  return {.data = call.a.data,
          .rank = 2,
          .element_bytes = 2,
          .size = {call.k, call.rows.m * (experts ? 1 : call.rows.matrices)},
          .stride = {2, call.a.stride},
          .box = {64, shape.tokens},
          .swizzle_128 = true};
}

// MatmulWideArgs::weights.
TensorBoxes weight_boxes(const WideCall& call, WideShape shape) {
  const std::int64_t tile = tile_bytes_of(call.b_format), chunks = token_tiles::chunks(call.k),
                     row_tiles = fragment_tiles::row_tiles(call.n, call.output.gated != 0);
  return {.data = call.b,
          .rank = 4,
          .element_bytes = 8,
          .size = {tile / 8, chunks, row_tiles, call.rows.matrices},
          .stride = {8, tile, chunks * tile, row_tiles * chunks * tile},
          .box = {static_cast<int>(tile / 8), shape.stage_chunks(), shape.rows / 16, 1}};
}

// Of a in the workspace.
std::int64_t token_bytes(const WideCall& call) {
  if (reads_rows(call.a)) return 0;
  return token_tiles::bytes(call.rows.m, call.rows.matrices, call.rows.expert_rows != nullptr,
                            call.k);
}

// Blocks that prepare rows begin while the grid in front ends, and would all go to the few
// multiprocessors that are through with it first, six to one: they take three times as long then,
// and the product's blocks there begin late. So where they are few, each has shared memory that
// nobody uses, and no more than two find room on a multiprocessor.
constexpr std::int64_t few_a_multiprocessor = 2;
constexpr int spreading_bytes = 100 << 10;

// Of the workspace.
std::int64_t all_bytes(const WidePlan& plan, const WideCall& call) {
  return (token_bytes(call) + plan.sums_bytes() + plan.flag_bytes() + 255) / 256 * 256;
}

}  // namespace

bool has_kernels(Format format) {
  return format == Format::mxfp4 || format == Format::nvfp4 || format == Format::mxfp8_e4m3 ||
         format == Format::mxfp8_e5m2;
}

std::int64_t wide_cycles_of(const DeviceInfo& device, const WideCall& call) {
  return plan_of(device, call).cycles;
}

bool multiplies_f16(const WideInput& a, Format b_format, bool decodes_packed) {
  if (b_format != Format::nvfp4) return false;
  return a.format ? *a.format == Format::nvfp4 && !decodes_packed : a.type == DType::f16;
}

PrepareTilesArgs prepare_wide_args(const WideCall& call, bool f16) {
  PrepareTilesArgs args{};
  args.a = call.a.data;
  args.a_stride = call.a.stride;
  args.scales = call.a.scales;
  args.rows = call.rows;
  args.k = call.k;
  args.tiled = call.a.format && call.a.layout == Layout::tiled_128x4;
  args.f16 = f16;
  args.tiles = call.workspace;
  args.group_step = 1;
  return args;
}

void prepare_wide(Device& device, const char* operation, const std::optional<Format>& format,
                  const PrepareTilesArgs& args, Stream stream) {
  const std::int64_t groups =
      token_tiles::all_groups(args.rows.m, args.rows.matrices, args.rows.expert_rows != nullptr);
  const std::string kind = format ? std::string(info(*format).name) : "dense";
  const std::int64_t of_k = ceil_div(args.k, 256 * prepare_pieces),
                     most =
                         args.only_if != nullptr ? ceil_div(blocks_that_rarely_work, of_k) : 32768;
  const Launch shape{.grid_x = static_cast<unsigned>(of_k),
                     .grid_y = static_cast<unsigned>(groups < most ? groups : most),
                     .grid_z = 1,
                     .threads = threads_per_block,
                     .column_shift = 0};
  const bool few = args.by_blocks != 0 && args.only_if == nullptr &&
                   std::int64_t{shape.grid_x} * shape.grid_y <=
                       few_a_multiprocessor * device.info().multiprocessors;
  launch(device, (few ? "matmul_prepare_blocks_" : "matmul_prepare_tiles_") + kind, operation,
         shape, args, stream, few ? spreading_bytes : 0);
}

bool has_vectors(const ProductOutput& out) {
  const std::int64_t element = size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % 16 == 0 && out.d_stride * element % 16 == 0 &&
         out.d_matrix * element % 16 == 0;
}

bool wide_takes(const DeviceInfo& device, const WideInput& a, Format b_format) {
  if (architecture_of(device) != "sm_90a" || !has_kernels(b_format)) return false;
  if (a.format) return has_kernels(*a.format);
  return a.type == DType::bf16 || (a.type == DType::f16 && b_format == Format::nvfp4);
}

bool wide_takes_plain(const WideCall& call) {
  const auto aligned = [](const PlainWeights& b) {
    return reinterpret_cast<std::uintptr_t>(b.codes) % 16 == 0 &&
           reinterpret_cast<std::uintptr_t>(b.scales) % 4 == 0;
  };
  return call.a.format == Format::nvfp4 && call.b_format == Format::nvfp4 && call.k % 64 == 0 &&
         aligned(call.plain) && (!call.output.gated || aligned(call.plain_up));
}

std::optional<WideCall> wide_call(const DeviceInfo& device, const MatmulCall& call,
                                  const ProductRows& rows, const ProductOutput& output) {
  if (rows.matrices == 0) return {};
  const std::int64_t each = rows.expert_rows ? ceil_div(rows.m, rows.matrices) : rows.m;
  if (each < wide_least_rows) return {};
  WideCall wide;
  if (const BlockTensorView* a = call.a_blocks()) {
    wide.a.format = a->shape.format;
    wide.a.data = a->codes.data();
    wide.a.stride = a->shape.code_bytes_per_line();
    wide.a.scales = a->scales.data();
    wide.a.layout = a->shape.layout;
  } else {
    const TensorView& dense = *call.a_dense();
    wide.a.type = dense.dtype;
    wide.a.data = dense.data;
    wide.a.stride = dense.row_stride * size_of(dense.dtype);
  }
  wide.b_format = call.b_shape().format;
  if (!wide_takes(device, wide.a, wide.b_format)) return {};
  if (call.packed()) {
    wide.b = call.packed()->bytes.data();
  } else {
    const auto plain = [](const BlockTensorView& b) {
      return PlainWeights{b.codes.data(), b.scales.data(), b.shape.layout};
    };
    wide.b_is_plain = true;
    wide.plain = plain(std::get<BlockTensorView>(call.b));
    if (call.gated) wide.plain_up = plain(*call.up);
  }
  wide.b_is_constant = call.constant_weights;
  wide.n = call.n();
  wide.k = call.k();
  wide.rows = rows;
  wide.output = output;
  wide.fp8 = call.fast_accumulation;
  if (const QuantizedOutput* d = call.quantized(); d != nullptr && dense_quantizes(wide, *d)) {
    wide.quantized = d;
    if (!dense_serves(device, wide)) wide.quantized = nullptr;
  }
  if (wide.b_is_plain && !dense_takes_plain(device, wide) && !wide_takes_plain(wide)) return {};
  return wide;
}

std::int64_t wide_workspace_bytes(const DeviceInfo& device, const WideCall& call) {
  if (call.rows.m == 0 || call.rows.matrices == 0 || call.n == 0) return 0;
  if (dense_serves(device, call)) return dense_workspace_bytes(call);
  return all_bytes(plan_of(device, call), call);
}

void matmul_wide(Device& device, const char* operation, const WideCall& call, Stream stream) {
  const ProductRows& rows = call.rows;
  const bool experts = rows.expert_rows != nullptr, gated = call.output.gated != 0;
  if (rows.m == 0 || rows.matrices == 0 || call.n == 0) return;
  if (dense_serves(device.info(), call)) return matmul_dense(device, operation, call, stream);
  const bool f16 = multiplies_f16(call.a, call.b_format, !call.b_is_plain);
  const FormatInfo& format = info(call.b_format);
  const WidePlan plan = plan_of(device.info(), call);
  char* sums = static_cast<char*>(call.workspace) + token_bytes(call);

  MatmulWideArgs args{};
  if (reads_rows(call.a))
    args.dense = device.tensor_map(dense_boxes(call, plan.shape));
  else
    args.tiles = call.workspace;
  if (call.b_is_plain) {
    args.plain[0] = plain_args(call, call.plain);
    if (gated) args.plain[1] = plain_args(call, call.plain_up);
  } else {
    args.weights = device.tensor_map(weight_boxes(call, plan.shape));
  }
  args.n = call.n;
  args.k = call.k;
  args.tiles_of_d = static_cast<std::uint32_t>(plan.most_tiles);
  args.cut = plan.cut;
  args.cut_by_kernel = plan.cut_by_kernel;
  args.sums = reinterpret_cast<float*>(sums);
  args.flags = reinterpret_cast<std::uint64_t*>(sums + plan.sums_bytes());
  args.ticket = next_ticket();
  args.vectors = has_vectors(call.output);
  args.constant = call.b_is_constant;
  args.partial = args.tiles != nullptr && (experts || rows.m % plan.shape.tokens != 0);
  args.rows = rows;
  args.output = call.output;
  if (args.tiles != nullptr) {
    PrepareTilesArgs tiles = prepare_wide_args(call, f16);
    tiles.by_blocks = call.b_is_plain;
    prepare_wide(device, operation, call.a.format, tiles, stream);
  }

  const Launch product{.grid_x = static_cast<unsigned>(plan.blocks),
                       .grid_y = 1,
                       .grid_z = 1,
                       .threads = static_cast<unsigned>(plan.shape.threads()),
                       .column_shift = 0};
  launch(device,
         "matmul_wide_" + std::string(format.name) +
             (call.b_is_plain ? "_plain_"
              : f16           ? "_f16_"
                              : "_bf16_") +
             std::to_string(plan.shape.rows) + "x" + std::to_string(plan.shape.tokens),
         operation, product, args, stream,
         wide_shared(plan.shape, tile_bytes_of(call.b_format)).bytes, plan.cut.paired ? 2 : 1);
}

}  // namespace microscale::cuda
