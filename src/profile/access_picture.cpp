#include "profile/access_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "emulator/memory/counters.hpp"
#include "report/svg.hpp"
#include "report/svg_text.hpp"

namespace microscale {
namespace {

using emulator::AccessSample;

constexpr std::uint64_t sector_bytes = 32, line_bytes = 128;
constexpr std::size_t most_lines = 32;
constexpr double byte_width = 4.5, row_height = 18, bank_width = 20;

bool takes_part(const AccessSample& sample, int lane) { return sample.lanes >> lane & 1; }

emulator::WarpAccess access_of(const AccessSample& sample) {
  return {.lanes = sample.lanes, .bytes = sample.bytes, .address = sample.address};
}

int lanes_of_pass(int bytes) { return bytes <= 4 ? 32 : bytes == 8 ? 16 : bytes == 16 ? 8 : 4; }

std::string box(double x, double y, double width, double height, std::string_view classes,
                std::string_view tooltip) {
  return fmt::format(
      R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" class="{}">)"
      "<title>{}</title></rect>",
      x, y, width, height, classes, escape_markup(tooltip));
}

std::string sector_picture(const AccessSample& sample, const std::vector<NamedBuffer>& buffers) {
  std::set<std::uint64_t> lines, sectors;
  const auto bytes = static_cast<std::uint64_t>(sample.bytes);
  for (int lane = 0; lane < 32; ++lane) {
    if (!takes_part(sample, lane)) continue;
    for (std::uint64_t at = sample.address[lane] / sector_bytes;
         at <= (sample.address[lane] + bytes - 1) / sector_bytes; ++at) {
      sectors.insert(at);
      lines.insert(at * sector_bytes / line_bytes);
    }
  }
  const std::vector<std::uint64_t> shown(
      lines.begin(),
      std::next(lines.begin(), static_cast<std::ptrdiff_t>(std::min(lines.size(), most_lines))));
  double left = 0;
  for (const std::uint64_t line : shown)
    left = std::max(left, text_width(address_text(buffers, line * line_bytes)) + 12);
  const double width = left + line_bytes * byte_width + 2;
  const bool cut = lines.size() > shown.size();
  const double height = 20 + row_height * static_cast<double>(shown.size()) + (cut ? 20 : 2);
  std::string out =
      open_svg(width, height, "sectors of 32 bytes that the lanes of a warp touch", 520, width);
  for (std::uint64_t sector = 0; sector < 4; ++sector)
    out += svg_text(left + static_cast<double>(sector * sector_bytes) * byte_width, 12, "m",
                    fmt::format("+{}", sector * sector_bytes));
  for (std::size_t row = 0; row < shown.size(); ++row) {
    const double y = 20 + row_height * static_cast<double>(row);
    const std::uint64_t base = shown[row] * line_bytes;
    out += svg_text(left - 8, y + 12, "e m", address_text(buffers, base));
    for (std::uint64_t sector = base / sector_bytes; sector < base / sector_bytes + 4; ++sector) {
      const bool touched = sectors.count(sector) > 0;
      out += box(left + static_cast<double>(sector * sector_bytes - base) * byte_width, y,
                 sector_bytes * byte_width - 2, 15, touched ? "fetched" : "untouched",
                 fmt::format("sector {}: {}", address_text(buffers, sector * sector_bytes),
                             touched ? "transferred" : "not touched"));
    }
    std::map<std::uint64_t, int> drawn;  // lanes at each address: all but the first are counted
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint64_t at = sample.address[lane];
      if (!takes_part(sample, lane) || at + bytes <= base || at >= base + line_bytes ||
          drawn[at]++ > 0)
        continue;
      const std::uint64_t from = std::max(at, base), to = std::min(at + bytes, base + line_bytes);
      const double x = left + static_cast<double>(from - base) * byte_width,
                   w = static_cast<double>(to - from) * byte_width;
      const double gap = to % sector_bytes == 0 ? 2 : 1;
      out += box(
          x, y, std::max(w - gap, 1.0), 15, "used",
          fmt::format("lane {}: {} bytes at {}", lane, sample.bytes, address_text(buffers, at)));
      if (w >= 15) out += svg_text(x + (w - gap) / 2, y + 11.5, "c lane", fmt::format("{}", lane));
    }
  }
  if (cut)
    out += svg_text(left, height - 6, "m",
                    fmt::format("and {} more lines of 128 bytes", lines.size() - shown.size()));
  return out + "</svg>\n";
}

std::string bank_picture(const AccessSample& sample) {
  struct Turn {
    std::uint64_t word;
    int lane, lanes;
  };
  const int group = lanes_of_pass(sample.bytes);
  std::vector<std::array<std::vector<Turn>, 32>> passes;
  for (int first = 0; first < 32; first += group) {
    std::array<std::vector<Turn>, 32> banks;
    bool any = false;
    for (int lane = first; lane < first + group; ++lane) {
      if (!takes_part(sample, lane)) continue;
      any = true;
      const std::uint64_t last =
          (sample.address[lane] + static_cast<std::uint64_t>(sample.bytes) - 1) / 4;
      for (std::uint64_t word = sample.address[lane] / 4; word <= last; ++word) {
        std::vector<Turn>& bank = banks[word % 32];
        const auto same = std::find_if(bank.begin(), bank.end(),
                                       [&](const Turn& turn) { return turn.word == word; });
        if (same != bank.end())
          ++same->lanes;
        else
          bank.push_back({word, lane, 1});
      }
    }
    if (any) passes.push_back(std::move(banks));
  }
  std::size_t rows = 0;
  for (const auto& banks : passes)
    for (std::size_t deepest = 0; const auto& bank : banks)
      if (bank.size() > deepest) rows += bank.size() - std::exchange(deepest, bank.size());
  constexpr double left = 52;
  const double width = left + 32 * bank_width + 2;
  const double height =
      22 + 15 * static_cast<double>(rows) + 8 * static_cast<double>(passes.size());
  std::string out =
      open_svg(width, height, "banks of shared memory that the lanes of a warp meet", 560, width);
  out += svg_text(0, 12, "m", "bank");
  for (int bank = 0; bank < 32; ++bank)
    out += svg_text(left + (bank + 0.5) * bank_width - 1, 12, "c m", fmt::format("{}", bank));
  double y = 20;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    std::size_t deepest = 0;
    for (const auto& bank : passes[pass]) deepest = std::max(deepest, bank.size());
    out +=
        svg_text(0, y + 11, "m", passes.size() == 1 ? "1 pass" : fmt::format("pass {}", pass + 1));
    for (std::size_t bank = 0; bank < 32; ++bank) {
      const double x = left + static_cast<double>(bank) * bank_width;
      if (passes[pass][bank].empty())
        out += box(x, y, bank_width - 2, 13, "untouched", fmt::format("bank {}: not used", bank));
      for (std::size_t turn = 0; turn < passes[pass][bank].size(); ++turn) {
        const Turn& each = passes[pass][bank][turn];
        const double at = y + 15 * static_cast<double>(turn);
        out += box(x, at, bank_width - 2, 13, turn == 0 ? "used" : "clash",
                   fmt::format("bank {}, turn {}: word at byte {}, lane {}{}", bank, turn + 1,
                               each.word * 4, each.lane,
                               each.lanes > 1 ? fmt::format(" and {} more", each.lanes - 1) : ""));
        out += svg_text(x + bank_width / 2 - 1, at + 10.5, "c lane",
                        fmt::format("{}{}", each.lane, each.lanes > 1 ? "+" : ""));
      }
    }
    y += 15 * static_cast<double>(deepest) + 8;
  }
  return out + "</svg>\n";
}

}  // namespace

