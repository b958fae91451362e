#include "emulator/memory/touch_lanes.hpp"

#include <cstring>

#include "emulator/memory/lane_loops.hpp"

namespace microscale::emulator {

namespace {

const LaneLoops& loops = lane_loops();

constexpr std::uint32_t most_log2 = 4;   // cells of a lane, in a row of lanes
constexpr std::uint32_t most_cells = 4;  // ... and where lanes are anywhere

struct LaneTables {
  Cell lane[most_log2 + 1][warp_lanes << most_log2];  // [log2 of the cells of a lane][cell]
  std::uint32_t bit[warp_lanes];
};
constexpr LaneTables make_tables() {
  LaneTables tables{};
  for (std::uint32_t log2 = 0; log2 <= most_log2; ++log2)
    for (std::uint32_t i = 0; i < warp_lanes << most_log2; ++i)
      tables.lane[log2][i] = i >> log2 & (warp_lanes - 1);
  for (std::uint32_t i = 0; i < warp_lanes; ++i) tables.bit[i] = 1u << i;
  return tables;
}
alignas(64) constexpr LaneTables tables = make_tables();

std::uint32_t count_of(std::uint32_t lanes) {
  return lanes == all_lanes ? warp_lanes : static_cast<std::uint32_t>(std::popcount(lanes));
}

/// Calls each(lane, place in the list) for the lanes of a mask.
template <class Each>
void for_lanes(std::uint32_t lanes, const Each& each) {
  if (lanes == all_lanes) {
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) each(lane, lane);
    return;
  }
  for (std::uint32_t left = lanes, i = 0; left; left &= left - 1, ++i)
    each(static_cast<std::uint32_t>(std::countr_zero(left)), i);
}

template <std::size_t bytes>
void move_each(std::uint8_t* data, const std::uint64_t* offset, std::uint32_t lanes, Mode mode,
               std::uint8_t* stage) {
  if (mode == Mode::read)
    for_lanes(lanes, [&](std::uint32_t lane, std::uint32_t) {
      std::memcpy(stage + lane * bytes, data + offset[lane], bytes);
    });
  else
    for_lanes(lanes, [&](std::uint32_t lane, std::uint32_t) {
      std::memcpy(data + offset[lane], stage + lane * bytes, bytes);
    });
}

/// Between the memory and the stage.
void move(const Region& region, const LaneBatch& batch, std::uint32_t lanes, Mode mode,
          std::uint8_t* stage) {
  if (!stage) return;
  if (batch.consecutive) {
    const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::size_t bytes = std::size_t{batch.bytes} * count_of(lanes);
    std::uint8_t *data = region.data + batch.offset[first], *own = stage + first * batch.bytes;
    return void(mode == Mode::read ? std::memcpy(own, data, bytes) : std::memcpy(data, own, bytes));
  }
  switch (batch.bytes) {
    case 1:
      return move_each<1>(region.data, batch.offset, lanes, mode, stage);
    case 2:
      return move_each<2>(region.data, batch.offset, lanes, mode, stage);
    case 4:
      return move_each<4>(region.data, batch.offset, lanes, mode, stage);
    case 8:
      return move_each<8>(region.data, batch.offset, lanes, mode, stage);
    case 16:
      return move_each<16>(region.data, batch.offset, lanes, mode, stage);
    default:
      return move_each<32>(region.data, batch.offset, lanes, mode, stage);
  }
}

bool all_written(const ShadowPage& page, const LaneBatch& batch, std::uint32_t lanes) {
  if (page.whole) return true;
  if (batch.consecutive)
    return page.all_written(
        static_cast<std::uint32_t>(batch.offset[std::countr_zero(lanes)] % ShadowPage::bytes),
        batch.bytes * count_of(lanes));
  bool written = true;
  for_lanes(lanes, [&](std::uint32_t lane, std::uint32_t) {
    written &= page.is_written(static_cast<std::uint32_t>(batch.offset[lane] % ShadowPage::bytes),
                               batch.bytes);
  });
  return written;
}

void mark_written(ShadowPage& page, const LaneBatch& batch, std::uint32_t lanes) {
  if (page.whole) return;
  if (batch.consecutive)
    return page.mark_written(
        static_cast<std::uint32_t>(batch.offset[std::countr_zero(lanes)] % ShadowPage::bytes),
        batch.bytes * count_of(lanes));
  const std::uint64_t mask = (std::uint64_t{1} << batch.bytes) - 1;
  for_lanes(lanes, [&](std::uint32_t lane, std::uint32_t) {
    const std::uint64_t at = batch.offset[lane] % ShadowPage::bytes;
    page.written[at / 64] |= mask << at % 64;
  });
}

/// Everything but moving the bytes, for the lanes of one page. False: nothing has happened.
bool accept(const Toucher& who, ShadowPage& page, const Region& region, const LaneBatch& batch,
            std::uint32_t lanes, Mode mode) {
  if (mode == Mode::read && !all_written(page, batch, lanes)) return false;
  const auto width = static_cast<std::uint32_t>(std::countr_zero(batch.bytes));
  const bool races = region.log && who.launch.options.races;
  if (races) {
    if (page.launch != region.tag || page.writer.empty()) page.begin(region.tag, width);
    if (width < page.shift) page.refine(width);
    const std::uint32_t log2 = width - page.shift;
    const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
    LaneCells cells;
    cells.count = count_of(lanes) << log2;
    cells.writers = page.writer.data();
    cells.readers = page.reader.data();
    std::uint32_t index[warp_lanes * most_cells], of_all[warp_lanes];
    Cell of_lane[warp_lanes * most_cells];
    if (batch.consecutive) {
      if (log2 > most_log2) return false;
      const std::uint64_t cell = batch.offset[first] % ShadowPage::bytes >> page.shift;
      cells.writers += cell;
      cells.readers += cell;
      cells.lanes = tables.lane[log2] + (first << log2);
    } else {
      if (1u << log2 > most_cells) return false;
      loops.cells_at(batch.offset, page.shift, of_all);
      cells.index = lanes == all_lanes && log2 == 0 ? of_all : index;
      cells.lanes = lanes == all_lanes ? tables.lane[log2] : of_lane;
      if (cells.index == index)
        for_lanes(lanes, [&](std::uint32_t lane, std::uint32_t i) {
          for (std::uint32_t k = 0; k < 1u << log2; ++k) {
            index[(i << log2) + k] = of_all[lane] + k;
            of_lane[(i << log2) + k] = lane;
          }
        });
    }
    if (!(mode == Mode::read ? who.accept_read(region, cells) : who.accept_write(region, cells)))
      return false;
  }
  if (mode == Mode::write) mark_written(page, batch, lanes);
  return true;
}

/// The cells that `index` names, or where they are.
const Cell* gathered(const Cell* cells, const LaneCells& which, Cell* into) {
  if (!which.index) return cells;
  loops.gather(cells, which.index, which.count, into);
  return into;
}

}  // namespace

