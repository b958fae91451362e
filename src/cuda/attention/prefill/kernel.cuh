// Attention of many queries on Hopper, at the speed of its matrix products.
//
// A block stays on its multiprocessor and takes item after item: 128 rows of q against the keys
// that they see, tile by tile from the last one. A warpgroup brings what is needed
// (query.cuh). Two warpgroups have 64 rows each and turn keys and values into
// sums: by Products, in FP16 (products_f16.cuh) or FP8 (products_fp8.cuh).
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/args.hpp"
#include "cuda/attention/prefill/query.cuh"
#include "cuda/attention/prefill/rows.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/ptx/control.cuh"

namespace microscale::cuda::attention::prefill {

/// Products: their Rings, the registers of a thread that computes and of one that copies, load()
/// for rows of q, and for the warpgroups begin(), attend(), and the sums o() of rows().
template <class Products>
class AttentionPrefill {
 public:
  using Rings = typename Products::Rings;

  __device__ static void run(const AttentionPrefillArgs& args) {
    std::uint32_t address[1] = {
        static_cast<std::uint32_t>(__cvta_generic_to_shared(Rings::memory()))};
    ptx::keep_in_place(address);
    Rings rings(address[0]);
    if (threadIdx.x == 0) rings.init();
    __syncthreads();
    follow_previous_grid();
    if (threadIdx.x >= 256) {
      ptx::setmaxnreg_dec<Products::copy_registers>();
      if (threadIdx.x < 288)
        prefill_copy_keys(args, rings);
      else
        prefill_load_query<Products>(args, rings);
    } else {
      ptx::setmaxnreg_inc<Products::registers>();
      attend(args, rings);
    }
  }

 private:
  __device__ static void attend(const AttentionPrefillArgs& args, const Rings& made) {
    Products products(args, made);
    Rings& rings = products.rings();
    const int row =
        static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    products.turns().begin();
#pragma unroll 1
    for (;;) {
      rings.query.wait_full();
      const PrefillItem& item = Rings::item(rings.query.stage());
      if (item.count == 0) break;
      products.begin(item, row);
      products.attend(item.tile_begin, item.tile_end);
      float by[2] = {};
      products.rows().finish(args, item, row, by);
      store_prefill_rows<Rings::width>(args, item, row, products.rows().weight, by, products.o());
      rings.query.release(rings.query.stage(), true);
      rings.query.next();
    }
    products.turns().end();
  }
};

}  // namespace microscale::cuda::attention::prefill
