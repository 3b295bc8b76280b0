"""An engine on the GPU, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opbridge.runtimes.described import described, type_named
from opbridge.runtimes.tensorrt_rtx import driver
from opbridge.runtimes.tensorrt_rtx.building import Attempt, architectures, logger
from opbridge.runtimes.tensorrt_rtx.refusals import explained
from opbridge.runtimes.tensorrt_rtx.wheel import version
from opbridge.runtimes.tensors import dtype_named

__all__ = ["Engine", "obstacle"]

_DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "FP8": "float8_e4m3fn",
}
"""By TensorRT's types, NumPy's."""


def obstacle() -> str:
    """Why an engine cannot run on this machine; "" where it can."""
    found, why = driver.architecture()
    if not found:
        return why
    if found not in (known := architectures()):
        return f"TensorRT-RTX {version()} does not support this machine's GPU ({found}); it supports {', '.join(known)}"
    return ""


class Engine:
    """An engine that was built, and runs on the first run.

    Args:
        built: The engine.
        model: The file that it was built from, or its content.

    Attributes:
        notes: For which GPUs it was built, and for which it could not be.
    """

    def __init__(self, built: Attempt, model: str | bytes) -> None:
        self._content = built.engine
        self.notes = [f"built for {', '.join(built.architectures)}"]
        for each, complaints in built.refusing.items():
            self.notes.append(f"cannot be built for {each}: {explained(complaints, model)}")
        self._outputs = {each.name: type_named(each.type) for each in described(model).outputs}
        self._context: Any = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """All outputs, in the model's order and types: TensorRT computes float64 in float32.

        Raises:
            RuntimeError: There is no GPU that it supports, the sizes are outside of those that the engine was built
                for, or the run fails.
        """
        import tensorrt_rtx_bindings as trt

        if self._context is None:
            self._start(trt)
        engine, context = self._context.engine, self._context
        stream, results = driver.Stream(), {}
        kept: list[Any] = []  # until the run ends
        for name in (engine.get_tensor_name(at) for at in range(engine.num_io_tensors)):
            kind = dtype_named(_DTYPES[engine.get_tensor_dtype(name).name])
            if engine.get_tensor_mode(name) != trt.TensorIOMode.INPUT:
                results[name] = kind
                continue
            array = np.ascontiguousarray(feeds[name].astype(kind)).reshape(feeds[name].shape)
            if not context.set_input_shape(name, array.shape):
                raise RuntimeError(f"the shape {array.shape} of the input '{name}' is outside of the engine's profile")
            if engine.get_tensor_location(name) == trt.TensorLocation.HOST:
                kept.append(array)
                context.set_tensor_address(name, array.ctypes.data)
            else:
                memory = driver.Memory(array.nbytes)
                driver.copy_to(memory, array)
                kept.append(memory)
                context.set_tensor_address(name, memory.address)
        if missing := context.infer_shapes():
            raise RuntimeError(f"the shapes cannot be computed from the inputs; missing: {', '.join(missing)}")
        places = {name: _place(trt, engine, context, name, kind) for name, kind in results.items()}
        if not context.execute_async_v3(stream.handle):
            raise RuntimeError(" ".join(self._log.errors[-1:]) or "the engine cannot run on these inputs")
        stream.wait()
        found = {name: places[name].array(results[name]) for name in results}
        return [found[name].astype(dtype_named(wanted)) for name, wanted in self._outputs.items()]

    def _start(self, trt: Any) -> None:
        if why := obstacle():
            raise RuntimeError(f"The engine was built and cannot run: {why}.")
        driver.use_gpu()
        self._log = logger(trt)
        runtime = trt.Runtime(self._log)
        engine = runtime.deserialize_cuda_engine(self._content)
        context = None if engine is None else engine.create_execution_context()
        if context is None:
            raise RuntimeError(" ".join(self._log.errors[-1:]) or "the engine cannot be loaded")
        self._runtime, self._context = runtime, context


class _OnHost:
    """An output that TensorRT writes to this process's memory."""

    def __init__(self, context: Any, name: str, kind: np.dtype) -> None:
        self._array = np.empty(tuple(context.get_tensor_shape(name)), kind)
        context.set_tensor_address(name, self._array.ctypes.data)

    def array(self, kind: np.dtype) -> np.ndarray:
        return self._array


def _place(trt: Any, engine: Any, context: Any, name: str, kind: np.dtype) -> Any:
    """Where an output goes. On the GPU its size may be known only when it is computed."""
    if engine.get_tensor_location(name) == trt.TensorLocation.HOST:
        return _OnHost(context, name, kind)

    class Place(trt.IOutputAllocator):
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.memory = driver.Memory(1)
            self.shape: tuple[int, ...] = ()

        def reallocate_output_async(self, _: str, __: int, size: int, ___: int, ____: int) -> int:
            if size > self.memory.size:
                self.memory = driver.Memory(size)
            return self.memory.address

        def notify_shape(self, _: str, shape: Any) -> None:
            self.shape = tuple(shape)

        def array(self, kind: np.dtype) -> np.ndarray:
            found = np.empty(self.shape, kind)
            driver.copy_from(self.memory, found)
            return found

    made = Place()
    context.set_output_allocator(name, made)
    return made
