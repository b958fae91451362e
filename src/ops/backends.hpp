// Which kernel table runs a call.
#pragma once

#include "seam/attention_kernels.hpp"
#include "core/result.hpp"
#include "seam/kernel_table.hpp"

namespace microscale {

/// The table of `context.backend`, or for `automatic` the fastest available one that supports the
/// call. Throws Error{unsupported} when the backend asked for is absent or does not support it.
const KernelTable& choose_backend(const QuantizeLines& call, const Context& context);
const KernelTable& choose_backend(const DequantizeLines& call, const Context& context);
const KernelTable& choose_backend(const MatmulProduct& call, const Context& context);
const KernelTable& choose_backend(const AttentionNeeds& call, const Context& context);
/// "avx512": whose kernels for products these are.
std::string_view name_of(const MatmulKernels& kernels);
std::string_view name_of(const AttentionKernels& kernels);
/// For calls that every backend supports; `operation` begins the sentence if it is absent.
const KernelTable& choose_backend(const char* operation, const Context& context);

}  // namespace microscale