inline bool Toucher::accept_row(const Region& region, Cell* writers, Cell* readers,
                                Mode mode) const {
  if (!loops.uniform(writers, readers)) return false;
  const KnownOrder& known =
      region.kind == SpaceKind::global ? warp.global_order : warp.shared_order;
  const std::uint32_t writer = id_of(*writers), reader = id_of(*readers);
  if (writer && !known.has(writer, false)) return false;
  const Cell* lanes = tables.lane[0];
  if (mode == Mode::write) {
    if (reader && !known.has(reader, true)) return false;
    loops.fill(writers, lanes, warp_lanes, own_number(region, mode, 0, 0));
    if (reader) std::memset(readers, 0, warp_lanes * sizeof(Cell));
    return true;
  }
  const std::uint32_t number = reader_number(region, reader);
  if (reader) {
    const Record& other = (*region.log)[reader];
    const bool mine =
        other.slot == warp.slot && other.domain == domain && other.epoch == warp.epoch;
    if (mine && !loops.same_lanes(readers, lanes, warp_lanes)) return false;
    if (number == reader) return true;  // this one, or one further down the list
  }
  loops.fill(readers, lanes, warp_lanes, number);
  return true;
}

inline bool Toucher::accept_cell(const Region& region, Cell& writer, Cell& reader,
                                 std::uint32_t lane, Mode mode, std::uint32_t& number) const {
  const KnownOrder& known =
      region.kind == SpaceKind::global ? warp.global_order : warp.shared_order;
  const std::uint32_t before = id_of(reader);
  if (writer && !known.has(id_of(writer), false)) return false;
  if (mode == Mode::write && before && !known.has(before, true)) return false;
  if (number == 0 && (before == 0 || mode == Mode::write)) number = own_number(region, mode, 0, 0);
  if (mode == Mode::write) {
    writer = cell_of(number, lane);
    reader = 0;
    return true;
  }
  if (before == 0) {
    reader = cell_of(number, lane);
    return true;
  }
  const std::uint32_t listed = reader_number(region, before);
  const Record& other = (*region.log)[before];
  if (listed == before && other.slot != slot) return true;  // it is further down the list
  const bool mine = other.slot == warp.slot && other.domain == domain && other.epoch == warp.epoch;
  reader = cell_of(listed, mine && lane_of(reader) != lane ? several_lanes : lane);
  return true;
}

