// What the FP4 modes of attention round, as a scalar model: docs/attention.md, "Accuracy modes".
#pragma once

#include <cstdint>

#include "microscale/attention.hpp"

namespace microscale {

/// A row of q, d values, becomes what `format` (nvfp4, mxfp4, mxfp8_e4m3) holds of it in one term,
/// or, for FP4, in two. d is a multiple of 32.
void round_query(Format format, bool two_term, double* row, std::int64_t d);

/// Probabilities of the keys at positions [first, first + count), in [0, 1], become what `rule`
/// makes of them, as numbers in [0, 1]. `two_term` for two_level in FP4.
void round_probabilities(ProbabilityRule rule, Format format, bool two_term, std::int64_t first,
                         double* p, std::int64_t count);

}  // namespace microscale
