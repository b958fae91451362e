// Whether a call runs on the host or on the device, from its backend and what its views say.
#pragma once

#include <array>
#include <initializer_list>

#include "microscale/context.hpp"
#include "microscale/memory.hpp"

namespace microscale {

/// One operand, where its view says that it lies, and where its pointers lead to; null: nowhere.
struct OperandMemory {
  const char* name;
  Memory memory;
  std::array<const void*, 6> data{};
};

/// The operand that a view names.
template <class View>
OperandMemory operand(const char* name, const View& view) {
  if constexpr (requires { view.k_codes; })
    return {name,
            view.memory,
            {view.k_codes.data, view.k_scales.data, view.v_codes.data, view.v_scales.data,
             view.page_table, view.lengths}};
  else if constexpr (requires { view.scales.data(); })
    return {name, view.memory, {view.codes.data(), view.scales.data()}};
  else if constexpr (requires { view.bytes; })
    return {name, view.memory, {view.bytes.data()}};
  else
    return {name, view.memory, {view.data}};
}

/// True where the call runs on the device: for Backend::cuda, and for Backend::automatic if the
/// operands lie in device memory. Throws Error{invalid_argument}, naming `operation` and the
/// operand, where one lies in memory that the backend does not read, or two lie apart; and where
/// the call runs on the host although the CUDA driver of this process knows a pointer as a GPU's
/// alone.
bool runs_on_device(const char* operation, const Context& context,
                    std::initializer_list<OperandMemory> operands);

/// The same for an operation that Backend::cuda does not have: throws Error{unsupported} where it
/// would run there.
void check_runs_on_host(const char* operation, const Context& context,
                        std::initializer_list<OperandMemory> operands);

}  // namespace microscale
