"""What ONNX Runtime's profiler writes, added up for each run."""

from __future__ import annotations

from opbridge.profiling.trace import runs_of

CPU = "CPUExecutionProvider"


def kernel(name, operator, microseconds, provider=CPU):
    """A line of a profile, as ONNX Runtime 1.32 writes it, with a part of its arguments."""
    return (
        f'{{"cat" : "Node","pid" :1,"tid" :1,"dur" :{microseconds},"ts" :17142,"ph" : "X","name" :"{name}_kernel_time",'
        f'"args" : {{"op_name" : "{operator}","node_index" : "1","provider" : "{provider}"}}}},\n'
    )


def session(name):
    return (
        f'{{"cat" : "Session","pid" :1,"tid" :1,"dur" :276,"ts" :17126,"ph" : "X","name" :"{name}","args" : {{}}}},\n'
    )


END = session("model_run")


def test_kernels_belong_to_the_run_that_ends_after_them():
    lines = ["[\n", session("session_initialization"), kernel("a", "Relu", 5), END, kernel("a", "Relu", 7), END, "]\n"]
    assert list(runs_of(lines)) == [{("a", "Relu", CPU): [1, 5]}, {("a", "Relu", CPU): [1, 7]}]


def test_a_node_of_a_body_is_added_up():
    lines = [kernel("mul", "Mul", 2), kernel("mul", "Mul", 3), session("SequentialExecutor::Execute"), END]
    assert list(runs_of(lines)) == [{("mul", "Mul", CPU): [2, 5]}]


def test_a_run_that_is_cut_off_is_no_run():
    half = kernel("a", "Relu", 5)[:40]
    assert list(runs_of([kernel("a", "Relu", 5), END, kernel("a", "Relu", 6), half])) == [{("a", "Relu", CPU): [1, 5]}]


def test_the_provider_tells_nodes_apart():
    cuda = "CUDAExecutionProvider"
    (found,) = runs_of([kernel("a", "Relu", 5, cuda), kernel("Memcpy", "MemcpyToHost", 9, cuda), END])
    assert found == {("a", "Relu", cuda): [1, 5], ("Memcpy", "MemcpyToHost", cuda): [1, 9]}
