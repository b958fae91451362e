#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "formats/half.hpp"
#include "formats/elements.hpp"
#include "layouts/container.hpp"
#include "microscale/quantize.hpp"

namespace levels {

using namespace microscale;

namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<float> halved(std::vector<float> values) {
  for (float& value : values) value = f16_to_float(float_to_f16(value));
  return values;
}

BlockTensor quantized(const std::vector<float>& rows, int d, ScaleRule rule) {
  const auto tokens = static_cast<std::int64_t>(rows.size()) / d;
  return quantize({.input = {rows.data(), DType::f32, tokens, d, d},
                   .format = Format::mxfp4,
                   .numerics = {.scale_rule = rule}},
                  {.backend = Backend::reference});
}

std::vector<float> decoded(const std::vector<float>& rows, int d, ScaleRule rule) {
  std::vector<float> values(rows.size());
  dequantize(quantized(rows, d, rule).view(),
             {values.data(), DType::f32, static_cast<std::int64_t>(rows.size()) / d, d, d},
             {.backend = Backend::reference});
  return values;
}

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// As levels 7 and 8 take them.
std::vector<std::uint8_t> codes_for(Operands operands, const BlockTensor& rows) {
  std::vector<std::uint8_t> codes(rows.codes().begin(), rows.codes().end());
  if (operands == Operands::packed) return codes;
  std::vector<std::uint8_t> containers;
  for (const std::uint8_t pair : codes) {
    containers.push_back(container::pack(pair));
    containers.push_back(container::pack(static_cast<std::uint8_t>(pair >> 4)));
  }
  return containers;
}

std::vector<float> floats_of(const cuda::DeviceBytes& memory) {
  const std::vector<std::uint8_t> bytes = memory.to_host();
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

AttentionInput attention_input(AttentionData data, const AttentionShape& shape, unsigned seed,
                               double scale) {
  AttentionInput input{shape, scale > 0 ? scale : 1 / std::sqrt(shape.d), {}, {}, {}};
  std::mt19937 generator(seed);
  const auto fill = [&](std::int64_t count, int steps, float step) {
    std::vector<float> values(size(count));
    for (float& value : values)
      value =
          data == AttentionData::exact
              ? static_cast<float>(static_cast<int>(generator() % (2 * steps + 1)) - steps) * step
              : static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f;
    return values;
  };
  input.q = fill(shape.query_elements(), 2, 1.0f);
  input.k = fill(shape.key_elements(), 2, 1.0f);
  input.v = fill(shape.key_elements(), 128, 0x1p-7f);
  if (data == AttentionData::uniform) return input;
  for (std::vector<float>* side : {&input.q, &input.k})
    for (std::size_t i = 0; i < side->size(); i += scale_block) {
      const int exponent = static_cast<int>(generator() % 4) - 2;
      for (std::size_t j = i; j < i + scale_block; ++j)
        (*side)[j] = std::ldexp((*side)[j], exponent);
    }
  return input;
}

AttentionInput as_computed(const AttentionInput& input, const AttentionLevel& level,
                           ScaleRule rule) {
  AttentionInput made = input;
  if (level.operands == Operands::f32_halved) made.q = halved(made.q), made.k = halved(made.k);
  made.q = decoded(made.q, input.shape.d, rule);
  made.k = decoded(made.k, input.shape.d, rule);
  if (level.half_values) made.v = halved(made.v);
  return made;
}

// What rounds: a matrix instruction cuts its 33 terms 25 bits below the largest and its sum to 24
// bits, d / 32 times; the exponent is multiplied, subtracted and raised to, 2 units of the last
// place each; then a multiplication, an addition and a factor for each eight keys.
AttentionTruth attention_truth(const AttentionInput& input) {
  const int d = input.shape.d, keys = input.shape.keys;
  constexpr double u = 0x1p-24;
  const double cut = d / scale_block * (33 * 0x1p-25 + 2 * u), sums = (1.5 * keys + 16) * u;
  AttentionTruth truth;
  truth.value.resize(input.q.size());
  truth.bound.resize(input.q.size());
  std::vector<double> s(size(keys));
  for (std::int64_t row = 0; row < std::int64_t{input.shape.heads} * tile_tokens; ++row) {
    const float* q = input.q.data() + row * d;
    const std::int64_t first = row / tile_tokens * keys * d;
    double most = -INFINITY, off = 0;
    for (int j = 0; j < keys; ++j) {
      const float* k = input.k.data() + first + std::int64_t{j} * d;
      double sum = 0, magnitude = 0;
      for (int i = 0; i < d; ++i) {
        const double product = static_cast<double>(q[i]) * k[i];
        sum += product, magnitude += std::fabs(product);
      }
      s[size(j)] = sum * input.scale;
      most = std::max(most, s[size(j)]);
      off = std::max(off, magnitude * input.scale * (cut + 8 * u));
    }
    double l = 0;
    for (double& x : s) x = std::exp(x - most), l += x;
    double *value = truth.value.data() + row * d, *bound = truth.bound.data() + row * d;
    for (int j = 0; j < keys; ++j) {
      const float* v = input.v.data() + first + std::int64_t{j} * d;
      const double p = s[size(j)] / l;
      for (int i = 0; i < d; ++i) value[i] += p * v[i], bound[i] += p * std::fabs(v[i]);
    }
    for (int i = 0; i < d; ++i) bound[i] *= 2 * off + sums;
  }
  return truth;
}

void AttentionKernels::launch(const std::string& entry, std::int64_t blocks, int threads,
                              int shared_bytes, const void* args, std::int64_t args_bytes) const {
  const cuda::Kernel kernel = device_.find_kernel(module_, entry.c_str());
  if (!kernel) throw std::runtime_error("no kernel is called " + entry);
  device_.launch({.kernel = kernel,
                  .grid = {static_cast<unsigned>(blocks), 1, 1},
                  .threads = threads,
                  .shared_bytes = shared_bytes,
                  .args = args,
                  .args_bytes = args_bytes});
  device_.synchronize(nullptr);
}

std::vector<float> AttentionKernels::run(const AttentionLevel& level, const AttentionInput& input,
                                         ScaleRule rule) const {
  const int d = input.shape.d;
  std::vector<std::uint8_t> q, k, v, q_scales(16), k_scales(16);
  if (level.operands == Operands::f32 || level.operands == Operands::f32_halved) {
    q = bytes_of(input.q), k = bytes_of(input.k), v = bytes_of(input.v);
  } else {
    const BlockTensor q_rows = quantized(input.q, d, rule), k_rows = quantized(input.k, d, rule);
    q = codes_for(level.operands, q_rows), k = codes_for(level.operands, k_rows);
    q_scales.assign(q_rows.scales().begin(), q_rows.scales().end());
    k_scales.assign(k_rows.scales().begin(), k_rows.scales().end());
    std::vector<std::uint16_t> halves;
    for (const float value : input.v) halves.push_back(float_to_f16(value));
    v = bytes_of(halves);
  }
  const cuda::DeviceBytes q_there(device_, q), k_there(device_, k), v_there(device_, v),
      q_scales_there(device_, q_scales), k_scales_there(device_, k_scales),
      o_there(device_, 4 * input.shape.query_elements());
  const AttentionArgs args{q_there.data(),
                           k_there.data(),
                           v_there.data(),
                           q_scales_there.data(),
                           k_scales_there.data(),
                           reinterpret_cast<float*>(o_there.data()),
                           input.shape.keys,
                           static_cast<float>(input.scale * 1.4426950408889634),
                           cuda::e8m0_rule<E2M1>(rule)};
  launch(entry_of(level, d), input.shape.heads, attention_threads, dynamic_bytes(level, d), &args,
         sizeof args);
  return floats_of(o_there);
}

std::vector<float> AttentionKernels::probe(const char* entry,
                                           const std::vector<std::uint32_t>& operands) const {
  const cuda::DeviceBytes there(device_, bytes_of(operands));
  const cuda::DeviceBytes d(device_, static_cast<std::int64_t>(operands.size() / 2 * 4));
  const ProbeArgs args{reinterpret_cast<const std::uint32_t*>(there.data()),
                       reinterpret_cast<float*>(d.data())};
  launch(entry, static_cast<std::int64_t>(operands.size()) / (32 * 8), 32, 0, &args, sizeof args);
  return floats_of(d);
}

double worst_of_bound(const std::vector<float>& got, const AttentionTruth& truth) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double share = std::fabs(got[i] - truth.value[i]) / truth.bound[i];
    if (!(share <= worst)) worst = share;  // NaN is the worst
  }
  return worst;
}

double mean_cosine(const std::vector<float>& got, const AttentionTruth& truth, int heads) {
  const std::size_t of_head = got.size() / size(heads);
  double sum = 0;
  for (std::size_t first = 0; first < got.size(); first += of_head) {
    double dot = 0, a = 0, b = 0;
    for (std::size_t i = first; i < first + of_head; ++i) {
      dot += got[i] * truth.value[i];
      a += static_cast<double>(got[i]) * got[i];
      b += truth.value[i] * truth.value[i];
    }
    sum += dot / std::sqrt(a * b);
  }
  return sum / heads;
}

}  // namespace levels
