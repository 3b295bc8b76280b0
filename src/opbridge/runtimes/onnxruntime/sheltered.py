"""A session of this process, beside one in a process of its own for the runs that may end a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opbridge.errors import ModelFileError, RunError
from opbridge.runtimes.arguments import ModelMetadata, NodeArgument
from opbridge.runtimes.child import ProcessEnded
from opbridge.runtimes.onnxruntime.isolated import IsolatedSession

__all__ = ["Shapes", "ShelteredSession"]

Shapes = Mapping[str, Sequence[int]]
"""The shapes of inputs, by name."""


class ShelteredSession:
    """Runs a model here, and elsewhere on inputs that may end the process.

    Most runs are harmless, and a process that imports ONNX Runtime takes a quarter of a second to start: it starts with
    the first run that needs it, loads the model then, and stays for those that follow.

    Args:
        session: The session of this process.
        is_risky: Whether a run on inputs of these shapes may end the process.
        isolated: Loads the model in a process of its own.
        repeats: Whether a run that raises there, and ends no process, is made here: PyTorch runs nodes of the model,
            and operators that Python code has registered are not there.
    """

    def __init__(
        self,
        session: Any,
        is_risky: Callable[[Shapes], bool],
        isolated: Callable[[], IsolatedSession],
        *,
        repeats: Callable[[], bool],
    ) -> None:
        self._session, self._is_risky, self._isolated, self._repeats = session, is_risky, isolated, repeats
        self._other: IsolatedSession | None = None

    @property
    def note(self) -> str:
        """How the session runs the model otherwise than the file says; "": it does not."""
        return str(self._session.note)

    def get_inputs(self) -> list[NodeArgument]:
        """The model's inputs."""
        return list(self._session.get_inputs())

    def get_outputs(self) -> list[NodeArgument]:
        """The model's outputs."""
        return list(self._session.get_outputs())

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        found: ModelMetadata = self._session.get_modelmeta()
        return found

    def run_with_ort_values(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Runs the model on OrtValues, and returns OrtValues.

        Raises:
            ProcessEnded: The run ended the other process, or took longer than it may.
            Exception: Whatever ONNX Runtime raises.
        """
        if not self._is_risky({name: value.shape() for name, value in feeds.items()}):
            return list(self._session.run_with_ort_values(output_names, feeds))
        try:
            if self._other is None:
                self._other = self._isolated()
            return self._other.run_with_ort_values(output_names, feeds)
        except ProcessEnded:
            raise
        except (ModelFileError, RunError):
            if not self._repeats():
                raise
            return list(self._session.run_with_ort_values(output_names, feeds))

    def close(self) -> None:
        """Ends the other process, if it was started. A later run that needs it starts another one."""
        if self._other is not None:
            self._other.close()
