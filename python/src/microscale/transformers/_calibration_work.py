"""What a calibration leaves on disk while it goes on, and the file that is made of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import time
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

SAVE_SECONDS = 60
"""At least between two copies of the hidden states: what a kill costs."""


class Work:
    """The folder OUT.part: tensors and a record of each finished block, and the hidden states before one."""

    def __init__(self, out: str, plan: dict[str, Any], resume: bool) -> None:
        self.out, self.folder, self._parts = out, out + ".part", 0
        self.begin, self.in_tuple = 0, False
        """The first block that is not finished; whether blocks give their hidden states in a tuple."""
        self._state = os.path.join(self.folder, "state.safetensors")
        self._saved = time.monotonic()
        path = os.path.join(self.folder, "plan.json")
        if os.path.lexists(self.folder):
            if not resume:
                raise ValueError(
                    f"{self.folder}: an interrupted calibration left it; pass resume=True (--resume) to go "
                    "on with it, or delete it"
                )
            _check_plan(path, plan, self.folder)
            if os.path.exists(self._state):
                with safe_open(self._state, "pt") as file:
                    found = file.metadata()
                self.begin, self.in_tuple = int(found["next"]), found["tuple"] == "1"
        else:
            os.makedirs(self.folder)
            with open(path, "w", encoding="utf-8") as written:
                json.dump(plan, written)

    def hidden(self) -> Tensor:
        """What goes into the block `begin`."""
        with safe_open(self._state, "pt") as file:
            return file.get_tensor("hidden")  # type: ignore[no-any-return]

    def put(self, name: str, tensor: Tensor, about: dict[str, str] | None = None) -> None:
        """A tensor that is needed until the end, whole or not there."""
        path = self._path(name)
        save_file({name: tensor.contiguous()}, path + ".new", about)
        os.replace(path + ".new", path)

    def get(self, name: str) -> tuple[Tensor, dict[str, str]] | None:
        """What `put` left."""
        if not os.path.exists(self._path(name)):
            return None
        with safe_open(self._path(name), "pt") as file:
            return file.get_tensor(name), dict(file.metadata() or {})

    def is_due(self) -> bool:
        """Whether it is time for another copy of what a kill would cost."""
        if time.monotonic() - self._saved < SAVE_SECONDS:
            return False
        self._saved = time.monotonic()
        return True

    def drop(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name + ".safetensors")

    def write(self, block: int, tensors: dict[str, Tensor]) -> None:
        """Tensors of the block that is at work."""
        if tensors:
            save_file(tensors, os.path.join(self.folder, f"block-{block:05}-{self._parts:03}.safetensors"))
            self._parts += 1

    def record(self, block: int, record: dict[str, Any]) -> None:
        """That a block is finished."""
        with open(self._record(block), "w", encoding="utf-8") as written:
            json.dump(record, written)
        self._parts = 0

    def finish_block(self, block: int, record: dict[str, Any], result: Any) -> None:
        self.record(block, record)
        hidden = result[0] if isinstance(result, tuple) else result
        plain = isinstance(hidden, Tensor) and (not isinstance(result, tuple) or len(result) == 1)
        if plain and self.is_due():
            more = {"next": str(block + 1), "tuple": str(int(isinstance(result, tuple)))}
            save_file({"hidden": hidden.contiguous()}, self._state + ".new", more)
            os.replace(self._state + ".new", self._state)

    def records(self, blocks: int) -> list[dict[str, Any]]:
        found = []
        for block in range(blocks):
            with open(self._record(block), encoding="utf-8") as file:
                found.append(dict(json.load(file)))
        return found

    def _record(self, block: int) -> str:
        return os.path.join(self.folder, f"block-{block:05}.json")

    def finish(self, metadata: dict[str, str]) -> None:
        """The file, complete or not there."""
        names = sorted(name for name in os.listdir(self.folder) if name.startswith("block-"))
        parts = [os.path.join(self.folder, name) for name in names if name.endswith(".safetensors")]
        _join(parts, self.out + ".new", metadata)
        os.replace(self.out + ".new", self.out)
        self.discard()

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _check_plan(path: str, plan: dict[str, Any], folder: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
    except (OSError, ValueError):
        raise ValueError(f"{folder}: it is not what a calibration left; give another output") from None
    for key, value in plan.items():
        if before.get(key) != value:
            raise ValueError(
                f"{folder}: it was begun with another {key} ({before.get(key)}, now {value}); delete it, or "
                "go on as it was begun"
            )


def _join(parts: list[str], path: str, metadata: dict[str, str]) -> None:
    """One safetensors file of several, whose data are copied, never held."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end, starts = 0, []
    for part in parts:
        with open(part, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            entries = json.loads(file.read(length))
        starts.append(8 + length)
        last = end
        for name, entry in entries.items():
            if name != "__metadata__":
                offsets = [end + one for one in entry["data_offsets"]]
                header[name] = {**entry, "data_offsets": offsets}
                last = max(last, offsets[1])
        end = last
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for part, start in zip(parts, starts, strict=True):
            with open(part, "rb") as file:
                file.seek(start)
                shutil.copyfileobj(file, out, 1 << 22)
        out.flush()
        os.fsync(out.fileno())
