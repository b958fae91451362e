"""quantize_: a model's linear layers, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ._linear import Linear
from ._module import require_format

Filter = Callable[[nn.Module, str], bool]


def quantize_(
    model: nn.Module, format: str = "nvfp4", filter_fn: Filter | None = None, **options: Any
) -> dict[str, str]:
    """Replaces every torch.nn.Linear of a model by a Linear of `format`, in place.

    filter_fn(module, name): whether to replace one. Left out, all are but the head: layers named lm_head,
    embed_out, score or classifier, and those whose weight another module shares (an embedding, mostly).
    Subclasses of torch.nn.Linear stay. options: keywords of microscale.quantize. Returns the names of the
    linear layers that were left as they are, each with the reason.
    """
    require_format(format, 32, "in_features")
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
                reason = _reason_to_leave(child, name, users.get(id(weight), 0) > 1, filter_fn)
                if not reason:
                    try:
                        made[id(child)] = Linear.from_linear(child, format, **options)
                    except ValueError as error:
                        if child.in_features % 32 == 0:
                            raise
                        reason = str(error)
                if reason:
                    left[name] = reason
                    continue
            setattr(parent, child_name, made[id(child)])
    return left


def _reason_to_leave(module: nn.Linear, name: str, shared: bool, filter_fn: Filter | None) -> str:
    if type(module) is not nn.Linear:
        return f"it is a {type(module).__name__}, not a torch.nn.Linear"
    weight = module._parameters.get("weight")
    if weight is None:
        return "its weight is computed (weight_norm, a parametrization)"
    if weight.is_meta:
        return "its weight is on the meta device, without values"
    if filter_fn is not None:
        return "" if filter_fn(module, name) else "filter_fn says so"
    if shared:
        return "another module shares its weight"
    if name.rpartition(".")[2] in ("lm_head", "embed_out", "score", "classifier"):
        return "it is the model's head"
    return ""
