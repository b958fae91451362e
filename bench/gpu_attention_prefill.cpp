#include "gpu_attention_prefill.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/attention/attention.hpp"
#include "device_bytes.hpp"
#include "formats/random.hpp"
#include "gpu_attention.hpp"
#include "gpu_timing.hpp"
#include "microscale/attention.hpp"
#include "microscale/error.hpp"
#include "ops/attention_check.hpp"

namespace microscale::cuda {
namespace {

using bench::Result;

/// q, k or v on the host: [batch, length, heads, d].
struct Side {
  const PrefillCase& c;
  std::int64_t heads;
  std::vector<std::uint8_t> codes, scales;

  Side(const PrefillCase& made_for, std::int64_t count, std::uint64_t seed)
      : c(made_for), heads(count) {
    const std::int64_t rows = c.batch * c.length * heads;
    codes.resize(static_cast<std::size_t>(rows * code_bytes()));
    scales.resize(static_cast<std::size_t>(rows * scale_bytes()));
    if (!c.format) {  // BF16 between -2 and 2
      for (std::size_t i = 0; i + 1 < codes.size(); i += 2) {
        const std::uint16_t bits = random16(seed, i / 2);
        const auto value =
            static_cast<std::uint16_t>((bits & 0x807Fu) | 0x3F00u | (bits & 0x0080u));
        codes[i] = static_cast<std::uint8_t>(value);
        codes[i + 1] = static_cast<std::uint8_t>(value >> 8);
      }
      return;
    }
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint8_t>(random16(seed, i));
    for (std::size_t i = 0; i < scales.size(); ++i) {  // around 1
      const std::uint16_t bits = random16(seed + 16, i);
      scales[i] =
          static_cast<std::uint8_t>(*c.format == Format::nvfp4 ? 0x20 + bits % 16 : 125 + bits % 3);
    }
  }
  std::int64_t code_bytes() const { return c.format ? c.d / 2 : c.d * 2; }
  std::int64_t scale_bytes() const { return c.format ? c.d / info(*c.format).block : 0; }

  /// Tokens [first, first + count) of the last batch and head; values as magnitudes if asked.
  Side last_head(std::int64_t first, std::int64_t count, bool magnitudes) const {
    Side part = *this;
    part.heads = 1;
    part.codes.clear(), part.scales.clear();
    for (std::int64_t t = first; t < first + count; ++t) {
      const std::int64_t row = ((c.batch - 1) * c.length + t) * heads + heads - 1;
      part.codes.insert(part.codes.end(), codes.begin() + row * code_bytes(),
                        codes.begin() + (row + 1) * code_bytes());
      part.scales.insert(part.scales.end(), scales.begin() + row * scale_bytes(),
                         scales.begin() + (row + 1) * scale_bytes());
    }
    for (std::size_t i = 0; magnitudes && i < part.codes.size(); ++i)
      if (c.format || i % 2 == 1) part.codes[i] &= c.format ? 0x77 : 0x7F;
    return part;
  }

  AttentionInput view(std::int64_t batch, std::int64_t tokens, const std::uint8_t* code_data,
                      const std::uint8_t* scale_data, const float* global) const {
    if (!c.format) return HeadsView{code_data, DType::bf16, batch, tokens, heads, c.d};
    BlockTensorView rows{
        .shape = {.rows = batch * tokens * heads, .cols = c.d, .format = *c.format},
        .codes = {code_data, codes.size()},
        .scales = {scale_data, scales.size()}};
    if (global) rows = on_device(rows), rows.global_scale = GlobalScale::on_device(global);
    return BlockHeadsView{rows, batch, tokens, heads};
  }
  AttentionInput on_host(std::int64_t tokens) const {
    return view(1, tokens, codes.data(), scales.data(), nullptr);
  }
};

class Measurement {
 public:
  Measurement(Device& device, const PrefillCase& c)
      : device_(device),
        case_(c),
        q_(c, c.q_heads, 1),
        k_(c, c.kv_heads, 2),
        v_(c, c.kv_heads, 3),
        global_(device, std::vector<std::uint8_t>{0, 0, 0x80, 0x3F}),  // 1.0f
        output_(device, c.batch * c.length * c.q_heads * c.d * 4) {
    for (const Side* side : {&q_, &k_, &v_}) {
      there_.emplace_back(device, side->codes);
      there_.emplace_back(device,
                          side->scales.empty() ? std::vector<std::uint8_t>(16) : side->scales);
    }
    device.synchronize(nullptr);
    workspace_.emplace_back(
        device, cuda::attention::workspace_bytes(device, check_attention(call(DType::bf16), true)));
  }

