#include "emulator/ptx/lane_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace microscale::emulator::ptx {
namespace {

using Lanes = LaneForm::Lanes;

constexpr int all_bits = 64;
constexpr std::size_t longest_name = 40;
constexpr std::string_view choice_prefix = "either(";

std::int64_t product_of(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::uint64_t ones(int count) {
  return count >= all_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

bool is_same(const Lanes& lanes) {
  return std::ranges::all_of(lanes, [&](std::int64_t each) { return each == lanes[0]; });
}

bool divides(int count, const Lanes& lanes) {
  return std::ranges::all_of(lanes, [&](std::int64_t each) {
    return (static_cast<std::uint64_t>(each) & ones(count)) == 0;
  });
}

// Each lane's multiple of 2^count below it, and what is left.
Lanes quotients(const Lanes& lanes, int count) {
  Lanes result;
  std::ranges::transform(lanes, result.begin(), [&](std::int64_t each) {
    return count >= all_bits ? (each < 0 ? -1 : 0) : each >> count;
  });
  return result;
}
Lanes remainders(const Lanes& lanes, int count) {
  Lanes result;
  std::ranges::transform(lanes, result.begin(), [&](std::int64_t each) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(each) & ones(count));
  });
  return result;
}

}  // namespace

LaneForm::LaneForm(const std::string& symbol) { add({symbol}, all(1)); }

Lanes LaneForm::all(std::int64_t value) {
  Lanes lanes;
  lanes.fill(value);
  return lanes;
}

Lanes LaneForm::own_number() {
  Lanes lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<std::int64_t>(i);
  return lanes;
}

void LaneForm::add(const Product& product, const Lanes& coefficients) {
  const auto at = terms_.try_emplace(product, Lanes{}).first;
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    at->second[i] = sum_of(at->second[i], coefficients[i]);
  if (std::ranges::all_of(at->second, [](std::int64_t each) { return each == 0; }))
    terms_.erase(at);
}

LaneForm LaneForm::plus(const LaneForm& other, std::int64_t factor) const {
  LaneForm sum = *this;
  for (const auto& [product, coefficients] : other.terms_) {
    Lanes scaled = coefficients;
    for (std::int64_t& each : scaled) each = product_of(each, factor);
    sum.add(product, scaled);
  }
  return sum;
}

std::optional<LaneForm> LaneForm::times(const LaneForm& other) const {
  if (terms_.size() * other.terms_.size() > Form::max_terms) return std::nullopt;
  LaneForm result;
  for (const auto& [left, a] : terms_) {
    for (const auto& [right, b] : other.terms_) {
      Product product = left;
      product.insert(product.end(), right.begin(), right.end());
      std::ranges::sort(product);
      Lanes both;
      std::ranges::transform(a, b, both.begin(), product_of);
      result.add(product, both);
    }
  }
  return result;
}

bool LaneForm::varies() const {
  return std::ranges::any_of(terms_, [](const auto& term) { return !is_same(term.second); });
}

bool LaneForm::unknown() const {
  return std::ranges::any_of(terms_, [](const auto& term) {
    return std::ranges::any_of(term.first, [](const std::string& each) { return each[0] == '?'; });
  });
}

std::optional<Lanes> LaneForm::constants() const {
  if (terms_.empty()) return all(0);
  if (terms_.size() > 1 || !terms_.begin()->first.empty()) return std::nullopt;
  return terms_.begin()->second;
}

Lanes LaneForm::constant_part() const {
  const auto at = terms_.find(Product());
  return at == terms_.end() ? all(0) : at->second;
}

LaneForm LaneForm::without_constants() const {
  LaneForm rest = *this;
  rest.terms_.erase(Product());
  return rest;
}

Form LaneForm::of_lane(int lane) const {
  Form form;
  for (const auto& [product, coefficients] : terms_)
    form.add(product, coefficients[static_cast<std::size_t>(lane)]);
  return form;
}

LaneSymbols::LaneSymbols(const Extent& block) : block_(block) {
  known_["%warp"] = {0, 31};
  for (const char* each : {"%tid.y", "%tid.z"}) known_[each] = {0, 1023};
  for (const char* each : {"%ntid.x", "%ntid.y", "%ntid.z"}) known_[each] = {0, 1024};
  for (const char* each : {"%ctaid.", "%nctaid."})
    for (const char axis : {'x', 'y', 'z'}) known_[std::string(each) + axis] = {0, 0x7fffffff};
}

