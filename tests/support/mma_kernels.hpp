// PTX that runs matrix instructions on the cases of mma_cases.hpp and wgmma_cases.hpp: one entry
// per spelling. Each takes two pointers, cases and results, in one parameter; block i computes case
// i.
#pragma once

#include <fmt/format.h>

#include <string>

#include "support/wgmma_cases.hpp"

namespace microscale::testing {

inline std::string register_list(const std::string& prefix, int first, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}%{}{}", i ? ", " : "", prefix, first + i);
  return "{" + list + "}";
}

/// %in and %out point to this block's case and results, %lane is the thread's number times 4.
inline std::string head(const std::string& name, int registers_used, std::int64_t in_bytes,
                        std::int64_t out_bytes, int threads) {
  return fmt::format(
      ".visible .entry {}(.param .align 8 .b8 args[16])\n.reqntid {}, 1, 1\n{{\n"
      "  .reg .b32 %r<{}>;\n  .reg .b32 %t<8>;\n  .reg .b64 %in, %out, %x, %y, %da, %db;\n"
      "  .reg .pred %p;\n"
      "  ld.param.u64 %in, [args];\n  ld.param.u64 %out, [args+8];\n"
      "  cvta.to.global.u64 %in, %in;\n  cvta.to.global.u64 %out, %out;\n"
      "  mov.u32 %t0, %ctaid.x;\n  mov.u32 %t1, %tid.x;\n  mul.wide.u32 %x, %t0, {};\n"
      "  add.s64 %in, %in, %x;\n  mul.wide.u32 %x, %t0, {};\n  add.s64 %out, %out, %x;\n"
      "  mul.wide.u32 %x, %t1, 4;\n  add.s64 %y, %in, %x;\n  add.s64 %out, %out, %x;\n",
      name, threads, registers_used + 1, in_bytes, out_bytes);
}

/// Selectors of scales are 0.
inline std::string mma_kernel(const tensor::MmaShape& shape) {
  const int a = a_registers(shape), b = b_registers(shape), c = result_registers(shape, shape.c);
  const bool scaled = shape.scale != tensor::ScaleType::none;
  const int in = a + b + c + (scaled ? 2 : 0);
  std::string text = head(kernel_name(shape), in, 128 * in, 128 * c, 32);
  for (int i = 0; i < in; ++i) text += fmt::format("  ld.global.b32 %r{}, [%y+{}];\n", i, 128 * i);
  text +=
      fmt::format("  {} {}, {}, {}, {}", spelling(shape), register_list("r", a + b, c),
                  register_list("r", 0, a), register_list("r", a, b), register_list("r", a + b, c));
  if (scaled) text += fmt::format(", %r{}, {{0, 0}}, %r{}, {{0, 0}}", in - 2, in - 1);
  text += ";\n";
  for (int i = 0; i < c; ++i)
    text += fmt::format("  st.global.b32 [%out+{}], %r{};\n", 128 * i, a + b + i);
  return text + "  ret;\n}\n";
}

inline std::string wgmma_kernel(const WgmmaVariant& v) {
  const int d = v.shape.d_registers();
  const int a_bytes = 4 * wgmma_header_words, c_bytes = a_bytes + 4 * wgmma_a_words;
  std::string text = head(v.name, 4 + d, 4 * wgmma_case_words(v), 512 * d, 128);
  for (int i = 0; i < 4; ++i)
    text += fmt::format("  ld.global.b32 %r{}, [%y+{}];\n", i, a_bytes + 512 * i);
  for (int i = 0; i < d; ++i)
    text += fmt::format("  ld.global.b32 %r{}, [%y+{}];\n", 4 + i, c_bytes + 512 * i);
  // The image, a word per thread and step.
  text += "  mov.u32 %t2, image;\n  shl.b32 %t3, %t1, 2;\n  add.u32 %t3, %t3, %t2;\n";
  for (int at = 0; at < image_bytes; at += 512)
    text += fmt::format("  ld.global.b32 %t4, [%y+{}];\n  st.shared.b32 [%t3+{}], %t4;\n",
                        c_bytes + 512 * d + at, at);
  text += "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n";
  // Descriptors name addresses from the image on.
  text +=
      "  shr.u32 %t2, %t2, 4;\n  cvt.u64.u32 %x, %t2;\n"
      "  ld.global.u64 %da, [%in];\n  ld.global.u64 %db, [%in+8];\n"
      "  add.s64 %da, %da, %x;\n  add.s64 %db, %db, %x;\n"
      "  ld.global.u32 %t5, [%in+16];\n  setp.ne.u32 %p, %t5, 0;\n"
      "  wgmma.fence.sync.aligned;\n";
  const auto& shape = v.shape;
  const bool integer = shape.a == tensor::Operand::s8 || shape.a == tensor::Operand::u8;
  const bool half = shape.a == tensor::Operand::f16 || shape.a == tensor::Operand::bf16;
  std::string options = ", %p";
  if (!integer)
    options += fmt::format(", {}, {}", v.options.negate_a ? -1 : 1, v.options.negate_b ? -1 : 1);
  if (half && !v.a_in_registers) options += fmt::format(", {}", v.options.mn_major_a ? 1 : 0);
  if (half) options += fmt::format(", {}", v.options.mn_major_b ? 1 : 0);
  text += fmt::format("  wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {}, {}, %db{};\n", shape.n,
                      shape.k(), name_of(shape.d), name_of(shape.a), name_of(shape.b),
                      register_list("r", 4, d), v.a_in_registers ? register_list("r", 0, 4) : "%da",
                      options);
  text += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < d; ++i)
    text += fmt::format("  st.global.b32 [%out+{}], %r{};\n", 512 * i, 4 + i);
  return text + "  ret;\n}\n";
}

inline std::string hopper_module() {
  std::string text = fmt::format(
      ".version 8.7\n.target sm_90a\n.address_size 64\n"
      ".shared .align 1024 .b8 image[{}];\n",
      image_bytes);
  for (const tensor::MmaShape& shape : hopper_mma_shapes()) text += mma_kernel(shape);
  for (const WgmmaVariant& v : hopper_wgmma_variants()) text += wgmma_kernel(v);
  return text;
}

}  // namespace microscale::testing
