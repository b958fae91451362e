"""rotate: a model whose hidden states are turned by Hadamard matrices that are merged into its weights."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from .._errors import Interrupted
from ._rotated_statistics import hessians_in, rotate_statistics
from ._rotation_plan import BLOCK, Plan, plan_of

MOST_DIVERGENCE = 1e-3
"""Nats a token between the model and the rotated one: one more rounding to BF16 gave 4e-4 (SmolLM2)."""
_CHECK_CHUNKS, _CHECK_CONTEXT = 2, 128
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")


@dataclasses.dataclass
class Rotation:
    """What `rotate` wrote."""

    out: str
    model: str
    statistics: str | None
    """The file with Hessians of the rotated model."""
    tensors: int
    """That were changed."""
    divergence: float
    """Mean Kullback-Leibler divergence of the rotated model's words from the model's, in nats a token."""

    def __str__(self) -> str:
        more = f", and Hessians to go with it in {self.statistics}" if self.statistics else ""
        return (
            f"{self.out}: {self.model} rotated by blocks of {BLOCK}, {self.tensors} tensors changed, "
            f"mean KL {self.divergence:.1e} from it{more}"
        )


def rotate(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    statistics: str | os.PathLike[str] | None = None,
    shrink: float | None = None,
    device: Any = None,
    progress: Callable[[int, int, str], Any] | None = None,
) -> Rotation:
    """See microscale.rotate."""
    source, target = os.fspath(model), os.fspath(out).rstrip(os.sep)
    for path in (target, *([target + ".statistics.safetensors"] if statistics else [])):
        if os.path.lexists(path):
            raise ValueError(f"{path}: it exists; give another output, or delete it")
    if shrink is not None and not 0 <= shrink <= 1:
        raise ValueError(f"shrink: {shrink}; pass a number from 0 to 1")
    plan = plan_of(source)
    if statistics is not None:
        hessians_in(os.fspath(statistics))  # so that it is refused now
    with _removed_on_failure(target + ".part") as work:
        os.makedirs(work)
        changed = _write(plan, work, progress)
        divergence = _check(source, work, device)
        made = None
        if statistics is not None:
            made = target + ".statistics.safetensors"
            rotate_statistics(plan, os.fspath(statistics), made, shrink)
        os.replace(work, target)
    return Rotation(target, source, made, changed, divergence)


@contextlib.contextmanager
def _removed_on_failure(folder: str) -> Iterator[str]:
    if os.path.lexists(folder):
        raise ValueError(f"{folder}: an interrupted run left it; delete it")
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(plan: Plan, folder: str, progress: Callable[[int, int, str], Any] | None) -> int:
    changed, done = 0, 0
    places: dict[str, str] = {}
    for shard, names in plan.shards.items():
        tensors = {}
        with safe_open(os.path.join(plan.folder, shard), "pt") as file:
            about = file.metadata()
            for name in names:
                stored = file.get_tensor(name)
                tensors[name] = plan.rotated(name, stored)
                changed += tensors[name] is not stored
                done += stored.numel()
                if progress is not None and progress(done, plan.numbers, name) is False:
                    raise Interrupted("rotate was stopped by its progress function")
        if plan.embedding in names and plan.is_tied:
            tensors["lm_head.weight"] = plan.untied_head()
            changed += 1
        tensors = {name: one.contiguous() for name, one in tensors.items()}
        save_file(tensors, os.path.join(folder, shard), about)
        places.update(dict.fromkeys(tensors, shard))
    _write_rest(plan, folder, places)
    return changed


def _write_rest(plan: Plan, folder: str, places: dict[str, str]) -> None:
    for name in sorted(os.listdir(plan.folder)):
        path = os.path.join(plan.folder, name)
        if os.path.isfile(path) and not name.endswith(_WEIGHTS) and name != "config.json":
            shutil.copyfile(path, os.path.join(folder, name))
    config = {**plan.config, "tie_word_embeddings": False}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    if plan.indexed:
        size = sum(os.path.getsize(os.path.join(folder, shard)) for shard in set(places.values()))
        index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump(index, file, indent=2)


def _check(source: str, folder: str, device: Any) -> float:
    """Mean divergence on tokens drawn at random, which reach every layer."""
    from ._evaluation import evaluate

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        words = json.load(file)["vocab_size"]
    count = _CHECK_CHUNKS * _CHECK_CONTEXT
    drawn = torch.randint(words, (count,), generator=torch.Generator().manual_seed(0)).tolist()
    found = evaluate(source, folder, tokens=drawn, context=_CHECK_CONTEXT, device=device)
    assert found.kl_mean is not None
    if not found.kl_mean <= MOST_DIVERGENCE:
        raise ValueError(
            f"{source}: rotated it has other words, mean KL {found.kl_mean:.3g}, over {MOST_DIVERGENCE:g}: "
            "something in it reads hidden states in a way that is not known here; quantize it as it is"
        )
    return found.kl_mean
