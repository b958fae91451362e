#include "cuda/matmul/matmul.hpp"

#include <fmt/format.h>

#include <optional>

namespace microscale::cuda {
namespace {

using enum Format;

/// Products that differ in m alone.
struct Kind {
  std::optional<Format> a;  // none: dense, of `type`
  Format b;
  std::initializer_list<std::int64_t> rows;
  DType type = DType::bf16;
  bool packed = false, gated = false, fast = false;
  std::optional<Format> d{};
  std::int64_t matrices = 1, n = 8192, k = 8192;
  bool experts = false;
  bool hopper_only = false;  // elsewhere as the kinds beside it
};

const Kind kinds[] = {
    {.a = {}, .b = nvfp4, .rows = {1, 4, 8, 9, 16, 17, 64, 256, 8192}},
    {.a = {}, .b = nvfp4, .rows = {1, 4, 8, 9, 16, 17, 64, 256, 8192}, .packed = true},
    {.a = {}, .b = mxfp4, .rows = {1, 8192}, .packed = true, .hopper_only = true},
    {.a = {}, .b = mxfp8_e4m3, .rows = {1, 8, 64, 8192}, .packed = true, .hopper_only = true},
    {.a = {}, .b = nvfp4, .rows = {1, 64}, .type = DType::f16, .packed = true, .hopper_only = true},
    {.a = {}, .b = mxfp4, .rows = {4, 64}, .type = DType::f16, .packed = true, .hopper_only = true},
    {.a = nvfp4, .b = nvfp4, .rows = {1, 4, 9, 17, 64, 256, 1024, 8192}},
    {.a = nvfp4, .b = nvfp4, .rows = {4, 64}, .packed = true, .hopper_only = true},
    {.a = mxfp4, .b = mxfp4, .rows = {1, 16, 64, 8192}},
    {.a = mxfp4,
     .b = mxfp4,
     .rows = {256, 1024, 8192},
     .packed = true,
     .fast = true,
     .hopper_only = true},
    {.a = mxfp8_e4m3, .b = mxfp8_e4m3, .rows = {1, 64, 1024, 8192}},
    {.a = nvfp4, .b = nvfp4, .rows = {16, 512, 8192}, .d = nvfp4},
    {.a = nvfp4, .b = nvfp4, .rows = {1, 512}, .gated = true, .n = 4096},
    {.a = {}, .b = nvfp4, .rows = {1}, .matrices = 8, .n = 1024, .hopper_only = true},
    {.a = {},
     .b = mxfp4,
     .rows = {512, 65536},
     .packed = true,
     .matrices = 128,
     .n = 7168,
     .k = 2048,
     .experts = true,
     .hopper_only = true},
    {.a = nvfp4,
     .b = nvfp4,
     .rows = {512, 65536},
     .matrices = 128,
     .n = 7168,
     .k = 2048,
     .experts = true},
};

ProductOperand operand_of(std::optional<Format> format, DType type, std::int64_t k) {
  if (!format) return {.type = type, .stride = k * size_of(type)};
  return {.format = format, .stride = BlockShape{1, k, *format}.code_bytes_per_line()};
}

/// Without memory. `d`: where the product's is quantized.
Product product_of(const Kind& kind, std::int64_t m, const QuantizedOutput& d) {
  Product product;
  product.a = operand_of(kind.a, kind.type, kind.k);
  product.b = operand_of(kind.b, kind.type, kind.k);
  product.b.packed = kind.packed;
  if (kind.gated) product.up = product.b;
  product.n = kind.n;
  product.k = kind.k;
  product.grouped = kind.experts;
  product.rows = {m, kind.matrices, nullptr, 0};
  product.output.d_stride = kind.n;
  product.output.d_matrix = kind.experts ? 0 : m * kind.n;
  product.output.d_type = static_cast<std::int32_t>(kind.d ? DType::f32 : DType::bf16);
  product.output.gated = kind.gated;
  if (kind.d) product.quantized = &d;
  product.fast_accumulation = kind.fast;
  return product;
}

std::string name_of(const Kind& kind) {
  std::string name =
      fmt::format("{} x {}", kind.a ? info(*kind.a).name : to_string(kind.type), info(kind.b).name);
  if (kind.packed) name += " packed";
  if (kind.gated) name += " gated";
  if (kind.fast) name += " fast";
  if (kind.d) name += fmt::format(" to {}", info(*kind.d).name);
  if (kind.matrices > 1)
    name += fmt::format(", {}{}", kind.matrices, kind.experts ? " experts" : "");
  return name;
}

}  // namespace

std::vector<PlanRow> plan_rows(const DeviceInfo& gpu) {
  const DeviceFacts facts(gpu);
  const float global = 1;
  std::vector<PlanRow> rows;
  for (const Kind& kind : kinds) {
    if (kind.hopper_only && gpu.major != 9) continue;
    QuantizedOutput d;
    d.format = kind.d.value_or(nvfp4);
    d.numerics.scale_rule = ScaleRule::nearest;
    d.global_scale = GlobalScale::on_device(&global);
    std::string last;
    for (const std::int64_t m : kind.rows) {
      const Plan plan = choose(facts, product_of(kind, m, d));
      const std::string text = describe_kernels(plan);
      if (text == last)
        rows.back().last = m, rows.back().workspace_bytes = plan.workspace_bytes();
      else
        rows.push_back({name_of(kind), m, m, kind.n, kind.k, text, plan.workspace_bytes()});
      last = text;
    }
  }
  return rows;
}

std::string plan_table() {
  std::string text;
  for (const char* name : planned_gpus) {
    const DeviceInfo& gpu = described_gpu(name);
    text += fmt::format("{}{}, {} multiprocessors\n", text.empty() ? "h100 and " : "\n", name,
                        gpu.multiprocessors);
    for (const PlanRow& row : plan_rows(gpu)) {
      const std::string m = row.first == row.last ? fmt::format("{}", row.last)
                                                  : fmt::format("{}-{}", row.first, row.last);
      text += fmt::format("  {:<33} {:>9} x {} x {}  {}; {} bytes\n", row.product, m, row.n, row.k,
                          row.plan, row.workspace_bytes);
    }
  }
  return text;
}

}  // namespace microscale::cuda
