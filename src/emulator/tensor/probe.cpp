#include "emulator/tensor/probe.hpp"

#include <cstring>

namespace microscale::emulator::tensor {
namespace {

/// Registers of one warp, all zero (scales: all 1.0), and the instruction run on them.
class Bench {
 public:
  Bench(const MmaShape& shape, Generation generation) : shape_(shape), generation_(generation) {
    if (shape.scale != ScaleType::none) {
      const std::uint32_t one = shape.scale == ScaleType::ue8m0 ? 0x7F7F7F7Fu : 0x38383838u;
      for (int lane = 0; lane < 32; ++lane) scale_a[lane] = scale_b[lane] = one;
    }
  }

  void set(std::uint32_t (&registers)[4][32], Operand type, Slot slot) {
    const int bits = container_bits(shape_.kind, type);
    registers[slot.reg][slot.lane] |= one_in_container(shape_.kind, type) << (bits * slot.item);
  }
  void set_a(int row, int k) {
    set(a, shape_.a, a_slot(container_bits(shape_.kind, shape_.a), {row, k}));
  }
  void set_b(int k, int column) {
    set(b, shape_.b, b_slot(container_bits(shape_.kind, shape_.b), {k, column}));
  }

  /// D = A * B + 0.
  void run() {
    static const std::uint32_t zeros[32] = {};
    MmaOperands in;
    std::array<std::uint32_t*, 4> out{};
    for (std::size_t i = 0; i < 4; ++i) {
      in.a[i] = a[i], in.b[i] = b[i], in.c[i] = zeros;
      out[i] = d[i];
    }
    in.scale_a = scale_a, in.scale_b = scale_b;
    in.select_a = select_a, in.select_b = select_b;
    mma(shape_, generation_, in, out);
  }
  /// Bits of D at a place, by D's map.
  std::uint32_t result(int row, int column) const {
    const int bits = shape_.d == Result::f16 ? 16 : 32;
    const Slot slot = d_slot(bits, {row, column});
    return bits == 16 ? d[slot.reg][slot.lane] >> (16 * slot.item) & 0xFFFF
                      : d[slot.reg][slot.lane];
  }

  std::uint32_t a[4][32] = {}, b[4][32] = {}, d[4][32] = {}, scale_a[32] = {}, scale_b[32] = {};
  ScaleSelector select_a, select_b;

 private:
  MmaShape shape_;
  Generation generation_;
};

/// Calls visit(slot) lane by lane.
template <class Visit>
void for_each_slot(int registers, int items, Visit&& visit) {
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < registers; ++reg)
      for (int item = 0; item < items; ++item) visit(Slot{lane, reg, item});
}

int items_of(const MmaShape& shape, Operand type) { return 32 / container_bits(shape.kind, type); }
int result_items(const MmaShape& shape) { return shape.d == Result::f16 ? 2 : 1; }

/// Doubles one scale byte, looks at the chunks one at a time for the line that doubled with it.
std::vector<Probed> probe_scales(const MmaShape& shape, bool of_a, ScaleSelector select) {
  std::vector<Probed> found;
  const int chunks = shape.scale_vector, chunk_size = chunks > 0 ? shape.k / chunks : 0;
  const std::uint32_t doubling = shape.scale == ScaleType::ue8m0 ? 0x01 : 0x08;
  for_each_slot(chunks > 0 ? 1 : 0, 4, [&](Slot slot) {
    Probed probed{slot, {-1, -1}};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      Bench bench(shape, Generation::blackwell);
      (of_a ? bench.select_a : bench.select_b) = select;
      for (int k = chunk * chunk_size; k < (chunk + 1) * chunk_size; ++k) {
        for (int row = 0; row < 16; ++row) bench.set_a(row, k);
        for (int column = 0; column < 8; ++column) bench.set_b(k, column);
      }
      bench.run();
      const std::uint32_t before = bench.result(0, 0);
      (of_a ? bench.scale_a : bench.scale_b)[slot.lane] += doubling << (8 * slot.item);
      bench.run();
      for (int line = 0; line < (of_a ? 16 : 8); ++line)
        if (bench.result(of_a ? line : 0, of_a ? 0 : line) != before)
          probed.at = of_a ? Coordinate{line, chunk} : Coordinate{chunk, line};
    }
    found.push_back(probed);
  });
  return found;
}

}  // namespace

std::uint32_t one_in_container(Kind kind, Operand type) {
  switch (type) {
    case Operand::f16:
      return 0x3C00;
    case Operand::bf16:
      return 0x3F80;
    case Operand::tf32:
      return 0x3F800000;
    case Operand::s8:
    case Operand::u8:
    case Operand::s4:
    case Operand::u4:
    case Operand::b1:
      return 1;
    case Operand::e4m3:
      return 0x38;
    case Operand::e5m2:
      return 0x3C;
    case Operand::e3m2:
      return 0x0C;
    case Operand::e2m3:
      return 0x08;
    case Operand::e2m1:
      return 0x2u << container_shift(kind, type);
    case Operand::f64:
      break;  // not in 32 bits
  }
  return 0;
}

