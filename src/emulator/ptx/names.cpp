#include "emulator/ptx/names.hpp"

#include <array>
#include <utility>

namespace microscale::emulator::ptx {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  int bits;
};

constexpr std::array type_names = {
    TypeName{"b32", Type::b32, 32},     TypeName{"b64", Type::b64, 64},
    TypeName{"pred", Type::pred, 1},    TypeName{"b8", Type::b8, 8},
    TypeName{"b16", Type::b16, 16},     TypeName{"b128", Type::b128, 128},
    TypeName{"u8", Type::u8, 8},        TypeName{"u16", Type::u16, 16},
    TypeName{"u32", Type::u32, 32},     TypeName{"u64", Type::u64, 64},
    TypeName{"s8", Type::s8, 8},        TypeName{"s16", Type::s16, 16},
    TypeName{"s32", Type::s32, 32},     TypeName{"s64", Type::s64, 64},
    TypeName{"f16", Type::f16, 16},     TypeName{"f16x2", Type::f16x2, 32},
    TypeName{"bf16", Type::bf16, 16},   TypeName{"bf16x2", Type::bf16x2, 32},
    TypeName{"tf32", Type::tf32, 32},   TypeName{"f32", Type::f32, 32},
    TypeName{"f64", Type::f64, 64},     TypeName{"u16x2", Type::u16x2, 32},
    TypeName{"s16x2", Type::s16x2, 32},
};

using enum SpecialRegister;
constexpr std::pair<std::string_view, SpecialRegister> special_names[] = {
    {"%tid", tid},
    {"%ntid", ntid},
    {"%ctaid", ctaid},
    {"%nctaid", nctaid},
    {"%clusterid", clusterid},
    {"%nclusterid", nclusterid},
    {"%cluster_ctaid", cluster_ctaid},
    {"%cluster_nctaid", cluster_nctaid},
    {"%cluster_ctarank", cluster_ctarank},
    {"%cluster_nctarank", cluster_nctarank},
    {"%is_explicit_cluster", is_explicit_cluster},
    {"%laneid", laneid},
    {"%warpid", warpid},
    {"%nwarpid", nwarpid},
    {"%smid", smid},
    {"%nsmid", nsmid},
    {"%gridid", gridid},
    {"%lanemask_eq", lanemask_eq},
    {"%lanemask_le", lanemask_le},
    {"%lanemask_lt", lanemask_lt},
    {"%lanemask_ge", lanemask_ge},
    {"%lanemask_gt", lanemask_gt},
    {"%clock", clock},
    {"%clock64", clock64},
    {"%globaltimer", globaltimer},
    {"%dynamic_smem_size", dynamic_smem_size},
    {"%envreg1", envreg1},
    {"%envreg2", envreg2},
    {"%total_smem_size", total_smem_size},
    {"%aggr_smem_size", aggr_smem_size},
    {"%reserved_smem_offset_begin", reserved_smem_offset_begin},
    {"%reserved_smem_offset_end", reserved_smem_offset_end},
    {"%reserved_smem_offset_cap", reserved_smem_offset_cap},
    {"%reserved_smem_offset_0", reserved_smem_offset_0},
    {"%reserved_smem_offset_1", reserved_smem_offset_1},
    {"%clock_hi", clock_hi},
    {"%globaltimer_lo", globaltimer_lo},
    {"%globaltimer_hi", globaltimer_hi}};

}  // namespace

int bits_of(Type type) {
  for (const TypeName& each : type_names)
    if (each.type == type) return each.bits;
  return 0;
}

std::string_view name_of(Type type) {
  for (const TypeName& each : type_names)
    if (each.type == type) return each.name;
  return {};
}

std::optional<Type> type_of(std::string_view word) {
  for (const TypeName& each : type_names)
    if (each.name == word) return each.type;
  return std::nullopt;
}

std::optional<Space> space_of(std::string_view word) {
  if (word == "global") return Space::global;
  if (word == "const") return Space::constant;
  if (word == "shared") return Space::shared;
  if (word == "local") return Space::local;
  if (word == "param") return Space::param;
  return std::nullopt;
}

std::optional<SpecialName> special_of(std::string_view word) {
  for (const auto& [name, special] : special_names)
    if (name == word) return SpecialName{special, special <= cluster_nctaid};
  return std::nullopt;
}

std::string_view name_of(SpecialRegister special) {
  for (const auto& [name, each] : special_names)
    if (each == special) return name;
  return {};
}

}  // namespace microscale::emulator::ptx
