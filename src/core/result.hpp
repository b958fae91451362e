// Result<T>: what parsers return inside the library, a value or one sentence about what is wrong.
// Exceptions start at the public boundary: `take(std::move(result))` throws the failure as an
// Error.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "microscale/error.hpp"

namespace microscale {

struct Failure {
  ErrorCode code = ErrorCode::bad_input;
  std::string message;  // one sentence: what, where, how to fix
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

/// For operations that have nothing to give back: success() or a Failure.
using Status = Result<std::monostate>;
inline Status success() { return std::monostate{}; }

/// The value, or the failure thrown as Error.
template <class T>
T take(Result<T> result) {
  if (!result) throw Error(result.failure().code, result.failure().message);
  return std::move(result.value());
}

}  // namespace microscale
