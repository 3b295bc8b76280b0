"""The reports: one page of HTML that shows a model, its operators, and what was found out about it.

In: the values of the stages, and the documents of `--json`.
Out: plain data for `opbridge.pages`, and the file.
May import: onnx, graph, pages, base. What calls it hands it the rest as documents, so that each stage above can: the
pipeline, `opbridge.verify`, `opbridge.lint` and `opbridge.fix`.
"""
