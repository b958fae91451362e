// A loop whose index is a constant: for what takes it as a template argument.
#pragma once

#include <type_traits>
#include <utility>

namespace microscale::cuda {

/// fn(std::integral_constant<int, 0>{}), ..., fn(std::integral_constant<int, Count - 1>{}).
template <int Count, class Function>
__device__ __forceinline__ void for_each_index(Function&& fn) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (fn(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, Count>{});
}

}  // namespace microscale::cuda
