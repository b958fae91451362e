#include "emulator/ptx/affine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace microscale::emulator::ptx {
namespace {

std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

void Form::add(const Product& product, std::int64_t coefficient) {
  const auto at = terms_.try_emplace(product, 0).first;
  at->second = static_cast<std::int64_t>(static_cast<std::uint64_t>(at->second) +
                                         static_cast<std::uint64_t>(coefficient));
  if (at->second == 0) terms_.erase(at);
}

Form Form::plus(const Form& other, std::int64_t factor) const {
  Form sum = *this;
  for (const auto& [product, coefficient] : other.terms_) {
    sum.add(product, wrapping_product(coefficient, factor));
  }
  return sum;
}

std::optional<Form> Form::times(const Form& other) const {
  if (terms_.size() * other.terms_.size() > max_terms) return std::nullopt;
  Form result;
  for (const auto& [left, a] : terms_) {
    for (const auto& [right, b] : other.terms_) {
      if (left.size() + right.size() > 4) return std::nullopt;
      Product product = left;
      product.insert(product.end(), right.begin(), right.end());
      std::ranges::sort(product);
      result.add(product, wrapping_product(a, b));
    }
  }
  return result;
}

std::optional<std::int64_t> Form::constant() const {
  if (terms_.empty()) return 0;
  if (terms_.size() > 1 || !terms_.begin()->first.empty()) return std::nullopt;
  return terms_.begin()->second;
}

bool Form::has(const std::string& symbol) const {
  return std::ranges::any_of(terms_, [&](const auto& term) {
    return std::ranges::find(term.first, symbol) != term.first.end();
  });
}

std::optional<Form> Form::step(const std::string& symbol) const {
  Form result;
  for (const auto& [product, coefficient] : terms_) {
    const auto count = std::ranges::count(product, symbol);
    if (count == 0) continue;
    if (count > 1) return std::nullopt;
    Product rest = product;
    rest.erase(std::ranges::find(rest, symbol));
    result.add(rest, coefficient);
  }
  return result;
}

std::string Form::text() const {
  std::string result;
  const auto append = [&](const Product& product, std::int64_t coefficient) {
    const bool negative = coefficient < 0;
    const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(coefficient)
                                        : static_cast<std::uint64_t>(coefficient);
    if (result.empty()) {
      result += negative ? "-" : "";
    } else {
      result += negative ? " - " : " + ";
    }
    std::string factors = fmt::format("{}", fmt::join(product, "*"));
    if (product.empty()) {
      result += fmt::format("{}", size);
    } else {
      result += size == 1 ? factors : fmt::format("{}*{}", size, factors);
    }
  };
  for (const auto& [product, coefficient] : terms_)
    if (!product.empty()) append(product, coefficient);
  const auto last = terms_.find(Product());
  if (last != terms_.end()) append(Product(), last->second);
  return result.empty() ? "0" : result;
}

}  // namespace microscale::emulator::ptx