  double checked() const {
    attend(DType::f32, nullptr);
    device_.synchronize(nullptr);
    double worst = 0;
    for (const std::int64_t t : {std::int64_t{0}, std::min<std::int64_t>(c_last(), 127),
                                 std::min<std::int64_t>(c_last(), 128), c_last() / 2, c_last()})
      worst = std::max(worst, error(t));
    return worst;
  }

  void run(Result& row) {
    row.error = checked();
    row.seconds =
        median_seconds(device_, 4, [&](int, Stream stream) { attend(DType::bf16, stream); });
  }

 private:
  std::int64_t c_last() const { return case_.length - 1; }

  AttentionOptions call(DType type) const {
    const PrefillCase& c = case_;
    const auto side = [&](const Side& s, std::size_t i) {
      return s.view(c.batch, c.length, there_[2 * i].data(), there_[2 * i + 1].data(),
                    reinterpret_cast<const float*>(global_.data()));
    };
    AttentionOptions o{.q = side(q_, 0), .k = side(k_, 1), .v = side(v_, 2)};
    o.output = {output_.data(), type, c.batch, c.length, c.q_heads, c.d};
    o.causal = c.causal;
    o.window = c.window;
    if (c.fp8)
      o.numerics = {.accuracy = AttentionAccuracy::one_term, .probabilities = ProbabilityRule::fp8};
    return o;
  }
  void attend(DType type, Stream stream) const {
    const DeviceBytes& w = workspace_.front();
    cuda::attention::attend(device_, check_attention(call(type), true),
                            {w.data(), static_cast<std::size_t>(w.size())}, stream);
  }

  // Of token t of the last batch and head, against a host's. What is left are probabilities in
  // FP16 or FP8, small ones below the normal numbers, and the sums of the matrix units.
  double error(std::int64_t t) const {
    const PrefillCase& c = case_;
    std::vector<float> got(static_cast<std::size_t>(c.d));
    const std::int64_t row = ((c.batch - 1) * c.length + t) * c.q_heads + c.q_heads - 1;
    device_.copy_to_host(got.data(), output_.data() + row * c.d * 4, c.d * 4, nullptr);
    device_.synchronize(nullptr);
    const std::int64_t end = c.causal ? t + 1 : c.length;
    const std::int64_t begin = c.window > 0 ? std::max<std::int64_t>(0, t + 1 - c.window) : 0;
    const std::vector<float> want = on_host(t, begin, end, false),
                             weighted = on_host(t, begin, end, true),
                             mean = on_host(t, begin, end, true, 0.0f);
    const double relative = c.fp8 ? 0x1p-4 : 0x1p-9, least = c.fp8 ? 0x1p-14 : 0x1p-26;
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double sum = mean[i] * static_cast<double>(end - begin);
      const double ratio =
          std::fabs(got[i] - want[i]) / (relative * (weighted[i] + least * sum) + 1e-30);
      worst = std::isnan(ratio) ? ratio : std::max(worst, ratio);
    }
    return std::isnan(worst) ? 1e9 : worst;
  }
  std::vector<float> on_host(std::int64_t t, std::int64_t begin, std::int64_t end, bool magnitudes,
                             std::optional<float> scale = {}) const {
    const Side q = q_.last_head(t, 1, false), k = k_.last_head(begin, end - begin, false),
               v = v_.last_head(begin, end - begin, magnitudes);
    std::vector<float> output(static_cast<std::size_t>(case_.d));
    AttentionOptions o{.q = q.on_host(1), .k = k.on_host(end - begin), .v = v.on_host(end - begin)};
    o.output = {output.data(), DType::f32, 1, 1, 1, case_.d};
    o.scale = scale;
    microscale::attention(o, {.backend = attention_oracle});
    return output;
  }