std::string address_text(const std::vector<NamedBuffer>& buffers, std::uint64_t address) {
  for (const NamedBuffer& buffer : buffers)
    if (address - buffer.address < static_cast<std::uint64_t>(buffer.bytes))
      return fmt::format("{} + 0x{:x}", buffer.name, address - buffer.address);
  return fmt::format("0x{:x}", address);
}

std::string access_picture(const AccessSample& sample, const std::vector<NamedBuffer>& buffers) {
  if (sample.lanes == 0 || sample.bytes <= 0) return {};
  return sample.shared ? bank_picture(sample) : sector_picture(sample, buffers);
}

std::string access_words(const AccessSample& sample) {
  const emulator::WarpAccess access = access_of(sample);
  if (!sample.shared) {
    const int sectors = emulator::sectors_of(access), ideal = emulator::ideal_sectors_of(access);
    return sectors > ideal
               ? fmt::format("{} sectors of 32 bytes, where {} would do", sectors, ideal)
               : fmt::format("{} {}, as few as the bytes fit into", sectors,
                             sectors == 1 ? "sector of 32 bytes" : "sectors of 32 bytes");
  }
  const int conflicts = emulator::bank_conflicts_of(access);
  return conflicts == 0 ? "no bank conflict"
                        : fmt::format("{} extra {} through the banks", conflicts,
                                      conflicts == 1 ? "turn" : "turns");
}

}  // namespace microscale
