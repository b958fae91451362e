#include "problem.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "layouts/tiled_128x4.hpp"

namespace levels {

using namespace microscale;

namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::uint8_t code_at(const std::vector<std::uint8_t>& codes, std::int64_t element) {
  const std::uint8_t byte = codes[size(element / 2)];
  return element % 2 ? byte >> 4 : byte & 15;
}

// The scales of each of `matrices` matrices of `lines` x `blocks` in tiles, padding zero.
std::vector<std::uint8_t> in_tiles(const std::vector<std::uint8_t>& from, std::int64_t matrices,
                                   std::int64_t lines, std::int64_t blocks) {
  const std::int64_t bytes = tiled_128x4::bytes(lines, blocks);
  std::vector<std::uint8_t> to(size(matrices * bytes));
  for (std::int64_t l = 0; l < matrices; ++l)
    for (std::int64_t line = 0; line < lines; ++line)
      for (std::int64_t block = 0; block < blocks; ++block)
        to[size(l * bytes + tiled_128x4::offset(line, block, blocks))] =
            from[size((l * lines + line) * blocks + block)];
  return to;
}

std::vector<std::uint8_t> scales_of(const std::vector<std::uint8_t>& rows, bool tiled,
                                    std::int64_t matrices, std::int64_t lines, std::int64_t k) {
  return tiled ? in_tiles(rows, matrices, lines, k / gemv_block) : rows;
}

// The FP16 number that a product is rounded to; infinite from 65520 on. By FP32, which decides a
// tie of FP16 wrongly only where the product is within half a unit of FP32 of it.
double rounded_to_half(double value) {
  return f16_to_float(float_to_f16(static_cast<float>(value)));
}

}  // namespace

GemvInput gemv_input(GemvData data, const GemvShape& s) {
  GemvInput input{s, {}, {}, {}, {}};
  input.a.resize(size(s.l * s.m * s.k / 2));
  input.b.resize(size(s.l * gemv_vector_rows * s.k / 2));
  input.a_scales.resize(input.a.size() / 8);
  input.b_scales.resize(input.b.size() / 8);
  std::mt19937 generator(5);
  const auto fill = [&](std::vector<std::uint8_t>& bytes, const auto& make) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(make(generator() >> 8));
  };
  constexpr std::uint8_t whole[3] = {0x00, 0x38, 0x40};  // 0, 1, 2
  constexpr std::uint32_t finite = 0x7F, to_an_eighth = 0x21;
  switch (data) {
    case GemvData::task:
      for (auto* codes : {&input.a, &input.b}) fill(*codes, [](std::uint32_t r) { return r % 4; });
      for (auto* scales : {&input.a_scales, &input.b_scales})
        fill(*scales, [&](std::uint32_t r) { return whole[r % 3]; });
      break;
    case GemvData::half:
    case GemvData::full:
      for (auto* codes : {&input.a, &input.b}) fill(*codes, [](std::uint32_t r) { return r; });
      fill(input.a_scales, [](std::uint32_t r) { return r % finite; });
      fill(input.b_scales,
           [&](std::uint32_t r) { return r % (data == GemvData::full ? finite : to_an_eighth); });
      break;
    case GemvData::corner:
      for (std::int64_t row = 0; row < s.l * s.m; ++row) {
        const std::int64_t block = row % s.m % (s.k / gemv_block);
        input.a[size(row * s.k / 2 + block * 8)] = 1;
        input.a_scales[size(row * s.k / gemv_block + block)] = 0x7E;
      }
      fill(input.b, [](std::uint32_t) { return 0x11; });
      fill(input.b_scales, [](std::uint32_t) { return 0x7E; });
  }
  return input;
}

