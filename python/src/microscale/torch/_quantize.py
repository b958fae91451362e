"""quantize_: a model's linear layers, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ._linear import Linear
from ._module import require_format

Filter = Callable[[nn.Module, str], bool]

# Attributes of torch.nn.Module, all of them dicts but the flag.
_STATE_HOOKS = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


def _with_hooks(made: Linear, module: nn.Linear) -> Linear:
    """The very dicts, so that the handles that registering returned still remove what they registered."""
    for name in _HOOKS:
        if name in vars(module):
            setattr(made, name, vars(module)[name])
    return made


def quantize_(
    model: nn.Module, format: str = "nvfp4", filter_fn: Filter | None = None, **options: Any
) -> dict[str, str]:
    """Replaces every torch.nn.Linear of a model by a Linear of `format`, in place.

    filter_fn(module, name): whether to replace one. Left out, all are but the head: layers named lm_head,
    embed_out, score or classifier, and those whose weight another module shares (an embedding, mostly).
    Layers whose state or forward is not torch.nn.Linear's own stay: subclasses, with added parameters or
    modules, hooks on the state dict, a forward of their own, float64. Hooks of the forward and backward pass
    go over to the new layer, and their handles stay good. options: keywords of microscale.quantize. Returns
    the names of the linear layers that were left as they are, each with the reason.
    """
    require_format(format, 32, "in_features")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, nn.Linear):
        raise TypeError(
            "model: it is itself a torch.nn.Linear, which no module holds; use Linear.from_linear(model)"
        )
    users: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                users[id(parameter)] = users.get(id(parameter), 0) + 1
    left: dict[str, str] = {}
    made: dict[int, Linear] = {}  # a module used twice stays one
    for parent_name, parent in list(model.named_modules()):
        for child_name, child in list(parent._modules.items()):  # named_children leaves second names out
            name = f"{parent_name}.{child_name}" if parent_name else child_name
            if not isinstance(child, nn.Linear):
                continue
            if id(child) not in made:
                weight = child._parameters.get("weight")
                reason = reason_to_leave(child, name, users.get(id(weight), 0) > 1, filter_fn)
                if not reason:
                    try:
                        made[id(child)] = _with_hooks(Linear.from_linear(child, format, **options), child)
                    except ValueError as error:
                        if child.in_features % 32 == 0:
                            error.args = (f"{name}: {error}", *error.args[1:])
                            raise
                        reason = str(error)
                if reason:
                    left[name] = reason
                    continue
            setattr(parent, child_name, made[id(child)])
    return left


def reason_to_leave(module: nn.Linear, name: str, shared: bool, filter_fn: Filter | None) -> str:
    """Why quantize_ leaves a layer as it is; "" if it replaces it."""
    if type(module) is not nn.Linear:
        return f"it is a {type(module).__name__}, not a torch.nn.Linear"
    weight = module._parameters.get("weight")
    if weight is None:
        return "its weight is computed (weight_norm, a parametrization)"
    if weight.is_meta:
        return "its weight is on the meta device, without values"
    if weight.dtype == torch.float64:
        return "its weight is float64; products take float32, bfloat16 and float16"
    if "forward" in vars(module):
        return "its forward was replaced"
    added = {*module._parameters, *module._buffers, *module._modules} - {"weight", "bias"}
    if added:
        return f"it holds more than weight and bias: {', '.join(sorted(added))}"
    hooks = [name for name in _STATE_HOOKS if getattr(module, name, None)]
    if hooks:
        return f"it has hooks on its state dict: {', '.join(hooks)}"
    if filter_fn is not None:
        return "" if filter_fn(module, name) else "filter_fn says so"
    if shared:
        return "another module shares its weight"
    if name.rpartition(".")[2] in ("lm_head", "embed_out", "score", "classifier"):
        return "it is the model's head"
    return ""
