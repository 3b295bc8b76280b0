"""Models that people reported as not exportable to ONNX, or as exported wrong: one function each, with a variation."""
