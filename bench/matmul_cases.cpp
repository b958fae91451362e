#include "matmul_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "formats/random.hpp"

namespace microscale::bench {
namespace {

using enum Format;

std::string name_of(const MatmulCase& c) {
  std::string name = short_name(c.weights);
  if (c.input) name = fmt::format("{} x {}", short_name(*c.input), name);
  if (!c.input && c.dense == DType::f16) name = "f16 x " + name;
  const std::string shape = fmt::format("{}x{}x{}", c.m, c.n, c.k);
  if (c.kind == ProductKind::gated)
    return fmt::format("{} gated {}{}", name, shape, c.packed ? "" : " plain");
  if (c.kind == ProductKind::grouped) {
    const auto experts = static_cast<std::int64_t>(c.groups.size());
    return fmt::format("{} {} experts {}{}", name, experts, shape, c.packed ? "" : " plain");
  }
  if (c.batch > 1) name = fmt::format("{} {} of", name, c.batch);
  if (c.quantized) return fmt::format("{} {} to {}", name, shape, short_name(*c.quantized));
  if (c.fast_accumulation) return fmt::format("{} {} fast", name, shape);
  return fmt::format("{} {}{}", name, shape, c.packed ? "" : " plain");
}

std::vector<MatmulCase> named(std::vector<MatmulCase> cases, bool quick) {
  for (MatmulCase& c : cases) {
    if (quick) make_quick(c);
    c.name = name_of(c);
    MatmulCase equal = c;
    equal.kind = ProductKind::plain;
    equal.quantized.reset();
    if (c.kind == ProductKind::gated) equal.n *= 2;
    if (c.kind == ProductKind::grouped) {
      equal.batch = c.matrices();
      equal.m /= c.matrices();
    }
    if (c.kind != ProductKind::plain || c.quantized) c.equal = name_of(equal);
  }
  std::set<std::string> seen;  // quick: two lengths may have become one
  std::erase_if(cases, [&](const MatmulCase& c) { return !seen.insert(c.name).second; });
  return cases;
}

std::vector<std::int64_t> even(std::int64_t experts, std::int64_t rows) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(experts), rows);
}

/// `tokens` tokens with `chosen` experts each, as a router that knows nothing would send them.
std::vector<std::int64_t> routed(std::int64_t experts, std::int64_t tokens, std::int64_t chosen) {
  std::vector<std::int64_t> rows = even(experts, 0);
  for (std::int64_t i = 0; i < tokens * chosen; ++i)
    ++rows[mix32(static_cast<std::uint32_t>(i)) % static_cast<std::uint32_t>(experts)];
  return rows;
}

MatmulCase grouped(std::vector<std::int64_t> rows, std::int64_t n, std::int64_t k, Format weights,
                   std::optional<Format> input = {}) {
  MatmulCase c{.kind = ProductKind::grouped, .n = n, .k = k, .weights = weights, .input = input};
  c.m = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  c.groups = std::move(rows);
  return c;
}

std::int64_t part(std::int64_t length) {
  return length <= 16 ? length : std::max<std::int64_t>(length / 16, 16);
}

}  // namespace

std::string short_name(Format format) {
  return format == mxfp8_e4m3 ? "mxfp8" : std::string(info(format).name);
}

double MatmulCase::weight_bytes() const {
  const BlockShape shape = weight_shape();
  return static_cast<double>((shape.code_bytes() + shape.scale_bytes()) * matrices() * sides());
}

double MatmulCase::bytes() const {
  const auto taken = [&](std::optional<Format> format, std::int64_t cols, DType dense) {
    if (!format) return static_cast<double>(rows() * cols * size_of(dense));
    const BlockShape shape{rows(), cols, *format};
    return static_cast<double>(shape.code_bytes() + shape.scale_bytes());
  };
  return weight_bytes() + taken(input, k, dense) + taken(quantized, n, output);
}

void make_quick(MatmulCase& c) {
  c.n = std::max<std::int64_t>(c.n / 32, 16);
  c.k = std::max<std::int64_t>(c.k / 32 / 64 * 64, 64);
  if (c.kind == ProductKind::grouped) {
    const bool same = std::adjacent_find(c.groups.begin(), c.groups.end(), std::not_equal_to<>()) ==
                      c.groups.end();
    for (std::int64_t& rows : c.groups) rows = same ? part(rows) : rows / 32;
    c.m = std::accumulate(c.groups.begin(), c.groups.end(), std::int64_t{0});
  } else {
    c.m = part(c.m);
  }
}

void add_equal_products(const std::vector<MatmulCase>& cases, std::vector<Result>& rows) {
  const auto time_of = [&](const std::string& name) {
    for (const Result& row : rows)
      if (row.name == name) return row.seconds;
    return 0.0;
  };
  for (const MatmulCase& c : cases)
    for (Result& row : rows)
      if (const double plain = c.name == row.name ? time_of(c.equal) : 0; plain > 0)
        row.beside.push_back({"of plain", plain});
}