bool touch_row(const Toucher& who, const Region& region, std::uint64_t offset, std::uint32_t bytes,
               Mode mode, std::uint8_t* stage) {
  const std::uint32_t count = warp_lanes * bytes;
  std::uint8_t* data = region.data + offset;
  if (!region.shadow) {
    std::memcpy(stage, data, count);
    return true;
  }
  const auto start = static_cast<std::uint32_t>(offset % ShadowPage::bytes);
  if (offset % bytes != 0 || start + count > ShadowPage::bytes) return false;
  const auto width = static_cast<std::uint32_t>(std::countr_zero(bytes));
  const bool races = region.log && who.launch.options.races;
  ShadowPage& page = region.shadow->page(offset);
  const bool threads = region.kind == SpaceKind::global;
  if (threads) page.lock();
  bool accepted = mode == Mode::write || page.all_written(start, count);
  if (accepted && races) {
    if (page.launch != region.tag || page.writer.empty()) page.begin(region.tag, width);
    accepted = page.shift == width && who.accept_row(region, page.writer.data() + (start >> width),
                                                     page.reader.data() + (start >> width), mode);
  }
  if (accepted && mode == Mode::write) {
    page.mark_written(start, count);
    if (stage) std::memcpy(data, stage, count);
  } else if (accepted) {
    std::memcpy(stage, data, count);
  }
  if (threads) page.unlock();
  return accepted;
}

std::uint32_t touch_lanes(const Toucher& who, const Region& region, const LaneBatch& batch,
                          Mode mode, std::uint8_t* stage) {
  if (!region.shadow) {
    move(region, batch, batch.lanes, mode, stage);
    return 0;
  }
  const bool threads = region.kind == SpaceKind::global;
  if (batch.one_page) {
    ShadowPage& page = region.shadow->page(batch.offset[std::countr_zero(batch.lanes)]);
    if (threads) page.lock();
    const bool accepted = accept(who, page, region, batch, batch.lanes, mode);
    if (accepted) move(region, batch, batch.lanes, mode, stage);
    if (threads) page.unlock();
    return accepted ? 0 : batch.lanes;
  }
  std::uint32_t number[warp_lanes];
  for (int i = 0; i < warp_lanes; ++i)
    number[i] = static_cast<std::uint32_t>(batch.offset[i] / ShadowPage::bytes);
  const auto width = static_cast<std::uint32_t>(std::countr_zero(batch.bytes));
  const bool races = region.log && who.launch.options.races;
  std::uint32_t refused = 0, record = 0;
  for (std::uint32_t left = batch.lanes; left;) {
    const int first = std::countr_zero(left);
    std::uint32_t here = 0;
    for (int i = 0; i < warp_lanes; ++i) here |= number[i] == number[first] ? tables.bit[i] : 0;
    here &= left;
    left &= ~here;
    ShadowPage& page = region.shadow->page(batch.offset[first]);
    if (threads) page.lock();
    const auto start = static_cast<std::uint32_t>(batch.offset[first] % ShadowPage::bytes);
    const bool alone =
        races && std::has_single_bit(here) && page.launch == region.tag && page.shift == width &&
        !page.writer.empty() &&
        (mode == Mode::write || page.whole || page.is_written(start, batch.bytes)) &&
        who.accept_cell(region, page.writer[start >> width], page.reader[start >> width],
                        static_cast<std::uint32_t>(first), mode, record);
    if (alone && mode == Mode::write) mark_written(page, batch, here);
    if (alone || accept(who, page, region, batch, here, mode))
      move(region, batch, here, mode, stage);
    else
      refused |= here;
    if (threads) page.unlock();
  }
  return refused;
}