std::vector<Probed> probe_a(const MmaShape& shape, Generation generation) {
  // Column n of B is bit n of k, column 7 is all ones: a row of D spells the K of the element.
  Bench bench(shape, generation);
  for (int k = 0; k < shape.k; ++k)
    for (int column = 0; column < 8; ++column)
      if (column == 7 || (k >> column & 1)) bench.set_b(k, column);
  std::vector<Probed> found;
  for_each_slot(a_registers(shape), items_of(shape, shape.a), [&](Slot slot) {
    std::memset(bench.a, 0, sizeof bench.a);
    bench.set(bench.a, shape.a, slot);
    bench.run();
    Probed probed{slot, {-1, -1}};
    for (int row = 0; row < 16; ++row) {
      if (bench.result(row, 7) == 0) continue;
      probed.at = {row, 0};
      for (int bit = 0; bit < 7; ++bit) probed.at.column |= (bench.result(row, bit) != 0) << bit;
    }
    found.push_back(probed);
  });
  return found;
}

std::vector<Probed> probe_b(const MmaShape& shape, Generation generation) {
  Bench bench(shape, generation);
  for (int k = 0; k < shape.k; ++k)
    for (int row = 0; row < 16; ++row)
      if (row == 15 || (k >> row & 1)) bench.set_a(row, k);
  std::vector<Probed> found;
  for_each_slot(b_registers(shape), items_of(shape, shape.b), [&](Slot slot) {
    std::memset(bench.b, 0, sizeof bench.b);
    bench.set(bench.b, shape.b, slot);
    bench.run();
    Probed probed{slot, {-1, -1}};
    for (int column = 0; column < 8; ++column) {
      if (bench.result(15, column) == 0) continue;
      probed.at = {0, column};
      for (int bit = 0; bit < 7; ++bit) probed.at.row |= (bench.result(bit, column) != 0) << bit;
    }
    found.push_back(probed);
  });
  return found;
}

std::vector<Probed> probe_d(const MmaShape& shape, Generation generation) {
  std::vector<Probed> found;
  for_each_slot(result_registers(shape, shape.d), result_items(shape), [&](Slot slot) {
    found.push_back({slot, {-1, -1}});
  });
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      Bench bench(shape, generation);
      bench.set_a(row, 0);
      bench.set_b(0, column);
      bench.run();
      for (Probed& probed : found) {
        const std::uint32_t word = bench.d[probed.slot.reg][probed.slot.lane];
        const bool here =
            result_items(shape) == 2 ? (word >> (16 * probed.slot.item) & 0xFFFF) != 0 : word != 0;
        if (here) probed.at = {row, column};
      }
    }
  return found;
}

std::vector<Probed> probe_a_scales(const MmaShape& shape, ScaleSelector select) {
  return probe_scales(shape, true, select);
}

std::vector<Probed> probe_b_scales(const MmaShape& shape, ScaleSelector select) {
  return probe_scales(shape, false, select);
}

std::vector<Probed> map_a(const MmaShape& shape) {
  std::vector<Probed> map;
  const int bits = container_bits(shape.kind, shape.a);
  for_each_slot(a_registers(shape), 32 / bits, [&](Slot slot) {
    map.push_back({slot, a_coordinate(bits, slot)});
  });
  return map;
}

std::vector<Probed> map_b(const MmaShape& shape) {
  std::vector<Probed> map;
  const int bits = container_bits(shape.kind, shape.b);
  for_each_slot(b_registers(shape), 32 / bits, [&](Slot slot) {
    map.push_back({slot, b_coordinate(bits, slot)});
  });
  return map;
}

std::vector<Probed> map_d(const MmaShape& shape) {
  std::vector<Probed> map;
  const int items = result_items(shape);
  for_each_slot(result_registers(shape, shape.d), items, [&](Slot slot) {
    map.push_back({slot, d_coordinate(32 / items, slot)});
  });
  return map;
}

std::vector<Probed> map_a_scales(const MmaShape& shape, ScaleSelector select) {
  std::vector<Probed> map;
  for_each_slot(shape.scale_vector > 0 ? 1 : 0, 4, [&](Slot slot) {
    const int row = a_scale_row(select, slot.lane), chunk = slot.item - select.byte;
    const bool used = row >= 0 && chunk >= 0 && chunk < shape.scale_vector;
    map.push_back({slot, used ? Coordinate{row, chunk} : Coordinate{-1, -1}});
  });
  return map;
}

std::vector<Probed> map_b_scales(const MmaShape& shape, ScaleSelector select) {
  std::vector<Probed> map;
  for_each_slot(shape.scale_vector > 0 ? 1 : 0, 4, [&](Slot slot) {
    const int column = b_scale_column(select, slot.lane), chunk = slot.item - select.byte;
    const bool used = column >= 0 && chunk >= 0 && chunk < shape.scale_vector;
    map.push_back({slot, used ? Coordinate{chunk, column} : Coordinate{-1, -1}});
  });
  return map;
}

}  // namespace microscale::emulator::tensor
