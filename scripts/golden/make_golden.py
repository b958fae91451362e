#!/usr/bin/env python3
"""Writes tests/golden: what other tools make of the blocks of inputs.py. See README.md here for setup and format.

Usage: make_golden.py [OUTPUT_DIRECTORY [FILE_STEM ...]]
"""

import pathlib
import sys

import ml_dtypes
import numpy as np

import formulas
import inputs
import tools

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_OUTPUT = HERE.parent.parent / "tests" / "golden"


def hex_bytes(array):
    return np.asarray(array, np.uint8).tobytes().hex()


def hex_codes(codes, bits):
    return "".join(f"{c:x}" for c in codes) if bits == 4 else hex_bytes(codes)


def hex_float(value):
    return f"{int(inputs.f32_bits(value)):08x}"


def header(**fields):
    return ["# microscale golden vectors; made by scripts/golden/make_golden.py, do not edit"] + [
        f"{key} {value}" for key, value in fields.items()]


def input_lines(cases, magnitudes):
    """case <number> <name> <dtype> <other tensor magnitude> <32 elements>"""
    lines = header(seed=inputs.SEED)
    for number, ((name, dtype, values), magnitude) in enumerate(zip(cases, magnitudes)):
        bits = inputs.f32_bits(values)
        digits = "".join(f"{b >> 16:04x}" if dtype == "bf16" else f"{b:08x}" for b in bits)
        lines.append(f"case {number} {name} {dtype} {hex_float(magnitude)} {digits}")
    return lines


def select(cases, dtype, with_random):
    return [i for i, c in enumerate(cases) if c[1] == dtype and (with_random or not c[0].startswith("random"))]


def mx_lines(cases, function, bits, with_random=True, dtypes=("bf16", "f32"), **fields):
    """<number> <scale> <32 codes>"""
    lines = header(**fields)
    for dtype in dtypes:
        chosen = select(cases, dtype, with_random)
        scales, codes = function(np.stack([cases[i][2] for i in chosen]), dtype)
        lines += [f"{i} {hex_bytes(s)} {hex_codes(c, bits)}" for i, s, c in zip(chosen, scales, codes)]
    return lines


def nvfp4_lines(cases, magnitudes, function, with_random=True, single_level=False, **fields):
    """<number> <tensor magnitude> <global number> <2 scales> <32 codes>, with the case's own magnitude and the other."""
    lines = header(**fields)
    for dtype in ("bf16", "f32"):
        for i in select(cases, dtype, with_random):
            values = cases[i][2]
            own = np.nan_to_num(np.abs(values), nan=0.0, posinf=np.inf).max()
            other = inputs.to_bf16(magnitudes[i]) if dtype == "bf16" else magnitudes[i]
            random = cases[i][0].startswith("random")
            for amax in [other] if random or single_level else [own, other]:
                with np.errstate(all="ignore"):
                    number, scales, codes = function(values, dtype, np.float32(amax))
                lines.append(f"{i} {hex_float(amax)} {hex_float(number)} {hex_bytes(scales)} {hex_codes(codes, 4)}")
    return lines


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def codec_lines():
    """<type> <input type> <FNV-1a of the codes of all 65,536 16-bit inputs in order> <NaN inputs left out>"""
    lines = header(tool="ml_dtypes", version=tools.version("ml_dtypes"))
    bits = np.arange(65536, dtype=np.uint32)
    sources = {"bf16": inputs.from_bits(bits << 16), "f16": bits.astype(np.uint16).view(np.float16).astype(np.float32)}
    types = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
             "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}
    for name, kind in types.items():
        limit = float(ml_dtypes.finfo(kind).max)
        for source, values in sources.items():
            with np.errstate(all="ignore"):
                kept = values[~np.isnan(values)]
                codes = np.clip(kept, -limit, limit).astype(kind).view(np.uint8)
            lines.append(f"{name} {source} {fnv1a(codes.tobytes()):016x} {65536 - kept.size}")
    return lines


