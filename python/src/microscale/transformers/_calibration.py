"""calibrate: statistics of the inputs of every layer of a model, for quantize."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .._errors import Interrupted
from ._calibration_text import chunks_for, digest
from ._calibration_work import Work
from ._statistics import PRIOR

if TYPE_CHECKING:
    from ._collector import Collector
    from ._side import Side

_TOKENS = {False: 16384, True: 65536}
"""Where none are given: without Hessians, with."""


@dataclasses.dataclass
class Calibration:
    """What `calibrate` wrote, and what is to be known of it."""

    out: str
    model: str
    text: str
    """What the tokens were."""
    tokens: int
    sequence: int
    hessian: bool
    layers: int
    """With statistics, their own or shared."""
    shares: dict[str, str]
    """Layers that read what another one reads, which has the statistics."""
    few: dict[str, int]
    """Experts whose statistics are more their layer's than their own, and the tokens that came to each."""
    unreached: list[str]
    """Layers that no token came to: they have no statistics."""
    unseen: list[str]
    """Experts whose code cannot be watched: they have none either."""
    dead: dict[str, int]
    """Layers and the number of their columns in which every token had 0."""
    gradients: bool = False
    """Whether tokens were weighted by the gradients at the layers' outputs."""
    notes: list[str] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.out}: statistics of {self.layers:,} layers{' and Hessians' if self.hessian else ''}"
            f"{', weighted by gradients' if self.gradients else ''}, of "
            f"{self.tokens:,} tokens in sequences of {self.sequence} ({self.text})"
        )


def calibrate(
    model: Any,
    text: str | os.PathLike[str] | Sequence[int] | None = None,
    *,
    out: str | os.PathLike[str],
    tokens: int | None = None,
    sequence: int = 512,
    random: bool = False,
    hessian: bool = False,
    gradients: bool | None = None,
    tokenizer: Any = None,
    dtype: str = "float32",
    device: Any = None,
    seed: int = 0,
    progress: Callable[[int, int, str], Any] | None = None,
    resume: bool = False,
    max_memory: int = 4 << 30,
) -> Calibration:
    """See microscale.calibrate."""
    kind = getattr(torch, dtype, None)
    if kind not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype: '{dtype}'; choose one of float32, bfloat16, float16")
    tokens = _TOKENS[hessian] if tokens is None else tokens
    backwards = hessian if gradients is None else gradients
    if tokens < 1 or sequence < 1 or max_memory < 1:
        raise ValueError(f"tokens: {tokens}, sequence: {sequence}, max_memory: {max_memory}; pass 1 or more")
    if random and text is not None:
        raise ValueError("random: token ids are drawn in place of a text; pass one of both")
    target = os.fspath(out)
    if os.path.lexists(target):
        raise ValueError(f"{target}: it exists; give another output, or delete it")
    from ._side import opened  # now: it needs more of transformers than the rest of this package

    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    notes: list[str] = []
    with contextlib.ExitStack() as stack, torch.no_grad():
        side = stack.enter_context(opened(model, kind, place, notes.append))
        chunks, said = chunks_for(side, text, random, tokenizer, tokens, sequence, seed, notes)
        plan = {
            "model": _identity(model),
            "tokens": digest(chunks),
            "sequence": chunks.shape[1],
            "hessian": hessian,
            "gradients": [backwards, seed if backwards else 0],
            "dtype": dtype,
            "max_memory": max_memory,
            "torch": torch.__version__,
        }
        if resume and isinstance(model, nn.Module):
            raise ValueError("resume: a model in memory may have changed; pass its folder")
        work = Work(target, plan, resume)
        try:
            stack.enter_context(_eager_experts(side.model))
            stack.enter_context(_deterministic(side.device))
            room = max_memory if hessian else None
            records = None
            if backwards:
                try:
                    records = _run_back(side, chunks, work, room, seed, progress)
                except NotImplementedError as error:
                    if gradients:
                        raise
                    notes.append(f"tokens are not weighted by gradients: {error}")
            if records is None:
                backwards, records = False, _run(side, chunks, work, room, progress)
            made = _made(records, chunks, target, side.name, said, hessian, notes)
            made.gradients = backwards
            work.finish(_metadata(records, made, plan))
        except (ValueError, NotImplementedError):
            work.discard()  # going on would end here again
            raise
        except BaseException:
            if isinstance(model, nn.Module):
                work.discard()
            raise
    return made


