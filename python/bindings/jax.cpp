// Handlers of XLA's foreign functions, for microscale.jax: compiled where jaxlib's headers are
// (MICROSCALE_XLA), else there are none. They run on XLA's threads, without Python.
#include "call.hpp"

#ifdef MICROSCALE_XLA
#include <xla/ffi/api/ffi.h>

#include <fmt/format.h>

#include "microscale/attention.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul_plan.hpp"
#include "microscale/quantize.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

namespace ffi = xla::ffi;

/// Where a handler runs: on the host, or on the GPU of XLA's stream.
struct Place {
  Memory memory = Memory::host;
  Context context;
  ffi::ScratchAllocator* scratch = nullptr;

  void give_workspace(std::int64_t bytes) {
    if (bytes == 0) return;
    // XLA promises 16 bytes of alignment and refuses to be asked for more.
    constexpr std::int64_t given = 16, wanted = 256;
    const std::optional<void*> memory_of_call =
        scratch->Allocate(static_cast<std::size_t>(bytes + wanted - given), given);
    if (!memory_of_call)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("workspace: XLA has no {} bytes of scratch memory", bytes));
    const auto begin = reinterpret_cast<std::uintptr_t>(*memory_of_call);
    const std::uintptr_t aligned = (begin + wanted - 1) / wanted * wanted;
    context.workspace = {reinterpret_cast<std::uint8_t*>(aligned), static_cast<std::size_t>(bytes)};
  }
};

DType dense_type_of(const ffi::AnyBuffer& buffer, const char* name) {
  switch (buffer.element_type()) {
    case ffi::DataType::F32:
      return DType::f32;
    case ffi::DataType::BF16:
      return DType::bf16;
    case ffi::DataType::F16:
      return DType::f16;
    default:
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: pass float32, bfloat16 or float16", name));
  }
}

std::int64_t last_of(const ffi::AnyBuffer& buffer) { return buffer.dimensions().back(); }

/// All lines along the last axis as one matrix.
MutableTensorView matrix_of(const ffi::AnyBuffer& buffer, const char* name, Memory memory) {
  const std::int64_t cols = last_of(buffer);
  const auto elements = static_cast<std::int64_t>(buffer.element_count());
  return {buffer.untyped_data(),
          dense_type_of(buffer, name),
          cols ? elements / cols : 0,
          cols,
          cols,
          memory};
}

std::span<std::uint8_t> bytes_of(const ffi::AnyBuffer& buffer) {
  return {static_cast<std::uint8_t*>(buffer.untyped_data()), buffer.size_bytes()};
}

GlobalScale scale_of(const ffi::AnyBuffer& buffer, Memory memory) {
  const auto* const number = static_cast<const float*>(buffer.untyped_data());
  return memory == Memory::device ? GlobalScale::on_device(number) : GlobalScale(*number);
}

BlockTensorView blocks_of(const ffi::AnyBuffer& codes, const ffi::AnyBuffer& scales,
                          ffi::RemainingArgs& rest, std::string_view format, Memory memory) {
  BlockTensorView view;
  view.shape.format = format_from(format);
  view.shape.cols = last_of(codes) * 8 / info(view.shape.format).code_bits;
  view.shape.rows =
      last_of(codes) ? static_cast<std::int64_t>(codes.element_count()) / last_of(codes) : 0;
  view.codes = bytes_of(codes);
  view.scales = bytes_of(scales);
  view.memory = memory;
  if (view.shape.format == Format::nvfp4)
    view.global_scale = scale_of(*rest.get<ffi::AnyBuffer>(0), memory);
  return view;
}

void run_quantize(Place& place, ffi::AnyBuffer x, ffi::RemainingArgs given,
                  ffi::Result<ffi::AnyBuffer> codes, ffi::Result<ffi::AnyBuffer> scales,
                  ffi::RemainingRets computed, std::string_view format, std::string_view rule) {
  QuantizeOptions options;
  options.input = matrix_of(x, "x", place.memory);
  options.format = format_from(format);
  if (!rule.empty()) {
    const std::optional<ScaleRule> known = parse_scale_rule(rule);
    if (!known)
      throw Error(ErrorCode::invalid_argument, fmt::format("scale_rule: there is no '{}'", rule));
    options.numerics.scale_rule = *known;
  }
  if (given.size() > 0)
    options.global_scale = scale_of(*given.get<ffi::AnyBuffer>(0), place.memory);
  float* const result =
      computed.size() > 0 ? static_cast<float*>((*computed.get<ffi::AnyBuffer>(0))->untyped_data())
                          : nullptr;
  if (place.memory == Memory::device) options.computed_global_scale = result;
  const GlobalScale scale =
      quantize_into(options, bytes_of(*codes), bytes_of(*scales), place.context);
  if (place.memory == Memory::host && result) *result = scale.value();
}

void run_dequantize(Place& place, ffi::AnyBuffer codes, ffi::AnyBuffer scales,
                    ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> out,
                    std::string_view format) {
  dequantize(blocks_of(codes, scales, rest, format, place.memory),
             matrix_of(*out, "out", place.memory), place.context);
}