def files(cases, magnitudes):
    """Yields (stem, function that makes the lines)."""
    real = {"source": "tool"}
    formula = {"source": "transcription"}
    torchao = {"tool": "torchao", "version": tools.version("torchao", "torch"), **real}
    for element, fmt in (("e2m1", "mxfp4"), ("e4m3", "mxfp8_e4m3"), ("e5m2", "mxfp8_e5m2"), ("e2m3", "mxfp6_e2m3"),
                         ("e3m2", "mxfp6_e3m2")):
        modes = ("FLOOR", "CEIL", "EVEN", "RCEIL") if element in ("e2m1", "e4m3") else ("FLOOR", "RCEIL")
        for mode in modes if not element.startswith(("e2m3", "e3m2")) else ("FLOOR",):
            main = mode in ("FLOOR", "RCEIL") and element in ("e2m1", "e4m3")
            yield f"torchao_{fmt}_{mode.lower()}", lambda e=element, f=fmt, m=mode, r=main: mx_lines(
                cases, tools.torchao_mx(e, m), 4 if e == "e2m1" else 8, r, **torchao, format=f, rule=m.lower())
    yield "torchao_nvfp4", lambda: nvfp4_lines(cases, magnitudes, tools.torchao_nvfp4, **torchao, format="nvfp4",
                                               rule="nearest", convention="decode")
    yield "torchao_nvfp4_single_level", lambda: nvfp4_lines(
        cases, magnitudes, tools.torchao_nvfp4_single_level, False, True, **torchao, format="nvfp4", rule="nearest",
        convention="none")

    ct = {"tool": "compressed-tensors", "version": tools.version("compressed-tensors", "torch"), **real}
    yield "compressed_tensors_mxfp4", lambda: mx_lines(
        cases, tools.compressed_tensors_mx("MXFP4A16"), 4, **ct, format="mxfp4", rule="even_1bit")
    yield "compressed_tensors_mxfp8_e4m3", lambda: mx_lines(
        cases, tools.compressed_tensors_mx("MXFP8A16"), 8, **ct, format="mxfp8_e4m3", rule="even_1bit")
    yield "compressed_tensors_nvfp4", lambda: nvfp4_lines(
        cases, magnitudes, tools.compressed_tensors_nvfp4, **ct, format="nvfp4", rule="nearest", convention="encode")

    mo = {"tool": "modelopt", "version": tools.version("nvidia-modelopt", "torch"), **real}
    yield "modelopt_mxfp4", lambda: mx_lines(cases, tools.modelopt_mxfp4, 4, **mo, format="mxfp4", rule="rceil")
    yield "modelopt_mxfp8_e4m3", lambda: mx_lines(cases, tools.modelopt_mxfp8, 8, **mo, format="mxfp8_e4m3",
                                                  rule="rceil")
    yield "modelopt_nvfp4", lambda: nvfp4_lines(cases, magnitudes, tools.modelopt_nvfp4, **mo, format="nvfp4",
                                                rule="nearest", convention="decode")

    yield "llama_cpp_mxfp4_gguf", lambda: mx_lines(
        cases, tools.gguf_mxfp4, 4, tool="llama.cpp", version=tools.version("gguf", "numpy"), **real, format="mxfp4",
        rule="floor")
    llama = {"tool": "llama.cpp", "version": "ggml-quants.c, read 2026", **formula}
    yield "llama_cpp_mxfp4", lambda: mx_lines(cases, formulas.per_block(formulas.llama_cpp_mxfp4), 4, False, **llama,
                                              format="mxfp4", rule="floor")
    yield "llama_cpp_nvfp4", lambda: nvfp4_lines(cases, magnitudes, formulas.llama_cpp_nvfp4, True, True, **llama,
                                                 format="nvfp4", rule="nearest", convention="none")

    te = {"tool": "transformer-engine", "version": "read 2026", **formula}
    yield "transformer_engine_mxfp8_e4m3", lambda: mx_lines(cases, formulas.te_mxfp8("e4m3"), 8, False, **te,
                                                            format="mxfp8_e4m3", rule="rceil")
    yield "transformer_engine_mxfp8_e5m2", lambda: mx_lines(cases, formulas.te_mxfp8("e5m2"), 8, False, **te,
                                                            format="mxfp8_e5m2", rule="rceil")
    yield "transformer_engine_nvfp4", lambda: nvfp4_lines(cases, magnitudes, formulas.te_nvfp4, **te, format="nvfp4",
                                                          rule="nearest", convention="encode")

    fi = {"tool": "flashinfer", "version": "read 2026", **formula}
    yield "flashinfer_mxfp4", lambda: mx_lines(cases, formulas.per_block(formulas.flashinfer_mxfp4), 4, False, **fi,
                                               format="mxfp4", rule="rceil")
    yield "flashinfer_mxfp8_e4m3", lambda: mx_lines(cases, formulas.per_block(formulas.flashinfer_mxfp8), 8, False,
                                                    **fi, format="mxfp8_e4m3", rule="rceil")
    yield "flashinfer_nvfp4", lambda: nvfp4_lines(cases, magnitudes, formulas.flashinfer_nvfp4, **fi, format="nvfp4",
                                                  rule="nearest", convention="encode")

    vllm = {"tool": "vllm", "version": "read 2026", **formula}
    yield "vllm_mxfp4", lambda: mx_lines(cases, formulas.per_block(formulas.vllm_mxfp4), 4, False, **vllm,
                                         format="mxfp4", rule="even")
    yield "vllm_mxfp8_e4m3", lambda: mx_lines(cases, formulas.vllm_mxfp8, 8, False, **vllm, format="mxfp8_e4m3",
                                              rule="amax_floor")
    yield "vllm_nvfp4", lambda: nvfp4_lines(cases, magnitudes, formulas.vllm_nvfp4, **vllm, format="nvfp4",
                                            rule="nearest", convention="encode")

    mx = {"tool": "microxcaling", "version": "read 2026", **formula}
    for kind, fmt in (("e2m1", "mxfp4"), ("e4m3", "mxfp8_e4m3"), ("e5m2", "mxfp8_e5m2"), ("e2m3", "mxfp6_e2m3"),
                      ("e3m2", "mxfp6_e3m2"), ("int8", "mxint8")):
        yield f"microxcaling_{fmt}", lambda k=kind, f=fmt: mx_lines(
            cases, formulas.microxcaling(k), 4 if k == "e2m1" else 8, False, ("f32",), **mx, format=f, rule="floor")
    yield "ml_dtypes_codecs", codec_lines


def main(arguments):
    output = pathlib.Path(arguments[0]) if arguments else DEFAULT_OUTPUT
    only = set(arguments[1:])
    output.mkdir(parents=True, exist_ok=True)
    cases = inputs.cases()
    magnitudes = inputs.global_magnitudes(len(cases))
    jobs = [("inputs", lambda: input_lines(cases, magnitudes)), *files(cases, magnitudes)]
    total = 0
    for stem, make in jobs:
        if only and stem not in only:
            continue
        path = output / f"{stem}.txt"
        path.write_text("\n".join(make()) + "\n", encoding="ascii")
        total += path.stat().st_size
        print(f"{path.name:42} {path.stat().st_size:8,d} bytes")
    print(f"{'total':42} {total:8,d} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
