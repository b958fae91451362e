#include "emulator/ops/handler.hpp"

#include <unordered_map>

#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using Table = std::unordered_map<std::string_view, Handler>;

void add(Table& table, Family family) {
  for (const HandlerEntry& entry : family) table.emplace(entry.key, entry.run);
}

Table make_table(bool avx2) {
  Table table;
  add(table, avx2 ? avx2::integer_family() : portable::integer_family());
  add(table, avx2 ? avx2::bits_family() : portable::bits_family());
  add(table, avx2 ? avx2::compare_family() : portable::compare_family());
  add(table, avx2 ? avx2::scalar_family() : portable::scalar_family());
  add(table, avx2 ? avx2::packed_family() : portable::packed_family());
  add(table, avx2 ? avx2::convert_family() : portable::convert_family());
  add(table, avx2 ? avx2::cvt_lanes_family() : portable::cvt_lanes_family());
  for (const Family family :
       {approx_family(), cvt_small_family(), cvt_directed_family(), move_family(), control_family(),
        system_family(), memory_family(), atomic_family(), warp_family(), barrier_family(),
        async_family(), mbarrier_family(), mma_family(), ldmatrix_family(), wgmma_family(),
        wmma_family(), tcgen05_family()})
    add(table, family);
  return table;
}

}  // namespace

Handler find_handler(std::string_view key) { return find_handler(key, has_avx2()); }

Handler find_handler(std::string_view key, bool avx2) {
  static const Table tables[2] = {make_table(false), make_table(has_avx2())};
  const Table& table = tables[avx2];
  const auto found = table.find(key);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace microscale::emulator
