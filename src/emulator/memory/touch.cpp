#include "emulator/memory/touch.hpp"

#include <emmintrin.h>
#include <fmt/format.h>

#include "emulator/memory/lane_loops.hpp"

namespace microscale::emulator {

namespace {

std::uint32_t run_end(const Cell* cells, std::uint32_t from, std::uint32_t count,
                      std::uint32_t id) {
  return lane_loops().run_end(cells, from, count, id);
}

/// cells[i] = id and lane + (i >> per_lane), for cells from..to.
void fill(Cell* cells, std::uint32_t from, std::uint32_t to, std::uint32_t id, std::uint32_t lane,
          std::uint32_t per_lane) {
  std::uint32_t at = from;
  if (per_lane <= 1 && from == 0) {
    __m128i value = per_lane == 0 ? _mm_setr_epi32(0, 1, 2, 3) : _mm_setr_epi32(0, 0, 1, 1);
    value = _mm_add_epi32(value, _mm_set1_epi32(static_cast<int>(cell_of(id, lane))));
    const __m128i step = _mm_set1_epi32(per_lane == 0 ? 4 : 2);
    for (; at + 4 <= to; at += 4, value = _mm_add_epi32(value, step))
      _mm_storeu_si128(reinterpret_cast<__m128i*>(cells + at), value);
  } else if (from == 0) {
    for (; at + 4 <= to; at += 4)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(cells + at),
                       _mm_set1_epi32(static_cast<int>(cell_of(id, lane + (at >> per_lane)))));
  }
  for (; at < to; ++at) cells[at] = cell_of(id, lane + (at >> per_lane));
}

/// Whether cells from..to name the lanes that fill() would give them.
bool same_lanes(const Cell* cells, std::uint32_t from, std::uint32_t to, std::uint32_t lane,
                std::uint32_t per_lane) {
  std::uint32_t at = from, difference = 0;
  if (per_lane == 0) {
    __m128i value =
        _mm_add_epi32(_mm_set1_epi32(static_cast<int>(lane + from)), _mm_setr_epi32(0, 1, 2, 3));
    __m128i any = _mm_setzero_si128();
    for (; at + 4 <= to; at += 4, value = _mm_add_epi32(value, _mm_set1_epi32(4)))
      any = _mm_or_si128(
          any, _mm_xor_si128(value, _mm_loadu_si128(reinterpret_cast<const __m128i*>(cells + at))));
    any = _mm_slli_epi32(any, 32 - cell_lane_bits);  // what differs in the lane
    if (_mm_movemask_epi8(_mm_cmpeq_epi32(any, _mm_setzero_si128())) != 0xffff) return false;
  }
  for (; at < to; ++at) difference |= lane_of(cells[at]) ^ (lane + (at >> per_lane));
  return difference == 0;
}

}  // namespace

const char* verb(Mode mode) {
  return mode == Mode::read ? "reads" : mode == Mode::write ? "writes" : "updates";
}

Record Toucher::own_record(Mode mode) const {
  Record record;
  record.domain = domain;
  record.slot = slot;
  record.time = time;
  record.epoch = warp.epoch;
  record.instruction = agent.instruction;
  record.block = agent.block;
  record.warp = static_cast<std::uint16_t>(agent.warp);
  record.scope = scope;
  record.strong = order != Order::weak;
  record.asynchronous = asynchronous || slot != warp.slot;
  record.write = mode != Mode::read;
  record.unit = unit;
  return record;
}

std::uint32_t Toucher::own_number(const Region& region, Mode mode, std::uint32_t previous,
                                  std::uint32_t depth) const {
  const std::uint32_t kind = (order != Order::weak) | (mode != Mode::read) << 1 |
                             asynchronous << 2 | static_cast<std::uint32_t>(scope) << 3;
  return records(region).number({agent.instruction, time, warp.epoch, previous, slot, kind},
                                *region.log, [&] {
                                  Record record = own_record(mode);
                                  record.previous = previous;
                                  record.depth = static_cast<std::uint8_t>(depth);
                                  return record;
                                });
}

