"""accelerate: the layers of a model that transformers has loaded, replaced by packed ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .._core import available_backends
from ..torch._experts import Experts
from ..torch._linear import Linear
from ..torch._mlp import GatedMlp, _activation_of
from ..torch._module import require_format
from ..torch._packing import block_of
from ..torch._quantize import quantize_, reason_to_leave
from ._attention import NAME, takes_attention
from ._decoder_layer import simplify_layers
from ._experts import ExpertReader, dense_experts, folder_of, quantized_experts
from ._fused import FusedLinear, reason_against
from ._trial import agree, some_input


@dataclass
class Accelerated:
    """What `accelerate` did."""

    packed: int = 0
    """Linear layers that are multiplied in their format, those inside fused products and MLPs among them."""
    experts: int = 0
    """Experts, three matrices each, that are multiplied in their format."""
    formats: dict[str, int] = field(default_factory=dict)
    fused: int = 0
    """Products that were two or three: q, k, v of one input; gate and up."""
    attention: bool = False
    """Whether attention goes through microscale where a microscale.transformers.Cache is given."""
    layers: int = 0
    """Decoder layers that are a few operators on a CPU."""
    left: dict[str, str] = field(default_factory=dict)
    """Layers that stay as they were, each with the reason."""
    unfused: dict[str, str] = field(default_factory=dict)
    """Attentions and MLPs whose packed layers stay apart, each with the reason."""
    not_simplified: dict[str, str] = field(default_factory=dict)
    """Decoder layers whose own code runs on a CPU, too, each with the reason."""
    notes: list[str] = field(default_factory=list)
    """What is slower here than it could be."""

    def __str__(self) -> str:
        formats = ", ".join(f"{count} {name}" for name, count in self.formats.items()) or "none"
        experts = f" and {self.experts} experts" if self.experts else ""
        lines = [f"{self.packed} linear layers{experts} packed ({formats}), {self.fused} products fused"]
        for title, names in (
            ("left", self.left),
            ("not fused", self.unfused),
            ("their own code on a CPU", self.not_simplified),
        ):
            for reason, count in Counter(names.values()).most_common():
                example = next(name for name in names if names[name] == reason)
                more = f" and {count - 1} more" if count > 1 else ""
                lines.append(f"{title}: {example}{more}: {reason}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def accelerate(
    model: nn.Module,
    format: str | None = None,
    *,
    head: str | None = None,
    fuse: bool = True,
    attention: bool = True,
) -> Accelerated:
    """Makes a model of transformers multiply by packed weights, in place: on a GPU or a CPU, with about 0.3
    of the memory of BF16.

    model: as from_pretrained returned it. Layers whose weights are NVFP4, MXFP4 or MXFP8 (a folder of
    `microscale quantize`, llm-compressor's and any other in compressed-tensors' format) keep their bytes,
    and the hook that would make them dense at the first forward pass is removed. Experts, which
    transformers does not keep packed, are read from the checkpoint again. Activations are not quantized.

    format: quantizes the dense linear layers (microscale.torch.quantize_ says which) and dense experts too;
    None leaves them.
    head: a format for the output layer, which is left otherwise: mxfp8 costs little accuracy, and a small
    model reads its head as long as the rest. It is untied from the embedding then.
    fuse: one product for q_proj, k_proj, v_proj, and one kernel for gate_proj and up_proj, where that gives
    the same. attention: sets the attention implementation "microscale", which uses a
    microscale.transformers.Cache where generate or a call is given one, and is "sdpa" elsewhere.

    Move the model to its device before or after. Raises TypeError if model is no torch.nn.Module, ValueError
    for a format without weights.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a model of transformers, got {type(model).__name__}")
    done = Accelerated()
    _replace_packed(model, done)
    _replace_experts(model, done)
    if format is not None:
        if fuse:
            for name, module in list(model.named_modules()):
                _fuse_projections(name, module, done, require_format(format, 32, "in_features"))
        _quantize_experts(model, format, done)
        done.left.update(quantize_(model, format))
    else:
        done.left.update(
            (name, "its weights are dense; format= quantizes them")
            for name, module in model.named_modules()
            if type(module) is nn.Linear and name not in done.left and module is not _head(model)
        )
    if head is not None:
        _replace_head(model, head, done)
    every = [module for module in model.modules() if isinstance(module, Linear)]
    mixtures = [module for module in model.modules() if isinstance(module, Experts)]
    done.experts = sum(module.num_experts for module in mixtures)
    done.formats = {}
    for module in [*every, *mixtures]:
        count = module.num_experts if isinstance(module, Experts) else len(getattr(module, "names", "1"))
        done.formats[module.format] = done.formats.get(module.format, 0) + count
    done.packed = sum(done.formats.values()) - done.experts
    if fuse:
        for name, module in list(model.named_modules()):
            _fuse_projections(name, module, done)
        _fuse_mlps(model, done)
    if attention:
        done.attention = takes_attention(model)
        if done.attention:
            model.set_attn_implementation(NAME)  # type: ignore[operator]
        if done.attention and fuse:
            done.layers, done.not_simplified = simplify_layers(model)
    done.notes += _notes(model, done)
    return done


