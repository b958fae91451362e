#include "emulator/ptx/targets_table.hpp"

#include <utility>

namespace microscale::emulator::ptx {
namespace {

constexpr std::pair<std::string_view, std::string_view> groups[] = {
    {"$int", "u16 u32 u64 s16 s32 s64"},
    {"$float", "f16 f16x2 bf16 bf16x2 f32 f64"},
    {"$bits", "b16 b32 b64"},
    {"$round", "rn rz rm rp"},
    {"$memory", "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"},
    {"$space",
     "global shared shared::cta shared::cluster local param param::entry param::func const"},
    {"$scope", "cta cluster gpu sys"},
    {"$order", "relaxed acquire release acq_rel"},
    {"$compare", "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"},
    {"$cache",
     "ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last "
     "L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B "
     "L2::128B L2::256B"},
    {"$reduce", "add min max inc dec and or xor"},
    {"$tensor",
     "1d 2d 3d 4d 5d tile tile::gather4 tile::scatter4 im2col im2col::w im2col::w::128 "
     "im2col_no_offs"},
    {"$small", "e4m3 e5m2 e3m2 e2m3 e2m1"},
    {"$kind",
     "kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 block_scale scale_vec::1X "
     "scale_vec::2X "
     "scale_vec::4X"},
};

constexpr Spelling spellings[] = {
    {"add", "$int $float $round ftz sat cc u16x2 s16x2 f32x2"},
    {"addc", "cc u32 s32 u64 s64"},
    {"sub", "$int $float $round ftz sat cc u16x2 s16x2 f32x2"},
    {"subc", "cc u32 s32 u64 s64"},
    {"mul", "$int $float $round ftz sat lo hi wide f32x2"},
    {"mul24", "lo hi u32 s32"},
    {"mad", "$int f32 f64 $round ftz sat lo hi wide cc"},
    {"madc", "lo hi cc u32 s32 u64 s64"},
    {"mad24", "lo hi sat u32 s32"},
    {"fma", "$float $round ftz sat relu oob f32x2"},
    {"div", "$int f32 f64 $round full approx ftz"},
    {"rem", "$int"},
    {"sad", "$int"},
    {"dp4a", "u32 s32"},
    {"dp2a", "lo hi u32 s32"},
    {"abs", "s16 s32 s64 $float ftz"},
    {"neg", "s16 s32 s64 $float ftz"},
    {"min", "$int $float u16x2 s16x2 relu ftz NaN xorsign abs"},
    {"max", "$int $float u16x2 s16x2 relu ftz NaN xorsign abs"},
    {"sqrt", "f32 f64 $round approx ftz"},
    {"rsqrt", "f32 f64 approx ftz"},
    {"rcp", "f32 f64 $round approx ftz"},
    {"ex2", "f32 f16 f16x2 bf16 bf16x2 approx ftz"},
    {"lg2", "f32 approx ftz"},
    {"sin", "f32 approx ftz"},
    {"cos", "f32 approx ftz"},
    {"tanh", "f32 f16 f16x2 bf16 bf16x2 approx"},
    {"copysign", "f32 f64"},
    {"testp", "f32 f64 finite infinite number notanumber normal subnormal"},
    {"popc", "b32 b64"},
    {"clz", "b32 b64"},
    {"brev", "b32 b64"},
    {"bfind", "shiftamt u32 u64 s32 s64"},
    {"bfe", "u32 u64 s32 s64"},
    {"bfi", "b32 b64"},
    {"bmsk", "clamp wrap b32"},
    {"szext", "clamp wrap u32 s32"},
    {"fns", "b32"},
    {"lop3", "b32 or and"},
    {"shf", "l r wrap clamp b32"},
    {"shl", "$bits"},
    {"shr", "$bits $int"},
    {"prmt", "b32 f4e b4e rc8 ecl ecr rc16"},
    {"and", "$bits pred"},
    {"or", "$bits pred"},
    {"xor", "$bits pred"},
    {"not", "$bits pred"},
    {"cnot", "$bits"},
    {"setp", "$compare $bits $int $float and or xor ftz"},
    {"set", "$compare $bits $int $float and or xor ftz"},
    {"selp", "$bits $int f32 f64"},
    {"slct", "$bits $int f32 f64 ftz"},
    {"mov", "$bits $int f32 f64 f16 bf16 f16x2 bf16x2 pred b128"},
    {"cvt",
     "$round rni rzi rmi rpi rna rs ftz sat satfinite relu u8 s8 $int $float tf32 e4m3x2 e5m2x2 "
     "e2m3x2 e3m2x2 e2m1x2 ue8m0x2 e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4 pack s4 u4 s2 u2 b32"},
    {"cvta", "to $space u32 u64"},
    {"isspacep", "$space"},
    {"ld", "$memory $space $scope relaxed acquire volatile weak mmio nc v2 v4 v8 unified $cache"},
    {"ldu", "$memory global v2 v4"},
    {"st",
     "$memory $space $scope relaxed release volatile weak mmio v2 v4 v8 async bulk $cache "
     "mbarrier::complete_tx::bytes"},
    {"prefetch", "global local L1 L2 tensormap const param L2::evict_last L2::evict_normal"},
    {"prefetchu", "L1"},
    {"discard", "global L2"},
    {"applypriority", "global L2::evict_normal"},
    {"createpolicy",
     "fractional range cvt L2 global L2::evict_last L2::evict_normal L2::evict_first "
     "L2::evict_unchanged b64"},
    {"mapa", "shared::cluster u32 u64"},
    {"getctarank", "shared::cluster u32 u64"},
    {"atom",
     "$order $scope global shared shared::cta shared::cluster $reduce exch cas noftz "
     "L2::cache_hint "
     "b16 b32 b64 b128 u32 u64 s32 s64 $float v2 v4 v8"},
    {"red",
     "$order $scope global shared shared::cta shared::cluster $reduce noftz L2::cache_hint async "
     "mbarrier::complete_tx::bytes b32 b64 u32 u64 s32 s64 $float v2 v4 v8"},
    {"multimem",
     "ld_reduce st red $order $scope weak global $reduce b32 b64 u32 u64 s32 s64 $float v2 v4 v8 "
     "acc::f32 acc::f16"},
    {"cp",
     "async ca cg global shared shared::cta shared::cluster L2::cache_hint L2::64B L2::128B "
     "L2::256B "
     "commit_group wait_group wait_all read mbarrier arrive noinc b64 bulk bulk_group "
     "mbarrier::complete_tx::bytes multicast::cluster prefetch L2 tensor $tensor cta_group::1 "
     "cta_group::2 reduce $reduce noftz b32 u32 s32 u64 s64 f16 bf16 f32 f64 cp_mask"},
    {"mbarrier",
     "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait parity pending_count "
     "noComplete shared shared::cta shared::cluster b64 $order $scope"},
    {"fence",
     "acq_rel sc acquire release $scope proxy async alias tensormap::generic async.global global "
     "shared::cta mbarrier_init async::generic sync_restrict::shared::cluster "
     "sync_restrict::shared::cta"},
    {"membar", "cta gl sys proxy alias async"},
    {"tensormap",
     "replace tile global_address rank box_dim global_dim global_stride element_stride elemtype "
     "interleave_layout swizzle_mode swizzle_atomicity fill_mode global shared::cta b1024 b32 b64 "
     "cp_fenceproxy tensormap::generic release $scope sync aligned"},
    {"griddepcontrol", "wait launch_dependents"},
    {"barrier",
     "sync arrive red cta cluster aligned popc and or pred u32 wait release acquire relaxed"},
    {"bar", "sync arrive red warp cta popc and or pred u32"},
    {"shfl", "sync up down bfly idx b32"},
    {"vote", "sync all any uni ballot pred b32"},
    {"match", "any all sync b32 b64"},
    {"activemask", "b32"},
    {"redux", "sync add min max and or xor u32 s32 b32 f32 abs NaN"},
    {"elect", "sync"},
    {"nanosleep", "u32"},
    {"setmaxnreg", "inc dec sync aligned u32"},
    {"ldmatrix",
     "sync aligned m8n8 m8n16 m16n16 x1 x2 x4 trans shared shared::cta b16 b8 b8x16 b6x16_p32 "
     "b4x16_p64"},
    {"stmatrix", "sync aligned m8n8 m16n8 x1 x2 x4 trans shared shared::cta b16 b8"},
    {"movmatrix", "sync aligned m8n8 trans b16"},
    {"mma",
     "sync aligned sp sp::ordered_metadata row col satfinite m8n8k4 m8n8k16 m8n8k32 m8n8k128 "
     "m16n8k4 "
     "m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256 f16 bf16 tf32 f32 f64 s32 s8 u8 s4 u4 "
     "b1 "
     "xor and popc $round $small $kind ue8m0 ue4m3"},
    {"wmma",
     "load store mma a b c d sync aligned row col satfinite m16n16k16 m8n32k16 m32n8k16 m16n16k8 "
     "m8n8k4 m8n8k32 m8n8k128 global shared shared::cta f16 bf16 tf32 f32 f64 s32 s8 u8 s4 u4 b1 "
     "xor and popc $round"},
    {"wgmma",
     "fence commit_group wait_group mma_async sp sync aligned m64* f16 bf16 tf32 f32 s32 s8 u8 b1 "
     "e4m3 e5m2 satfinite and popc"},
    {"tcgen05",
     "alloc dealloc relinquish_alloc_permit cp mma commit ld st wait::ld wait::st shift down "
     "fence::before_thread_sync fence::after_thread_sync cta_group::1 cta_group::2 sync aligned "
     "shared::cta shared::cluster b32 b64 warpx2::02_13 warpx2::01_23 warpx4 multicast::cluster "
     "mbarrier::arrive::one kind::f16 kind::tf32 kind::i8 $kind block16 block32 collector::* "
     "pack::16b "
     "unpack::16b x1 x2 x4 x8 x16 x32 x64 x128 32x32b 16x64b 16x128b 16x256b 16x32bx2 128x256b "
     "4x256b "
     "128x128b 64x128b 32x128b b8x16 b6x16_p32 b4x16_p64"},
    {"clusterlaunchcontrol",
     "try_cancel async shared::cta mbarrier::complete_tx::bytes multicast::cluster::all "
     "b128 query_cancel is_canceled get_first_ctaid get_first_ctaid::x "
     "get_first_ctaid::y get_first_ctaid::z pred b32 v4"},
    {"bra", "uni"},
    {"brx", "idx uni"},
    {"call", "uni"},
    {"ret", "uni"},
    {"exit", ""},
    {"trap", ""},
    {"brkpt", ""},
    {"pmevent", "mask"},
};

}  // namespace

std::span<const Spelling> target_spellings() { return spellings; }

std::string_view target_group(std::string_view name) {
  for (const auto& [group, words] : groups)
    if (group == name) return words;
  return {};
}

}  // namespace microscale::emulator::ptx