bool Toucher::clean(const Region& region, const Cell* cells, const Cell* lanes, std::uint32_t count,
                    bool readers) const {
  KnownOrder& known = region.kind == SpaceKind::global ? warp.global_order : warp.shared_order;
  for (std::uint32_t from = 0, to; from < count; from = to) {
    const std::uint32_t id = id_of(cells[from]);
    to = loops.run_end(cells, from, count, id);
    if (id == 0 || known.has(id, readers)) continue;
    const Record* record = &(*region.log)[id];
    const bool own =
        record->slot == warp.slot && record->domain == domain && record->epoch == warp.epoch;
    if (own && !loops.same_lanes(cells + from, lanes + from, to - from)) return false;
    if (waited_alone(*record)) return false;  // in order for some lanes only
    for (;; record = &(*region.log)[record->previous]) {
      const bool before = record->domain == domain
                              ? record->time <= warp.know.clock[record->slot]
                              : !warp.know.acquired.empty() &&
                                    launch.variables.known(warp.know.acquired, record->domain,
                                                           record->slot, record->time);
      if (!before) return false;
      if (!readers || record->previous == 0) break;
    }
    if (!own) known.add(id, readers);
  }
  return true;
}

bool Toucher::accept_read(const Region& region, const LaneCells& cells) const {
  Cell own[warp_lanes * most_cells];
  if (!clean(region, gathered(cells.writers, cells, own), cells.lanes, cells.count, false))
    return false;
  Cell* readers = cells.readers;
  if (cells.index) {
    gathered(readers, cells, own);
    readers = own;
  }
  for (std::uint32_t from = 0, to; from < cells.count; from = to) {
    const std::uint32_t before = id_of(readers[from]);
    to = loops.run_end(readers, from, cells.count, before);
    const std::uint32_t number = reader_number(region, before);
    bool mine = false;  // they are this warp's, since it synchronised last
    if (before) {
      const Record& other = (*region.log)[before];
      if (number == before && other.slot != slot) continue;  // it is further down the list
      mine = other.slot == warp.slot && other.domain == domain && other.epoch == warp.epoch;
    }
    if (!mine || loops.same_lanes(readers + from, cells.lanes + from, to - from)) {
      if (!mine || number != before)
        loops.fill(readers + from, cells.lanes + from, to - from, number);
      continue;
    }
    for (std::uint32_t at = from; at < to; ++at)
      readers[at] = cell_of(
          number, lane_of(readers[at]) == cells.lanes[at] ? cells.lanes[at] : several_lanes);
  }
  if (!cells.index) return true;
  if (!loops.scatter(cells.readers, cells.index, cells.count, own))
    for (std::uint32_t i = 0; i < cells.count; ++i)  // lanes that read the same place
      if (Cell& cell = cells.readers[cells.index[i]]; cell != own[i])
        cell = cell_of(id_of(own[i]), several_lanes);
  return true;
}

bool Toucher::accept_write(const Region& region, const LaneCells& cells) const {
  Cell before[warp_lanes * most_cells], other[warp_lanes * most_cells];
  if (!clean(region, gathered(cells.writers, cells, before), cells.lanes, cells.count, false) ||
      !clean(region, gathered(cells.readers, cells, other), cells.lanes, cells.count, true))
    return false;
  const std::uint32_t number = own_number(region, Mode::write, 0, 0);
  if (!cells.index) {
    loops.fill(cells.writers, cells.lanes, cells.count, number);
    std::memset(cells.readers, 0, cells.count * sizeof(Cell));
    return true;
  }
  loops.fill(other, cells.lanes, cells.count, number);
  if (!loops.scatter(cells.writers, cells.index, cells.count, other)) {
    // Lanes that write the same place.
    for (std::uint32_t i = 0; i < cells.count; ++i) cells.writers[cells.index[i]] = before[i];
    return false;
  }
  for (std::uint32_t i = 0; i < cells.count; ++i) cells.readers[cells.index[i]] = 0;
  return true;
}

}  // namespace microscale::emulator
