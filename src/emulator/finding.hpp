// Where what the machine noticed goes. Finding itself is public.
#pragma once

#include "microscale/emulator.hpp"

namespace microscale::emulator {

/// Where findings go; safe to call from several host threads. After `fatal` the launch ends.
class FindingSink {
 public:
  virtual ~FindingSink() = default;
  virtual void add(Finding finding, bool fatal) = 0;
};

/// The last part of cuda_words and cure_of: which memory an address is in.
enum class AddressSpace : std::uint8_t { none, global, shared, local, tensor, other };
AddressSpace space_of(const Finding& finding);

/// "shuffles.h:40, inlined at file.cu:14", or the source alone.
std::string with_call(const std::string& source, const std::string& inlined_at);

}  // namespace microscale::emulator
