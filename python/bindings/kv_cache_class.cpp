// The Python class KvCache, and rope_tables.
#include <fmt/format.h>

#include <algorithm>

#include "keywords.hpp"
#include "kv_cache.hpp"
#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

constexpr std::pair<const char*, KvFormat> format_words[] = {{"nvfp4", KvFormat::nvfp4},
                                                             {"mxfp4", KvFormat::mxfp4},
                                                             {"mxfp8", KvFormat::mxfp8},
                                                             {"fp8", KvFormat::fp8}};

KvFormat kv_format_from(std::string_view name) {
  for (const auto& [word, format] : format_words)
    if (name == word) return format;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("format: there is no '{}'; choose one of nvfp4, mxfp4, mxfp8, fp8", name));
}

std::string_view name_of(KvFormat format) {
  return std::ranges::find(format_words, format, &std::pair<const char*, KvFormat>::second)->first;
}

/// Checks the whole of it once, as each call will.
nb::object checked(KvCacheObject cache) {
  const Array lengths = array_of(cache);
  const Call call(lengths, {nb::none(), nb::none(), nb::none()});
  view_of(cache, call);
  const bool scaled = cache.format == KvFormat::nvfp4 || cache.format == KvFormat::fp8;
  if (scaled == cache.global_scales.is_none())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("global_scales: a cache of {} {}", name_of(cache.format),
                            scaled ? "has one of K and one of V; pass float32 (2,)"
                                   : "has none; leave them out"));
  return nb::cast(std::move(cache));
}

nb::object from_memory(nb::object memory, const std::string& format, std::int64_t kv_heads,
                       std::int64_t head_dim, std::int64_t page_size, nb::object lengths,
                       nb::object page_table, nb::object global_scales, nb::object first_k,
                       nb::object first_v, nb::object recent_k, nb::object recent_v,
                       nb::object k_mean, int hadamard) {
  return checked({.format = kv_format_from(format),
                  .kv_heads = kv_heads,
                  .d = head_dim,
                  .memory = memory,
                  .parts = {nb::none(), nb::none(), nb::none(), nb::none()},
                  .page_size = page_size,
                  .page_table = page_table,
                  .lengths = lengths,
                  .global_scales = global_scales,
                  .copies = {first_k, first_v, recent_k, recent_v},
                  .k_mean = k_mean,
                  .hadamard = hadamard});
}

nb::object from_parts(nb::object k_codes, nb::object k_scales, nb::object v_codes,
                      nb::object v_scales, const std::string& format, nb::object lengths,
                      nb::object page_table, nb::object global_scales, nb::object first_k,
                      nb::object first_v, nb::object recent_k, nb::object recent_v,
                      nb::object k_mean, int hadamard) {
  const KvFormat kind = kv_format_from(format);
  const Array codes = take(k_codes, "k_codes");
  if (codes.rank != 4)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("k_codes: the {} must have the axes (page, token, head, byte)",
                            describe(codes)));
  const bool two_a_byte = kind == KvFormat::nvfp4 || kind == KvFormat::mxfp4;
  return checked({.format = kind,
                  .kv_heads = codes.size(2),
                  .d = codes.size(3) * (two_a_byte ? 2 : 1),
                  .memory = nb::none(),
                  .parts = {k_codes, k_scales, v_codes, v_scales},
                  .page_size = codes.size(1),
                  .page_table = page_table,
                  .lengths = lengths,
                  .global_scales = global_scales,
                  .copies = {first_k, first_v, recent_k, recent_v},
                  .k_mean = k_mean,
                  .hadamard = hadamard});
}

Rope rope_from(nb::handle tables, bool interleaved, const Call& call) {
  if (tables.is_none()) return {};
  if (!nb::isinstance<nb::tuple>(tables) || nb::len(tables) != 2)
    throw nb::type_error("rope: expected a tuple (cos, sin), as rope_tables gives");
  const Array cos = take(tables[0], "rope cos"), sin = take(tables[1], "rope sin");
  for (const Array* array : {&cos, &sin}) {
    call.require_here(*array);
    if (array->rank != 2 || !std::ranges::equal(array->sizes(), cos.sizes()))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: the {} must be (positions, width / 2), as the other",
                              array->name, describe(*array)));
  }
  return {static_cast<const float*>(numbers_of(cos, float32_type)),
          static_cast<const float*>(numbers_of(sin, float32_type)), cos.size(0), 2 * cos.size(1),
          interleaved};
}

