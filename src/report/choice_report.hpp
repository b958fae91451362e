// What a budget led to, as plain data: the table of layers and formats, and the curve of error
// against bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace microscale {

/// Layers that engines run as one, or the experts of a layer.
struct ChoiceRow {
  std::string name = {};
  std::int64_t layers = 0;
  std::int64_t weights = 0;
  /// By line of the menu: error of the output as a share of it, summed over the layers, or
  /// ChoiceReport::by_gradients; infinite where they cannot have the format.
  std::vector<double> errors = {};
  std::vector<std::int64_t> bytes = {};  ///< of codes and scales, by line of the menu
  std::size_t chosen = 0;                ///< line of the menu
};

struct ChoicePoint {
  double bits = 0;   ///< a weight
  double error = 0;  ///< of all rows
};

struct ChoiceReport {
  std::string budget = {};             ///< "at most 4.75 bits a weight, of nvfp4, fp8 and bf16"
  std::vector<std::string> menu = {};  ///< "nvfp4", ..., "bf16"
  std::int64_t weighted_layers = 0;    ///< whose errors are weighted by mean squares of inputs
  bool by_gradients = false;           ///< errors are divergences, in nats a token
  std::vector<ChoiceRow> rows = {};
  std::vector<ChoicePoint> curve = {};  ///< of the best choices, smallest first
};

ChoicePoint chosen_point(const ChoiceReport& choice);
std::int64_t choice_layers(const ChoiceReport& choice);

/// All rows in one line of the menu.
struct UniformPoint {
  std::string name = {};
  ChoicePoint point = {};
};
/// Of the lines that every row can have.
std::vector<UniformPoint> uniform_points(const ChoiceReport& choice);

/// What of all rows got a line of the menu.
struct ChoiceShare {
  std::string name = {};
  std::int64_t rows = 0, layers = 0, weights = 0, bytes = 0;
  double error = 0;
};
std::vector<ChoiceShare> choice_shares(const ChoiceReport& choice);

/// What the next smaller and the next larger line would change for a row: the one that loses least
/// a byte, and the one that saves most a byte.
struct ChoiceNeighbour {
  std::size_t line = 0;
  std::int64_t bytes = 0;  ///< more; negative: fewer
  double error = 0;        ///< more; negative: less
};
std::vector<ChoiceNeighbour> choice_neighbours(const ChoiceRow& row);

/// "fp8: 0.83 % less for 1.2 MB more".
std::string in_words(const ChoiceNeighbour& neighbour, const ChoiceReport& choice);

/// How errors were measured, one sentence.
std::string choice_basis(const ChoiceReport& choice);

/// One JSON object.
std::string to_json(const ChoiceReport& choice);

}  // namespace microscale
