"""What goes to other processes and into caches: functions, results, errors, open checkpoints."""

import copy
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import microscale as ms
from models import write_model


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("name", [name for name in ms.__all__ if callable(getattr(ms, name))])
def test_functions_and_classes_by_name(name):
    thing = getattr(ms, name)
    assert again(thing) is thing and copy.deepcopy(thing) is thing


def test_a_pool_of_processes_converts(tmp_path):
    write_model(tmp_path / "model")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        plan = pool.submit(ms.quantize_model, tmp_path / "model", tmp_path / "out").result()
        with pytest.raises(FileNotFoundError) as error:
            pool.submit(ms.verify_model, tmp_path / "nowhere").result()
    assert isinstance(error.value, ms.Error) and error.value.code == "io"
    here = ms.plan_quantize_model(tmp_path / "model", tmp_path / "other")
    assert [repr(tensor) for tensor in plan.tensors] == [repr(tensor) for tensor in here.tensors]
    assert (plan.bytes_before, plan.bytes_after) == (here.bytes_before, here.bytes_after)


def test_results_of_conversions(tmp_path):
    write_model(tmp_path / "model")
    (tmp_path / "model" / "pytorch_model.bin").write_bytes(b"weights")
    plan = ms.quantize_model(tmp_path / "model", tmp_path / "out")
    for one, other in ((plan, again(plan)), (plan, copy.deepcopy(plan))):
        for name in ("left_out", "notices", "copied_files", "disk_needed", "computed_on"):
            assert getattr(one, name) == getattr(other, name)
        for a, b in zip(one.tensors, other.tensors, strict=True):
            names = "name dtype shape treatment reason group file format bytes_after".split()
            assert all(getattr(a, name) == getattr(b, name) for name in names)
    dense = ms.dequantize_model(tmp_path / "out", tmp_path / "dense")
    assert again(dense).left_out == dense.left_out and dense.left_out
    report = ms.repair_model(tmp_path / "out")
    assert again(report).found == report.found and again(report).changes == report.changes


def test_an_open_checkpoint_by_its_path(tmp_path, monkeypatch):
    tensors = write_model(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    model = ms.open_checkpoint("model")
    data = pickle.dumps(model)
    monkeypatch.chdir("/")
    name = next(iter(tensors))
    assert np.array_equal(pickle.loads(data)[name], tensors[name])


def test_weak_references():
    tensor = ms.quantize(np.ones((16, 32), np.float32))
    cache = ms.KvCache.allocate(1, 1, 32, 16)
    for thing in (tensor, ms.pack_weights(tensor), cache):
        reference = weakref.ref(thing)
        assert reference() is thing
    del thing, cache
    assert reference() is None
