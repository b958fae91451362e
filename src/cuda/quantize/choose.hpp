// Which kernels serve a call, and their grids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cuda/device/device.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/quantize/fused_args.hpp"
#include "cuda/quantize/args.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {

/// Of args.hpp, in the order of kernel_modes.
enum class KernelMode : std::uint8_t { plain, search, general };

/// The fastest mode that `numerics` allows.
KernelMode kernel_mode(Format format, const Numerics& numerics);

/// The same for kernels made of slabs (cuda/block/lane_chunks.cuh), whose searches know 4 over 6,
/// too.
KernelMode row_kernel_mode(Format format, const Numerics& numerics);

/// The fields of `args` that follow from the numerics alone.
void set_numerics(QuantizeArgs& args, Format format, const Numerics& numerics);

struct RowsPlan {
  Entry<QuantizeArgs> kernel;
  Launch grid;
  Slabs tiles;
};

struct GroupedPlan {
  Entry<GroupedQuantizeArgs> kernel;
  Launch grid;
  Slabs tiles;
  std::int32_t rows_per_unit, tiles_per_unit;  // of ExpertSlabs
};

struct ColumnsPlan {
  Entry<ColumnsArgs> kernel;
  Launch grid;
};

struct QuantizePlan {
  std::optional<RowsPlan> rows;        // along rows alone
  std::optional<ColumnsPlan> columns;  // along columns, or along both axes from one read
};

/// What is to be written: one axis, or both.
enum class Axes : std::uint8_t { rows, columns, both };

/// `scales_aligned`: the scales of rows begin at a multiple of 4 bytes. A function of the device,
/// the shape and the options; options.input.data is not looked at. The input has elements.
QuantizePlan choose(const DeviceInfo& device, const QuantizeOptions& options, Axes axes,
                    bool scales_aligned);

/// The same for many experts' rows. Throws Error{unsupported} where no kernel has the numerics.
GroupedPlan choose(const GroupedQuantizeOptions& options, bool scales_aligned);

Entry<QuantizeArgs> quantize_kernel(Format format, DType input, KernelMode mode, Layout layout);
/// Not general.
Entry<GroupedQuantizeArgs> grouped_kernel(Format format, DType input, KernelMode mode,
                                          Layout layout);
/// Along columns alone or along both axes; mode general has no kernel for both.
Entry<ColumnsArgs> columns_kernel(Format format, DType input, KernelMode mode, bool both);
Entry<DequantizeArgs> dequantize_kernel(Format format, DType output);
Entry<AbsMaxArgs> abs_max_kernel(DType input);
/// `producer` is one of fused_producers.
Entry<FusedArgs> fused_kernel(std::string_view producer, Format format, DType input,
                              KernelMode mode);

}  // namespace microscale::cuda
