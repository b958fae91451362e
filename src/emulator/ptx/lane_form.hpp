// What the 32 lanes of a warp compute from %tid.x by sums, products, shifts and masks: exactly,
// lane by lane, beside symbols whose values all lanes share.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/affine.hpp"
#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

/// A sum of products of shared symbols, each with a coefficient per lane; wrapping at 64 bits.
class LaneForm {
 public:
  using Product = Form::Product;
  using Lanes = std::array<std::int64_t, 32>;

  LaneForm() = default;
  explicit LaneForm(const Lanes& constants) { add(Product(), constants); }
  explicit LaneForm(const std::string& symbol);
  static Lanes all(std::int64_t value);
  static Lanes own_number();  // 0, 1, .., 31

  void add(const Product& product, const Lanes& coefficients);
  LaneForm plus(const LaneForm& other, std::int64_t factor = 1) const;
  std::optional<LaneForm> times(const LaneForm& other) const;

  bool varies() const;                     // from lane to lane
  bool unknown() const;                    // has a symbol that starts with `?`
  std::optional<Lanes> constants() const;  // when there is no symbol in it
  Lanes constant_part() const;
  LaneForm without_constants() const;
  Form of_lane(int lane) const;
  const std::map<Product, Lanes>& terms() const { return terms_; }
  bool operator==(const LaneForm&) const = default;

 private:
  std::map<Product, Lanes> terms_;  // none whose coefficients are all 0
};

/// Symbols in it that LaneSymbols::choice() made, and the form when one of them is 0 or 1.
std::vector<std::string> choices_in(const LaneForm& form);
LaneForm chosen(const LaneForm& form, const std::string& choice, int value);

/// What is known of symbols: the lanes of those that stand for a shift or a mask, and of those that
/// all lanes share how many low bits are 0 and how large they get. That a value leaves its
/// register's width is not seen, as in Form.
class LaneSymbols {
 public:
  /// `block`: threads of a block, whose lanes are then known in all of %tid; 0: not known, and x is
  /// taken as a multiple of 32.
  explicit LaneSymbols(const Extent& block = {});

  /// %tid.x is 32 times the symbol %warp, and the lane's number; of a known block whatever its
  /// shape makes of them.
  LaneForm lanes(const Form& form) const;
  /// A symbol that stands for `value`; `name` as it should be read.
  Form define(const std::string& name, LaneForm value);
  /// A symbol that is 0 or 1, the same for all lanes.
  Form choice(const std::string& name);
  bool has_lanes(const Form& form) const;  // whether a symbol in it may differ from lane to lane
  /// Whether a symbol's meaning has changed since this was asked last.
  bool changed();

  // Nothing where a lane's bits depend on the value of a symbol. `name` is for symbols that the
  // result may need: unique to the instruction.
  std::optional<LaneForm> low_bits(const LaneForm& x, int count, const std::string& name);
  std::optional<LaneForm> shifted_right(const LaneForm& x, int count, const std::string& name);
  std::optional<LaneForm> masked(const LaneForm& x, std::uint64_t mask, int width,
                                 const std::string& name);
  /// op: '&', '|', '^'. Bits of a number that all lanes share may meet up to most_bits of the
  /// lanes': each is a choice.
  std::optional<LaneForm> joined(char op, const LaneForm& a, const LaneForm& b,
                                 const std::string& name);
  static constexpr int most_bits = 4;

 private:
  int aligned(const LaneForm::Product& product, const LaneForm::Lanes& coefficients) const;
  int aligned(const LaneForm& x) const;                         // low bits that are 0 in all terms
  std::optional<std::uint64_t> limit(const LaneForm& x) const;  // of values that are not negative
  LaneForm shared(const LaneForm& value, std::string_view operation, std::uint64_t operand,
                  const std::string& name, int low_zeros, std::optional<std::uint64_t> limit);

  /// Of one of %tid by the block's shape; nothing where it is the same for all lanes.
  std::optional<LaneForm> thread_index(char axis) const;

  struct Known {
    int low_zeros = 0;
    std::optional<std::uint64_t> limit;
    bool operator==(const Known&) const = default;
  };
  std::map<std::string, LaneForm> pieces_;
  std::map<std::string, Known> known_;
  bool changed_ = false;
  Extent block_;
};

}  // namespace microscale::emulator::ptx
