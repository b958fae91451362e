// The products of src/cuda/ptx/wgmma.cuh on the emulator, as nvcc compiles them (wgmma_probe.cu):
// one-hot and identity matrices over two steps of K, and what the instruction's model says of
// others.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/tensor/wgmma.hpp"
#include "microscale/emulator.hpp"
#include "support/mma_cases.hpp"
#include "support/paths.hpp"

namespace microscale::testing {
namespace {

using tensor::Operand;

struct Form {
  Operand type;
  int n;
  bool registers;

  std::uint32_t bytes() const { return type == Operand::e4m3 || type == Operand::e5m2 ? 1 : 2; }
  std::uint32_t k() const { return 64 / bytes(); }  // of both steps
  std::string name() const {
    const std::string word(name_of(type));
    return "m64n" + std::to_string(n) + "k" + std::to_string(k() / 2) + "_f32_" + word + "_" +
           word + (registers ? "_registers" : "_shared");
  }
  std::uint32_t one() const {
    return type == Operand::f16    ? 0x3C00
           : type == Operand::bf16 ? 0x3F80
           : type == Operand::e5m2 ? 0x3C
                                   : 0x38;
  }
};

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const Operand type : {Operand::f16, Operand::bf16, Operand::e4m3})
    for (const int n : {128, 256})
      for (const bool registers : {false, true}) all.push_back({type, n, registers});
  for (const Operand type : {Operand::f16, Operand::bf16}) all.push_back({type, 64, true});
  all.push_back({Operand::e5m2, 192, true});
  return all;
}

using Codes = std::vector<std::uint32_t>;  // [row or column][k]

std::string probe_text() {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(microscale::testing::test_data()) /
                        "cuda/ptx/wgmma_probe.ptx")
              .rdbuf();
  return text.str();
}

/// Rows of 128 bytes, of which 64 are used: chunk c of row r stands at c ^ (r % 8).
void put_rows(const Form& form, const Codes& codes, std::uint8_t* to) {
  for (std::uint32_t line = 0; line < codes.size() / form.k(); ++line)
    for (std::uint32_t k = 0; k < form.k(); ++k)
      for (std::uint32_t i = 0; i < form.bytes(); ++i) {
        const std::uint32_t byte = k * form.bytes() + i;
        to[line * 128 + ((byte / 16) ^ (line % 8)) * 16 + byte % 16] =
            static_cast<std::uint8_t>(codes[line * form.k() + k] >> (8 * i));
      }
}

/// D, row by row.
std::vector<std::uint32_t> run(const Form& form, const Codes& a, const Codes& b) {
  static const std::string text = probe_text();
  const auto n = static_cast<std::uint32_t>(form.n);
  std::vector<std::uint8_t> image(128 * (64 + n));
  // What registers bring stands nowhere else.
  if (!form.registers) put_rows(form, a, image.data());
  put_rows(form, b, image.data() + 128 * 64);
  std::vector<std::uint32_t> fragments(128 * 8);
  const std::uint32_t items = 4 / form.bytes();
  for (std::uint32_t thread = 0; thread < 128; ++thread)
    for (std::uint32_t step = 0; step < 2; ++step)
      for (std::uint32_t reg = 0; reg < 4; ++reg)
        for (std::uint32_t item = 0; item < items; ++item) {
          const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + 8 * (reg % 2);
          const std::uint32_t k =
              step * form.k() / 2 + thread % 4 * items + reg / 2 * 4 * items + item;
          fragments[8 * thread + 4 * step + reg] |= a[row * form.k() + k]
                                                    << (8 * form.bytes() * item);
        }
  emulator::Memory memory;
  emulator::Module module(memory, text);
  const auto upload = [&](const auto& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof values[0]);
    const std::uint64_t address = memory.allocate(bytes);
    memory.write(address, values.data(), bytes);
    return address;
  };
  const std::uint64_t from = upload(image), parts = upload(fragments),
                      to = memory.allocate(64 * form.n * 4);
  emulator::LaunchRequest request;
  request.kernel = form.name();
  request.block = {128};
  request.arguments = emulator::arguments(from, parts, to);
  const emulator::LaunchReport report = launch(memory, module, request);
  for (const emulator::Finding& each : report.findings) ADD_FAILURE() << to_sentence(each);
  std::vector<std::uint32_t> threads(64 * n), d(64 * n);
  memory.read(threads.data(), to, 64 * form.n * 4);
  for (std::uint32_t thread = 0; thread < 128; ++thread)
    for (std::uint32_t i = 0; i < n / 2; ++i) {
      const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
      const std::uint32_t column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      d[row * n + column] = threads[thread * (n / 2) + i];
    }
  return d;
}

