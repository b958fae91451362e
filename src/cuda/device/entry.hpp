// Typed handles of entry points: which kernel it is and the type of its one parameter go together,
// so launching a kernel with another's arguments does not compile. The families, and the names in
// them, are generated from cmake/kernels.cmake into cuda/kernel_table.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace microscale::cuda {

/// A part of a name: "256x64".
struct EntryTile {
  int rows, cols;
};

/// The name of an entry point, made of parts without allocating. Names longer than it are cut off:
/// no entry point has one.
class EntryName {
 public:
  static constexpr std::size_t longest = 72;
  constexpr EntryName() = default;
  constexpr explicit EntryName(std::string_view prefix) { append(prefix); }

  constexpr void add(std::string_view part) {
    append("_");
    append(part);
  }
  void add(std::integral auto part) {
    char digits[24];
    add(std::string_view(digits, std::to_chars(digits, digits + sizeof digits, part).ptr));
  }
  void add(EntryTile part) {
    add(part.rows);
    append("x");
    char digits[24];
    append(std::string_view(digits, std::to_chars(digits, digits + sizeof digits, part.cols).ptr));
  }
  constexpr operator std::string_view() const { return {text_.data(), size_}; }
  bool operator==(const EntryName& other) const {
    return std::string_view(*this) == std::string_view(other);
  }

 private:
  constexpr void append(std::string_view part) {
    const std::size_t count = std::min(part.size(), text_.size() - size_);
    std::copy_n(part.begin(), count, text_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += count;
  }
  std::array<char, longest> text_{};
  std::size_t size_ = 0;
};

/// An entry point whose parameter is an Args; false where the family has none of that name.
template <class Args>
struct Entry {
  EntryName name;
  std::int32_t id = -1;  ///< its place in entry_names
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Entry& other) const {
    return id == other.id && (id >= 0 || name == other.name);
  }
};

/// The id of `name` among `count` ids from `first` on; -1 if there is none.
std::int32_t find_entry(std::int32_t first, std::int32_t count, std::string_view name);

/// The entry points of one family: all whose name begins with the same words and whose parameter is
/// an Args.
template <class Args>
class EntryFamily {
 public:
  constexpr EntryFamily(std::string_view prefix, std::int32_t first, std::int32_t count)
      : prefix_(prefix), first_(first), count_(count) {}

  /// kernels::quantize("mxfp4", "bf16", "plain", "rows"): quantize_mxfp4_bf16_plain_rows. Parts are
  /// strings, integers or an EntryTile. Takes some tens of nanoseconds.
  template <class... Parts>
  Entry<Args> operator()(const Parts&... parts) const {
    Entry<Args> entry{EntryName(prefix_)};
    (entry.name.add(parts), ...);
    entry.id = find_entry(first_, count_, entry.name);
    return entry;
  }

 private:
  std::string_view prefix_;
  std::int32_t first_, count_;
};

}  // namespace microscale::cuda