def _notes(model: nn.Module, done: Accelerated) -> list[str]:
    backends = available_backends()
    if done.packed + done.experts == 0 or "avx512" in backends:
        return []
    if any(buffer.is_cuda for buffer in model.buffers()):
        return []
    return [f"without AVX-512, products by packed weights run by {backends[0]}, more slowly than they could"]


def _replace_head(model: Any, format: str, done: Accelerated) -> None:
    old = _head(model)
    name = next((name for name, module in model.named_modules() if module is old), "the head")
    if type(old) is not nn.Linear:
        done.left[name] = f"it is a {type(old).__name__}, not a torch.nn.Linear"
        return
    model.set_output_embeddings(Linear.from_linear(old, format))
    model.config.tie_word_embeddings = False


def _head(model: nn.Module) -> Any:
    find = getattr(model, "get_output_embeddings", None)
    return find() if find is not None else None


# Packed linear layers


def _replace_packed(model: nn.Module, done: Accelerated) -> None:
    made: dict[int, Linear] = {}
    for parent_name, parent in list(model.named_modules()):
        for child_name, child in list(parent._modules.items()):
            if child is None or not _has_codes(child):
                continue
            name = f"{parent_name}.{child_name}" if parent_name else child_name
            if id(child) not in made:
                reason = _reason_to_leave(child)
                if reason:
                    done.left[name] = reason
                    continue
                made[id(child)] = Linear.from_compressed_tensors(child)
            setattr(parent, child_name, made[id(child)])
    hook = getattr(model, "ct_decompress_hook", None)
    if hook is not None and not any(_has_codes(module) for module in model.modules()):
        hook.remove()
        del model.ct_decompress_hook


def _replace_experts(model: nn.Module, done: Accelerated) -> None:
    found = list(dense_experts(model))
    if not found:
        return
    folder = folder_of(model)
    reader = ExpertReader(folder) if folder is not None else None
    for parent_name, parent, child_name, child in found:
        name = f"{parent_name}.{child_name}" if parent_name else child_name
        if reader is None:
            made, reason = (
                None,
                "its checkpoint, where it is packed, is not on this disk",
            )
        else:
            made, reason = reader.read(name, child)
        if made is None:
            done.left[name] = reason
        else:
            setattr(parent, child_name, made)


def _quantize_experts(model: nn.Module, format: str, done: Accelerated) -> None:
    for parent_name, parent, child_name, child in list(dense_experts(model)):
        name = f"{parent_name}.{child_name}" if parent_name else child_name
        made, reason = quantized_experts(child, format)
        if made is None:
            done.left[name] = reason
        else:
            done.left.pop(name, None)
            setattr(parent, child_name, made)


def _has_codes(module: nn.Module) -> bool:
    """Whether compressed-tensors has packed it, in any of its formats."""
    weight = module._parameters.get("weight")
    return "weight_packed" in module._parameters or (
        "weight_scale" in module._parameters and weight is not None and weight.element_size() == 1
    )