// 4096 x 14336 is a down projection of an 8-billion-parameter model; m is what changes the limit:
// bytes up to about 16, operations from about 64.
std::vector<MatmulCase> cpu_matmul_cases(bool quick) {
  std::vector<MatmulCase> cases;
  constexpr std::int64_t n = 4096, k = 14336;
  for (Format w : {nvfp4, mxfp4, mxfp8_e4m3}) {
    for (std::int64_t m : {1, 4, 16, 64, 512})
      cases.push_back({.m = m, .n = n, .k = k, .weights = w});
    for (std::int64_t m : {1, 512})
      cases.push_back({.kind = ProductKind::gated, .m = m, .n = n / 2, .k = k, .weights = w});
    cases.push_back({.m = 64, .n = n / 8, .k = k, .weights = w, .batch = 8});
    cases.push_back(grouped(even(8, 64), n / 8, k, w));
    for (std::int64_t m : {1, 16, 512})
      cases.push_back({.m = m, .n = n, .k = k, .weights = w, .input = w});
  }
  return named(std::move(cases), quick);
}

std::vector<MatmulCase> gpu_matmul_cases(bool quick) {
  std::vector<MatmulCase> cases;
  for (Format w : {nvfp4, mxfp4})
    for (auto [n, k] :
         {std::pair<std::int64_t, std::int64_t>{8192, 8192}, {28672, 8192}, {7168, 16384}})
      for (std::int64_t m : {1, 4, 16, 64}) {
        cases.push_back({.m = m, .n = n, .k = k, .weights = w});
        if (m == 1) cases.push_back({.m = m, .n = n, .k = k, .weights = w, .packed = false});
      }
  constexpr std::int64_t large = 8192;
  for (Format w : {nvfp4, mxfp4})
    cases.push_back({.m = large, .n = large, .k = large, .weights = w});
  for (Format w : {mxfp4, nvfp4, mxfp8_e4m3}) {
    cases.push_back({.m = large, .n = large, .k = large, .weights = w, .input = w});
    cases.push_back({.m = large, .n = large, .k = large, .weights = w, .input = w, .quantized = w});
  }
  cases.push_back({.m = large,
                   .n = large,
                   .k = large,
                   .weights = mxfp4,
                   .input = mxfp4,
                   .fast_accumulation = true});
  for (std::int64_t m : {512, 8192}) {
    cases.push_back({.m = m, .n = large, .k = 7168, .weights = nvfp4, .input = nvfp4});
    cases.push_back({.kind = ProductKind::gated,
                     .m = m,
                     .n = large / 2,
                     .k = 7168,
                     .weights = nvfp4,
                     .input = nvfp4});
  }
  for (std::int64_t tokens : {64, 8192}) {
    for (const std::optional<Format> input : {std::optional<Format>{}, std::optional{nvfp4}}) {
      const Format w = input.value_or(mxfp4);
      cases.push_back(grouped(routed(128, tokens, 8), 7168, 2048, w, input));
      cases.push_back(
          {.m = tokens / 16, .n = 7168, .k = 2048, .weights = w, .input = input, .batch = 128});
    }
  }
  return named(std::move(cases), quick);
}

std::vector<MatmulCase> few_rows_cases(bool quick) {
  std::vector<MatmulCase> cases;
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      {8192, 8192}, {28672, 8192}, {7168, 16384}};
  constexpr std::int64_t n = 4096, k = 7168;
  for (Format w : {nvfp4, mxfp4}) {
    for (auto [n, k] : shapes) {
      for (std::int64_t m : {1, 4, 8}) cases.push_back({.m = m, .n = n, .k = k, .weights = w});
      cases.push_back({.n = n, .k = k, .weights = w, .packed = false});
      cases.push_back({.n = n, .k = k, .weights = w, .input = w, .packed = false});
    }
    for (std::int64_t m : {2, 3, 5, 6, 7, 16})
      cases.push_back({.m = m, .n = 8192, .k = 8192, .weights = w});
    for (std::int64_t m : {1, 8, 16})
      cases.push_back({.m = m, .n = 8192, .k = 8192, .weights = w, .dense = DType::f16});
    for (std::int64_t m : {1, 8})
      cases.push_back({.m = m, .n = 8192, .k = 8192, .weights = w, .input = nvfp4});
    // Plain weights: rows of FP16, more than one row, no whole 16 blocks, matrices of a batch.
    cases.push_back({.n = n, .k = k, .weights = w, .dense = DType::f16, .packed = false});
    for (std::int64_t m : {2, 8, 16})
      cases.push_back({.m = m, .n = n, .k = k, .weights = w, .packed = false});
    cases.push_back({.n = n, .k = k - 128, .weights = w, .packed = false});
    for (bool packed : {false, true}) {
      cases.push_back({.n = n, .k = k, .weights = w, .input = w, .batch = 8, .packed = packed});
      for (std::int64_t m : {1, 4})
        cases.push_back(
            {.kind = ProductKind::gated, .m = m, .n = n, .k = k, .weights = w, .packed = packed});
    }
    for (std::int64_t tokens : {8, 64})
      cases.push_back(grouped(routed(128, tokens, 8), n, 2048, w));
    MatmulCase experts = grouped(even(32, 1), n, 2048, w);
    experts.packed = false;
    cases.push_back(experts);
  }
  for (bool packed : {false, true})
    for (std::int64_t m : {1, 8})
      cases.push_back({.m = m, .n = n, .k = k, .weights = mxfp8_e4m3, .packed = packed});
  return named(std::move(cases), quick);
}

}  // namespace microscale::bench