constexpr std::uint32_t f32_one = 0x3F800000;

TEST(WgmmaWrapper, identity_gives_the_other_matrix) {
  for (const Form& form : forms()) {
    const auto n = static_cast<std::uint32_t>(form.n), k = form.k();
    Codes a(64 * k), b(n * k);
    for (std::uint32_t i = 0; i < 64 * k; ++i) a[i] = i * 2654435761u >> 31 ? form.one() : 0;
    for (std::uint32_t column = 0; column < n; ++column) b[column * k + column % k] = form.one();
    const auto d = run(form, a, b);
    for (std::uint32_t row = 0; row < 64; ++row)
      for (std::uint32_t column = 0; column < n; ++column)
        ASSERT_EQ(d[row * n + column], a[row * k + column % k] ? f32_one : 0)
            << form.name() << " row " << row << " column " << column;
  }
}

TEST(WgmmaWrapper, one_hots_meet_where_they_should) {
  for (const Form& form : forms()) {
    Bits bits(static_cast<std::uint64_t>(form.n));
    for (int i = 0; i < 4; ++i) {
      const auto n = static_cast<std::uint32_t>(form.n), k = form.k();
      // Both steps of K get their share.
      const std::uint32_t at_row = bits.below(64), at_column = bits.below(n),
                          at_k = bits.below(k / 2) + (i % 2 ? k / 2 : 0);
      Codes a(64 * k), b(n * k);
      a[at_row * k + at_k] = form.one();
      b[at_column * k + at_k] = form.one();
      const auto d = run(form, a, b);
      for (std::uint32_t row = 0; row < 64; ++row)
        for (std::uint32_t column = 0; column < n; ++column)
          ASSERT_EQ(d[row * n + column], row == at_row && column == at_column ? f32_one : 0)
              << form.name() << " row " << row << " column " << column;
    }
  }
}

TEST(WgmmaWrapper, products_are_those_of_the_model) {
  for (const Form& form : forms()) {
    Bits bits(7);
    const auto n = static_cast<std::uint32_t>(form.n), k = form.k();
    Codes a(64 * k), b(n * k);
    for (std::uint32_t& code : a) code = random_code(bits, form.type, Spread::finite);
    for (std::uint32_t& code : b) code = random_code(bits, form.type, Spread::finite);
    tensor::WgmmaShape shape;
    shape.n = form.n, shape.a = shape.b = form.type;
    std::vector<std::uint32_t> registers(32 * 4 * n / 2);
    std::vector<std::uint32_t*> rows;
    for (std::size_t i = 0; i < 4 * n / 2; ++i) rows.push_back(registers.data() + 32 * i);
    for (std::uint32_t step = 0; step < 2; ++step) {
      tensor::WgmmaTile left, right;
      for (std::uint32_t at = 0; at < k / 2; ++at) {
        for (std::uint32_t line = 0; line < 64; ++line)
          left.codes[line][at] = a[line * k + step * k / 2 + at];
        for (std::uint32_t line = 0; line < n; ++line)
          right.codes[line][at] = b[line * k + step * k / 2 + at];
      }
      wgmma(shape, {}, left, right, rows.data());
    }
    const auto d = run(form, a, b);
    for (std::uint32_t row = 0; row < 64; ++row)
      for (std::uint32_t column = 0; column < n; ++column)
        ASSERT_EQ(d[row * n + column], rows[row / 16 * (n / 2) + column / 8 * 4 + row % 16 / 8 * 2 +
                                            column % 2][row % 8 * 4 + column % 8 / 2])
            << form.name() << " row " << row << " column " << column;
  }
}

}  // namespace
}  // namespace microscale::testing
