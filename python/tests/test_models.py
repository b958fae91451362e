"""Conversion of model folders, and checkpoints as mappings."""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from models import write_model

import microscale as ms

Q_PROJ = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8"])
def test_a_model_there_and_back(model, tmp_path, format):
    plan = ms.plan_quantize_model(model, tmp_path / "q", format)
    done = ms.quantize_model(str(model), tmp_path / "q", format, threads=2)
    assert repr(done) == repr(plan) and done.bytes_after < done.bytes_before
    by_name = {t.name: t for t in done.tensors}
    assert by_name[Q_PROJ + ".weight"].treatment == "quantize" and by_name[Q_PROJ + ".weight"].shape == (
        64,
        64,
    )
    assert by_name["model.norm.weight"].treatment == "copy"
    assert ms.verify_model(tmp_path / "q") == []
    dense = ms.dequantize_model(tmp_path / "q", tmp_path / "dense", "f32")
    assert "microscale_manifest.json" in dense.left_out
    with ms_open(tmp_path / "dense") as dense, ms_open(tmp_path / "q") as quantized:
        np.testing.assert_array_equal(dense[Q_PROJ + ".weight"], quantized[Q_PROJ].dequantize("f32"))


def test_a_budget_chooses_formats(model, tmp_path):
    plan = ms.plan_quantize_model(model, tmp_path / "q", bits=6.0)
    done = ms.quantize_model(model, tmp_path / "q", bits=6.0, threads=2)
    assert done.choice == plan.choice and done.choice["bits"] <= 6.0
    by_name = {t.name: t.format for t in done.tensors}
    for group in done.choice["groups"]:
        if group["name"] + ".weight" in by_name:
            wanted = "" if group["format"] == "bf16" else group["format"]
            assert by_name[group["name"] + ".weight"] == wanted
    assert pickle.loads(pickle.dumps(done)).choice == done.choice
    assert ms.verify_model(tmp_path / "q") == []
    assert ms.quantize_model(model, tmp_path / "plain").choice is None
    small = ms.quantize_model(model, tmp_path / "small", fit=done.disk_needed - 1000, menu=["nvfp4", "bf16"])
    assert small.disk_needed <= done.disk_needed - 1000
    with pytest.raises(ValueError, match="at least 4.25 bits a weight and at most"):
        ms.quantize_model(model, tmp_path / "none", bits=2)
    with pytest.raises(ValueError, match="leave one out"):
        ms.quantize_model(model, tmp_path / "none", "mxfp4", bits=5)
    with pytest.raises(ValueError, match="menu: there is no format 'fp4'"):
        ms.quantize_model(model, tmp_path / "none", bits=5, menu=["fp4"])