GemvTruth gemv_truth(const GemvInput& in) {
  const auto& [m, k, matrices] = in.shape;
  GemvTruth truth;
  std::vector<double> vector(size(k));
  for (std::int64_t l = 0; l < matrices; ++l) {
    const std::int64_t start = l * gemv_vector_rows * k;
    for (std::int64_t i = 0; i < k; ++i)
      vector[size(i)] = double{E2M1::decode(code_at(in.b, start + i))} *
                        E4M3::decode(in.b_scales[size((start + i) / gemv_block)]);
    for (std::int64_t row = l * m; row < (l + 1) * m; ++row) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t at = row * k + i;
        const double product = vector[size(i)] * E2M1::decode(code_at(in.a, at)) *
                               E4M3::decode(in.a_scales[size(at / gemv_block)]);
        sum += product;
        magnitude += std::abs(product);
      }
      truth.value.push_back(sum);
      truth.magnitude.push_back(magnitude);
    }
  }
  return truth;
}

GemvBuffers::GemvBuffers(cuda::Device& device, const GemvInput& in, bool tiled)
    : shape_(in.shape),
      tiled_(tiled),
      a_(device, in.a),
      b_(device, in.b),
      a_scales_(device, scales_of(in.a_scales, tiled, shape_.l, shape_.m, shape_.k)),
      b_scales_(device, scales_of(in.b_scales, tiled, shape_.l, gemv_vector_rows, shape_.k)),
      c_(device, 2 * shape_.l * shape_.m),
      sums_(device, std::vector<std::uint8_t>(size(4 * shape_.l * shape_.m))) {
  device.synchronize(nullptr);
}

GemvArgs GemvBuffers::args() const {
  return {a_.data(),
          b_.data(),
          a_scales_.data(),
          b_scales_.data(),
          reinterpret_cast<std::uint16_t*>(c_.data()),
          reinterpret_cast<float*>(sums_.data()),
          shape_.m,
          shape_.k,
          tiled_};
}

std::vector<double> GemvBuffers::result() const {
  const std::vector<std::uint8_t> bytes = c_.to_host();
  std::vector<double> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = f16_to_float(static_cast<std::uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
  return values;
}

std::vector<float> GemvBuffers::sums() const {
  const std::vector<std::uint8_t> bytes = sums_.to_host();
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

GemvErrors compare(const GemvLevel& level, const GemvInput& in, const GemvTruth& truth,
                   const std::vector<double>& got) {
  GemvErrors errors;
  // Of each product's magnitude. FP32: half a unit an addition, which add up like a random walk;
  // four times that. FP16: a unit of the last place a product, most of which cancel.
  const double root = std::sqrt(static_cast<double>(in.shape.k));
  const double share = level.kept == Kept::products ? 0x1p-22 * root : 0x1p-11;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = truth.value[i], off = truth.magnitude[i] * share;
    const double half = rounded_to_half(want);
    const bool near = std::abs(got[i] - want) <= 1e-3 + 1e-3 * std::abs(want);
    errors.unequal += got[i] != half;
    errors.beyond += got[i] != half && !near;
    errors.not_numbers += std::isnan(got[i]) || (std::isinf(got[i]) && !std::isinf(half));
    if (got[i] >= rounded_to_half(want - off) && got[i] <= rounded_to_half(want + off)) continue;
    if (errors.wrong++ == 0)
      errors.first = std::string(level.name) + ": output " + std::to_string(i) + " is " +
                     std::to_string(got[i]) + ", in FP64 it is " + std::to_string(want);
  }
  return errors;
}

GemvLauncher launcher_on(cuda::Device& device, const std::vector<std::uint8_t>& image) {
  const cuda::Module module = device.load_module(image);
  return [&device, module](const GemvLaunch& launch, const GemvArgs& args) {
    const cuda::Kernel kernel = device.find_kernel(module, launch.entry);
    if (!kernel) throw std::runtime_error(std::string("no kernel is called ") + launch.entry);
    device.launch({.kernel = kernel,
                   .grid = {launch.x, launch.y, launch.z},
                   .threads = launch.threads,
                   .shared_bytes = launch.shared_bytes,
                   .args = &args,
                   .args_bytes = sizeof args});
    device.synchronize(nullptr);
  };
}

std::vector<double> run_gemv(cuda::Device& device, const GemvLauncher& launch,
                             const GemvLevel& level, const GemvInput& input, bool tiled) {
  const GemvBuffers buffers(device, input, tiled);
  run_level(level, input.shape, [&](const GemvLaunch& each) { launch(each, buffers.args()); });
  return buffers.result();
}

}  // namespace levels