void Toucher::check(ShadowPage& page, const Region& region, std::uint64_t address,
                    std::uint32_t start, std::uint32_t count, Lanes lanes, Mode mode,
                    const std::uint8_t* now, const std::uint8_t* incoming) const {
  if (mode == Mode::write) {
    page.mark_written(start, count);
  } else if (!page.all_written(start, count)) {
    const std::uint32_t missing = page.first_unwritten(start, count);
    const std::uint32_t lane =
        lanes.bytes ? lanes.first + (missing - start) / lanes.bytes : lanes.first;
    const auto sentence = [&] {
      return fmt::format("lane {} reads {} bytes, of which the byte at {:#x} was never written",
                         lane % warp_lanes, lanes.bytes ? lanes.bytes : count, address + missing);
    };
    if (reporter.undefined && mode == Mode::read)
      note_undefined(page, start, count, lanes, static_cast<int>(lane % warp_lanes), sentence(),
                     address + missing);
    else
      reporter.say(FindingKind::uninitialised_memory, agent, static_cast<int>(lane % warp_lanes),
                   false, sentence, address + missing, verb(mode));
    if (mode == Mode::update) page.mark_written(start, count);
  }
  if (!region.log || !launch.options.races) return;

  const auto fit = static_cast<std::uint32_t>(std::countr_zero(start | count | lanes.bytes));
  if (page.launch != region.tag || page.writer.empty()) page.begin(region.tag, fit);
  if (fit < page.shift) page.refine(fit);
  Piece piece{
      region, address + start, page.shift, lanes.first, 31, lanes.bytes ? lanes.bytes : count, mode,
      now,    incoming};
  if (lanes.bytes)
    piece.per_lane = static_cast<std::uint32_t>(std::countr_zero(lanes.bytes)) - page.shift;
  Cell* writers = page.writer.data() + (start >> page.shift);
  Cell* readers = page.reader.data() + (start >> page.shift);
  const std::uint32_t cells = count >> page.shift;

  check_cells(piece, writers, cells, false);
  if (mode == Mode::read) {
    note_reads(piece, readers, cells);
    return;
  }
  check_cells(piece, readers, cells, true);
  fill(writers, 0, cells, own_number(region, mode, 0, 0), piece.lane, piece.per_lane);
  std::fill_n(readers, cells, 0);
}

void Toucher::note_undefined(const ShadowPage& page, std::uint32_t start, std::uint32_t count,
                             Lanes lanes, int first, std::string sentence,
                             std::uint64_t address) const {
  UndefinedBytes& undefined = *reporter.undefined;
  if (undefined.lanes == 0) {
    undefined.lane = first;
    undefined.message = std::move(sentence);
    undefined.address = address;
  }
  for (std::uint32_t at = page.first_unwritten(start, count); at < start + count;
       at = page.first_unwritten(at + 1, start + count - at - 1)) {
    const std::uint32_t lane = lanes.bytes ? lanes.first + (at - start) / lanes.bytes : lanes.first;
    const std::uint32_t byte = lanes.bytes ? (at - start) % lanes.bytes : at - start;
    if (lane < warp_lanes)
      undefined.add(static_cast<int>(lane), byte);
    else
      for (int each = 0; each < warp_lanes; ++each) undefined.add(each, byte);
  }
}

void Toucher::check_cells(const Piece& piece, const Cell* cells, std::uint32_t count,
                          bool readers) const {
  for (std::uint32_t from = 0; from < count;) {
    const std::uint32_t id = id_of(cells[from]), to = run_end(cells, from, count, id);
    if (id) check_run(piece, cells, from, to, readers);
    from = to;
  }
}

bool Toucher::forgiven(const Record& other) const {
  if (order == Order::weak || !other.strong) return false;
  return agent.block == other.block ||
         (scope != MemoryScope::cta && other.scope != MemoryScope::cta);
}

bool Toucher::ordered(const Record& other, std::uint64_t address) const {
  if (other.domain == domain) {
    if (other.time <= warp.know.clock[other.slot] || in_pipeline(other)) return true;
  } else if (!warp.know.acquired.empty() &&
             launch.variables.known(warp.know.acquired, other.domain, other.slot, other.time)) {
    return true;
  }
  // A counter that was acquired may be set back by a plain write.
  return other.strong && !warp.know.acquired.empty() &&
         SyncVariables::at(warp.know.acquired, address & ~std::uint64_t{3});
}

