// A quantized weight against the values it was made of, piece by piece: sums that say how far it is
// off, how far its format allows, and what was done to it otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

struct SourceSums {
  std::int64_t elements = 0;
  std::int64_t not_nearest = 0, first = -1;  // codes that another code beats, and where
  std::int64_t blocks = 0;                   // whose scales were held against the rules
  double dot = 0, original = 0, stored = 0, error = 0;
  double swapped = 0;  // the dot product with the two codes of each byte swapped
  double allowed = 0;  // squares that the format may cost
  double largest = 0;  // magnitude of the original
  // Runs of values, blocks where there are such, that hold nothing of the original's.
  std::int64_t lost = 0, first_lost = -1;      // and where the first begins
  double lost_error = 0;                       // of them
  double largest_lost = 0;                     // magnitude of the original in them
  std::int64_t differing = 0;                  // values that are not the original's
  std::map<ScaleRule, std::int64_t> followed;  // blocks of the sample

  void add(const SourceSums& other);
  double cosine() const;
  /// Of the stored values with the codes of each byte swapped; both have the same squares but for
  /// blocks that are cut.
  double swapped_cosine() const;
};

/// The squared error that quantizing a block may cost, from the definition of the format alone:
/// with the coarsest scale that a rule in use gives (twice as coarse as needed for powers of two),
/// each element is off by at most half the distance of the codes around it, or by what saturates.
/// `global_scale`: what the smallest block scales are counted in.
double allowed_squares(Format format, std::span<const float> block, float global_scale);

/// `values`: of the original, lines of `cols`, from element `first` of the weight on; `stored`
/// holds the same piece of a weight in that coding.
void add_values(const BlockCoding& coding, const PieceData& stored, std::span<const float> values,
                std::int64_t cols, std::int64_t first, SourceSums& sums);

/// The same of a weight whose codes are not ours to judge: by what they stand for alone.
void add_values(const PieceData& stored, std::span<const float> values, std::int64_t cols,
                std::int64_t first, SourceSums& sums);

/// Holds the block scales of the piece against every rule of the format.
void try_rules(const BlockCoding& coding, const PieceData& stored, std::span<const float> values,
               SourceSums& sums);

}  // namespace microscale