def _reason_to_leave(module: nn.Module) -> str:
    codes = module._parameters.get("weight_packed")
    if codes is None:
        codes = module._parameters["weight"]
    scales = module._parameters.get("weight_scale")
    assert codes is not None
    if scales is None or codes.dim() != 2:
        return "it has no matrix of codes with scales"
    if codes.is_meta or scales.is_meta:
        return "its weights are on the meta device, without values"
    if getattr(module, "_hf_hook", None) is not None:
        return "accelerate moves it between devices; load the model on one device"
    four_bits = "weight_packed" in module._parameters
    k = codes.shape[1] * (2 if four_bits else 1)
    if four_bits and codes.dtype != torch.uint8:
        return f"its codes are {codes.dtype}, packed integers"
    if four_bits and "weight_global_scale" in module._parameters:
        right = (scales.dtype == torch.float8_e4m3fn, k // 16, 16)
    else:
        right = (scales.dtype == torch.uint8 or "e8m0" in str(scales.dtype), k // 32, 32)
    if not right[0] or tuple(scales.shape) != (codes.shape[0], right[1]) or k % right[2]:
        return (
            f"its scales are {scales.dtype} of shape {tuple(scales.shape)} for codes {codes.dtype} of shape "
            f"{tuple(codes.shape)}: neither NVFP4, MXFP4 nor MXFP8"
        )
    return ""


# One product for what has one input

_PROJECTIONS = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"))


def _fuse_projections(name: str, module: nn.Module, done: Accelerated, format: str = "") -> None:
    """Packed layers; or dense ones, quantized to `format`."""
    kind = nn.Linear if format else Linear
    for names in _PROJECTIONS:
        layers = {one: module._modules.get(one) for one in names}
        if not any(type(layer) is kind for layer in layers.values()) or None in layers.values():
            continue
        reason = reason_against(list(layers.values()))  # type: ignore[arg-type]
        if not reason and getattr(module, "is_cross_attention", False):
            reason = "keys and values have another input"
        if format and not reason:
            reasons = [reason_to_leave(layer, one, False, None) for one, layer in layers.items()]
            fits = layers[names[0]].in_features % block_of(format) == 0  # type: ignore[union-attr,operator]
            if any(reasons) or not fits:
                continue  # quantize_ says why
        if not reason and any(
            one._forward_hooks or one._forward_pre_hooks for one in layers.values() if one
        ):
            reason = "hooks are registered on them"
        if reason:
            if not format:
                done.unfused[name] = reason
            continue
        every: Any = layers
        whole = FusedLinear.from_dense(every, format) if format else FusedLinear.from_layers(every)
        for one, part in zip(names, whole.parts(), strict=True):
            setattr(module, one, part)
        module.add_module("_".join(one.removesuffix("_proj") for one in names) + "_proj", whole)
        done.fused += 1


def _fuse_mlps(model: nn.Module, done: Accelerated) -> None:
    for parent_name, parent in list(model.named_modules()):
        for child_name, child in list(parent._modules.items()):
            if child is None or isinstance(child, GatedMlp) or not _is_gated(child):
                continue
            name = f"{parent_name}.{child_name}" if parent_name else child_name
            made, reason = _gated(child)
            if made is None:
                done.unfused[name] = reason
            else:
                setattr(parent, child_name, made)
                done.fused += 1


def _is_gated(module: nn.Module) -> bool:
    return all(
        isinstance(module._modules.get(name), Linear) for name in ("gate_proj", "up_proj", "down_proj")
    )


def _gated(mlp: Any) -> tuple[GatedMlp | None, str]:
    """The MLP as one module, if that computes what the model's own code does: told by its results."""
    try:
        activation = _activation_of(getattr(mlp, "act_fn", getattr(mlp, "activation_fn", None)))
    except ValueError as error:
        return None, str(error)
    gate, up, down = mlp.gate_proj, mlp.up_proj, mlp.down_proj
    if not gate.format == up.format == down.format:
        return None, "the formats of its layers differ"
    if (gate.in_features, gate.out_features) != (up.in_features, up.out_features):
        return None, "gate and up differ in shape"
    known = {"gate_proj", "up_proj", "down_proj", "act_fn", "activation_fn"}
    if [n for n, _ in mlp.named_parameters() if n.partition(".")[0] not in known] or mlp._forward_hooks:
        return None, "it holds more than its three layers"
    made = GatedMlp.from_packed(gate, up, down, activation).train(mlp.training)
    if gate.packed.is_meta:
        return made, ""
    dtype = torch.bfloat16 if gate.bias is None else gate.bias.dtype
    x = some_input(gate.in_features, gate.packed.device, dtype)
    try:
        with torch.no_grad():
            wanted, got = mlp(x), made(x)
    except Exception as error:
        return None, f"its own code does not take one tensor ({type(error).__name__})"
    return (made, "") if agree(got, wanted) else (None, "its own code computes something else")