/// Whether `other` is a cp.async of this warp that its own lane has waited for, and no other lane
/// knows yet.
bool Toucher::waited_alone(const Record& other) const {
  return warp.waited_epoch == warp.epoch && other.slot == warp.waited_slot &&
         other.domain == domain && other.time > warp.waited_before &&
         other.time <= warp.know.clock[other.slot];
}

/// Whether what is stored stands there already, by the same instruction of another warp.
bool Toucher::stores_again(const Piece& piece, const Record& other, std::uint32_t from,
                           std::uint32_t to) const {
  if (launch.options.equal_stores_race || !piece.incoming || !other.write || other.asynchronous ||
      other.instruction != agent.instruction)
    return false;
  const std::size_t begin = std::size_t{from} << piece.shift;
  return std::memcmp(piece.now + begin, piece.incoming + begin,
                     (std::size_t{to} << piece.shift) - begin) == 0;
}

void Toucher::check_run(const Piece& piece, const Cell* cells, std::uint32_t from, std::uint32_t to,
                        bool readers) const {
  const Record* record = &(*piece.region.log)[id_of(cells[from])];
  if (record->slot == warp.slot && record->domain == domain && record->epoch == warp.epoch &&
      !forgiven(*record)) {
    for (std::uint32_t at = from; at < to; ++at) {
      const std::uint32_t other = lane_of(cells[at]), mine = piece.lane_of(at);
      if (other == mine && other != several_lanes) continue;
      const std::uint64_t byte = std::uint64_t{at} << piece.shift;
      if (!readers && record->instruction == agent.instruction && piece.incoming &&
          std::memcmp(piece.now + byte, piece.incoming + byte, std::size_t{1} << piece.shift) == 0)
        continue;  // lanes that store the same value
      report(piece, *record, cells[at], at, true);
      break;
    }
  }
  if (!readers && waited_alone(*record)) {
    for (std::uint32_t at = from; at < to; ++at) {
      if (lane_of(cells[at]) == piece.lane_of(at)) continue;
      report(piece, *record, cells[at], at, true);
      break;
    }
  }
  while (true) {
    if (!ordered(*record, piece.address + (std::uint64_t{from} << piece.shift))) {
      if (!forgiven(*record) && !(!readers && stores_again(piece, *record, from, to)))
        report(piece, *record, cells[from], from, false);
    } else if (piece.region.kind == SpaceKind::tensor) {
      check_tensor_fences(piece, *record, from);
    } else if (asynchronous && !record->asynchronous && record->write && record->domain == domain &&
               record->time > warp.know.proxy[record->slot]) {
      report_fence(piece, *record, from);
    }
    if (!readers || record->previous == 0) return;
    record = &(*piece.region.log)[record->previous];
  }
}

std::uint32_t Toucher::reader_number(const Region& region, std::uint32_t before) const {
  if (before == 0) return own_number(region, Mode::read, 0, 0);
  // Of those who read before, the ones not ordered before this read must be kept; a warp that is
  // among them at this very time adds nothing. Warps that run beside it are at the front, so a
  // short look will do.
  std::uint32_t kept = before;
  for (std::uint32_t at = before, hops = 0; at && hops < 16;
       at = (*region.log)[at].previous, ++hops) {
    const Record& other = (*region.log)[at];
    if (other.domain != domain) continue;
    if (other.slot == slot && other.time == time && at != before) return before;
    if (at == kept && other.time <= warp.know.clock[other.slot]) kept = other.previous;
  }
  const std::uint32_t depth = kept ? (*region.log)[kept].depth + 1u : 0;
  return depth < 64 ? own_number(region, Mode::read, kept, depth)
                    : own_number(region, Mode::read, 0, 0);
}

