// The global scale of a tensor in NVFP4, or of an FP8 cache.
#pragma once

#include <cstdint>

#include "microscale/error.hpp"
#include "microscale/memory.hpp"

namespace microscale {

/// A decode multiplier (value = code * block scale * global scale), FP32, positive and normal:
/// a number, or the address of one or of one per expert. What an address points to is owned by the
/// caller and must live until the call's work is done.
///
///   view.global_scale = 0.01f;                                       // on the host
///   view.global_scale = GlobalScale::on_device(pointer);             // read when the work runs
///   view.global_scale = GlobalScale::per_expert(pointer, Memory::device);
///
/// A host backend takes the first form or per_expert of host memory; Backend::cuda takes device
/// memory. Formats with E8M0 scales have no global scale: theirs is absent or 1.
class GlobalScale {
 public:
  constexpr GlobalScale() = default;                                   ///< absent
  constexpr GlobalScale(float value) : value_(value), given_(true) {}  ///< a number on the host

  /// One FP32 number in device memory, aligned to 4 bytes. Null: absent.
  static constexpr GlobalScale on_device(const float* one) {
    return GlobalScale(one, Memory::device, false);
  }
  /// As many FP32 numbers as the call has experts, aligned to 4 bytes. Null: absent.
  static constexpr GlobalScale per_expert(const float* each, Memory memory = Memory::host) {
    return GlobalScale(each, memory, true);
  }

  constexpr bool given() const { return given_; }
  constexpr bool is_per_expert() const { return per_expert_; }
  constexpr Memory memory() const { return memory_; }
  /// The address of device memory; null where there is none.
  constexpr const float* device_pointer() const {
    return memory_ == Memory::device ? pointer_ : nullptr;
  }

  /// The number of `expert`, or the one of all. Throws Error{invalid_argument} where it is absent
  /// or in device memory.
  float value(std::int64_t expert = 0) const {
    if (!given_ || memory_ == Memory::device)
      throw Error(ErrorCode::invalid_argument,
                  given_ ? "GlobalScale::value: the global scale is in device memory; copy it to "
                           "the host"
                         : "GlobalScale::value: no global scale was given; set one");
    return per_expert_ ? pointer_[expert] : value_;
  }

  friend constexpr bool operator==(const GlobalScale&, const GlobalScale&) = default;

 private:
  constexpr GlobalScale(const float* pointer, Memory memory, bool per_expert)
      : pointer_(pointer),
        memory_(memory),
        given_(pointer != nullptr),
        per_expert_(per_expert && pointer != nullptr) {}

  const float* pointer_ = nullptr;
  float value_ = 1.0f;
  Memory memory_ = Memory::host;
  bool given_ = false, per_expert_ = false;
};

}  // namespace microscale
