#!/usr/bin/env python3
"""Writes tests/golden: what other tools make of the blocks of inputs.py. README.md here has the file format.

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
ALL, WIDE, BF16, F32 = ("bf16", "f32", "f16"), ("bf16", "f32"), ("bf16",), ("f32",)


def hex_bytes(array):
    return np.asarray(array, np.uint8).tobytes().hex()


def hex_codes(codes, bits):
    return "".join(f"{c:x}" for c in codes) if bits == 4 else hex_bytes(codes)


def hex_float(value):
    return f"{int(inputs.f32_bits(value)):08x}"


def hex_elements(values, dtype):
    bits = inputs.f32_bits(values)
    if dtype == "f16":
        return "".join(f"{int(b):04x}" for b in values.astype(np.float16).view(np.uint16))
    return "".join(f"{b >> 16:04x}" if dtype == "bf16" else f"{b:08x}" for b in bits)


def header(fields):
    return ["# microscale golden vectors; made by scripts/golden/make_golden.py, do not edit"] + [
        f"{key} {value}" for key, value in fields.items()]


def input_lines(cases, magnitudes):
    lines = header({"seed": inputs.SEED})
    for number, ((name, dtype, values), magnitude) in enumerate(zip(cases, magnitudes)):
        elements = hex_elements(values, dtype)
        lines.append(f"case {number} {name} {dtype} {hex_float(magnitude)} {elements}")
    return lines


def select(cases, dtype, with_random):
    return [i for i, (name, its, _) in enumerate(cases)
            if its == dtype and (with_random or not name.startswith("random"))]


def mx_lines(cases, function, dtypes, with_random, fields):
    lines = header(fields)
    bits = 4 if fields["format"] == "mxfp4" else 8
    for dtype in dtypes:
        chosen = select(cases, dtype, with_random)
        scales, codes = function(np.stack([cases[i][2] for i in chosen]), dtype)
        lines += [f"{i} {hex_bytes(s)} {hex_codes(c, bits)}" for i, s, c in zip(chosen, scales, codes)]
    return lines


def nvfp4_lines(cases, magnitudes, function, dtypes, both, fields):
    """With the case's own magnitude, the other of the input file, or `both`."""
    lines = header(fields)
    narrow = {"bf16": inputs.to_bf16, "f16": inputs.to_f16, "f32": lambda v: v}
    for dtype in dtypes:
        for i in select(cases, dtype, True):
            name, _, values = cases[i]
            own = np.nan_to_num(np.abs(values), nan=0.0, posinf=np.inf).max()
            other = np.float32(own * 2) if dtype == "f16" else narrow[dtype](magnitudes[i])
            random = name.startswith("random")
            use = [own, other] if both and not random else [own if i % 3 == 0 else other]
            for amax in use:
                with np.errstate(all="ignore"):
                    number, scales, codes = function(values, dtype, np.float32(amax))
                lines.append(" ".join([str(i), hex_float(amax), hex_float(number), hex_bytes(scales),
                                       hex_codes(codes, 4)]))
    return lines


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def codec_lines():
    lines = header({"tool": "ml_dtypes", "version": tools.version("ml_dtypes")})
    bits = np.arange(65536, dtype=np.uint32)
    sources = {"bf16": inputs.from_bits(bits << 16),
               "f16": bits.astype(np.uint16).view(np.float16).astype(np.float32)}
    types = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
             "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}
    for name, kind in types.items():
        limit = float(ml_dtypes.finfo(kind).max)
        for source, values in sources.items():
            with np.errstate(all="ignore"):
                codes = np.clip(values[~np.isnan(values)], -limit, limit).astype(kind).view(np.uint8)
            lines.append(f"codec {name} {source} {fnv1a(codes.tobytes()):016x}")
    return lines


