"""Lines of the model from stack traces."""

from __future__ import annotations

import os

import torch

from opbridge.base import sources

TORCH = os.path.join(os.path.dirname(torch.__file__), "nn", "functional.py")

TRACE = f'''File "<string>", line 1, in <lambda>
  File "/somewhere/model.py", line 12, in forward
    return self.head(x)
  File "{TORCH}", line 99, in relu
    return torch.relu(input)
  File "/somewhere/head.py", line 3, in forward
    return x.relu()'''


def test_the_innermost_line_outside_torch_comes_first():
    inner, outer = sources.innermost(TRACE)
    assert (str(inner), inner.function, inner.code) == ("/somewhere/head.py:3", "forward", "return x.relu()")
    assert str(outer) == "/somewhere/model.py:12"


def test_no_trace_no_lines():
    assert sources.innermost(None) == ()
    assert sources.innermost("") == ()
    assert sources.innermost('File "<string>", line 1, in <lambda>') == ()


def test_files_are_named_from_the_working_directory():
    file = os.path.join(os.getcwd(), "package", "model.py")
    (source,) = sources.innermost(f'File "{file}", line 1, in forward\n    pass')
    assert str(source) == os.path.join("package", "model.py") + ":1"


def test_a_file_of_a_package_of_another_environment_is_named_as_one_of_this():
    trace = '  File "/elsewhere/env/lib/python3.11/site-packages/package/layers.py", line 3, in forward\n    return x\n'
    assert [str(each) for each in sources.innermost(trace)] == ["package/layers.py:3"]


def test_an_error_may_be_about_a_line_that_does_not_run():
    error = ValueError("about a line")
    inner, outer = sources.innermost(TRACE)
    assert sources.raised_at(error) is None
    sources.note_sources(error, ())
    sources.note_sources(error, (inner, outer))
    sources.note_sources(error, (outer,))  # what was said first stays
    assert sources.noted_sources(error) == (inner, outer) and sources.raised_at(error) == inner
