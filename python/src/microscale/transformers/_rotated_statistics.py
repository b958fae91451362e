"""The Hessians of a model, as they are when the model is rotated."""

from __future__ import annotations

import json
import re

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ._rotation_plan import Plan, turn_columns, turn_rows

_OF_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_DEEP, _FEW = 0.1, 0.3


def rotate_statistics(plan: Plan, path: str, out: str, shrink: float | None) -> None:
    """Writes `out`. Hessians are shrunk first: what is next to nothing off the diagonal is so in the columns
    that the model was calibrated in, not in turned ones."""
    made: dict[str, Tensor] = {}
    names, about = hessians_in(path)
    with safe_open(path, "pt") as file:
        tokens, shares = (json.loads(about.get(key, "{}")) for key in ("tokens", "shares"))
        for name in names:
            module = name.removesuffix(".hessian")
            hessian = file.get_tensor(name).double()
            few = tokens.get(module, 0) < 64 * len(hessian)
            by = shrink if shrink is not None else _FEW if few else _DEEP
            turned = turned_hessian(plan, module, _shrunk(hessian, by))
            made[name] = turned.float().contiguous()
            made[module] = turned.diagonal().float().clone()
    for module, owner in shares.items():
        if owner in made:
            made[module] = made[owner].clone()
    about["shrunk"] = "by tokens" if shrink is None else str(shrink)
    save_file(made, out, about)


def hessians_in(path: str) -> tuple[list[str], dict[str, str]]:
    """Names of the Hessians, and the file's metadata. ValueError where it has none that can be turned."""
    try:
        with safe_open(path, "pt") as file:
            about = dict(file.metadata() or {})
            names = [name for name in file.keys() if name.endswith(".hessian")]
    except SafetensorError as error:
        raise ValueError(f"{path}: it is no file of statistics ({error})") from None
    if about.get("microscale_statistics") != "1" or not names:
        raise ValueError(
            f"{path}: no Hessians of microscale calibrate --hessian in it; a rotation without GPTQ "
            "makes a model worse"
        )
    if "shrunk" in about:
        raise ValueError(f"{path}: its Hessians are of a rotated model already")
    return names, about


def turned_hessian(plan: Plan, module: str, hessian: Tensor) -> Tensor:
    """Of what a layer of the rotated model reads. FP64."""
    found = _OF_LAYER.fullmatch(module)
    if found is None:
        raise ValueError(f"{module}: the statistics are of another model than {plan.folder}")
    layer, inside = found.groups()
    if inside.endswith(("down_proj", ".w2")):
        return hessian
    if not inside.endswith("o_proj"):
        gamma = plan.gamma_before(layer, inside)
        hessian = _unscaled(hessian, gamma)
    made = turn_rows(turn_columns(hessian))
    return (made + made.T) / 2


def _shrunk(hessian: Tensor, by: float) -> Tensor:
    made = hessian * (1 - by)
    made.diagonal().copy_(hessian.diagonal())
    return made


def _unscaled(hessian: Tensor, gamma: Tensor) -> Tensor:
    """Of x / gamma. Where gamma is 0, x was 0: there the mean of the others is put, independent of them."""
    alive = gamma != 0
    inverse = torch.where(alive, 1 / torch.where(alive, gamma, 1), 0)
    made = hessian * inverse * inverse[:, None]
    if not alive.all():
        made.diagonal()[~alive] = made.diagonal()[alive].mean() if alive.any() else 1
    return made
