// The tables of handlers, one per family and instruction set; find_handler looks through them.
#pragma once

#include <span>

#include "emulator/ops/handler.hpp"

namespace microscale::emulator {

using Family = std::span<const HandlerEntry>;

namespace portable {
Family integer_family();
Family bits_family();
Family compare_family();
Family scalar_family();     // f32 and f64
Family packed_family();     // f16, bf16 and their pairs
Family convert_family();    // between integers and floats
Family cvt_lanes_family();  // to and from the element formats
}  // namespace portable
namespace avx2 {
Family integer_family();
Family bits_family();
Family compare_family();
Family scalar_family();
Family packed_family();
Family convert_family();
Family cvt_lanes_family();
}  // namespace avx2

// One set only: not loops that an instruction set would speed up.
Family approx_family();
Family cvt_small_family();     // block scales
Family cvt_directed_family();  // to FP16 and BF16, every rounding
Family move_family();
Family control_family();
Family system_family();  // vprintf, __assertfail, malloc, free
Family memory_family();
Family atomic_family();
Family warp_family();  // shfl, vote, match, redux, activemask, elect
Family barrier_family();
Family async_family();
Family mbarrier_family();  // and bulk copies
Family mma_family();
Family ldmatrix_family();  // and stmatrix, movmatrix
Family wgmma_family();
Family wmma_family();
Family tcgen05_family();

}  // namespace microscale::emulator