/// Tells torch's autograd, as Array's take() does for an argument that is written.
void note_write_of_all(const KvCacheObject& cache) {
  note_write(cache.memory);
  for (const nb::object& part : cache.parts) note_write(part);
  for (const nb::object& copy : cache.copies) note_write(copy);
}

void append(KvCacheObject& cache, nb::handle k, nb::handle v, nb::handle offsets, nb::handle rope,
            bool interleaved, bool advance, const NumericWords& numeric, const RunWords& run) {
  const Array keys = take(k, "k"), values = take(v, "v");
  Call call(keys, run);
  call.require_here(values);
  AppendKvOptions options;
  options.cache = view_of(cache, call);
  options.k = heads_of(keys);
  options.v = heads_of(values);
  options.offsets = integers_of(offsets, "offsets", call, options.cache.batch + 1);
  options.rope = rope_from(rope, interleaved, call);
  options.numerics = numerics_from(numeric, Format::nvfp4);
  // Added by the framework: in the order of its stream, and captured with it.
  const auto add = [&](int sign) {
    if (advance)
      nb::module_::import_("microscale._cache")
          .attr("advance")(cache.lengths, options.k.tokens, offsets, sign);
  };
  add(1);
  note_write_of_all(cache);
  try {
    call.run([&](const Context& context) { append_kv(options, context); });
  } catch (...) {
    add(-1);
    throw;
  }
}

KvScaleLayout scale_layout_from(std::string_view name) {
  if (name == "linear") return KvScaleLayout::linear;
  if (name == "trtllm") return KvScaleLayout::trtllm;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("layout: there is no '{}'; choose one of linear, trtllm", name));
}

nb::object rope_tables(double theta, std::int64_t positions, std::int64_t width, nb::handle like) {
  if (positions < 0 || width < 2 || width % 2 != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("positions, width: {} and {}; pass 0 or more positions, and an even "
                            "width from 2 on",
                            positions, width));
  Array host, cos, sin;
  host.framework = Framework::numpy;
  const std::int64_t shape[] = {positions, width / 2};
  const nb::object first = make_array(host, float32_type, shape, cos);
  const nb::object second = make_array(host, float32_type, shape, sin);
  const auto count = static_cast<std::size_t>(positions * (width / 2));
  fill_rope_tables(theta, positions, width, {static_cast<float*>(cos.data), count},
                   {static_cast<float*>(sin.data), count});
  if (like.is_none()) return nb::make_tuple(first, second);
  const nb::object put = nb::module_::import_("microscale._cache").attr("put_beside");
  return nb::make_tuple(put(first, like), put(second, like));
}

nb::object reduced(const KvCacheObject& cache) {
  nb::dict words;
  words["format"] = std::string(name_of(cache.format));
  if (!cache.memory.is_none()) {
    words["kv_heads"] = cache.kv_heads;
    words["head_dim"] = cache.d;
    words["page_size"] = cache.page_size;
  }
  words["lengths"] = cache.lengths;
  words["page_table"] = cache.page_table;
  words["global_scales"] = cache.global_scales;
  for (std::size_t i = 0; i < 4; ++i) words[copy_names[i]] = cache.copies[i];
  words["k_mean"] = cache.k_mean;
  words["hadamard"] = cache.hadamard;
  const nb::tuple parts =
      nb::make_tuple(cache.parts[0], cache.parts[1], cache.parts[2], cache.parts[3]);
  return nb::module_::import_("microscale._cache").attr("reduce")(cache.memory, parts, words);
}

std::string repr(const KvCacheObject& cache) {
  const Array lengths = array_of(cache);
  return fmt::format("KvCache(batch={}, kv_heads={}, head_dim={}, format='{}', page_size={})",
                     lengths.elements(), cache.kv_heads, cache.d, name_of(cache.format),
                     cache.page_size);
}

#define CACHE_ARGUMENTS                                                                          \
  nb::arg("lengths"), nb::arg("page_table") = nb::none(), nb::arg("global_scales") = nb::none(), \
                      nb::arg("first_k") = nb::none(), nb::arg("first_v") = nb::none(),          \
                      nb::arg("recent_k") = nb::none(), nb::arg("recent_v") = nb::none(),        \
                      nb::arg("k_mean") = nb::none(), nb::arg("hadamard") = 0
