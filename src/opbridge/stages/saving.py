"""The file of a program, and its comparison with PyTorch: in its place is only what was verified."""

from __future__ import annotations

import contextlib

from opbridge.program import Program, target_error, verification_error
from opbridge.request import ExportRequest
from opbridge.save import writer
from opbridge.save.failed import remove_failed
from opbridge.stages.repairing import is_taken
from opbridge.stages.running import Stages

__all__ = ["save_verified"]


def save_verified(program: Program, request: ExportRequest, stages: Stages) -> None:
    """Writes a program to a temporary path, verifies it there, and puts the file in its place.

    A model that is cast next is verified only: what its target does not take is told of the cast model.

    Raises:
        SaveError: The file cannot be written.
        TargetError: The target does not take the model.
        VerificationError: The outputs do not agree with PyTorch.
    """
    output, path = request.output, request.output.path
    is_draft = output.precision is not None
    with contextlib.ExitStack() as files:
        staged = None
        if path is not None and not is_draft:
            with stages.running("save") as stage:
                staged = files.enter_context(writer.staged(program.model, path, external_data=output.external_data))
                stage.detail(f"{staged.size():,} bytes")
            program.path = staged.path
        _verify(program, request, stages)
        if staged is not None and path is not None and not _failed(program) and is_taken(program):
            program.files = staged.commit()
            program.path = path
    if _failed(program):
        raise verification_error(program, path, output.external_data)
    if is_draft:
        return
    if not is_taken(program):
        raise target_error(program, path, output.external_data)
    if path is not None and program.verification is not None:
        remove_failed(path)
    if output.file is not None:
        with stages.running("save") as stage:
            stage.detail(f"{output.file.write(program.to_bytes()):,} bytes")


def _verify(program: Program, request: ExportRequest, stages: Stages) -> None:
    """Compares a program with PyTorch, where that was asked for and the runtime has its kernels."""
    if request.verification is None:
        return
    if program.plan.unverified:
        program.unverified = program.plan.unverified
        return
    from opbridge.verification import verify_program

    output = request.output
    subject = None if output.path is None or output.precision is not None else str(output.path)
    with stages.running("verify") as stage:
        program.verification = verify_program(program, request.verification, subject)
        stage.detail(program.verification.summary())


def _failed(program: Program) -> bool:
    return program.verification is not None and not program.verification.ok
