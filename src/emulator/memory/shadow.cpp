#include "emulator/memory/shadow.hpp"

#include <algorithm>
#include <bit>

namespace microscale::emulator {

namespace {

constexpr std::uint64_t ones(std::uint32_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

/// Calls `each(word, mask)` for the words that hold bits [offset, offset + count) until it says no.
template <class Each>
void for_words(std::uint32_t offset, std::uint32_t count, const Each& each) {
  while (count > 0) {
    const std::uint32_t bit = offset % 64, here = std::min(count, 64 - bit);
    if (!each(offset / 64, ones(here) << bit)) return;
    offset += here;
    count -= here;
  }
}

}  // namespace

void ShadowPage::begin(std::uint32_t launch_number, std::uint32_t fit) {
  launch = launch_number;
  whole = whole || first_unwritten(0, bytes) == bytes;
  shift = std::min(fit, widest);
  writer.assign(bytes >> shift, 0);
  reader.assign(bytes >> shift, 0);
}

void ShadowPage::refine(std::uint32_t to) {
  if (to >= shift) return;
  const std::uint32_t by = shift - to;
  for (std::vector<Cell>* cells : {&writer, &reader}) {
    if (cells->empty()) continue;
    std::vector<Cell> finer(bytes >> to);
    for (std::size_t i = 0; i < finer.size(); ++i) finer[i] = (*cells)[i >> by];
    *cells = std::move(finer);
  }
  shift = to;
}

std::uint32_t ShadowPage::first_unwritten(std::uint32_t offset, std::uint32_t count) const {
  std::uint32_t found = offset + count;
  for_words(offset, count, [&](std::uint32_t word, std::uint64_t mask) {
    const std::uint64_t missing = mask & ~written[word];
    if (missing) found = word * 64 + static_cast<std::uint32_t>(std::countr_zero(missing));
    return missing == 0;
  });
  return found;
}

void ShadowPage::mark_written(std::uint32_t offset, std::uint32_t count) {
  if (whole) return;
  whole = count == bytes;
  for_words(offset, count, [&](std::uint32_t word, std::uint64_t mask) {
    written[word] |= mask;
    return true;
  });
}

Shadow::Shadow(std::uint64_t bytes) : pages_((bytes + ShadowPage::bytes - 1) / ShadowPage::bytes) {}

Shadow::~Shadow() {
  for (std::atomic<ShadowPage*>& page : pages_) delete page.load();
}

void Shadow::forget() {
  for (std::atomic<ShadowPage*>& page : pages_)
    if (ShadowPage* have = page.load(std::memory_order_relaxed)) {
      std::memset(have->written, 0, sizeof have->written);
      have->whole = false;
    }
}

void Shadow::renew(std::uint64_t offset, std::uint64_t count) {
  while (count > 0) {
    ShadowPage& here = page(offset);
    const auto start = static_cast<std::uint32_t>(offset % ShadowPage::bytes);
    const auto part =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(count, ShadowPage::bytes - start));
    if (here.whole) std::fill(std::begin(here.written), std::end(here.written), ~std::uint64_t{0});
    here.whole = false;
    for_words(start, part, [&](std::uint32_t word, std::uint64_t mask) {
      here.written[word] &= ~mask;
      return true;
    });
    for (std::vector<Cell>* cells : {&here.writer, &here.reader})
      if (!cells->empty())
        std::fill_n(cells->begin() + (start >> here.shift), part >> here.shift, 0);
    offset += part;
    count -= part;
  }
}

ShadowPage& Shadow::create(std::uint64_t index) {
  auto fresh = std::make_unique<ShadowPage>();
  ShadowPage* expected = nullptr;
  if (pages_[index].compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *expected;
}

void Shadow::mark_written(std::uint64_t offset, std::uint64_t count) {
  while (count > 0) {
    ShadowPage& here = page(offset);
    const std::uint64_t start = offset % ShadowPage::bytes;
    const std::uint64_t part = std::min(count, ShadowPage::bytes - start);
    here.lock();
    here.mark_written(static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(part));
    here.unlock();
    offset += part;
    count -= part;
  }
}

}  // namespace microscale::emulator
