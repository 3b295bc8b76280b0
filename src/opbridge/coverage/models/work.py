"""The sweep over models, as the engine sees it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from opbridge.coverage.models.tasks import ModelSettings, ModelTask, ModelVerdict

__all__ = ["FAMILIES", "ModelWork"]

FAMILIES = "OPBRIDGE_SWEEP_FAMILIES"
"""The variable of the environment that tells the fork server which families to import."""

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "DIFFUSERS_OFFLINE": "1",
    "YOLO_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
}
"""What keeps packages from downloading anything, and from talking."""


@dataclass(frozen=True)
class ModelWork:
    """Tries models.

    Attributes:
        settings: What holds for every model.
        memory: The bytes that a worker process may hold; None: any number.
    """

    settings: ModelSettings
    memory: int | None = None
    task_type: ClassVar[type] = ModelTask
    verdict_type: ClassVar[type] = ModelVerdict
    warm: ClassVar[str] = "opbridge.coverage.models.warm"
    renewed_after: ClassVar[int] = 24
    """What many packages keep of their models adds up."""

    ahead: ClassVar[int] = 1

    @property
    def timeout(self) -> float:
        return self.settings.timeout

    @property
    def environment(self) -> Mapping[str, str]:
        return {**_OFFLINE, FAMILIES: " ".join(self.settings.families)}

    def start(self) -> None:
        """Keeps packages from downloading, also where the fork server has another sweep's environment."""
        os.environ.update(_OFFLINE)

    def attempt(self, task: ModelTask) -> ModelVerdict:
        """See `trying.tried`."""
        from opbridge.coverage.models.trying import tried

        return tried(task, self.settings)

    def groups(self, tasks: Iterable[ModelTask]) -> Iterator[list[ModelTask]]:
        """Each model alone: one takes minutes and the next one a second, and the packages are imported already."""
        return ([task] for task in tasks)