void run_matmul(Place& place, ffi::AnyBuffer a, ffi::AnyBuffer codes, ffi::AnyBuffer scales,
                ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> out, std::string_view format) {
  const MatmulOptions options{.a = TensorView(matrix_of(a, "a", place.memory)),
                              .b = blocks_of(codes, scales, rest, format, place.memory),
                              .d = matrix_of(*out, "out", place.memory)};
  const MatmulPlan plan(options, place.context);
  place.give_workspace(plan.workspace_bytes());
  plan.run(options, place.context);
}

MutableHeadsView heads_of(const ffi::AnyBuffer& buffer, const char* name, Memory memory) {
  const auto sizes = buffer.dimensions();
  return packed(buffer.untyped_data(), dense_type_of(buffer, name), sizes[0], sizes[1], sizes[2],
                sizes[3], memory);
}

void run_attention(Place& place, ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v,
                   ffi::Result<ffi::AnyBuffer> out, float scale, bool causal, std::int64_t window,
                   float softcap) {
  AttentionOptions options;
  options.q = HeadsView(heads_of(q, "q", place.memory));
  options.k = HeadsView(heads_of(k, "k", place.memory));
  options.v = HeadsView(heads_of(v, "v", place.memory));
  options.output = heads_of(*out, "out", place.memory);
  options.scale = scale;
  options.causal = causal;
  options.window = window;
  options.softcap = softcap;
  place.give_workspace(attention_workspace_bytes(options, place.context));
  attention(options, place.context);
}

/// A handler of the host and one of CUDA, of a function of a Place and buffers.
template <auto Run, class... Arguments>
ffi::Error guarded(Place& place, Arguments&&... arguments) {
  try {
    Run(place, std::forward<Arguments>(arguments)...);
    return ffi::Error::Success();
  } catch (const Error& error) {
    const bool wrong = error.code() == ErrorCode::invalid_argument;
    return {wrong ? ffi::ErrorCode::kInvalidArgument : ffi::ErrorCode::kUnimplemented,
            error.what()};
  } catch (const std::exception& error) {
    return {ffi::ErrorCode::kInternal, error.what()};
  }
}
template <auto Run>
constexpr auto on_host = [](auto... arguments) {
  Place place;
  return guarded<Run>(place, arguments...);
};
template <auto Run>
constexpr auto on_device = [](void* stream, ffi::ScratchAllocator scratch, auto... arguments) {
  Place place{.memory = Memory::device, .context = {.stream = stream}, .scratch = &scratch};
  return guarded<Run>(place, arguments...);
};

nb::object capsule(XLA_FFI_Handler* handler) {
  return nb::steal(
      PyCapsule_New(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET", nullptr));
}

// On a GPU what needs scratch memory is not recorded into XLA's command buffers (CUDA graphs): it
// is given for one call and would be another's when the graph runs again.
constexpr std::initializer_list<ffi::Traits> recorded = {ffi::Traits::kCmdBufferCompatible};
constexpr std::initializer_list<ffi::Traits> not_recorded = {};

// A macro, because each handler is a function of its own.
#define MICROSCALE_HANDLERS(name, run, device_traits, arguments)                                   \
  {                                                                                                \
    XLA_FFI_DEFINE_HANDLER(host, on_host<run>, ffi::Ffi::Bind() arguments,                         \
                           {ffi::Traits::kCmdBufferCompatible});                                   \
    XLA_FFI_DEFINE_HANDLER(                                                                        \
        device, on_device<run>,                                                                    \
        ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::ScratchAllocator>() arguments, \
        device_traits);                                                                            \
    made[name] = nb::make_tuple(capsule(host), capsule(device));                                   \
  }

nb::object handlers() {
  nb::dict made;
  using Buffer = ffi::AnyBuffer;
  MICROSCALE_HANDLERS("quantize", run_quantize, recorded,
                      .Arg<Buffer>()
                          .RemainingArgs()
                          .Ret<Buffer>()
                          .Ret<Buffer>()
                          .RemainingRets()
                          .Attr<std::string_view>("format")
                          .Attr<std::string_view>("scale_rule"))
  MICROSCALE_HANDLERS(
      "dequantize", run_dequantize, recorded,
      .Arg<Buffer>().Arg<Buffer>().RemainingArgs().Ret<Buffer>().Attr<std::string_view>("format"))
  MICROSCALE_HANDLERS("matmul", run_matmul, not_recorded,
                      .Arg<Buffer>()
                          .Arg<Buffer>()
                          .Arg<Buffer>()
                          .RemainingArgs()
                          .Ret<Buffer>()
                          .Attr<std::string_view>("format"))
  MICROSCALE_HANDLERS("attention", run_attention, not_recorded,
                      .Arg<Buffer>()
                          .Arg<Buffer>()
                          .Arg<Buffer>()
                          .Ret<Buffer>()
                          .Attr<float>("scale")
                          .Attr<bool>("causal")
                          .Attr<std::int64_t>("window")
                          .Attr<float>("softcap"))
  return made;
}

}  // namespace
}  // namespace microscale::python

#else

namespace microscale::python {
namespace {
nb::object handlers() { return nb::dict(); }
}  // namespace
}  // namespace microscale::python

#endif

namespace microscale::python {

void bind_jax(nb::module_& module) {
  module.def(
      "jax_handlers", handlers, nb::sig("def jax_handlers() -> dict[str, tuple[Any, Any]]"),
      "Handlers of XLA's foreign functions, for the CPU and for CUDA; none where the wheel was\n"
      "built without jaxlib's headers.");
}

}  // namespace microscale::python