def test_codes_go_into_another_container(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q", "mxfp4")
    converted = ms.convert_model(tmp_path / "q", tmp_path / "nvfp4", "modelopt", exact=True)
    assert converted.same_values and converted.blocks_searched == 0
    assert converted.blocks_cast == converted.blocks > 0 and converted.weights > 0
    assert ms.verify_model(tmp_path / "nvfp4") == []
    assert ms.compare_models(tmp_path / "q", tmp_path / "nvfp4")["relative_mse"] == 0
    with pytest.raises(ValueError, match="container: 'gguuf' is unknown"):
        ms.convert_model(tmp_path / "q", tmp_path / "other", "gguuf")
    with pytest.raises(ValueError, match="adapter"):
        ms.quantize_model(model, tmp_path / "merged", lora=[(tmp_path, 0.5)])


def test_a_whole_folder_needs_no_repair(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q")
    report = ms.repair_model(tmp_path / "q", tmp_path / "mended")
    assert (report.changes, report.found, report.written) == ([], 0, False)
    assert not (tmp_path / "mended").exists()


def test_an_ignore_list_in_a_wrong_spelling_is_repaired(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q", ignore=["*.o_proj.weight"])
    config = tmp_path / "q" / "config.json"
    config.write_text(config.read_text().replace("self_attn.o_proj\"", "self_attn.o_proj.weight\""))
    assert ms.verify_model(tmp_path / "q")
    told = ms.repair_model(tmp_path / "q")
    assert told.changes and not told.written
    assert ms.repair_model(tmp_path / "q", tmp_path / "mended").written
    assert ms.verify_model(tmp_path / "mended") == []


def test_files_left_out_have_a_reason(model, tmp_path):
    (model / "pytorch_model.bin").write_bytes(b"PK" * 100)
    plan = ms.plan_quantize_model(model, tmp_path / "q")
    assert plan.left_out["pytorch_model.bin"]


def test_an_unknown_order_of_experts_is_named(model, tmp_path):
    with pytest.raises(ValueError, match="experts: there is no order 'sideways'"):
        ms.plan_quantize_model(model, tmp_path / "q", experts="sideways")
    assert ms.plan_quantize_model(model, tmp_path / "q", experts=None).tensors


def test_dynamic_activations_stand_in_the_config(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q", "mxfp4", activations="dynamic")
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    assert config["quantization_config"]["config_groups"]["group_0"]["input_activations"]["dynamic"] is True
    with pytest.raises(ValueError, match="activations: 'static' is unknown"):
        ms.plan_quantize_model(model, tmp_path / "p", "mxfp4", activations="static")


def test_input_scales_make_w4a4(model, tmp_path):
    plan = ms.plan_quantize_model(model, tmp_path / "q")
    modules = [t.name.removesuffix(".weight") for t in plan.tensors if t.treatment == "quantize"]
    (tmp_path / "amax.json").write_text(json.dumps({name: 2.0 for name in modules}))
    plan = ms.quantize_model(model, tmp_path / "q", input_scales=tmp_path / "amax.json")
    assert {t.input_amax for t in plan.tensors} == {2.0, None}
    assert ms.verify_model(tmp_path / "q") == []
    (tmp_path / "amax.json").write_text("{}")
    with pytest.raises(ValueError, match="have no number"):
        ms.plan_quantize_model(model, tmp_path / "p", input_scales=tmp_path / "amax.json")


def test_use_gives_layers_another_format(model, tmp_path):
    plan = ms.quantize_model(model, tmp_path / "q", use=[("*.mlp.*", "fp8")])
    assert {t.format for t in plan.tensors} == {"", "nvfp4", "fp8"}
    assert ms.verify_model(tmp_path / "q") == []
    with pytest.raises(ValueError, match="use: there is no format 'int4'"):
        ms.plan_quantize_model(model, tmp_path / "p", use=[("*", "int4")])


def test_container_modelopt_has_its_own_description(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q", container="modelopt")
    description = json.loads((tmp_path / "q" / "hf_quant_config.json").read_text())
    assert description["quantization"]["group_size"] == 16
    assert ms.verify_model(tmp_path / "q") == []
    with pytest.raises(ValueError, match="container: 'onnx' is unknown"):
        ms.plan_quantize_model(model, tmp_path / "p", container="onnx")


class ms_open:
    """A checkpoint whose mapping is gone at the end of the block."""

    def __init__(self, path):
        self.model = ms.open_checkpoint(path)

    def __enter__(self):
        return self.model

    def __exit__(self, *_):
        del self.model


def test_the_same_bytes_as_the_program(model, tmp_path):
    ms.quantize_model(model, tmp_path / "a", "mxfp4", scale_rule="rceil", ignore=["*o_proj*"])
    subprocess.run(
        [
            sys.executable,
            "-m",
            "microscale",
            "quantize",
            str(model),
            "-o",
            str(tmp_path / "b"),
            "--format",
            "mxfp4",
            "--scale-rule",
            "rceil",
            "--ignore",
            "*o_proj*",
        ],
        check=True,
        capture_output=True,
    )
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_checkpoint_is_a_mapping_without_copies(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q")
    opened = ms.open_checkpoint(tmp_path / "q")
    assert len(opened) == 7 and Q_PROJ + ".weight" in opened and "nothing" not in opened
    with pytest.raises(KeyError):
        opened["nothing"]
    t = opened[Q_PROJ]
    source = ms.open_checkpoint(model)[Q_PROJ + ".weight"]
    assert source.dtype == np.float32 and t.format == "nvfp4" and t.shape == source.shape
    again = ms.quantize(source, global_scale=t.global_scale)
    np.testing.assert_array_equal(t.codes, again.codes)
    assert not t.codes.flags.writeable and not t.codes.flags.owndata
    with pytest.raises(ValueError, match="out: the array is read-only"):
        ms.quantize(source, out=t)
    del opened
    gc.collect()  # the arrays keep the mapping
    x = np.ones((2, 64), np.float32)
    np.testing.assert_array_equal(ms.matmul(x, t), ms.matmul(x, again))


def test_bfloat16_tensors_have_their_type(tmp_path):
    from models import write_safetensors

    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = np.arange(8, dtype=np.float32).astype(bfloat16)
    write_safetensors(tmp_path / "m.safetensors", {"x": values.view(np.uint16)})
    found = ms.open_checkpoint(tmp_path / "m.safetensors")["x"]
    assert found.dtype == bfloat16 and np.array_equal(found, values)


def test_reports(model, tmp_path):
    ms.quantize_model(model, tmp_path / "q")
    listing = ms.inspect_model(tmp_path / "q")
    assert {t["name"]: t["format"] for t in listing["tensors"]}[Q_PROJ + ".weight"] == "nvfp4"
    detail = ms.inspect_model(tmp_path / "q", Q_PROJ + ".weight")
    assert detail["blocks"] == 64 * 64 // 16 and sum(detail["element_codes"].values()) == 64 * 64
    cost = ms.compare_models(model, tmp_path / "q")
    assert 0.001 < cost["relative_mse"] < 0.02 and cost["only_in_other"] == []
    with pytest.raises(ValueError, match="nothing"):
        ms.inspect_model(tmp_path / "q", "nothing")


def test_errors_say_what_kind_they_are(tmp_path):
    with pytest.raises(OSError) as missing:
        ms.quantize_model(tmp_path / "absent", tmp_path / "q")
    assert isinstance(missing.value, ms.Error) and missing.value.code == "io"
    (tmp_path / "broken.safetensors").write_bytes(b"no header")
    with pytest.raises(ValueError) as broken:
        ms.open_checkpoint(tmp_path / "broken.safetensors")
    assert broken.value.code == "bad_input"
    with pytest.raises(ms.Error, match="there is no 'int4'"):
        ms.quantize_model(tmp_path, tmp_path / "q", "int4")


def test_progress_is_told_and_stops(model, tmp_path):
    seen = []
    ms.quantize_model(
        model, tmp_path / "q", progress=lambda done, total, item: seen.append((done, total))
    )
    assert seen and seen[-1][0] == seen[-1][1] > 0
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def fail(*_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ms.quantize_model(model, tmp_path / "r", progress=fail)


SLOW = """
import sys, microscale as ms
def tell(*_): print("begun", flush=True)
try:
    ms.quantize_model(sys.argv[1], sys.argv[2], "nvfp4", scale_rule="full", threads=1, progress=tell)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("program", ["function", "command"])
def test_ctrl_c_stops_a_conversion_that_can_go_on(tmp_path, program):
    write_model(tmp_path / "model", layers=6, hidden=1024)
    out = tmp_path / "q"
    command = (
        [sys.executable, "-c", SLOW, str(tmp_path / "model"), str(out)]
        if program == "function"
        else [
            str(Path(sys.executable).parent / "microscale"),
            "quantize",
            str(tmp_path / "model"),
            "-o",
            str(out),
            "--format",
            "nvfp4",
            "--scale-rule",
            "full",
            "--threads",
            "1",
        ]
    )
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    )
    end = time.monotonic() + 30
    while not (out.exists() and any(out.iterdir())) and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(running.pid, signal.SIGINT)
    said, errors = running.communicate(timeout=60)
    if program == "function":
        assert "interrupted" in said, errors
    else:
        assert running.returncode == 130, errors
    ms.quantize_model(tmp_path / "model", out, resume=True, scale_rule="full")
    assert ms.verify_model(out) == []
