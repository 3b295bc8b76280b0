from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
import torch

from opbridge.verification.eager import Eager, explain


class Cached(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2))
        self.register_buffer("absent", None)
        self.inner = torch.nn.BatchNorm1d(2)
        self.seen = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.add_(1)
        self.cache.copy_(x.sum(0))
        view = self.cache[:1]
        self.cache = torch.cat([self.cache, self.cache])
        self.absent = torch.ones(1)
        return self.inner(x), view


def test_every_run_starts_from_the_same_state() -> None:
    model = Cached().train()
    cache, seen = model.cache, model.seen
    first = Eager(model)
    x = torch.randn(4, 2)
    one, two = first.run((x,), {}, 0), first.run((x,), {}, 0)
    assert all(torch.equal(left, right) for left, right in zip(one, two, strict=True))
    assert torch.equal(one[1], x.sum(0)[:1])  # though the buffer that it is a part of is zero again
    assert model.cache is cache and not cache.any() and model.seen is seen and not seen.any()
    assert model.absent is None
    assert int(model.inner.num_batches_tracked) == 0 and not model.inner.running_mean.any()


def test_a_run_that_raises_leaves_the_state_too() -> None:
    class Failing(Cached):
        def forward(self, x: torch.Tensor) -> Any:
            super().forward(x)
            raise RuntimeError("too late")

    model = Failing().train()
    with pytest.raises(RuntimeError, match="too late"):
        Eager(model).run((torch.randn(4, 2),), {}, 0)
    assert not model.cache.any() and model.cache.shape == (2,)


def test_attributes_that_are_no_tensors_are_put_back_with_those_that_are() -> None:
    class Grid(torch.nn.Module):
        shapes: ClassVar[list[int]] = []

        def __init__(self) -> None:
            super().__init__()
            self.seen = {"sizes": [0]}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen["sizes"].append(x.shape[0])
            if self.shapes != [*x.shape]:
                self.shapes, self.grid = [*x.shape], torch.arange(x.shape[0])
            return x + self.grid

    model = Grid()
    eager = Eager(model)
    for size in (3, 4, 4, 3):  # a shape without the grid that was made for it would take that of another size
        (result,) = eager.run((torch.zeros(size),), {}, 0)
        assert torch.equal(result, torch.arange(size).float())
    assert model.seen == {"sizes": [0]} and not {"shapes", "grid"} & set(vars(model))
    model(torch.zeros(3))
    (result,) = Eager(model).run((torch.zeros(4),), {}, 0)
    assert torch.equal(result, torch.arange(4).float())
    assert model.shapes == [3] and model.grid.shape == (3,) and model.seen == {"sizes": [0, 3]}


def test_the_seed_decides_and_the_generator_is_put_back() -> None:
    eager = Eager(lambda: torch.rand(3))
    state = torch.get_rng_state()
    one, again, other = (eager.run((), {}, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert eager.used_generator
    steady = Eager(torch.relu)
    steady.run((torch.randn(3),), {}, 1)
    assert not steady.used_generator


def test_inputs_are_copies_and_gradients_are_off() -> None:
    def model(batch: dict[str, torch.Tensor]) -> dict[str, Any]:
        batch["x"].add_(1)
        batch["new"] = batch["x"]
        return {"y": batch["x"] * 2, "grad": torch.is_grad_enabled()}

    x = torch.ones(2, requires_grad=True)
    batch = {"x": x}
    leaves = Eager(model).run((batch,), {}, 0)
    assert leaves[0].tolist() == [4, 4] and leaves[1] is False and not leaves[0].requires_grad
    assert list(batch) == ["x"] and x.tolist() == [1, 1]


def test_dataclasses_are_taken_apart() -> None:
    @dataclasses.dataclass
    class Result:
        first: torch.Tensor
        rest: list[Any]

    leaves = Eager(lambda x: Result(x, [x + 1, "text"])).run((torch.zeros(1),), {}, 0)
    assert len(leaves) == 3 and leaves[1].tolist() == [1] and leaves[2] == "text"


def test_what_torch_compile_was_put_around_runs_as_it_is() -> None:
    compiled = torch.compile(Cached().eval(), backend="eager")
    assert len(Eager(compiled).run((torch.randn(4, 2),), {}, 0)) == 2


def test_an_error_is_told_with_the_model_s_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    with pytest.raises(RuntimeError) as error:
        Eager(model).run((torch.zeros(2, 3),), {}, 0)
    line = model.__code__.co_firstlineno + 1
    assert explain(error.value).startswith("RuntimeError at ") and f"test_eager.py:{line}: " in explain(error.value)
    assert "mat1 and mat2" in explain(error.value)
    with pytest.raises(TypeError) as error:
        Eager(torch.nn.Linear(2, 2)).run((), {}, 0)
    assert explain(error.value).startswith("TypeError: ")  # raised by no line of the model's


class Holder(dict[str, torch.Tensor]):
    """A container that torch does not know before it is met among inputs."""


def test_containers_that_torch_does_not_know_are_copied() -> None:
    def append(x: torch.Tensor, held: Holder) -> torch.Tensor:
        held["x"].add_(x)
        held["more"] = x
        return held["x"] * 2

    held = Holder(x=torch.zeros(2))
    assert torch.equal(Eager(append).run((torch.ones(2), held), {}, 0)[0], torch.full((2,), 2.0))
    assert torch.equal(held["x"], torch.zeros(2)) and list(held) == ["x"]


def test_inputs_require_a_gradient_where_a_model_fails_without() -> None:
    def slope(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((x.square() * count).sum(), x)[0]

    x, count = torch.randn(3, requires_grad=True), torch.tensor(2)
    runs = Eager(slope)
    for _ in range(2):
        torch.testing.assert_close(runs.run((x, count), {}, 0)[0], 4 * x.detach())
    assert x.grad is None


def test_a_gradient_that_nothing_can_require_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        Eager(lambda x: torch.autograd.grad(torch.ones(1).sum(), x)).run((torch.randn(3),), {}, 0)
