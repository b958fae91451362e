"""What microscale.vllm calls, overrides and reads of vLLM is there, by vLLM's sources alone: functions and methods with
the parameters that the plugin counts on, attributes, names. Then, with the installed vLLM, attention over a cache laid out as vLLM
lays out NVFP4, on the CPU, beside attention to the dense keys and values.

usage: check_vllm_contract.py [FOLDER]       the folder vllm of a wheel; default: that of the installed one
"""
import ast
import sys
from pathlib import Path

SCHEMES = "model_executor/layers/quantization/compressed_tensors/"
MIXTURE = "model_executor/layers/fused_moe/"
# File, function or Class.method, parameters that have to be among its own, in this order.
CALLS = [
    ("model_executor/layers/quantization/__init__.py", "register_quantization_config", ["quantization"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig._get_scheme_from_parts",
     ["self", "weight_quant", "input_quant", "output_quant", "format", "layer_name"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig.get_quant_method", ["self", "layer", "prefix"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig.get_scheme_dict", ["self", "layer", "layer_name"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig._add_fused_moe_to_target_scheme_map", ["self"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig._is_nvfp4_format", ["quant_args"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig._is_mxfp4", ["quant_args"]),
    (SCHEMES + "compressed_tensors.py", "CompressedTensorsConfig._is_mxfp8", ["quant_args"]),
    (SCHEMES + "schemes/compressed_tensors_scheme.py", "CompressedTensorsScheme.apply_weights", ["self", "layer", "x", "bias"]),
    (SCHEMES + "schemes/compressed_tensors_scheme.py", "CompressedTensorsScheme.process_weights_after_loading",
     ["self", "layer"]),
    (SCHEMES + "schemes/compressed_tensors_w4a4_nvfp4.py", "CompressedTensorsW4A4Fp4.create_weights",
     ["self", "layer", "output_partition_sizes", "input_size_per_partition", "params_dtype", "weight_loader"]),
    ("model_executor/parameter.py", "RowvLLMParameter.__init__", ["self", "input_dim"]),
    ("model_executor/parameter.py", "_ColumnvLLMParameter.__init__", ["self", "output_dim"]),
    ("model_executor/parameter.py", "BasevLLMParameter.__init__", ["self", "data", "weight_loader"]),
    (MIXTURE + "fused_moe_method_base.py", "FusedMoEMethodBase.create_weights",
     ["self", "layer", "num_experts", "hidden_size", "intermediate_size_per_partition", "params_dtype"]),
    (MIXTURE + "fused_moe_method_base.py", "FusedMoEMethodBase.apply",
     ["self", "layer", "x", "topk_weights", "topk_ids", "shared_experts", "shared_experts_input"]),
    (MIXTURE + "fused_moe_method_base.py", "FusedMoEMethodBase.get_fused_moe_quant_config", ["self", "layer"]),
    ("v1/attention/backends/registry.py", "register_backend", ["backend", "class_path"]),
    ("v1/attention/backend.py", "AttentionMetadataBuilder.__init__",
     ["self", "kv_cache_spec", "layer_names", "vllm_config", "device"]),
    ("v1/attention/backend.py", "AttentionMetadataBuilder.build",
     ["self", "common_prefix_len", "common_attn_metadata", "fast_build"]),
    ("v1/attention/backend.py", "AttentionImpl.__init__",
     ["self", "num_heads", "head_size", "scale", "num_kv_heads", "alibi_slopes", "sliding_window", "kv_cache_dtype",
      "logits_soft_cap", "attn_type", "kv_sharing_target_layer_name"]),
    ("v1/attention/backend.py", "AttentionImpl.forward",
     ["self", "layer", "query", "key", "value", "kv_cache", "attn_metadata", "output", "output_scale", "output_block_scale"]),
    ("v1/attention/backend.py", "AttentionBackend.supports_combination",
     ["cls", "head_size", "dtype", "kv_cache_dtype", "block_size", "use_mla", "has_sink", "use_sparse", "use_mm_prefix",
      "device_capability"]),
    ("v1/attention/backend.py", "AttentionBackend.customize_spec", ["cls", "spec"]),
    ("utils/torch_utils.py", "nvfp4_kv_cache_full_dim", ["head_size"]),
    ("utils/torch_utils.py", "get_dtype_size", ["dtype"]),
]
# File, class, names that have to be assigned, annotated or defined in it.
NAMES = [
    ("v1/attention/backend.py", "CommonAttentionMetadata",
     ["query_start_loc", "seq_lens", "num_actual_tokens", "max_query_len", "max_seq_len", "block_table_tensor", "causal"]),
    ("v1/attention/backend.py", "AttentionCGSupport", ["ALWAYS"]),
    ("v1/attention/backend.py", "AttentionBackend",
     ["forward_includes_kv_cache_update", "supported_kv_cache_dtypes", "get_supported_kernel_block_sizes"]),
    ("v1/attention/backends/registry.py", "AttentionBackendEnum", ["CUSTOM"]),
    ("v1/kv_cache_interface.py", "AttentionSpec", ["head_size", "num_kv_heads", "dtype"]),
    ("v1/kv_cache_interface.py", "KVQuantMode", ["NVFP4", "is_nvfp4"]),
    (MIXTURE + "activation.py", "MoEActivation", ["SILU", "GELU", "GELU_TANH"]),
    (MIXTURE + "routed_experts.py", "FusedMoeWeightScaleSupported", ["TENSOR", "GROUP"]),
    (MIXTURE + "config.py", "FusedMoEConfig", ["intermediate_size", "is_act_and_mul", "has_bias", "moe_parallel_config"]),
]
# File, words that have to stand in it: where the plugin reads attributes that a class sets in its __init__.
WORDS = [
    (MIXTURE + "routed_experts.py", ["self.activation", "self.ckpt_gate_proj_name", "self.ckpt_up_proj_name",
                                     "self.ckpt_down_proj_name", "self.local_num_experts", "self.apply_router_weight_on_input",
                                     "def expert_map", "self.layer_name"]),
    ("plugins/__init__.py", ["vllm.general_plugins"]),
    ("v1/attention/backends/flashinfer.py", ["num_head_slots=2 * spec.num_kv_heads", "state_content_bytes=hs_k"]),
]


def definitions(path):
    """Functions and methods by name, and what each class has."""
    functions, classes = {}, {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        if isinstance(node, ast.ClassDef):
            own = classes[node.name] = set()
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    functions[f"{node.name}.{child.name}"] = child
                    own.add(child.name)
                targets = getattr(child, "targets", [getattr(child, "target", None)])
                own.update(target.id for target in targets if isinstance(target, ast.Name))
    return functions, classes


def problems_of(root):
    for file, name, wanted in CALLS:
        functions, _ = definitions(root / file)
        if name not in functions:
            yield f"{file}: no {name}"
            continue
        arguments = functions[name].args
        own = [one.arg for one in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
        if [one for one in own if one in wanted] != wanted:
            yield f"{file}: {name} has parameters {own}, wanted {wanted} among them"
    for file, name, wanted in NAMES:
        _, classes = definitions(root / file)
        missing = [one for one in wanted if one not in classes.get(name, set())]
        if missing:
            yield f"{file}: {name} has no {', '.join(missing)}"
    for file, wanted in WORDS:
        text = (root / file).read_text()
        yield from (f"{file}: nothing says {word!r}" for word in wanted if word not in text)


def attention_over_pages():
    """Three requests, appended and read in vLLM's tensors of either order, on the CPU."""
    from types import SimpleNamespace

    import torch
    from microscale.vllm import _attention
    from vllm.utils.torch_utils import nvfp4_split_data_scale
    from vllm.v1.attention.backend import CommonAttentionMetadata

    torch.manual_seed(0)
    heads, kv_heads, size, page, pages = 8, 2, 64, 16, 12
    width = _attention.page_bytes_of_head(size)
    layer = SimpleNamespace(_k_scale=torch.tensor(1.0), _v_scale=torch.tensor(1.0))
    for by_head in (True, False):
        order = (pages, 2 * kv_heads, page, width) if by_head else (pages, page, 2 * kv_heads, width)
        cache = torch.zeros(order, dtype=torch.uint8)
        cache = cache if by_head else cache.transpose(1, 2)
        views = _attention.parts_of(cache, kv_heads)
        side = kv_heads * page * width
        dims = (kv_heads, page) if by_head else (page, kv_heads)
        for i in range(2):  # vLLM's own views of the same bytes
            theirs = nvfp4_split_data_scale(
                cache.as_strided((pages, *dims, width), (cache.stride(0), dims[1] * width, width, 1), i * side))
            for ours, other in zip(views[2 * i:2 * i + 2], theirs, strict=True):
                other = other.transpose(1, 2) if by_head else other
                assert ours.data_ptr() == other.data_ptr() and ours.stride() == other.stride(), "a view of a page"
        impl = _attention.Impl(heads, size, size**-0.5, kv_heads, kv_cache_dtype="nvfp4")
        builder = _attention.Builder(None, [], None, torch.device("cpu"))
        table = torch.tensor([[3, 7, 0], [1, 4, 5], [9, 2, 11]], dtype=torch.int32)
        known = [[], [], []]
        for lengths in ([20, 1, 33], [1, 1, 1], [3, 17, 1]):
            starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
            k, v = (torch.randn(sum(lengths), kv_heads, size).bfloat16() for _ in range(2))
            q = torch.randn(sum(lengths), heads, size).bfloat16()
            for i, every in enumerate(known):
                every.append((k[starts[i]:starts[i + 1]], v[starts[i]:starts[i + 1]]))
            totals = torch.tensor([sum(len(one) for one, _ in every) for every in known], dtype=torch.int32)
            common = CommonAttentionMetadata(
                query_start_loc=starts, query_start_loc_cpu=starts, seq_lens=totals, num_reqs=3,
                num_actual_tokens=sum(lengths), max_query_len=max(lengths), max_seq_len=int(totals.max()),
                block_table_tensor=table, slot_mapping=torch.zeros(sum(lengths), dtype=torch.int64))
            out = torch.empty_like(q)
            impl.forward(layer, q, k, v, cache, builder.build(0, common), out)
            for i, every in enumerate(known):
                keys, values = (torch.cat(parts).float() for parts in zip(*every, strict=True))
                keys, values = (one.repeat_interleave(heads // kv_heads, 1).transpose(0, 1) for one in (keys, values))
                mine = q[starts[i]:starts[i + 1]].float().transpose(0, 1)
                seen = torch.ones(mine.shape[1], keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - mine.shape[1])
                wanted = torch.nn.functional.scaled_dot_product_attention(mine, keys, values, attn_mask=seen)
                got = out[starts[i]:starts[i + 1]].float().transpose(0, 1)
                error = ((got - wanted).norm() / wanted.norm()).item()
                assert error < 0.15, f"attention over pages is off by {error}"  # four bits of keys and values
    print("  attention over vLLM's NVFP4 pages, both orders, three steps of three requests: within 0.15 of dense, on the CPU")


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if root is None:
        from importlib.util import find_spec
        root = Path(find_spec("vllm").origin).parent
    problems = list(problems_of(root))
    print(f"  {len(CALLS)} calls, {len(NAMES)} classes and {len(WORDS)} files of {root.name} looked at")
    print("\n".join(problems))
    if len(sys.argv) == 1 and not problems:
        attention_over_pages()
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