LaneForm LaneSymbols::lanes(const Form& form) const {
  LaneForm result;
  for (const auto& [product, coefficient] : form.terms()) {
    LaneForm value(LaneForm::all(coefficient));
    LaneForm::Product shared;
    for (const std::string& symbol : product) {
      const auto piece = pieces_.find(symbol);
      LaneForm factor;
      std::optional<LaneForm> index;
      if (symbol.starts_with("%tid.")) index = thread_index(symbol.back());
      if (symbol == "%laneid") {
        factor = LaneForm(LaneForm::own_number());
      } else if (index) {
        factor = *index;
      } else if (symbol.starts_with("%ntid.") && block_.x > 0) {
        const char axis = symbol.back();
        factor = LaneForm(LaneForm::all(std::max<std::int64_t>(1, axis == 'x'   ? block_.x
                                                                  : axis == 'y' ? block_.y
                                                                                : block_.z)));
      } else if (piece != pieces_.end()) {
        factor = piece->second;
      } else {
        shared.push_back(symbol);
        continue;
      }
      value = value.times(factor).value_or(LaneForm("?"));
    }
    LaneForm common;
    common.add(shared, LaneForm::all(1));
    result = result.plus(value.times(common).value_or(LaneForm("?")));
  }
  return result;
}

Form LaneSymbols::define(const std::string& name, LaneForm value) {
  const auto at = pieces_.find(name);
  changed_ = changed_ || at == pieces_.end() || at->second != value;
  pieces_.insert_or_assign(name, std::move(value));
  return Form(name);
}

Form LaneSymbols::choice(const std::string& name) {
  const std::string symbol = fmt::format("{}{})", choice_prefix, name);
  known_[symbol] = {0, 1};
  return Form(symbol);
}

std::vector<std::string> choices_in(const LaneForm& form) {
  std::set<std::string> found;
  for (const auto& [product, coefficients] : form.terms())
    for (const std::string& symbol : product)
      if (symbol.starts_with(choice_prefix)) found.insert(symbol);
  return {found.begin(), found.end()};
}

LaneForm chosen(const LaneForm& form, const std::string& choice, int value) {
  LaneForm result;
  for (const auto& [product, coefficients] : form.terms()) {
    LaneForm::Product rest = product;
    if (std::erase(rest, choice) == 0 || value != 0) result.add(rest, coefficients);
  }
  return result;
}

bool LaneSymbols::has_lanes(const Form& form) const {
  return std::ranges::any_of(form.terms(), [&](const auto& term) {
    return std::ranges::any_of(term.first, [&](const std::string& each) {
      return each == "%laneid" || pieces_.contains(each) ||
             (each.starts_with("%tid.") && thread_index(each.back()));
    });
  });
}

bool LaneSymbols::changed() { return std::exchange(changed_, false); }

int LaneSymbols::aligned(const LaneForm::Product& product, const Lanes& coefficients) const {
  int zeros = all_bits;
  for (const std::int64_t each : coefficients)
    zeros = std::min(zeros, std::countr_zero(static_cast<std::uint64_t>(each)));
  for (const std::string& symbol : product) {
    const auto known = known_.find(symbol);
    if (known != known_.end()) zeros += known->second.low_zeros;
  }
  return std::min(zeros, all_bits);
}

int LaneSymbols::aligned(const LaneForm& x) const {
  int zeros = all_bits;
  for (const auto& [product, coefficients] : x.terms())
    zeros = std::min(zeros, aligned(product, coefficients));
  return zeros;
}

std::optional<std::uint64_t> LaneSymbols::limit(const LaneForm& x) const {
  unsigned __int128 sum = 0;
  for (const auto& [product, coefficients] : x.terms()) {
    if (*std::ranges::min_element(coefficients) < 0) return std::nullopt;
    unsigned __int128 most = static_cast<std::uint64_t>(*std::ranges::max_element(coefficients));
    for (const std::string& symbol : product) {
      const auto known = known_.find(symbol);
      if (known == known_.end() || !known->second.limit || most >> 63) return std::nullopt;
      most *= *known->second.limit;
    }
    sum += most;
    if (sum >> 63) return std::nullopt;
  }
  return static_cast<std::uint64_t>(sum);
}

// One symbol for `value OPERATION operand`, where all lanes share the value.
LaneForm LaneSymbols::shared(const LaneForm& value, std::string_view operation,
                             std::uint64_t operand, const std::string& name, int low_zeros,
                             std::optional<std::uint64_t> limit) {
  std::string text = fmt::format("({} {} {})", value.of_lane(0).text(), operation, operand);
  const bool unclear = text.find('?') != std::string::npos;
  if (text.size() > longest_name && !unclear) text = name;
  Known& known = known_[text];
  const Known now{low_zeros, limit};
  changed_ = changed_ || known != now;
  known = now;
  return unclear ? LaneForm("?") : LaneForm(text);
}

