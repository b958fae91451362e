"""Collector: the inputs of the layers of one block, seen while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ._experts import dense_experts
from ._layer_names import ONE_BY_ONE, LayerNames
from ._side import replaced
from ._statistics import Sums, hessian, means

Expert = tuple[str, str, str]
"""Names of its gate, up and down projection."""

_ROWS = 8192
"""Of an input that are FP32 at a time."""


class Collector:
    """Sums of every distinct input of a block, by the first layer that reads it."""

    def __init__(
        self, prefix: str, block: nn.Module, names: LayerNames, room: int | None, backwards: bool = False
    ) -> None:
        """room: bytes of Hessians at a time, though one is always held; None: no Hessians. backwards: the
        block runs back, too, and what a token adds is weighted by the mean square of the gradient at the
        outputs of the layers that read it; `settle` after each part of the tokens."""
        linears = [(name, one) for name, one in block.named_modules() if isinstance(one, nn.Linear)]
        self._linears = [(names.linear(prefix + name), one) for name, one in linears]
        self._stacked: list[tuple[nn.Module, list[Expert]]] = []
        for parent, _, child, module in dense_experts(block):
            full = f"{prefix}{parent}.{child}" if parent else prefix + child
            self._stacked.append((module, names.experts(full, module)))
        self.sums: dict[str, Sums] = {}
        self.shares: dict[str, str] = {}
        self._pools: dict[str, Sums] = {}
        """What all experts of a layer took in at the same place."""
        self._pool_of: dict[str, str] = {}
        self._room, self._first = room, True
        self._left: list[str] = []
        self._round = _Round()
        self._backwards = backwards
        self._pending: list[_Pending] = []
        for modules, _ in self._linears:
            self.shares.update(dict.fromkeys(modules[1:], modules[0]))
            if found := ONE_BY_ONE.match(modules[0]):
                self._pool_of[modules[0]] = f"{found[1]}.*.{found[3]}"
        for _, experts in self._stacked:
            for gate, up, down in experts:
                self._pool_of[gate], self._pool_of[down] = experts[0][0] + "*", experts[0][2] + "*"
                self.shares[up] = gate

    def run(self, block: Callable[[], Any], write: Callable[[dict[str, Tensor]], None]) -> Any:
        """What the block gives; tensors of the file are written as they are complete. The block runs as
        often as it takes to have room for every Hessian."""
        while True:
            self._wanted, self._left = set(self._left), []
            self._held = sum(one.product_bytes() for one in self._pools.values() if one.products is not None)
            self._fresh = False
            with self._watched():
                result = block()
            if self._first:
                self._settle_unreached()
            write(self._complete())
            self._first = False
            if not self._left:
                return result
            del result

    def unreached(self) -> list[str]:
        """Layers that no token came to, and for which there is nothing else."""
        every = [module for modules, _ in self._linears for module in modules]
        for _, experts in self._stacked:
            if experts[0][0] + "*" not in self._pools:
                every += [module for expert in experts for module in expert]
        return [one for one in every if self.shares.get(one, one) not in self.sums]

    def unseen(self) -> list[str]:
        """Experts that tokens came to, but whose code has no product that could be seen."""
        reached = [experts for _, experts in self._stacked if experts[0][0] + "*" in self._pools]
        every = [module for experts in reached for expert in experts for module in expert]
        return [one for one in every if self.shares.get(one, one) not in self.sums]

    def few(self) -> dict[str, int]:
        """Experts whose means are more their layer's than their own, and their tokens."""
        found = {}
        for module, sums in self.sums.items():
            pool = self._pool(module)
            if pool is not None and sums.rows < pool.prior():
                found[module] = sums.rows
        return found

    # Layers

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        self._round = _Round()
        with contextlib.ExitStack() as stack:
            for modules, linear in self._linears:

                def before(_: Any, args: Any, kwargs: Any, module: str = modules[0]) -> None:
                    self._enter(module, args[0] if args else kwargs["input"])

                def after(_: Any, __: Any, output: Tensor, module: str = modules[0]) -> None:
                    self._watch(self.shares.get(module, module), output)

                stack.callback(linear.register_forward_pre_hook(before, with_kwargs=True).remove)
                if self._backwards:
                    stack.callback(linear.register_forward_hook(after).remove)
            for stacked, experts in self._stacked:
                stack.enter_context(replaced(stacked))(self._experts_forward(stacked, experts))
            yield

    def _enter(self, module: str, x: Tensor) -> None:
        owner = self._round.owner(module, x)
        if owner != module and module not in self.sums:
            known = self.shares.setdefault(module, owner)
        else:
            known = self.shares.get(module, module)
        if known != (owner if module not in self.sums else module):
            raise NotImplementedError(f"{module}: it reads what {known} reads at times, and not at others")
        if owner == module or module in self.sums:
            self._take(module, x)

    def _take(self, module: str, x: Tensor) -> None:
        if self._backwards:
            self._pending.append(_Pending(module, x.detach()))
        else:
            self._feed(module, x)

    def _watch(self, owner: str, output: Tensor) -> None:
        """Adds what the gradient at an output says to the last input that `owner` took."""
        pending = next((one for one in reversed(self._pending) if one.module == owner), None)
        if pending is not None and output.requires_grad:
            output.register_hook(pending.add)

    def settle(self) -> None:
        """Takes in what the part of the tokens that ran back has left."""
        for one in self._pending:
            self._feed(one.module, one.x, one.weights())
        self._pending.clear()

    def _experts_forward(self, stacked: nn.Module, experts: list[Expert]) -> Callable[..., Any]:
        inner = stacked.forward

        def see(key: str, number: int, x: Tensor) -> None:
            gate, up, down = experts[number]
            if not key.startswith("up_"):  # it reads what the gate reads
                self._take(down if key.startswith("down") else gate, x)

        def after(key: str, number: int, output: Tensor) -> None:
            gate, up, down = experts[number]
            self._watch(down if key.startswith("down") else gate, output)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self._backwards:  # else of what the experts take, whose gradients are known
                self._add(self._pools, experts[0][0] + "*", args[0] if args else kwargs["hidden_states"])
            with _Products(stacked, see, after if self._backwards else None):
                return inner(*args, **kwargs)

        return forward

    def _feed(self, module: str, x: Tensor, weights: Tensor | None = None) -> None:
        pool = self._pool_of.get(module)
        stacked_gates = (experts[0][0] + "*" for _, experts in self._stacked)
        if pool is not None and (self._backwards or pool not in stacked_gates):
            self._add(self._pools, pool, x, weights)
        self._add(self.sums, module, x, weights)

    # Sums

    def _add(self, into: dict[str, Sums], name: str, x: Tensor, weights: Tensor | None = None) -> None:
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) == 0:
            return
        if name not in into:
            into[name] = Sums(rows.shape[1], rows.device)
        sums = into[name]
        has_room = self._has_room(name, sums)
        for start in range(0, len(rows), _ROWS):
            cut = slice(start, start + _ROWS)
            weight = None if weights is None else weights[cut]
            if self._first:
                sums.add(rows[cut], weight)
            if has_room:
                sums.add_products(rows[cut], weight)

    def _has_room(self, name: str, sums: Sums) -> bool:
        """For its Hessian in this run. What comes after one that had none has none either, so that a pool is
        complete before its experts."""
        if self._room is None or sums.complete:
            return False
        if sums.products is None and name not in self._left and (self._first or name in self._wanted):
            if self._left or (self._fresh and self._held + sums.product_bytes() > self._room):
                self._left.append(name)
            else:
                sums.hold_products()
                self._held, self._fresh = self._held + sums.product_bytes(), True
        return sums.products is not None

    def _pool(self, module: str) -> Sums | None:
        return self._pools.get(self._pool_of.get(module, ""))

    def _settle_unreached(self) -> None:
        """Experts without a token get sums of none, where the layer has others."""
        matches = [ONE_BY_ONE.match(modules[0]) for modules, _ in self._linears]
        siblings = {
            (found[1], found[3]): ONE_BY_ONE.match(self.shares[found[0]])
            for found in matches
            if found and found[0] in self.shares
        }
        for found in matches:
            if found and found[0] not in self.sums and found[0] not in self.shares:
                if other := siblings.get((found[1], found[3])):
                    self.shares[found[0]] = f"{found[1]}.{found[2]}.{other[3]}"
        owners = [one for one in self._pool_of if one not in self.sums and one not in self.shares]
        for module in owners:
            pool = self._pool(module)
            if pool is not None and self._some_expert_was_seen(module):
                self.sums[module] = Sums(pool.columns, pool.device)

    def _some_expert_was_seen(self, module: str) -> bool:
        name = self._pool_of[module]
        return any(sums.rows for one, sums in self.sums.items() if self._pool_of.get(one) == name)

    def _complete(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for whole in self._pools.values():
            whole.complete = whole.products is not None
        for module, sums in self.sums.items():
            if not sums.finite():
                raise ValueError(
                    f"{module}: NaN or Inf in its inputs; weights before it are not finite, or the numbers "
                    "are too large for this dtype (float32 has the widest range)"
                )
            pool = self._pool(module)
            if self._first:
                found.update(means(sums, pool).tensors(module))
                shared = [one for one, owner in self.shares.items() if owner == module]
                found.update((one, found[module].clone()) for one in shared)
            ready = pool is not None and pool.complete if sums.rows == 0 else sums.products is not None
            if ready and not sums.complete:
                found[module + ".hessian"] = hessian(sums, pool)
                sums.complete = True
        return found


class _Pending:
    """An input of which the gradients are not known yet."""

    def __init__(self, module: str, x: Tensor) -> None:
        self.module, self.x = module, x
        self.squares = torch.zeros(x[..., 0].numel(), dtype=torch.float32, device=x.device)
        self.outputs = 0

    def add(self, gradient: Tensor) -> None:
        """At the output of a layer that reads x."""
        self.squares += gradient.reshape(len(self.squares), -1).float().square().sum(1)
        self.outputs += gradient.shape[-1]

    def weights(self) -> Tensor:
        """Of a token: the mean square of the gradient at all outputs that x has a part in."""
        return self.squares / max(self.outputs, 1)


class _Round:
    """One run of a block's code: which layer read a tensor first."""

    def __init__(self) -> None:
        self._called: set[str] = set()
        self._owners: dict[tuple[Any, ...], str] = {}
        self._kept: list[Tensor] = []  # so that no other tensor gets its address

    def owner(self, module: str, x: Tensor) -> str:
        if module in self._called:
            self.__init__()  # type: ignore[misc]
        self._called.add(module)
        version = 0 if x.is_inference() else x._version
        key = (x.untyped_storage().data_ptr(), x.storage_offset(), x.shape[-1], x.numel(), version)
        if key not in self._owners:
            self._kept.append(x)
        return self._owners.setdefault(key, module)


class _Products(TorchFunctionMode):
    """Sees the products of a module of stacked experts with the weights of one of them."""

    def __init__(
        self,
        module: nn.Module,
        see: Callable[[str, int, Tensor], None],
        after: Callable[[str, int, Tensor], None] | None,
    ) -> None:
        super().__init__()
        self._weights = [
            (key, p) for key, p in module._parameters.items() if p is not None and key.endswith("_proj")
        ]
        self._see, self._after = see, after

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen: list[tuple[str, int]] = []
        if getattr(func, "__name__", "") in ("linear", "matmul", "__matmul__", "mm") and len(args) > 1:
            x, weight = args[:2]
            if isinstance(weight, Tensor) and weight.dim() == 2:
                for key, whole in self._weights:
                    number = _slice_number(weight, whole)
                    if number is not None:
                        self._see(key, number, x)
                        seen.append((key, number))
        result = func(*args, **(kwargs or {}))
        if self._after is not None:
            for key, number in seen:
                self._after(key, number, result)
        return result


def _slice_number(part: Tensor, whole: Tensor) -> int | None:
    """Which of the matrices of `whole` a view is."""
    if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return None
    ahead = part.storage_offset() - whole.storage_offset()
    return ahead // whole.stride(0) if 0 <= ahead < whole.numel() else None
