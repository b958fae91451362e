// explain mma of datacenter Blackwell's tcgen05.mma.
#pragma once

#include <string>

namespace microscale {

class Console;

/// Whether a shape is of tcgen05.mma: M of 64, 128 or 256.
bool is_tcgen05_shape(const std::string& size);
/// Prints the maps as text or JSON. `elements`: "e4m3,e2m1" of A and B; empty: the kind's first.
/// Throws Error{invalid_argument} for what no tcgen05.mma is.
void explain_tcgen05(const std::string& kind, const std::string& size, const std::string& elements,
                     Console& console);

}  // namespace microscale