def _run(
    side: Side,
    chunks: Tensor,
    work: Work,
    room: int | None,
    progress: Callable[[int, int, str], Any] | None,
) -> list[dict[str, Any]]:
    from ._collector import Collector
    from ._layer_names import LayerNames

    names = LayerNames(side.model, side.weights)
    total = max(1, side.block_cost() * chunks.numel())
    done, at_most = 0.0, 0.0  # a block that runs again is no further

    def step(more: float) -> None:
        nonlocal done
        done = min(done + more, at_most)
        if progress is not None and progress(min(int(done), total), total, side.name) is False:
            raise Interrupted(f"calibrate was stopped; what is finished is in {work.folder}")

    def visit(number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal at_most, done
        at_most = total * (number + 1) / len(side.blocks)
        if number < work.begin:
            done = at_most
            hidden = args[0] if args else kwargs["hidden_states"]
            return (hidden,) if work.in_tuple else hidden
        if number == work.begin and number > 0:
            args, kwargs = _put_hidden(work.hidden().to(side.device), args, kwargs)
            step(0)
        collector = Collector(side.prefixes[number], side.blocks[number], names, room)
        result = collector.run(lambda: run(*args, **kwargs), lambda tensors: work.write(number, tensors))
        work.finish_block(number, _record_of(collector), result)
        return result

    side.hidden(chunks, slice(0, 0), step, visit)
    return work.records(len(side.blocks))


def _record_of(collector: Collector) -> dict[str, Any]:
    sums = collector.sums
    return {
        "tokens": {module: one.rows for module, one in sums.items()},
        "shares": collector.shares,
        "few": collector.few(),
        "unreached": collector.unreached(),
        "unseen": collector.unseen(),
        "dead": {module: one.dead() for module, one in sums.items() if one.dead()},
    }


def _run_back(
    side: Side,
    chunks: Tensor,
    work: Work,
    room: int | None,
    seed: int,
    progress: Callable[[int, int, str], Any] | None,
) -> list[dict[str, Any]]:
    """As _run, weighted by gradients. Hidden states before each block lie in the folder until the block has
    run back."""
    from . import _gradients
    from ._collector import Collector
    from ._layer_names import LayerNames

    names, blocks = LayerNames(side.model, side.weights), len(side.blocks)
    each = side.block_cost() / max(blocks, 1) * chunks.numel()
    total = max(1, int(4 * each * blocks + 3 * side.head_cost() * chunks.numel()))
    done = 0.0

    def step(more: float) -> None:
        nonlocal done
        done = min(done + more, total)
        if progress is not None and progress(int(done), total, side.name) is False:
            raise Interrupted(f"calibrate was stopped; what is finished is in {work.folder}")

    calls = _gradients.Calls(lambda number, hidden: work.put(f"hidden-{number:05}", hidden.cpu()))
    side.hidden(chunks, slice(0, 0), step, calls.visit)
    found = work.get("gradient")
    if found is not None:
        left, gradient = int(found[1]["left"]), found[0].to(side.device)
        step(total - done - 3 * each * left)
    else:
        left, gradient = blocks, _gradients.of_words(side, calls, chunks, seed, step)
    for number in reversed(range(left)):
        hidden = work.get(f"hidden-{number:05}")
        assert hidden is not None
        collector = Collector(side.prefixes[number], side.blocks[number], names, room, backwards=True)

        def back(number: int = number, hidden: Tensor = hidden[0], settle: Any = collector.settle) -> Tensor:
            return _gradients.through(side, number, calls.found[number], hidden, gradient, settle)

        def write(tensors: dict[str, Tensor], number: int = number) -> None:
            work.write(number, tensors)

        gradient = collector.run(back, write)
        work.record(number, _record_of(collector))
        work.drop(f"hidden-{number:05}")
        step(3 * each)
        if work.is_due():
            work.put("gradient", gradient.cpu(), {"left": str(number)})
    return work.records(blocks)


def _put_hidden(hidden: Tensor, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if args:
        return (hidden, *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": hidden}


def _made(
    records: list[dict[str, Any]],
    chunks: Tensor,
    out: str,
    name: str,
    said: str,
    hessian: bool,
    notes: list[str],
) -> Calibration:
    shares, few, dead = (
        {key: value for record in records for key, value in record[part].items()}
        for part in ("shares", "few", "dead")
    )
    unreached, unseen = (
        [module for record in records for module in record[part]] for part in ("unreached", "unseen")
    )
    owners = [module for record in records for module in record["tokens"]]
    if not owners:
        raise ValueError(f"{name}: its blocks have no linear layers of dense weights that a token came to")
    if few:
        least = min(few, key=lambda one: few[one])
        notes.append(
            f"{len(few):,} layers of experts saw fewer tokens than {PRIOR} times their columns, so that "
            f"most of their statistics are their layer's; the fewest are {few[least]:,} of {least}"
        )
    if unreached:
        notes.append(f"no token came to {len(unreached):,} layers, the first {unreached[0]}: no statistics")
    if unseen:
        notes.append(
            f"the code of {len(unseen):,} layers of experts, the first {unseen[0]}, multiplies by no expert "
            "alone, which cannot be watched: no statistics"
        )
    if dead:
        most = max(dead, key=lambda one: dead[one])
        notes.append(
            f"{sum(dead.values()):,} columns of {len(dead):,} layers had 0 for every token ({dead[most]:,} "
            f"of {most}); their mean square is 0"
        )
    known = set(owners)
    return Calibration(
        out=out,
        model=name,
        text=said,
        tokens=chunks.numel(),
        sequence=chunks.shape[1],
        hessian=hessian,
        layers=len(owners) + sum(owner in known for owner in shares.values()),
        shares=shares,
        few=few,
        unreached=unreached,
        unseen=unseen,
        dead=dead,
        notes=notes,
    )


def _metadata(records: list[dict[str, Any]], made: Calibration, plan: dict[str, Any]) -> dict[str, str]:
    counts = {module: count for record in records for module, count in record["tokens"].items()}
    shares = {module: owner for module, owner in made.shares.items() if owner in counts}
    return {
        "microscale_statistics": "1",
        "tokens": json.dumps(counts),
        "shares": json.dumps(shares),
        "prior": f"experts: (tokens * own + {PRIOR} * columns * layer) / (tokens + {PRIOR} * columns)",
        "text": made.text,
        "token_digest": plan["tokens"],
        "sequence": str(made.sequence),
        "dtype": plan["dtype"],
        **({"gradients": "squares"} if made.gradients else {}),
    }


def _identity(model: Any) -> list[Any]:
    """Of a folder: files, their sizes and times."""
    if isinstance(model, nn.Module):
        return [type(model).__name__]
    path = os.path.abspath(os.fspath(model))
    files = [path] if os.path.isfile(path) else []
    if os.path.isdir(path):
        files = sorted(os.path.join(path, name) for name in os.listdir(path))
    kept = [one for one in files if one.endswith((".safetensors", ".gguf", ".json", ".bin"))]
    facts = [(os.path.basename(one), os.stat(one)) for one in kept]
    return [path, *([name, fact.st_size, fact.st_mtime_ns] for name, fact in facts)]


@contextlib.contextmanager
def _eager_experts(model: Any) -> Iterator[None]:
    """Products with one expert's weights at a time, which can be seen."""
    if not hasattr(model, "set_experts_implementation"):
        yield
        return
    before = model.get_experts_implementation()
    model.set_experts_implementation("eager")
    try:
        yield
    finally:
        model.set_experts_implementation(before)


@contextlib.contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """The same sums each time; on a CPU they are in any case."""
    if device.type == "cpu":
        yield
        return
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Deterministic behavior was enabled")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
