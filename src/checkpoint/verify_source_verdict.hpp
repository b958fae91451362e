// What the sums over one weight and its original say.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/finding.hpp"
#include "checkpoint/source_sums.hpp"
#include "checkpoint/verify_source.hpp"
#include "checkpoint/verify_source_pairs.hpp"

namespace microscale {

/// The figures of a weight.
SourceTensor figures_of(const LogicalTensor& stored, const SourceSums& sums);

struct SourceVerdict {
  Severity severity = Severity::error;
  const char* rule = "source-error";
  std::string text;
};

/// Of a coded weight: nothing where it is what its format makes of the original. May read both once
/// more to find the cause.
std::optional<SourceVerdict> judge_coded(const QuantizedFolder& folder, const SourcePair& pair,
                                         const SourceSums& sums, const SourceTensor& figures);

/// Whether dense values are those of the original as some format had them: all of them off a
/// little, and none lost.
bool looks_decoded(const SourceSums& sums, const SourceTensor& figures);

}  // namespace microscale
