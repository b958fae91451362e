// Which kernels multiply: which family multiplies; docs/matmul.md has the table that results.
// Which of a family's kernels, its plan_of says.
#include <fmt/format.h>

#include <optional>

#include "cuda/device/operands.hpp"
#include "cuda/matmul/matmul.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {
namespace {

/// Rows of a matrix from which on weights that are not packed are packed in the workspace first,
/// for one pass over them: with fewer it would take longer than it saves.
constexpr std::int64_t least_rows_to_pack = 17;

struct ManyRows {
  std::variant<in_registers::Plan, expanded::Plan> plan;
  bool quantizes;  // d, in the product's own kernel
};

/// Hopper's kernels for many rows; none where rows are few, there are none for the formats, or
/// weights are not packed and have to be.
std::optional<ManyRows> choose_many_rows(const DeviceInfo& device, const Product& product) {
  if (product.rows_each() < in_registers::least_rows || !in_registers::takes(device, product))
    return {};
  std::optional<in_registers::Plan> decoded;
  for (const bool quantizes : {true, false}) {
    if (quantizes && !expanded::quantizes(product)) continue;
    if (!expanded::may_serve(product, quantizes)) continue;
    if (!decoded) decoded = in_registers::plan_of(device, product);
    // In products so long, decoding and products do not overlap at all, as measured.
    if (6 * expanded::cycles_of(device, product) < 7 * decoded->cut.cycles)
      return ManyRows{expanded::plan_of(device, product, quantizes), quantizes};
  }
  if (!product.b.packed && !in_registers::takes_unpacked(product)) return {};
  if (!decoded) decoded = in_registers::plan_of(device, product);
  return ManyRows{*decoded, false};
}

/// The same product with weights packed in the workspace, which something writes before.
Product with_packed_weights(const Product& product) {
  Product packed = product;
  packed.b = {.format = product.b.format, .packed = true};
  packed.up = {};
  packed.constant_weights = false;
  return packed;
}

std::int64_t packed_bytes_of(const Product& product) {
  const FormatInfo& format = info(product.weights());
  return product.rows.matrices * fragment_tiles::matrix_bytes(product.n, product.k, product.gated(),
                                                              format.code_bits, format.block);
}

/// A quantized d is made in FP32 first, unless the product's kernel quantizes.
std::int64_t sums_bytes_of(const Product& product) {
  return product.quantized ? padded(product.all_rows() * product.n * 4) : 0;
}

bool is_blackwell(const DeviceInfo& device) { return device.major == 10 || device.major == 12; }

bool takes_block_scaled(const DeviceInfo& device, const Product& product) {
  return device.major == 12 && product.a.format && !product.b.packed &&
         product.rows_each() >= block_scaled::least_rows &&
         block_scaled::takes_formats(*product.a.format, product.weights());
}

}  // namespace

Plan choose(const DeviceFacts& facts, const Product& product) {
  Plan plan;
  if (product.empty()) return plan;
  const DeviceInfo& device = facts.info();
  plan.sums_bytes = sums_bytes_of(product);

  auto many = choose_many_rows(device, product);
  if (!many && !product.b.packed &&
      product.rows.m >= least_rows_to_pack * (product.grouped ? product.rows.matrices : 1)) {
    many = choose_many_rows(device, with_packed_weights(product));
    if (many) plan.packed_bytes = padded(packed_bytes_of(product));
  }
  if (many) {
    if (many->quantizes) plan.sums_bytes = 0;
    std::visit(
        [&](const auto& family) {
          plan.family = family;
          plan.family_bytes = family.workspace_bytes;
        },
        many->plan);
    return plan;
  }

  if (is_blackwell(device) && vector::takes(product)) {
    // As much workspace as where codes lie otherwise, so that it is a function of the shape.
    const fallback::Plan other = fallback::plan_of(product);
    plan.family_bytes = other.workspace_bytes;
    plan.family = other;
    if (vector::takes_alignment(product)) plan.family = vector::plan_of(product);
    return plan;
  }
  if (device.major == 10 && tcgen05::takes(product)) {
    const tcgen05::Plan own = tcgen05::plan_of(device, product);
    plan.family_bytes = own.workspace_bytes;
    plan.family = own;
    return plan;
  }
  if (takes_block_scaled(device, product)) {
    plan.family = block_scaled::plan_of(product);
    return plan;
  }
  if (const auto streamed = few_rows::choose(facts, product)) {
    plan.family = *streamed;
    return plan;
  }
  const fallback::Plan other = fallback::plan_of(product);
  plan.family_bytes = other.workspace_bytes;
  plan.family = other;
  return plan;
}

std::string describe_kernels(const Plan& plan) {
  struct Family {
    std::string operator()(Plan::Nothing) const { return "nothing to do"; }
    std::string operator()(const few_rows::Plan& p) const { return few_rows::describe(p); }
    std::string operator()(const in_registers::Plan& p) const { return in_registers::describe(p); }
    std::string operator()(const expanded::Plan& p) const { return expanded::describe(p); }
    std::string operator()(const block_scaled::Plan& p) const { return block_scaled::describe(p); }
    std::string operator()(const tcgen05::Plan& p) const { return tcgen05::describe(p); }
    std::string operator()(const vector::Plan& p) const { return vector::describe(p); }
    std::string operator()(const fallback::Plan& p) const { return fallback::describe(p); }
  };
  std::string text = plan.packs() ? "packs, then " : "";
  text += std::visit(Family{}, plan.family);
  if (plan.quantizes_sums()) text += ", then quantizes";
  return text;
}

std::string describe(const Plan& plan) {
  return fmt::format("{}; workspace {} bytes", describe_kernels(plan), plan.workspace_bytes());
}

}  // namespace microscale::cuda