#define CACHE_SIGNATURE                                                                            \
  "lengths: Array, page_table: Array | None = None, global_scales: Array | None = None, first_k: " \
  "Array | None = None, first_v: Array | None = None, recent_k: Array | None = None, recent_v: "   \
  "Array | None = None, k_mean: Array | None = None, hadamard: int = 0"

template <std::size_t Part>
nb::object copy_of(const KvCacheObject& cache) {
  return cache.copies[Part];
}

}  // namespace

void bind_kv_cache(nb::module_& module) {
  nb::class_<KvCacheObject>(
      module, "KvCache", nb::is_weak_referenceable(),
      "A cache of keys and values in 4 or 8 bits; docs/attention.md has its formats and pages.\n\n"
      "Made by allocate, or of arrays that exist: from_parts, from_memory. The arrays are those of "
      "a\n"
      "framework and may be written: lengths (int32, the tokens of each sequence) and page_table.")
      .def_static(
          "allocate",
          [](nb::args args, nb::kwargs kwargs) {
            return nb::module_::import_("microscale._cache").attr("allocate")(*args, **kwargs);
          },
          nb::sig("def allocate(batch: int, kv_heads: int, head_dim: int, max_tokens: int, *, "
                  "format: str = 'nvfp4', page_size: int | None = None, pages: int | None = None, "
                  "first: int = 0, recent: int = 0, hadamard: int = 0, k_global_scale: float = "
                  "1.0, v_global_scale: float = 1.0, device: str = 'cpu', like: Array | None = "
                  "None) -> KvCache"),
          "An empty cache of `batch` sequences of up to max_tokens tokens, rounded up to whole "
          "pages\n"
          "(to a multiple of 16 without page_size).\n\n"
          "format: nvfp4, mxfp4, mxfp8 or fp8. page_size: 16, 32 or 64 makes it paged, with a "
          "page\n"
          "table that gives each sequence its own pages, in order; pages: in all, if more than "
          "that.\n"
          "first, recent: tokens whose BF16 copies attention reads instead. hadamard: 16 rotates "
          "K.\n"
          "k_global_scale, v_global_scale: of nvfp4 and fp8. like: an array whose framework and\n"
          "device the cache takes; else numpy, or DeviceArray on device='cuda:N'.")
      .def_static("from_memory", from_memory, nb::arg("memory"), nb::kw_only(), nb::arg("format"),
                  nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("page_size"), CACHE_ARGUMENTS,
                  nb::sig("def from_memory(memory: Array, *, format: str, kv_heads: int, head_dim: "
                          "int, page_size: int, " CACHE_SIGNATURE ") -> KvCache"),
                  "Of bytes that hold whole records, page by page and head by head.")
      .def_static(
          "from_parts", from_parts, nb::arg("k_codes"), nb::arg("k_scales").none(),
          nb::arg("v_codes"), nb::arg("v_scales").none(), nb::kw_only(), nb::arg("format"),
          CACHE_ARGUMENTS,
          nb::sig("def from_parts(k_codes: Array, k_scales: Array | None, v_codes: Array, "
                  "v_scales: Array | None, *, format: str, " CACHE_SIGNATURE ") -> KvCache"),
          "Of views (page, token, head, byte) of tensors that exist, at any strides but of\n"
          "the last axis: vLLM's and FlashInfer's pages, transposed where they are (page,\n"
          "head, token, byte). Without a page table sequence s has page s.")
      .def(
          "append",
          [](KvCacheObject& self, nb::handle k, nb::handle v, nb::handle offsets, nb::handle rope,
             bool interleaved, bool advance, nb::handle scale_rule, RUN_PARAMETERS) {
            append(self, k, v, offsets, rope, interleaved, advance,
                   {scale_rule, nb::none(), nb::none(), nb::none(), nb::none(), nb::none(), 0},
                   RUN_WORDS);
          },
          nb::arg("k").none(), nb::arg("v").none(), nb::kw_only(), nb::arg("offsets") = nb::none(),
          nb::arg("rope") = nb::none(), nb::arg("rope_interleaved") = false,
          nb::arg("advance") = true, nb::arg("scale_rule") = nb::none(), RUN_ARGUMENTS,
          nb::sig("def append(self, k: Array, v: Array, *, offsets: Array | None = None, rope: "
                  "tuple[Array, Array] | None = None, rope_interleaved: bool = False, advance: "
                  "bool = True, scale_rule: str | None = None, " RUN_SIGNATURE ") -> None"),
          "Quantizes new tokens into the cache: k, v (batch, tokens, kv_heads, head_dim), "
          "float32,\n"
          "bfloat16 or float16; with offsets (int32, batch + 1) all sequences' tokens in one row,\n"
          "(tokens, kv_heads, head_dim). rope: (cos, sin) of rope_tables, applied to k.\n"
          "First adds the new tokens to `lengths`, in place; with advance=False the caller has.")
      .def(
          "repack_v_scales",
          [](KvCacheObject& self, const std::string& from, const std::string& to) {
            const Array lengths = array_of(self);
            Call call(lengths, {nb::none(), nb::none(), nb::none()});
            const KvCache view = view_of(self, call);
            const KvScaleLayout before = scale_layout_from(from), after = scale_layout_from(to);
            note_write_of_all(self);
            call.run(
                [&](const Context& context) { repack_v_scales(view, before, after, context); });
          },
          nb::arg("from_layout"), nb::arg("to_layout"),
          "Rearranges V's scales of an NVFP4 cache on the CPU in place, 'linear' or 'trtllm'.")
      .def_prop_ro("format", [](const KvCacheObject& c) { return std::string(name_of(c.format)); })
      .def_ro("kv_heads", &KvCacheObject::kv_heads)
      .def_ro("head_dim", &KvCacheObject::d)
      .def_ro("page_size", &KvCacheObject::page_size)
      .def_ro("hadamard", &KvCacheObject::hadamard)
      .def_prop_ro("batch", [](const KvCacheObject& c) { return array_of(c).elements(); })
      .def_ro("memory", &KvCacheObject::memory, "The records' bytes; None of from_parts.",
              nb::for_getter(nb::sig("def memory(self) -> Array | None")))
      .def_ro("lengths", &KvCacheObject::lengths, "int32 (batch,): tokens of each sequence.",
              nb::for_getter(nb::sig("def lengths(self) -> Array")))
      .def_ro("page_table", &KvCacheObject::page_table,
              nb::for_getter(nb::sig("def page_table(self) -> Array | None")))
      .def_ro("global_scales", &KvCacheObject::global_scales, "float32 (2,): of K, of V.",
              nb::for_getter(nb::sig("def global_scales(self) -> Array | None")))
      .def_prop_ro("first_k", copy_of<0>, nb::sig("def first_k(self) -> Array | None"))
      .def_prop_ro("first_v", copy_of<1>, nb::sig("def first_v(self) -> Array | None"))
      .def_prop_ro("recent_k", copy_of<2>, nb::sig("def recent_k(self) -> Array | None"))
      .def_prop_ro("recent_v", copy_of<3>, nb::sig("def recent_v(self) -> Array | None"))
      .def("__reduce__", reduced, nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def("__repr__", repr);

  module.def(
      "kv_page_bytes",
      [](const std::string& format, std::int64_t kv_heads, std::int64_t head_dim,
         std::int64_t page_size) {
        if (kv_heads < 1 || head_dim < 1 || page_size < 1)
          throw Error(
              ErrorCode::invalid_argument,
              fmt::format("kv_heads, head_dim, page_size: {}, {}, {}; pass 1 or more of each",
                          kv_heads, head_dim, page_size));
        return KvPageShape{kv_format_from(format), kv_heads, head_dim, page_size}.page_bytes();
      },
      nb::arg("format"), nb::kw_only(), nb::arg("kv_heads"), nb::arg("head_dim"),
      nb::arg("page_size"), "Bytes of one page of records, for KvCache.from_memory.");
  module.def(
      "rope_tables", rope_tables, nb::arg("theta"), nb::arg("positions"), nb::arg("width"),
      nb::kw_only(), nb::arg("like") = nb::none(),
      nb::sig("def rope_tables(theta: float, positions: int, width: int, *, like: Array | "
              "None = None) -> tuple[Array, Array]"),
      "(cos, sin) of position * theta ** (-2 i / width), float32 (positions, width / 2): for\n"
      "KvCache.append. like: an array whose framework and device they take; else numpy.");
}

}  // namespace microscale::python
