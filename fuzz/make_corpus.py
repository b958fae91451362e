#!/usr/bin/env python3
"""Writes the seed inputs of every fuzz target to fuzz/corpus/<target>/, the same files each time."""

import json
import pathlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"

TYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
         "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
         "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors(header, data_bytes):
    """The target takes the number of data bytes from the length field."""
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    return data_bytes.to_bytes(8, "little") + text.encode("utf-8", "surrogatepass")


def every_type():
    header, position = {"__metadata__": {"format": "pt"}}, 0
    for name, bits in TYPES.items():
        header[name.lower()] = tensor(name, [2, 4], position, position + bits)
        position += bits
    return safetensors(header, position)


def safetensors_seeds():
    one = tensor("U8", [4], 0, 4)
    return {
        "no_tensors": safetensors("{}", 0),
        "padded": safetensors(' \n{"a":' + json.dumps(one) + "}      ", 4),
        "metadata_only": safetensors({"__metadata__": {"format": "pt", "k": "\u00e9\n"}}, 0),
        "every_type": every_type(),
        "scalar_and_empty": safetensors({"s": tensor("F32", [], 0, 4), "e": tensor("F4", [3, 0], 4, 4)}, 4),
        "overlap": safetensors({"a": one, "b": tensor("U8", [4], 3, 7)}, 7),
        "hole": safetensors({"a": one, "b": tensor("U8", [4], 5, 9)}, 9),
        "too_short": safetensors({"a": one}, 3),
        "too_long": safetensors({"a": one}, 5),
        "misaligned": safetensors({"a": tensor("F4", [3], 0, 2)}, 2),
        "overflow": safetensors({"a": tensor("F32", [2**40, 2**40], 0, 0)}, 0),
        "above_2_48": safetensors({"a": tensor("U8", [2**48 + 1], 0, 2**48 + 1)}, 4),
        "negative": safetensors({"a": tensor("U8", [-1], 0, 1)}, 1),
        "exponent": safetensors('{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}', 1),
        "duplicate": safetensors('{"a":%s,"a":%s}' % (json.dumps(one), json.dumps(one)), 4),
        "unknown_key": safetensors({"a": {**one, "strides": [1]}}, 4),
        "unknown_dtype": safetensors({"a": tensor("F3", [1], 0, 1)}, 1),
        "nul_name": safetensors({"a\0": one}, 4),
        "surrogate_name": safetensors('{"\\ud800":1}', 0),
        "nested": safetensors('{"a":' + "[" * 70, 0),
    }


