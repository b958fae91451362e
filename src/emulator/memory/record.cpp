#include "emulator/memory/record.hpp"

namespace microscale::emulator {

RecordLog::~RecordLog() {
  for (std::atomic<Record*>& each : chunks_) delete[] each.load();
}

std::uint32_t RecordLog::add(const Record& record) {
  if (next_.load(std::memory_order_relaxed) >= limit) return 0;
  const std::uint32_t id = next_.fetch_add(1, std::memory_order_relaxed);
  if (id >= limit) return 0;
  std::atomic<Record*>& place = chunks_[id / chunk];
  Record* records = place.load(std::memory_order_acquire);
  if (!records) {
    auto fresh = std::make_unique<Record[]>(chunk);
    if (place.compare_exchange_strong(records, fresh.get(), std::memory_order_acq_rel))
      records = fresh.release();
  }
  records[id % chunk] = record;  // seen by others through the lock of the page that names it
  return id;
}

}  // namespace microscale::emulator
