"""Messages of the library in Python's words: it is C++, and its messages say how a C++ program mends a call.
Each such phrase has its twin here."""

from __future__ import annotations

import re

PHRASES = (
    ("pad the tensor or set padding to Padding::zero", "pad the array, or pass pad=True"),
    ("repair it or choose NonFinite::encode", "repair it, or leave refuse_non_finite out"),
    ("choose NonFinite::encode", "leave refuse_non_finite out"),
    (
        "quantize it with BlockAxis::cols and Layout::row_major",
        "quantize it with axis=-1 and layout='row_major'",
    ),
    ("quantize it with BlockAxis::cols", "quantize it with axis=-1"),
    ("blocks lie along the rows (BlockAxis::cols)", "blocks lie along the last axis (axis=-1)"),
    ("leave it at BlockAxis::cols", "leave it at -1"),
    ("axis is BlockAxis::rows", "axis is -2"),
    ("pack it together with up (PackOptions::up)", "pass pack_gated_weights(gate, up)"),
    (
        "pass GlobalScale::on_device(address), or per_expert(address, Memory::device)",
        "pass a float32 array of one element on the GPU, or one with an element for each expert",
    ),
    (
        "pass GlobalScale::per_expert(address, Memory::device)",
        "pass a float32 array on the GPU, an element for each expert",
    ),
    ("pass GlobalScale::on_device(address)", "pass a float32 array of one element on the GPU"),
    (" (Memory::device)", ""),
    (" (Memory::host)", ""),
    ("choose Backend::cuda, or copy it to the host", "leave backend out, or copy it to the host"),
    (
        "copy it to the device and set `memory` of its view to Memory::device",
        "pass an array that is on the GPU, or leave backend out",
    ),
    (
        "but its view says Memory::host; set `memory` of its view to Memory::device, or copy it to the host",
        "but its array says that it is the host's; copy it to the host",
    ),
    ("or set `memory` of its view to where it is", "so that all are on one device"),
    (" (microscale/cuda.hpp lists what it has)", ""),
    ("call quantize_into with buffers sized by BlockShape", "pass an array that is on the GPU"),
    ("make the matrix and call quantize_into", "make the array and call quantize"),
    ("take d dense and call quantize_into", "leave out_format out and call quantize"),
    ("call quantize_into for each axis with its own", "call quantize for each axis with its own"),
    ("call quantize_into per expert", "call quantize for each expert"),
    ("or take d dense", "or leave out_format out"),
    (": d has ", ": the result has "),
    (": d is ", ": out is "),
    ("give d memory of its own", "pass an out with memory of its own"),
    ("leave compat at none", "leave compat out"),
    ("leave numerics at its default", "leave scale_rule out"),
    ("leave the backend to `automatic`", "leave backend out"),
    (
        "link microscale::cuda (CMake: find_package(microscale COMPONENTS cuda))",
        "install a wheel that was built with it",
    ),
    (
        "link microscale::ptx (build the command line with -D MICROSCALE_KERNEL_TOOLS=ON)",
        "install a wheel that was built with it",
    ),
    ("or take kv_cache_of_records", "or take KvCache.allocate"),
    ("take kv_cache_of_records", "take KvCache.allocate"),
    ("kv_cache_of_records: ", "KvCache: "),
    ("KvPageShape: ", "KvCache: "),
    ("fill_rope_tables: ", "rope_tables: "),
    ("packed_weights_bytes: ", "pack_weights: "),
    ("epsilon is ", "eps is "),
    ("name one with -o", "pass one as target"),
    ("(quantize --resume)", "(quantize_model with resume=True)"),
    (" (--device cuda)", ""),
    ("--input-scales FILE", "input_scales"),
    (" or --device cpu", ", or leave gpus out"),
)
"""What the library says, and what Python says for it. A longer phrase stands before one that it contains."""

_COMPOSED = (
    (
        ": d: NVFP4 wants its global scale beforehand; pass global_scale",
        ": NVFP4 wants the result's global scale beforehand; pass out_global_scale",
    ),
    (": d overlaps a", ": out overlaps a"),
)
"""Of two texts of the library."""

_NAMES = re.compile(
    r"\b(?:Backend|BlockAxis|Compat|DType|Format|GlobalScale|InfPolicy|KvFormat|Layout|Memory|NanPolicy|"
    r"NonFinite|PackOptions|Padding|Rounding|ScaleRule|ZeroCode|microscale)::(\w+)"
)


_OPTIONS = {
    "resume": "resume=True",
    "allow-nan": "allow_nan=True",
    "allow-incomplete": "allow_incomplete=True",
    "dry-run": "plan_quantize_model",
}
"""Of the command line: what is not a keyword of the same name."""

_OPTION = re.compile(r"(?<!\S)(\(?)--(?!local-dir\b)([a-z][a-z-]*[a-z])\b")
"""But for what `hf download` has."""


def _keyword(option: re.Match[str]) -> str:
    return option[1] + _OPTIONS.get(option[2], option[2].replace("-", "_"))


def in_python(message: str) -> str:
    for phrase, twin in (*_COMPOSED, *PHRASES):
        message = message.replace(phrase, twin)
    message = re.sub(r"--max-memory to at least (\d+)MiB", r"max_memory to at least \1 << 20", message)
    return _OPTION.sub(_keyword, _NAMES.sub(r"\1", message))