  Device& device_;
  const PrefillCase& case_;
  const Side q_, k_, v_;
  const DeviceBytes global_, output_;
  std::vector<DeviceBytes> there_, workspace_;
};

}  // namespace

double PrefillCase::operations() const {
  const auto keys = static_cast<double>(window > 0 ? std::min(window, length) : length);
  return 4.0 * static_cast<double>(batch * q_heads * length * d) * keys * (causal ? 0.5 : 1.0);
}

double PrefillCase::bytes() const {
  const double row = format
                         ? static_cast<double>(d) / 2 + static_cast<double>(d / info(*format).block)
                         : static_cast<double>(2 * d);
  const auto rows = static_cast<double>(batch * length);
  return rows *
         (row * static_cast<double>(q_heads + 2 * kv_heads) + static_cast<double>(2 * d * q_heads));
}

std::vector<PrefillCase> gpu_prefill_cases(bool quick) {
  const std::int64_t k = quick ? 64 : 1024;
  const std::int64_t heads = quick ? 2 : 32;
  const auto named = [&](std::string name, std::optional<Format> format, std::int64_t length) {
    return PrefillCase{.name = std::move(name),
                       .format = format,
                       .length = length,
                       .q_heads = heads,
                       .kv_heads = heads};
  };
  std::vector<PrefillCase> cases;
  for (const auto& [name, format] :
       {std::pair<const char*, std::optional<Format>>{"nvfp4", Format::nvfp4},
        {"mxfp4", Format::mxfp4},
        {"bf16", std::nullopt}}) {
    cases.push_back(named(std::string("prefill ") + name + " 4k", format, 4 * k));
    cases.push_back(named(std::string("prefill ") + name + " 16k", format, 16 * k));
  }
  // 0.8 and 0.9 of what cuDNN makes of BF16; FP8: 1 and 1.15.
  cases[0].must_tflops = 0.8 * 486, cases[0].stretch_tflops = 0.9 * 486;
  cases[1].must_tflops = 0.8 * 643, cases[1].stretch_tflops = 0.9 * 643;
  for (const std::int64_t thousands : {4, 16}) {
    cases.push_back(named("prefill mxfp4 " + std::to_string(thousands) + "k, FP8", Format::mxfp4,
                          thousands * k));
    cases.back().fp8 = true;
    cases.back().must_tflops = thousands == 4 ? 486 : 643;
    cases.back().stretch_tflops = 1.15 * cases.back().must_tflops;
  }
  cases.push_back(named("prefill nvfp4 4k, all keys", Format::nvfp4, 4 * k));
  cases.back().causal = false;
  cases.push_back(named("prefill nvfp4 16k, 8 kv heads", Format::nvfp4, 16 * k));
  if (!quick) cases.back().kv_heads = 8;
  cases.push_back(named("prefill nvfp4 4 x 4k", Format::nvfp4, 4 * k));
  cases.back().batch = 4;
  cases.push_back(named("prefill nvfp4 16k, d 64", Format::nvfp4, 16 * k));
  cases.back().d = 64;
  cases.push_back(named("prefill nvfp4 4k, d 256", Format::nvfp4, 4 * k));
  cases.back().d = 256;
  return cases;
}

double prefill_error(Device& device, const PrefillCase& c) {
  return Measurement(device, c).checked();
}

void measure_prefill(Device& device, const std::vector<PrefillCase>& cases,
                     const std::string& filter, const MatmulLimits& limits,
                     const bench::Watcher& watcher) {
  bench::measure_each(cases, filter, watcher, [&](const PrefillCase& c) {
    Result row{.name = c.name, .bytes = c.bytes(), .operations = c.operations()};
    row.arithmetic = true;
    if (const double peak = c.fp8 ? limits.fp8 : limits.f16; peak > 0) {
      row.limit = c.fp8 ? "FP8" : "FP16";
      row.limit_seconds = row.operations / peak;
      row.must = c.must_tflops * 1e12 / peak;
      row.stretch = c.stretch_tflops * 1e12 / peak;
    }
    try {
      Measurement(device, c).run(row);
    } catch (const Error& error) {
      row.problem = error.what();
    }
    return row;
  });
}

}  // namespace microscale::cuda