def shard_index_seeds():
    one = {"metadata": {"total_size": 8}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    named = lambda name: json.dumps({"weight_map": {"t": name}}).encode()
    return {
        "two_shards": json.dumps(one, indent=2).encode(),
        "no_metadata": named("model.safetensors"),
        "traversal": named("../x.safetensors"),
        "absolute": named("/etc/x.safetensors"),
        "backslash": named("a\\x.safetensors"),
        "other_format": named("x.bin"),
        "real_total": b'{"metadata":{"total_size":1.5e3},"weight_map":{"t":"m.safetensors"}}',
        "negative_total": b'{"metadata":{"total_size":-1},"weight_map":{"t":"m.safetensors"}}',
        "duplicate": b'{"weight_map":{"t":"a.safetensors","t":"b.safetensors"}}',
        "extra": b'{"x":[1,{"weight_map":2}],"weight_map":{"t":"m.safetensors"}}',
        "list": b"[]",
    }


def json_seeds():
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "rope_scaling": None,
              "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "n": -3, "text": "\u00e9\U0001f600\n"}
    return {
        "config": json.dumps(config, indent=2).encode(),
        "unescaped": json.dumps(config, ensure_ascii=False).encode(),
        "numbers": b"[0,-0,-1,18446744073709551615,18446744073709551616,1.5e-300,1e999]",
        "duplicate": b'{"o":{"a":1,"\\u0061":2}}',
        "trailing": b"{} x",
        "nul": b"{}\0{}",
        "byte_order_mark": b"\xef\xbb\xbf{}",
        "bad_utf8": b'["\xc0\xaf\xed\xa0\x80"]',
        "surrogates": b'["\\ud83d\\ude00","\\udc00"]',
        "infinity": b"[0.0, Infinity, NaN]",
        "nested": b"[" * 66 + b"]" * 66,
    }


def manifest_seeds():
    tensor = {"dtype": "BF16", "shape": [2, 3], "hash": "0123456789abcdef" * 2}
    whole = lambda files, **more: json.dumps({"manifest": 1, "hash": "xxh3_128", "files": files, **more}).encode()
    return {
        "two_files": whole({"a.safetensors": {"t": tensor}, "b.safetensors": {"u": tensor, "v": tensor}}),
        "no_tensor": whole({"a.safetensors": {}}),
        "scalar": whole({"a.safetensors": {"t": {**tensor, "shape": []}}}),
        "same_tensor_twice": whole({"a": {"t": tensor}, "b": {"t": tensor}}),
        "later_members": whole({}, note=[{"files": {"x": 1}}]),
        "other_version": b'{"manifest": 2}',
        "short_hash": whole({"a": {"t": {**tensor, "hash": "0"}}}),
        "nested_shape": whole({"a": {"t": {**tensor, "shape": [[1]]}}}),
        "many_dimensions": whole({"a": {"t": {**tensor, "shape": [1] * 70}}}),
        "list": b"[]",
    }


def quantization_config_seeds():
    nvfp4 = {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "symmetric": True}
    fp8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
    group = lambda weights, *targets: {"targets": list(targets), "weights": weights, "input_activations": None}
    ours = lambda **groups: {"quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head"],
                             "quantization_status": "compressed", "config_groups": groups}
    config = lambda inner: json.dumps({"model_type": "llama", "quantization_config": inner}).encode()
    modelopt = lambda **inner: json.dumps({"quantization": inner}).encode()
    return {
        "one_group": config(ours(group_0=group(nvfp4, "Linear"))),
        "mixed": config(ours(a=group(fp8, "re:.*self_attn.*"), b=group(nvfp4, "re:.*mlp.*", "Linear"))),
        "preset": config(ours(NVFP4A16=["Linear"], W8A8=["re:.*down_proj"])),
        "cache": config({**ours(), "kv_cache_scheme": {"num_bits": 8, "strategy": "attn_head", "dynamic": False}}),
        "bad_expression": config(ours(a=group(nvfp4, "re:(a", "re:(?i)b"))),
        "modelopt": config({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*.gate"]}),
        "modelopt_file": modelopt(quant_algo="NVFP4", kv_cache_quant_algo="FP8", group_size=16, exclude_modules=["a*"]),
        "modelopt_layers": modelopt(quant_algo="MIXED_PRECISION", quantized_layers={
            "model.layers.0.mlp.experts": {"quant_algo": "W4A8_MXFP4_FP8"}, "lm_head": {"quant_algo": "FP8"}}),
        "other_method": config({"quant_method": "gptq", "bits": 4}),
        "null": config(None),
    }


PTX_HEAD = ".version 9.0\n.target sm_120f\n.address_size 64\n"
PTX_REGISTERS = (".reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
                 ".reg .f32 %f<8>; .reg .f64 %e<8>; .reg .b128 %x<2>; .shared .align 128 .b8 smem[1024];\n")


def ptx_seeds():
    instructions = (CORPUS.parent.parent / "scripts/golden/ptx_instructions.txt").read_text().splitlines()[2:]
    entry = lambda body: f"{PTX_HEAD}.entry k(.param .u64 .ptr .align 1 p)\n{{\n{PTX_REGISTERS}{body}\n}}\n"
    module = PTX_HEAD + """.file 1 "a.cu"
.global .align 4 .b8 t[4] = {1, 2}; .const .f32 c[2] = {0f3F800000, -1.5}; .global .u8 m[][3] = {{1}, {2, 3}};
.extern .shared .align 16 .b8 dyn[];
.func (.param .b32 r) f(.param .b64 a, .param .b32 b) .noreturn { .shared .b8 s[8]; ret; }
.visible .entry k() .maxntid 256, 1, 1 .minnctapersm 2 .explicitcluster .reqnctapercluster 2 .pragma "x";
{ .reg .b32 %r<9>; .reg .pred p, q; .local .align 8 .b8 depot[24];
.loc 1 2 3, function_name L+4, inlined_at 1 4 5
T: .branchtargets A, B; brx.idx %r1, T; A: @!p bra B; { .param .b64 a; .param .b32 b; .param .b32 r;
call.uni (r), f, (a, b); .reg .b64 fn; mov.b64 fn, f; P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);
call (r), fn, (a, b), P; } { .reg .b32 %r<2>; mov.b32 %r1, ~-4; } B: setp.eq.s32 p|_, %r0, 0d3FF0000000000000, !q;
/* c */ mov.b64 _, t+2; ld.global.b32 %r8, [t+-2]; }
.section .debug_info { .b8 1 }
"""
    seeds = {f"instructions_{i // 33}": entry("\n".join(instructions[i:i + 33]))
             for i in range(0, len(instructions), 33)}
    seeds |= {
        "module": module, "truncated": module[:400], "braces": entry("{" * 300), "comment": PTX_HEAD + "/*",
        "registers": entry(".reg .b32 %z<1099511627776>;"), "array": PTX_HEAD + ".global .b8 x[4294967296][4294967296];",
        "string": PTX_HEAD + '.file 1 "a', "characters": PTX_HEAD + "\u00e9", "symbol": PTX_HEAD + ".global .u64 t = f;",
    }
    return {name: text.encode() for name, text in seeds.items()}


def file_kind_seeds():
    zip_of = lambda name: b"PK\3\4" + bytes(26) + name
    return {
        "git_lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 4\n",
        "html": b"\xef\xbb\xbf <!DOCTYPE html><html>", "xml": b"<?xml version='1.0'?><Error/>",
        "json": b'{"error":"Repository not found"}', "pytorch": zip_of(b"archive/data.pkl"),
        "npz": zip_of(b"a.npy"), "pickle": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "gguf": b"GGUF\3\0\0\0",
        "ggml": b"tjgg\1\0\0\0", "onnx": b"\x08\x07\x12\x07pytorch", "hdf5": b"\x89HDF\r\n\x1a\n",
        "numpy": b"\x93NUMPY\1", "msgpack": b"\x82\xa6params\x81", "tflite": b"\x1c\0\0\0TFL3",
        "gzip": b"\x1f\x8b\x08\0", "tar": b"x" * 257 + b"ustar\0\0", "zeros": bytes(64), "text": b"gated\n",
        "safetensors": (640).to_bytes(8, "little") + b"{}", "control": b"{\x1b[31m\n\x7f'",
    }


def gguf_seeds():
    u32, u64 = (lambda n: n.to_bytes(4, "little")), (lambda n: n.to_bytes(8, "little"))
    text = lambda t: u64(len(t)) + t
    value = lambda key, kind, contents: text(key) + u32(kind) + contents
    tensor = lambda name, kind, dims, offset: (text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) +
                                               u64(offset))
    array = lambda kind, count, contents: u32(kind) + u64(count) + contents

    def whole(values=(), tensors=(), data_bytes=0, version=3, counts=None):
        counts = counts or (len(tensors), len(values))
        return u32(data_bytes) + b"GGUF" + u32(version) + u64(counts[0]) + u64(counts[1]) + b"".join([*values, *tensors])

    sizes = {0: 1, 1: 1, 4: 1, 6: 1, 7: 1, 2: 2, 3: 2, 5: 4, 10: 8, 11: 8, 12: 8}
    kinds = [value(b"k%d" % kind, kind, bytes(size)) for kind, size in sizes.items()]
    words = array(8, 3, text(b"a") + text(b"") + text("\u0120the".encode()))
    nested = array(9, 2, array(4, 1, u32(7)) + array(9, 1, array(0, 0, b"")))
    deep = b"".join(array(9, 1, b"") for _ in range(8)) + array(0, 1, b"x")
    one = tensor(b"t", 2, [32, 2], 0)
    return {
        "empty": whole(), "version_2": whole(version=2), "version_1": whole(version=1),
        "big_endian": whole(version=3 << 24),
        "every_value": whole([*kinds, value(b"s", 8, text(b"llama")), value(b"w", 9, words), value(b"n", 9, nested)]),
        "deep": whole([value(b"d", 9, deep)]), "array_type": whole([value(b"a", 9, array(99, 1, b"x"))]),
        "long_array": whole([value(b"a", 9, array(10, 2**61, b""))]),
        "long_text": whole([value(b"s", 8, u64(2**64 - 1))]),
        "two_tensors": whole([], [one, tensor(b"u", 12, [256], 64)], 300),
        "alignment": whole([value(b"general.alignment", 4, u32(8))], [one], 64),
        "alignment_0": whole([value(b"general.alignment", 4, u32(0))], [one], 64),
        "overlap": whole([], [one, tensor(b"u", 0, [8], 32)], 200),
        "unaligned": whole([], [tensor(b"t", 0, [8], 4)], 100), "no_data": whole([], [one]),
        "same_name": whole([], [one, one], 100), "same_key": whole([kinds[0], kinds[0]]),
        "huge": whole([], [tensor(b"t", 0, [2**40, 2**40], 0)]), "odd_row": whole([], [tensor(b"t", 8, [33], 0)], 64),
        "removed_type": whole([], [tensor(b"t", 31, [32], 0)], 64), "rank_5": whole([], [tensor(b"t", 0, [1] * 5, 0)], 64),
        "counts": whole(counts=(2**63, 2**63)), "split": whole([value(b"split.count", 2, b"\3\0")]),
    }


def imatrix_seeds():
    i32 = lambda n: n.to_bytes(4, "little", signed=True)
    u32, u64 = (lambda n: n.to_bytes(4, "little")), (lambda n: n.to_bytes(8, "little"))
    numbers = lambda count: b"\0\0\x80?" * count
    weight = lambda name, count, given=None: (i32(len(name)) + name + i32(7) + i32(count) +
                                              numbers(count if given is None else given))
    query, up = b"blk.0.attn_q.weight", b"blk.3.ffn_up_exps.weight"

    def gguf(*tensors):
        header = b"GGUF" + u32(3) + u64(len(tensors)) + u64(0)
        data = b""
        for name, dims, kind, count in tensors:
            header += u64(len(name)) + name + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(len(data))
            data += numbers(count) + b"\0" * (-4 * count % 32)
        return header + b"\0" * (-len(header) % 32) + data

    return {
        "binary": i32(2) + weight(query, 32) + weight(up, 96) + i32(12), "one": i32(1) + weight(query, 1),
        "none": i32(0), "negative": i32(-1), "many": i32(2**31 - 1), "half": i32(2) + weight(query, 32, 16),
        "lost": i32(3) + weight(query, 32), "same_name": i32(2) + weight(query, 32) * 2,
        "no_numbers": i32(1) + weight(query, 0), "less_than_none": i32(1) + i32(len(query)) + query + i32(7) + i32(-32),
        "long_name": i32(1) + i32(2**31 - 1) + query, "no_name": i32(1) + weight(b"", 32),
        "huge": i32(1) + i32(len(query)) + query + i32(7) + i32(2**31 - 1),
        "gguf": gguf((query + b".in_sum2", [32, 1], 0, 32), (query + b".counts", [1, 1], 0, 1),
                     (up + b".in_sum2", [32, 3], 0, 96)),
        "gguf_f16": gguf((query + b".in_sum2", [32, 1], 1, 16)), "gguf_bare": gguf((b".in_sum2", [1], 0, 1)),
        "gguf_model": gguf((query, [32, 1], 0, 32)), "gguf_cut": gguf((query + b".in_sum2", [32, 1], 0, 32))[:-64],
    }


def main():
    for target, seeds in {"file_kind": file_kind_seeds(), "gguf": gguf_seeds(), "imatrix": imatrix_seeds(), "safetensors": safetensors_seeds(),
                          "shard_index": shard_index_seeds(), "json": json_seeds(), "ptx": ptx_seeds(), "manifest": manifest_seeds(),
                          "quantization_config": quantization_config_seeds()}.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in seeds.items():
            (folder / name).write_bytes(contents)


if __name__ == "__main__":
    main()
