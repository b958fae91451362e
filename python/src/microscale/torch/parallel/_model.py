"""parallelize: a model of transformers, shared out by a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from .._linear import Linear
from .._mlp import GatedMlp
from .._packing import block_of
from ._cut import cut_linear
from ._experts import ParallelExperts
from ._layers import ColumnParallelLinear, ParallelGatedMlp, RowParallelLinear
from ._plans import PLANS, STYLES
from ._ranks import Ranks
from ._shares import heads_of, require_whole_blocks, share_of


@dataclass
class Parallelized:
    """What `parallelize` did."""

    ranks: Ranks
    shared: dict[str, str] = field(default_factory=dict)
    """Modules by name, each with its style."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {style}" for style, count in Counter(self.shared.values()).items())
        return f"shared by {self.ranks.size} ranks: {counts}; this is rank {self.ranks.rank}"


def parallelize(model: nn.Module, mesh: Any = None, plan: Mapping[str, str] | None = None) -> Parallelized:
    """Keeps a rank's part of a model, in place: tensor parallelism for packed layers (of quantize_ or
    microscale.transformers.accelerate, fused or not) and for dense ones.

    Every process calls it on the same model, then calls the model with the same inputs; logits, so greedy
    tokens, are equal on all. mesh: a DeviceMesh of one dimension, a process group, Ranks, or None for all
    processes. plan: patterns of module names and a style each (PLANS has those of Llama, Mistral, Qwen 2
    and 3, Mixtral, gpt-oss); None takes the one of model.config.model_type.

    Heads of keys and values are given to several ranks where ranks outnumber them. Embeddings, norms and
    routers stay whole. Raises ValueError for an architecture without a plan, a style that there is not, a
    plan that fits nothing, and, naming the module, for fewer heads or rows than ranks and a cut through a
    block; modules before that one are cut then.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    ranks = Ranks.of(mesh)
    if plan is None:
        kind = getattr(getattr(model, "config", None), "model_type", None)
        if kind not in PLANS:
            raise ValueError(
                f"plan: there is none for the architecture '{kind}', only for {', '.join(PLANS)}; pass plan="
            )
        plan = PLANS[kind]
    for pattern, style in plan.items():
        if style not in STYLES:
            raise ValueError(f"plan: '{pattern}' has style '{style}'; choose one of {', '.join(STYLES)}")
    done = Parallelized(ranks)
    chosen = [
        (name, module, style)
        for name, module in list(model.named_modules())
        for style in [_style_of(name, module, plan)]
        if style is not None
    ]
    if not chosen:
        raise ValueError(f"plan: no module of {type(model).__name__} has a name like {', '.join(plan)}")
    for name, module, style in chosen:
        _APPLY[style](model, name, module, ranks)
        done.shared[name] = style
    return done


def _style_of(name: str, module: nn.Module, plan: Mapping[str, str]) -> str | None:
    for pattern, style in plan.items():
        if fnmatchcase(name, pattern) and (style != "mlp" or _is_mlp(module)):
            return style
    return None


def _is_mlp(module: nn.Module) -> bool:
    return isinstance(module, GatedMlp) or all(
        name in module._modules for name in ("gate_proj", "up_proj", "down_proj")
    )


def _set(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def _attention(model: nn.Module, name: str, module: Any, ranks: Ranks) -> None:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    if any(module._modules.get(one) is None for one in names):
        raise ValueError(f"{name}: it has no {', '.join(names)}")
    size = module.head_dim
    q, k, v, o = (module._modules[one] for one in names)
    heads, kv_heads = q.out_features // size, k.out_features // size
    for norm in ("q_norm", "k_norm"):  # of a head each, or of all heads, whose mean no rank knows
        weight = getattr(module._modules.get(norm), "weight", None)
        if weight is not None and weight.numel() != size:
            raise ValueError(f"{name}: its {norm} is over all heads, which are on several ranks")
    own, own_kv = heads_of(heads, kv_heads, ranks.size, ranks.rank, name)
    if isinstance(o, Linear):
        for rank in range(ranks.size):  # on all ranks, so that all refuse it
            every, _ = heads_of(heads, kv_heads, ranks.size, rank, name)
            columns = (every.start * size, every.stop * size)
            require_whole_blocks(*columns, block_of(o.format), o.format, f"{name}.o_proj")
    of_q = [(own.start * size, own.stop * size)]
    of_kv = [(head * size, (head + 1) * size) for head in own_kv]
    out = RowParallelLinear.from_linear(o, ranks, span=of_q[0], name=f"{name}.o_proj")
    whole = getattr(q, "_whole", (None,))[0]
    if whole is not None:  # q, k and v are one product
        starts = [sum(whole.sizes[:i]) for i in range(3)]
        spans = [
            (start + first, start + last)
            for start, rows in zip(starts, (of_q, of_kv, of_kv), strict=True)
            for first, last in rows
        ]
        made = cut_linear(whole, spans, None, whole.bias is not None, name)
        made.names, made._last, made._loaded = whole.names, None, {}
        made.sizes = tuple(sum(b - a for a, b in rows) for rows in (of_q, of_kv, of_kv))
        [attribute] = [one for one, child in module._modules.items() if child is whole]
        setattr(module, attribute, made)
        parts = made.parts()
    else:
        parts = [
            cut_linear(one, rows, None, one.bias is not None, f"{name}.{word}")
            for one, rows, word in ((q, of_q, "q_proj"), (k, of_kv, "k_proj"), (v, of_kv, "v_proj"))
        ]
    for word, part in zip(names, (*parts, out), strict=True):
        setattr(module, word, part)
    sinks = getattr(module, "sinks", None)
    if sinks is not None:
        module.sinks = nn.Parameter(sinks.detach()[own.start : own.stop].clone(), requires_grad=False)
    numbers = {
        "num_heads": len(own),
        "num_key_value_heads": len(own_kv),
        "num_key_value_groups": len(own) // len(own_kv),
    }
    for attribute, number in numbers.items():
        if hasattr(module, attribute):
            setattr(module, attribute, number)


def _mlp(model: nn.Module, name: str, module: Any, ranks: Ranks) -> None:
    if isinstance(module, GatedMlp):
        _set(model, name, ParallelGatedMlp.from_mlp(module, ranks, name=name))
        return
    gate, up, down = module.gate_proj, module.up_proj, module.down_proj
    block = block_of(down.format) if isinstance(down, Linear) else 1
    span = share_of(gate.out_features, ranks.size, ranks.rank, name, block)
    module.down_proj = RowParallelLinear.from_linear(down, ranks, span=span, name=f"{name}.down_proj")
    for word, one in (("gate_proj", gate), ("up_proj", up)):
        setattr(module, word, cut_linear(one, [span], None, one.bias is not None, f"{name}.{word}"))


def _experts(model: nn.Module, name: str, module: Any, ranks: Ranks) -> None:
    _set(model, name, ParallelExperts(module, ranks, name=name))


def _linear(gather: bool) -> Callable[[nn.Module, str, Any, Ranks], None]:
    def apply(model: nn.Module, name: str, module: Any, ranks: Ranks) -> None:
        _require_linear(name, module)
        _set(model, name, ColumnParallelLinear.from_linear(module, ranks, gather=gather, name=name))

    return apply


def _rows(model: nn.Module, name: str, module: Any, ranks: Ranks) -> None:
    _require_linear(name, module)
    _set(model, name, RowParallelLinear.from_linear(module, ranks, name=name))


def _require_linear(name: str, module: Any) -> None:
    if not isinstance(module, (Linear, nn.Linear)):
        raise ValueError(
            f"{name}: it is a {type(module).__name__}; columns, rows and gathered are for linear layers"
        )


_APPLY: dict[str, Callable[[nn.Module, str, Any, Ranks], None]] = {
    "attention": _attention,
    "mlp": _mlp,
    "experts": _experts,
    "columns": _linear(False),
    "gathered": _linear(True),
    "rows": _rows,
}
