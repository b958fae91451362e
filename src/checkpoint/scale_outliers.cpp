#include "checkpoint/scale_outliers.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "formats/e8m0.hpp"

namespace microscale {
namespace {

class OutlierSearch {
 public:
  OutlierSearch(std::span<const std::uint8_t> scales, std::span<const std::uint8_t> codes,
                const FormatInfo& format, std::int64_t first, std::int64_t blocks_per_row)
      : scales_(scales),
        codes_(codes),
        code_bytes_(static_cast<std::size_t>(code_bytes(format, format.block))),
        magnitude_(format.code_bits == 4 ? 0x77 : 0x7F),
        first_(first),
        per_row_(blocks_per_row) {}

  void run(const std::function<void(std::size_t, bool)>& found) const {
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      // One neighbour settles nearly all of them.
      const bool right = i + 1 < scales_.size() && (column(i) + 1 < per_row_ || per_row_ == 1);
      if (right && distance(i, i + 1) < outlier_powers && has_codes(i + 1)) continue;
      if (scales_[i] == 0 || scales_[i] == e8m0_nan || !has_codes(i)) continue;
      look_around(i, found);
    }
  }

 private:
  std::int64_t column(std::size_t i) const {
    return (first_ + static_cast<std::int64_t>(i)) % per_row_;
  }

  int distance(std::size_t a, std::size_t b) const {
    return std::abs(static_cast<int>(scales_[a]) - static_cast<int>(scales_[b]));
  }

  bool has_codes(std::size_t i) const {
    const auto block = codes_.subspan(i * code_bytes_, code_bytes_);
    return std::any_of(block.begin(), block.end(),
                       [&](std::uint8_t byte) { return (byte & magnitude_) != 0; });
  }

  void look_around(std::size_t i, const std::function<void(std::size_t, bool)>& found) const {
    const auto at = static_cast<std::int64_t>(i);
    std::array<std::int64_t, 4> around{-1, -1, at - per_row_, at + per_row_};
    if (column(i) > 0) around[0] = at - 1;
    if (column(i) + 1 < per_row_) around[1] = at + 1;
    int smaller = 0, larger = 0;
    for (const std::int64_t neighbour : around) {
      if (neighbour < 0 || neighbour >= static_cast<std::int64_t>(scales_.size())) continue;
      const auto other = static_cast<std::size_t>(neighbour);
      if (scales_[other] == e8m0_nan || !has_codes(other)) continue;
      if (distance(i, other) < outlier_powers) return;
      ++(scales_[i] < scales_[other] ? smaller : larger);
    }
    if (smaller + larger < 2 || (smaller > 0 && larger > 0)) return;
    found(i, larger > 0);
  }

  std::span<const std::uint8_t> scales_, codes_;
  std::size_t code_bytes_;
  int magnitude_;
  std::int64_t first_, per_row_;
};

}  // namespace

void find_scale_outliers(std::span<const std::uint8_t> scales, std::span<const std::uint8_t> codes,
                         const FormatInfo& format, std::int64_t first, std::int64_t blocks_per_row,
                         const std::function<void(std::size_t, bool)>& found) {
  OutlierSearch(scales, codes, format, first, blocks_per_row).run(found);
}

}  // namespace microscale
