"""What every other folder builds on.

In: plain values; models and operators of torch.
Out: dtypes, routes, source lines, wording, loaded models.
May import: errors.

| module | |
| --- | --- |
| dtypes | torch's dtypes and ONNX's data types |
| routes | the routes of operators |
| sources | lines of the user's code, from stack traces |
| specs | models named as `FILE.py:FACTORY` |
| wording | small pieces of text for reports and errors |
| attributes | attributes that have other values for a time |
| locks | the lock for global state of the process |
| version | the version of opbridge |
| torch_private | the private interfaces of torch |
| python_private | what CPython does not document: instructions, and what the stack of a frame holds |
"""
