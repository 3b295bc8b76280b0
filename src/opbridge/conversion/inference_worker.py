"""The process that infers types, and checks a converted model: ONNX's own C++ code can crash on a damaged file.

A model comes on stdin without its weights; the model with the types of its values, or the checker's words, go out.
"""

from __future__ import annotations

import resource
import sys

import onnx

__all__ = ["answer", "main"]

_MOST_BYTES = 8 << 30


def answer(what: str, model: onnx.ModelProto) -> bytes:
    """The model with the types of its values ("infer"), or what is said against it: by the checker ("check"), or
    by the inference where a type is not what an operator takes or gives ("types")."""
    if what == "infer":
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
        return bytes(inferred.SerializeToString())
    if what == "types":
        try:
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=False)
        except onnx.shape_inference.InferenceError as error:
            return str(error).encode()
        return b""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        return str(error).encode()
    return b""


def main() -> None:
    """Reads what to do from the arguments, the model from stdin, and writes the answer to stdout."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(sys.argv[1], model))


if __name__ == "__main__":
    main()