# (tool, format, rule, function, input types, with the random blocks)
MX = [
    ("torchao", "mxfp4", "floor", tools.torchao_mx("e2m1", "FLOOR"), WIDE, True),
    ("torchao", "mxfp4", "ceil", tools.torchao_mx("e2m1", "CEIL"), F32, False),
    ("torchao", "mxfp4", "even", tools.torchao_mx("e2m1", "EVEN"), F32, False),
    ("torchao", "mxfp4", "rceil", tools.torchao_mx("e2m1", "RCEIL"), WIDE, True),
    ("torchao", "mxfp8_e4m3", "floor", tools.torchao_mx("e4m3", "FLOOR"), WIDE, True),
    ("torchao", "mxfp8_e4m3", "ceil", tools.torchao_mx("e4m3", "CEIL"), F32, False),
    ("torchao", "mxfp8_e4m3", "even", tools.torchao_mx("e4m3", "EVEN"), F32, False),
    ("torchao", "mxfp8_e4m3", "rceil", tools.torchao_mx("e4m3", "RCEIL"), WIDE, True),
    ("torchao", "mxfp8_e5m2", "floor", tools.torchao_mx("e5m2", "FLOOR"), F32, False),
    ("torchao", "mxfp8_e5m2", "rceil", tools.torchao_mx("e5m2", "RCEIL"), F32, False),
    ("torchao", "mxfp6_e2m3", "floor", tools.torchao_mx("e2m3", "FLOOR"), F32, False),
    ("torchao", "mxfp6_e3m2", "floor", tools.torchao_mx("e3m2", "FLOOR"), F32, False),
    ("compressed-tensors", "mxfp4", "even_1bit", tools.compressed_tensors_mx("MXFP4A16"), ALL, True),
    ("compressed-tensors", "mxfp8_e4m3", "even_1bit", tools.compressed_tensors_mx("MXFP8A16"), ALL, True),
    ("modelopt", "mxfp4", "rceil", tools.modelopt_mxfp4, ALL, True),
    ("modelopt", "mxfp8_e4m3", "rceil", tools.modelopt_mxfp8, ALL, True),
    ("gguf", "mxfp4", "floor", tools.gguf_mxfp4, WIDE, True),
    ("llama.cpp", "mxfp4", "floor", formulas.per_block(formulas.llama_cpp_mxfp4), WIDE, False),
    ("transformer-engine", "mxfp8_e4m3", "rceil", formulas.te_mxfp8("e4m3"), F32, False),
    ("transformer-engine", "mxfp8_e5m2", "rceil", formulas.te_mxfp8("e5m2"), F32, False),
    ("flashinfer", "mxfp4", "rceil", formulas.per_block(formulas.flashinfer_mxfp4), BF16, False),
    ("flashinfer", "mxfp8_e4m3", "rceil", formulas.per_block(formulas.flashinfer_mxfp8), BF16, False),
    ("vllm", "mxfp4", "even", formulas.per_block(formulas.vllm_mxfp4), BF16, False),
    ("vllm", "mxfp8_e4m3", "amax_floor", formulas.vllm_mxfp8, BF16, False),
    ("microxcaling", "mxfp4", "floor", formulas.microxcaling("e2m1"), F32, False),
    ("microxcaling", "mxfp8_e4m3", "floor", formulas.microxcaling("e4m3"), F32, False),
    ("microxcaling", "mxfp8_e5m2", "floor", formulas.microxcaling("e5m2"), F32, False),
    ("microxcaling", "mxfp6_e2m3", "floor", formulas.microxcaling("e2m3"), F32, False),
    ("microxcaling", "mxfp6_e3m2", "floor", formulas.microxcaling("e3m2"), F32, False),
    ("microxcaling", "mxint8", "floor", formulas.microxcaling("int8"), F32, False),
]

# (tool, suffix, what the global number is, function, input types, with both magnitudes)
NVFP4 = [
    ("torchao", "", "decode", tools.torchao_nvfp4, WIDE, True),
    ("torchao", "_single_level", "none", tools.torchao_nvfp4_single_level, WIDE, False),
    ("compressed-tensors", "", "encode", tools.compressed_tensors_nvfp4, ALL, True),
    ("modelopt", "", "decode", tools.modelopt_nvfp4, ALL, True),
    ("llama.cpp", "", "none", formulas.llama_cpp_nvfp4, WIDE, False),
    ("transformer-engine", "", "encode", formulas.te_nvfp4, WIDE, False),
    ("flashinfer", "", "encode", formulas.flashinfer_nvfp4, WIDE, False),
    ("vllm", "", "encode", formulas.vllm_nvfp4, WIDE, False),
]

# tool: (profile it belongs to, packages whose output it is; none: a transcription)
TOOLS = {
    "torchao": ("torchao", ("torchao", "torch")),
    "compressed-tensors": ("compressed-tensors", ("compressed-tensors", "torch")),
    "modelopt": ("modelopt", ("nvidia-modelopt", "torch")),
    "gguf": ("llama.cpp", ("gguf", "numpy")),
    "llama.cpp": ("llama.cpp", ()),
    "transformer-engine": ("transformer-engine", ()),
    "flashinfer": ("flashinfer", ()),
    "vllm": ("vllm", ()),
    "microxcaling": ("microxcaling", ()),
}


def fields(tool, fmt, rule, **more):
    profile, packages = TOOLS[tool]
    version = tools.version(*packages) if packages else "formula read in the public source, 2026"
    return {"tool": profile, "version": version, "source": "tool" if packages else "transcription",
            "format": fmt, "rule": rule, **more}


def stem(tool, *rest):
    return "_".join([tool.replace("-", "_").replace(".", "_"), *rest])


def jobs(cases, magnitudes):
    """{file stem: function that makes its lines}"""
    out = {"inputs": lambda: input_lines(cases, magnitudes), "ml_dtypes_codecs": codec_lines}
    for tool, fmt, rule, function, dtypes, with_random in MX:
        name = stem(tool, fmt, rule) if tool == "torchao" else stem(tool, fmt)
        out[name] = lambda f=function, d=dtypes, r=with_random, h=(tool, fmt, rule): mx_lines(
            cases, f, d, r, fields(*h))
    for tool, suffix, convention, function, dtypes, both in NVFP4:
        head = {"tool": tool, "fmt": "nvfp4", "rule": "nearest", "convention": convention}
        out[stem(tool, "nvfp4") + suffix] = lambda f=function, d=dtypes, b=both, h=head: nvfp4_lines(
            cases, magnitudes, f, d, b, fields(**h))
    return out


def main(arguments):
    output = pathlib.Path(arguments[0]) if arguments else DEFAULT_OUTPUT
    only = set(arguments[1:])
    output.mkdir(parents=True, exist_ok=True)
    cases = inputs.cases()
    total = 0
    for name, make in jobs(cases, inputs.global_magnitudes(len(cases))).items():
        if only and name not in only:
            continue
        path = output / f"{name}.txt"
        path.write_text("\n".join(make()) + "\n", encoding="ascii")
        total += path.stat().st_size
        print(f"{path.name:42} {path.stat().st_size:8,d} bytes")
    print(f"{'total':42} {total:8,d} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
