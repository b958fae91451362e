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


def main():
    for target, seeds in {"safetensors": safetensors_seeds(), "shard_index": shard_index_seeds(),
                          "json": json_seeds()}.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in seeds.items():
            (folder / name).write_bytes(contents)


if __name__ == "__main__":
    main()
