// A matrix product whose kernels are chosen once and which runs many times: for who calls with the
// same shapes again and again, and has no microseconds to spare on a host. matmul() and its kin are
// a plan and its run.
//
//   const MatmulPlan plan({.a = a, .b = weights, .d = d}, context);
//   ... allocate plan.workspace_bytes() of device memory ...
//   plan.run({.a = a, .b = weights, .d = d}, context);       // or with other memory
//
// A plan is made of options as matmul() takes them, all pointers set, and checks them as matmul()
// does. run() takes the same options with other memory: pointers, global scales, alpha,
// the stream and the workspace may differ; shapes, strides, types, layouts, formats and flags may
// not, nor the backend and its GPU. It checks what pointers can break: null, overlap,
// alignment (on Backend::cuda that of matmul(), or of the memory the plan was made with where its
// kernels read more at once), and where memory is.
//
// A plan is a value that does not change: threads may run one at once, each with a workspace of its
// own. It keeps no memory of the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "microscale/context.hpp"
#include "microscale/matmul.hpp"

namespace microscale {

class MatmulPlan {
 public:
  /// Throws Error as the product itself would.
  explicit MatmulPlan(const MatmulOptions& options, const Context& context = {});
  explicit MatmulPlan(const GatedMatmulOptions& options, const Context& context = {});
  explicit MatmulPlan(const GroupedMatmulOptions& options, const Context& context = {});
  MatmulPlan(MatmulPlan&&) noexcept;
  MatmulPlan& operator=(MatmulPlan&&) noexcept;
  ~MatmulPlan();

  /// Bytes of Context::workspace that run() takes; 0 but on Backend::cuda.
  std::int64_t workspace_bytes() const;
  /// Which kernels, and how work is cut among them: "in_registers 256x64, 128 blocks, 32 tiles in
  /// 128 parts; workspace 8392704 bytes", or the CPU's backend. For people: the words may change.
  std::string describe() const;

  /// The product, into the memory of `options`. Throws Error{invalid_argument} where they are not
  /// the plan's, and before anything is written.
  void run(const MatmulOptions& options, const Context& context = {}) const;
  void run(const GatedMatmulOptions& options, const Context& context = {}) const;
  void run(const GroupedMatmulOptions& options, const Context& context = {}) const;

 private:
  struct Kept;
  std::unique_ptr<const Kept> kept_;
};

}  // namespace microscale