void Toucher::note_reads(const Piece& piece, Cell* cells, std::uint32_t count) const {
  for (std::uint32_t from = 0; from < count;) {
    const std::uint32_t before = id_of(cells[from]), to = run_end(cells, from, count, before);
    const std::uint32_t number = reader_number(piece.region, before);
    bool merge = false;
    if (number == before &&
        (*piece.region.log)[before].slot != slot) {  // it is further down the list
      from = to;
      continue;
    }
    if (before) {
      const Record& other = (*piece.region.log)[before];
      merge = other.slot == warp.slot && other.domain == domain && other.epoch == warp.epoch;
    }
    if (merge && !same_lanes(cells, from, to, piece.lane, piece.per_lane)) {
      for (std::uint32_t at = from; at < to; ++at) {
        const std::uint32_t lane = piece.lane_of(at);
        cells[at] = cell_of(number, lane_of(cells[at]) == lane ? lane : several_lanes);
      }
    } else {
      fill(cells, from, to, number, piece.lane, piece.per_lane);
    }
    from = to;
  }
}

void Toucher::report(const Piece& piece, const Record& other, Cell cell, std::uint32_t at,
                     bool within_warp) const {
  if (piece.region.kind == SpaceKind::tensor) return report_tensor(piece, other, at);
  const std::uint32_t lane = piece.lane_of(at) % warp_lanes;
  const FindingKind kind = other.asynchronous ? FindingKind::missing_wait : FindingKind::race;
  const std::uint64_t byte = std::uint64_t{at} << piece.shift;
  const std::uint64_t address =
      piece.address +
      (piece.bytes > byte && piece.per_lane == 31 ? byte : byte & ~std::uint64_t{piece.bytes - 1});
  reporter.say(
      kind, agent, static_cast<int>(lane), false,
      [&] {
        const std::string who =
            lane_of(cell) < several_lanes ? fmt::format("lane {}", lane_of(cell)) : "several lanes";
        const std::string where =
            other.block == agent.block ? "" : fmt::format(" of block {}", other.block);
        const char* did = other.write ? (other.strong ? "wrote atomically" : "wrote") : "read";
        if (other.unit == Unit::tcgen05)
          return fmt::format(
              "warp {} lane {} {} {} bytes at {:#x}, which the {} of warp {}{}, started at {}, "
              "reads: no tcgen05.commit behind it was waited for",
              agent.warp, lane, verb(piece.mode), piece.bytes, address,
              reporter.opcode(other.instruction), other.warp, where,
              reporter.name(other.instruction));
        if (other.unit == Unit::wgmma)
          return fmt::format(
              "warp {} lane {} {} {} bytes at {:#x}, which the wgmma of the warpgroup of warp "
              "{}{}, "
              "started at {}, reads: nothing waited for it",
              agent.warp, lane, verb(piece.mode), piece.bytes, address, other.warp, where,
              reporter.name(other.instruction));
        if (other.asynchronous)
          return fmt::format(
              "warp {} lane {} {} {} bytes at {:#x}, which an asynchronous copy of warp {}{}, "
              "started "
              "at {}, {}: {}",
              agent.warp, lane, verb(piece.mode), piece.bytes, address, other.warp, where,
              reporter.name(other.instruction), other.write ? "writes" : "reads",
              within_warp ? "its lane has waited, but no bar.warp.sync stands between"
                          : "nothing waited for it");
        return fmt::format(
            "warp {} lane {} {} {} bytes at {:#x}, which {} of warp {}{} {} at {}: {}", agent.warp,
            lane, verb(piece.mode), piece.bytes, address, who, other.warp, where, did,
            reporter.name(other.instruction),
            within_warp ? "no bar.warp.sync stands between"
            : other.block == agent.block
                ? "no barrier stands between"
                : "no release and acquire (a fence and an atomic) stand between");
      },
      address, verb(piece.mode));
}

void Toucher::report_fence(const Piece& piece, const Record& other, std::uint32_t at) const {
  reporter.say(
      FindingKind::missing_fence, agent, static_cast<int>(piece.lane_of(at) % warp_lanes), false,
      [&] {
        return fmt::format(
            "warp {} {} {} bytes at {:#x} through the async proxy, which warp {} wrote at {}: no "
            "fence.proxy.async stands between",
            agent.warp, verb(piece.mode), piece.bytes,
            piece.address + (std::uint64_t{at} << piece.shift), other.warp,
            reporter.name(other.instruction));
      },
      piece.address + (std::uint64_t{at} << piece.shift), verb(piece.mode));
}

}  // namespace microscale::emulator
