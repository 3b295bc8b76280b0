"""The databases of samples: torch's own, torchvision's, a user's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from helpers.scripts import run_script

from opbridge import UsageError
from opbridge.coverage.databases import ORDER, database, pick, samples_of
from opbridge.coverage.tasks import Settings, to_try

HERE = Path(__file__).parent
OWN = f"{HERE / 'samples_to_sweep.py'}"


@pytest.mark.slow
def test_the_whole_of_op_db_is_there():
    from torch.testing._internal.common_methods_invocations import op_db

    entries = database("torch")
    assert len(entries) == len(op_db) > 600
    assert {"std", "std/unbiased", "nn.functional.gelu", "special.airy_ai"} <= entries.keys()
    assert entries["empty_like"].undefined and not entries["ones_like"].undefined


@pytest.mark.slow
def test_patterns():
    assert pick("torch", ["std"]) == ["std", "std/unbiased"]
    assert pick("torch", ["std/*", "topk"]) == ["topk", "std/unbiased"]
    with pytest.raises(UsageError, match="No operator of the database torch matches nope"):
        pick("torch", ["nope"])


@pytest.mark.slow
def test_samples_are_the_same_in_every_process(tmp_path):
    script = tmp_path / "samples.py"
    script.write_text(
        "import torch\n"
        "from opbridge.coverage.databases import samples_of\n"
        "for key in ('add', 'nn.functional.conv2d', 'multinomial'):\n"
        "    for sample in samples_of('torch', key, torch.float32, 3):\n"
        "        print([x.double().sum().item() for x in sample.args if isinstance(x, torch.Tensor)])\n"
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    torch.manual_seed(77)
    torch.rand(5)
    state = torch.get_rng_state()
    here = [
        str([x.double().sum().item() for x in sample.args if isinstance(x, torch.Tensor)])
        for key in ("add", "nn.functional.conv2d", "multinomial")
        for sample in samples_of("torch", key, torch.float32, 3)
    ]
    assert done.stdout.split("\n")[:-1] == here
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_more_samples_begin_with_the_same():
    few, many = (samples_of("torch", "add", torch.float32, count) for count in (2, 6))
    assert len(many) == 6
    for left, right in zip(few, many, strict=False):
        assert torch.equal(left.args[0], right.args[0])


@pytest.mark.slow
def test_random_operators_of_op_db_draw_anew():
    entry = database("torch")["nn.functional.dropout"]
    x = torch.ones(1000)
    assert not torch.equal(entry.function(x, p=0.5, training=True), entry.function(x, p=0.5, training=True))


@pytest.mark.slow
def test_dtypes_of_a_sweep():
    def tried(key, dtypes):
        tasks, left_out = to_try(Settings((key,), "torch", 1, dtypes))
        return [task.dtype for task in tasks], left_out

    assert tried("nn.functional.gelu", None) == (["float32"], [])
    assert tried("bitwise_and", None)[0] == ["int64"]
    assert tried("add", ("float16", "int8"))[0] == ["float16", "int8"]
    everything, left_out = tried("add", ("all",))
    assert {"bfloat16", "complex64", "bool", "uint8"} <= set(everything)
    assert [reason for _, reason in left_out] == ["ONNX has no complex32"]
    assert tried("torch.ops.aten._flash_attention_forward", None)[1][0][1] == "it supports no dtype on the CPU"


def test_every_dtype_is_one_of_onnx():
    from opbridge.base.dtypes import onnx_dtype

    for dtype in ORDER:
        onnx_dtype(dtype.to_real() if dtype.is_complex else dtype)


def test_a_database_of_ones_own():
    assert list(database(f"{OWN}:GOOD"))[:2] == ["relu", "relu/doubled"]
    assert list(database(f"{OWN}:made")) == list(database(f"{OWN}:GOOD"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "is not a valid database of samples"),
        ("no_such_module_here:NAME", "module no_such_module_here was not found"),
        (f"{OWN}:ABSENT", "has no 'ABSENT'"),
        (f"{OWN}:NONE", "is not a database of samples"),
        (f"{OWN}:TWICE", "two entries 'relu'"),
    ],
)
def test_a_database_that_is_none(name, said):
    with pytest.raises(UsageError, match=said):
        database(name)


@pytest.mark.torchvision
def test_the_samples_of_torchvision_run():
    for key, entry in database("torchvision").items():
        samples = samples_of("torchvision", key, torch.float32, 10)
        assert len(samples) >= 3
        for sample in samples:
            assert isinstance(entry.function(*sample.args, **sample.kwargs), torch.Tensor)


def test_tasks_and_verdicts_travel():
    tasks, _ = to_try(Settings(("add",), samples=2))
    assert pickle.loads(pickle.dumps(tasks)) == tasks