std::optional<LaneForm> LaneSymbols::low_bits(const LaneForm& x, int count,
                                              const std::string& name) {
  const auto most = limit(x);
  if (count >= all_bits || (most && *most <= ones(count))) return x;
  LaneForm rest;
  for (const auto& [product, coefficients] : x.terms())
    if (!product.empty() && aligned(product, coefficients) < count) rest.add(product, coefficients);
  const Lanes constants = x.constant_part();
  if (rest.terms().empty()) return LaneForm(remainders(constants, count));
  // x = 2^zeros * (shared + quotient) + remainder, dropping multiples of 2^count.
  const int zeros = aligned(rest);
  const Lanes quotient = quotients(constants, zeros);
  if (rest.varies() || !is_same(quotient)) return std::nullopt;
  const LaneForm whole =
      rest.plus(LaneForm(LaneForm::all(product_of(quotient[0], std::int64_t{1} << zeros))));
  return shared(whole, "&", ones(count), fmt::format("({} & {})", name, ones(count)), zeros,
                ones(count))
      .plus(LaneForm(remainders(constants, zeros)));
}

std::optional<LaneForm> LaneSymbols::shifted_right(const LaneForm& x, int count,
                                                   const std::string& name) {
  count = std::min(count, all_bits - 1);
  const auto most = limit(x);
  const auto least = most ? std::optional(*most >> count) : std::nullopt;
  if (least == 0) return LaneForm();
  LaneForm result, rest;
  for (const auto& [product, coefficients] : x.terms()) {
    if (product.empty()) continue;
    if (divides(count, coefficients))
      result.add(product, quotients(coefficients, count));
    else
      rest.add(product, coefficients);
  }
  const Lanes constants = x.constant_part();
  if (rest.terms().empty()) return result.plus(LaneForm(quotients(constants, count)));
  if (rest.varies()) return std::nullopt;
  const int zeros = std::min(aligned(rest), count);
  const Lanes quotient = quotients(constants, zeros);
  const std::string own = fmt::format("({} >> {})", name, count);
  if (zeros == count)
    return result
        .plus(shared(rest, ">>", static_cast<std::uint64_t>(count), own, aligned(rest) - count,
                     least))
        .plus(LaneForm(quotient));
  if (!is_same(quotient)) return std::nullopt;
  const LaneForm whole =
      rest.plus(LaneForm(LaneForm::all(product_of(quotient[0], std::int64_t{1} << zeros))));
  return result.plus(shared(whole, ">>", static_cast<std::uint64_t>(count), own, 0, least));
}

std::optional<LaneForm> LaneSymbols::masked(const LaneForm& x, std::uint64_t mask, int width,
                                            const std::string& name) {
  LaneForm result;
  mask &= ones(width);
  for (int from = 0; from < width;) {
    if (!(mask >> from & 1)) {
      ++from;
      continue;
    }
    int to = from;
    while (to < width && (mask >> to & 1)) ++to;
    const auto upper = to == width ? x : low_bits(x, to, name), lower = low_bits(x, from, name);
    if (!upper || !lower) return std::nullopt;
    result = result.plus(*upper).plus(*lower, -1);
    from = to;
  }
  return result;
}

std::optional<LaneForm> LaneSymbols::joined(char op, const LaneForm& a, const LaneForm& b,
                                            const std::string& name) {
  for (const auto& [upper, lower] : {std::pair(a, b), std::pair(b, a)}) {
    const auto most = limit(lower);
    if (most && *most <= ones(aligned(upper))) return op == '&' ? LaneForm() : a.plus(b);
  }
  const auto right = b.constants();
  if (!right) return a.constants() ? joined(op, b, a, name) : std::nullopt;
  std::uint64_t all_of_right = 0;
  for (const std::int64_t each : *right) all_of_right |= static_cast<std::uint64_t>(each);
  // a = 2^zeros * something + low, and b < 2^zeros: only the low bits meet.
  const int zeros = aligned(a.without_constants());
  if ((all_of_right & ~ones(zeros)) == 0) {
    const Lanes low = remainders(a.constant_part(), zeros);
    Lanes met;
    for (std::size_t i = 0; i < met.size(); ++i)
      met[i] = op == '&'   ? low[i] & (*right)[i]
               : op == '|' ? low[i] | (*right)[i]
                           : low[i] ^ (*right)[i];
    if (op == '&') return LaneForm(met);
    return a.plus(LaneForm(low), -1).plus(LaneForm(met));
  }
  // Of a number that all lanes share the bits are choices: a | b = a + b - (a & b), and a ^ b
  // likewise.
  if (a.varies() || all_of_right >> most_bits != 0) return std::nullopt;
  LaneForm common;  // a & b
  for (int bit = aligned(a); bit < most_bits; ++bit) {
    if (!(all_of_right >> bit & 1)) continue;
    Lanes own = *right;
    for (std::int64_t& each : own) each &= std::int64_t{1} << bit;
    common =
        common.plus(*lanes(choice(fmt::format("bit {} of {}", bit, name))).times(LaneForm(own)));
  }
  if (op == '&') return common;
  return a.plus(b).plus(common, op == '|' ? -1 : -2);
}

}  // namespace microscale::emulator::ptx
