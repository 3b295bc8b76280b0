"""The nodes of the campaign, and the facts that it found: each size of 0 ends a process, and a size of 1 does not."""

from __future__ import annotations

import faulthandler
import os
import random

import numpy as np
import onnx
import pytest
from onnx import helper

from attack.batches import in_child
from attack.campaigns import small_nodes
from attack.small_nodes import Drawn, drawn, is_known_to_end, operators
from opbridge.targets.ending import ENDING, ENDING_NUMBERS


def node(operator, arrays, **attributes):
    """A file of one node on inputs of any shape."""
    names = [name for name, each in arrays.items() if each is not None]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[name].dtype), None) for name in names
    ]
    given = [name if each is not None else "" for name, each in arrays.items()]
    count = {"Unique": 4}.get(operator, 1)
    outputs = [f"y{at}" for at in range(count)]
    made = helper.make_node(operator, given, outputs, **attributes)
    graph = helper.make_graph([made], "g", inputs, [helper.make_empty_tensor_value_info(each) for each in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Drawn(operator, "", model, {name: arrays[name] for name in names})


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def lstm(length, batch, size, gates=4):
    return {"X": ones(length, batch, size), "W": ones(1, gates * 2, size), "R": ones(1, gates * 2, 2)}


def norm(*shape, dtype=np.float16):
    return {"x": ones(*shape, dtype=dtype), "s": ones(shape[1], dtype=dtype), "b": ones(shape[1], dtype=dtype)}


def stft(window, length):
    return {"signal": ones(1, 64, 1), "step": np.array(8), "window": window, "length": length}


def transposed(*shape):
    return {"x": ones(*shape), "w": ones(shape[1], 2, *[2] * (len(shape) - 2))}


CASES = {
    "LSTM, batch": (node("LSTM", lstm(3, 0, 4), hidden_size=2), True),
    "LSTM, length": (node("LSTM", lstm(0, 3, 4), hidden_size=2), False),
    "LSTM, 1": (node("LSTM", lstm(1, 1, 1), hidden_size=2), False),
    "GRU, batch": (node("GRU", lstm(3, 0, 4, 3), hidden_size=2), True),
    "GRU, length": (node("GRU", lstm(0, 3, 4, 3), hidden_size=2), True),
    "GRU, size": (node("GRU", lstm(3, 3, 0, 3), hidden_size=2), True),
    "GRU, 1": (node("GRU", lstm(1, 1, 1, 3), hidden_size=2), False),
    "RNN, batch": (node("RNN", lstm(3, 0, 4, 1), hidden_size=2), False),
    "Unique, another axis": (node("Unique", {"x": ones(3, 0)}, axis=0), True),
    "Unique, its axis": (node("Unique", {"x": ones(3, 0)}, axis=-1), False),
    "Unique, without an axis": (node("Unique", {"x": ones(3, 0)}), False),
    "ConvTranspose, depth": (node("ConvTranspose", transposed(1, 2, 0, 4, 5)), True),
    "ConvTranspose, height": (node("ConvTranspose", transposed(1, 2, 3, 0, 5)), True),
    "ConvTranspose, width": (node("ConvTranspose", transposed(1, 2, 3, 4, 0)), False),
    "ConvTranspose, batch": (node("ConvTranspose", transposed(0, 2, 3, 4, 5)), False),
    "ConvTranspose, of images": (node("ConvTranspose", transposed(1, 2, 0, 5)), False),
    "InstanceNormalization, height": (node("InstanceNormalization", norm(1, 2, 0, 5)), True),
    "InstanceNormalization, width": (node("InstanceNormalization", norm(1, 2, 5, 0)), True),
    "InstanceNormalization, length": (node("InstanceNormalization", norm(1, 2, 0)), True),
    "InstanceNormalization, last of three": (node("InstanceNormalization", norm(1, 2, 5, 4, 0)), True),
    "InstanceNormalization, batch": (node("InstanceNormalization", norm(0, 2, 5, 4)), False),
    "InstanceNormalization, float32": (node("InstanceNormalization", norm(1, 2, 0, 5, dtype=np.float32)), False),
    "STFT, window": (node("STFT", stft(ones(0), None)), True),
    "STFT, frame length": (node("STFT", stft(None, np.array(0))), True),
    "STFT, 16": (node("STFT", stft(ones(16), None)), False),
}


@pytest.mark.parametrize("case", CASES)
def test_the_facts_say_what_ends_a_process(case):
    made, ends = CASES[case]

    def run():
        faulthandler.disable()  # it would print pytest's stack
        small_nodes.run_node(made, threads=1)

    status = in_child(run)
    assert (status < 0, is_known_to_end(made)) == (ends, ends), status


def test_every_fact_has_a_case():
    told = {name for fact in (*ENDING, *ENDING_NUMBERS) for name in fact.operators}
    assert {made.operator for made, ends in CASES.values() if ends} == told


@pytest.mark.slow
@pytest.mark.thorough
def test_nodes_are_drawn_of_every_operator_of_onnx_that_a_single_node_is_enough_for():
    schemas = {each.name for each in onnx.defs.get_all_schemas() if each.domain == "" and not each.deprecated}
    without = schemas - set(operators())
    assert all(each.startswith(("Sequence", "Optional", "Concat", "Random", "Constant")) for each in without), without
    made = [drawn(random.Random(seed)) for seed in range(200)]
    assert sum(each is not None for each in made) > 100
    again = drawn(random.Random(3))
    assert (made[3] is None) == (again is None) and (again is None or made[3].changes == again.changes)


@pytest.mark.slow
def test_what_ends_a_process_and_is_no_fact_is_a_finding(monkeypatch):
    def fatal(random_):
        return node("Relu", {"x": ones(2)}) if random_.random() < 0.5 else CASES["LSTM, batch"][0]

    def run_node(made, *, threads):
        if made.operator == "Relu" or is_known_to_end(made):
            os.abort()

    monkeypatch.setattr(small_nodes, "drawn", fatal)
    monkeypatch.setattr(small_nodes, "run_node", run_node)
    found = small_nodes.run(60, 0, most=12)
    assert found["known"] and found["findings"] and found["outcomes"]["crash"] == 12
    assert all("Relu" in each["what"] and "ended with -6" in each["what"] for each in found["findings"])
