// What this processor computes when nothing has to be read: the other limit of a product, beside
// memory_limits.hpp.
#pragma once

#include <string>

#include "microscale/context.hpp"

namespace microscale::bench {

struct Peak {
  std::string name;       // "AMX": BF16 tile products; "FMA", "INT8": multiply-adds of vectors
  double operations = 0;  // a second, two for a multiply-add; 0: nothing measures it
};

/// The kind of arithmetic that `backend` multiplies with (automatic: the fastest here), on
/// `threads` threads, operands and sums in registers: a loop of some milliseconds. `brief`: a
/// hundredth, to see that it works.
Peak arithmetic_peak(Backend backend, int threads, bool brief = false);

/// The same for products of many rows of FP4 by FP4, which the vector backends multiply as bytes.
Peak codes_peak(Backend backend, int threads, bool brief = false);

/// The parts of it, in operations a second. Each only where the processor has the instructions.
double amx_peak(int threads, bool brief);
double avx512_peak(int threads, bool brief);
double avx2_peak(int threads, bool brief);

}  // namespace microscale::bench
