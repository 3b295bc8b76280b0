"""The policies of stable_baselines3's algorithms: for vectors, images and dictionaries, with each kind of action."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("stable_baselines3", "gymnasium")

_SIZES = {"batch": Size(2, (1, 3))}
_SIDE = 36
"""The smallest side of an image that the convolutions take."""
_ACTIONS = ("Discrete", "Box", "MultiDiscrete", "MultiBinary")
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "use_sde": {"use_sde": True},
    "use_sde, full_std=False": {"use_sde": True, "full_std": False},
    "squash_output": {"use_sde": True, "squash_output": True},
    "share_features_extractor=False": {"share_features_extractor": False},
    "ortho_init=False": {"ortho_init": False, "activation_fn": torch.nn.ReLU},
}
"""Options of the policies of actors and critics that change what they compute."""


def entries() -> Iterator[ModelEntry]:
    """The policies, by what they observe and how they act, and what else they compute."""
    for kind in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"):
        for action in _ACTIONS:
            yield ModelEntry(f"ppo.{kind}, {action}", partial(_make, "ppo", kind, action, _deterministic))
        yield ModelEntry(f"dqn.{kind}, Discrete", partial(_make, "dqn", kind, "Discrete", _plain))
        for algorithm in ("sac", "td3"):
            deterministic = _deterministic if algorithm == "sac" else _plain
            yield ModelEntry(f"{algorithm}.{kind}, Box", partial(_make, algorithm, kind, "Box", deterministic))
    for action in _ACTIONS:
        evaluate = partial(_make, "ppo", "MlpPolicy", action, _evaluate)
        yield ModelEntry(f"ppo.MlpPolicy, {action}, evaluate_actions", evaluate)
    for name, options in _OPTIONS.items():
        yield ModelEntry(f"ppo.MlpPolicy, {name}", partial(_make, "ppo", "MlpPolicy", "Box", _deterministic, **options))
    yield ModelEntry("ppo.MlpPolicy, predict_values", partial(_make, "ppo", "MlpPolicy", "Box", _values))
    yield ModelEntry("dqn.MlpPolicy, q_net", partial(_make, "dqn", "MlpPolicy", "Discrete", _q_net))
    yield ModelEntry("sac.MlpPolicy, critic", partial(_make, "sac", "MlpPolicy", "Box", _critic))
    yield ModelEntry("sac.MlpPolicy, use_sde", partial(_make, "sac", "MlpPolicy", "Box", _deterministic, use_sde=True))
    yield ModelEntry("ppo.MlpPolicy, one-hot", partial(_make, "ppo", "one-hot", "Discrete", _deterministic))


def _make(algorithm: str, kind: str, action: str, wrap: Callable[..., torch.nn.Module], **options: Any) -> Case:
    package = importlib.import_module(f"stable_baselines3.{algorithm}")
    observed = _observed(kind)
    acted = _acted(action)
    policy_class = getattr(package, "MlpPolicy" if kind == "one-hot" else kind)
    policy = policy_class(observed, acted, lambda progress: 1e-3, **options)
    draw = partial(_observations, observed)
    if wrap is _evaluate or wrap is _critic:
        draw = partial(_observations_and_actions, observed, acted)
    return vary(wrap(policy), draw, _SIZES)


def _observed(kind: str) -> Any:
    import numpy as np
    from gymnasium import spaces

    vector = spaces.Box(-1.0, 1.0, (6,), np.float32)
    image = spaces.Box(0, 255, (3, _SIDE, _SIDE), np.uint8)
    if kind == "CnnPolicy":
        return image
    if kind == "MultiInputPolicy":
        return spaces.Dict({"image": image, "vector": vector, "level": spaces.Discrete(4)})
    return spaces.Discrete(5) if kind == "one-hot" else vector


def _acted(action: str) -> Any:
    import numpy as np
    from gymnasium import spaces

    made = {
        "Discrete": lambda: spaces.Discrete(4),
        "Box": lambda: spaces.Box(-1.0, 1.0, (3,), np.float32),
        "MultiDiscrete": lambda: spaces.MultiDiscrete([3, 4]),
        "MultiBinary": lambda: spaces.MultiBinary(3),
    }
    return made[action]()


def _drawn(space: Any, batch: int) -> Any:
    """Values of a space, as a policy's `obs_to_tensor` gives them."""
    kind = type(space).__name__
    if kind == "Dict":
        return {name: _drawn(part, batch) for name, part in space.spaces.items()}
    if kind == "Discrete":
        return torch.randint(0, int(space.n), (batch,))
    if kind == "MultiDiscrete":
        return torch.stack([torch.randint(0, int(most), (batch,)) for most in space.nvec], 1)
    if kind == "MultiBinary":
        return torch.randint(0, 2, (batch, space.n)).float()
    if space.dtype == "uint8":
        return torch.randint(0, 256, (batch, *space.shape), dtype=torch.uint8)
    return torch.rand(batch, *space.shape) * 2 - 1


def _observations(observed: Any, batch: int) -> Inputs:
    return Inputs((_drawn(observed, batch),))


def _observations_and_actions(observed: Any, acted: Any, batch: int) -> Inputs:
    return Inputs((_drawn(observed, batch), _drawn(acted, batch)))


def _plain(policy: torch.nn.Module) -> torch.nn.Module:
    return policy


def _deterministic(policy: torch.nn.Module) -> torch.nn.Module:
    return Calling(lambda module, seen: module(seen, deterministic=True), policy)


def _evaluate(policy: torch.nn.Module) -> torch.nn.Module:
    return Calling(lambda module, seen, actions: module.evaluate_actions(seen, actions), policy)


def _values(policy: torch.nn.Module) -> torch.nn.Module:
    return Calling(lambda module, seen: module.predict_values(seen), policy)


def _q_net(policy: Any) -> torch.nn.Module:
    network: torch.nn.Module = policy.q_net
    return network


def _critic(policy: Any) -> torch.nn.Module:
    network: torch.nn.Module = policy.critic
    return network
