// Sums of products of symbols with integer coefficients: what a listing computes its addresses
// from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace microscale::emulator::ptx {

/// `128*%ctaid.x + 4*%tid.x + [k_param_0]`. 64-bit, wrapping; that narrower registers wrap is not
/// seen.
class Form {
 public:
  using Product = std::vector<std::string>;  // sorted; empty: the constant
  static constexpr std::size_t max_terms = 64;

  Form() = default;
  explicit Form(std::int64_t constant) { add(Product(), constant); }
  explicit Form(const std::string& symbol) { add(Product{symbol}, 1); }

  void add(const Product& product, std::int64_t coefficient);
  Form plus(const Form& other, std::int64_t factor = 1) const;
  /// Nothing when it would have more than max_terms.
  std::optional<Form> times(const Form& other) const;

  std::optional<std::int64_t> constant() const;  // its value when no symbol is in it
  bool has(const std::string& symbol) const;
  /// What one more of the symbol adds; nothing when that depends on the symbol (a square).
  std::optional<Form> step(const std::string& symbol) const;
  const std::map<Product, std::int64_t>& terms() const { return terms_; }
  bool operator==(const Form&) const = default;

  std::string text() const;  // "0" when empty; the constant last

 private:
  std::map<Product, std::int64_t> terms_;  // no zeros
};

}  // namespace microscale::emulator::ptx
