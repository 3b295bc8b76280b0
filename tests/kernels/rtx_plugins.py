"""What TensorRT-RTX's registry and parser make of a library of plug-ins, in a process of its own.

    python rtx_plugins.py LIBRARY creators
    python rtx_plugins.py LIBRARY parse MODEL.onnx

TensorRT-RTX finds creators and makes plug-ins, but has none in a network: it ends the process where one is added. What
was logged until then is printed.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorrt_rtx_bindings as trt


class Log(trt.ILogger):
    """Prints all messages."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)

    def log(self, severity: trt.ILogger.Severity, message: str) -> None:
        print(str(severity).rpartition(".")[2], message, flush=True)


def creators(registry: trt.IPluginRegistry) -> None:
    """Prints the creators that the registry has, and what a plug-in of the first one says of itself."""
    for each in registry.all_creators:
        fields = {field.name: str(field.type).rpartition(".")[2].partition(":")[0] for field in each.field_names}
        print("CREATOR", json.dumps([each.plugin_namespace, each.name, each.plugin_version, fields]))
    creator = registry.get_creator("scaled_add", "1", "elementtest")
    field = trt.PluginField("alpha", np.array([3.5], np.float32), trt.PluginFieldType.FLOAT32)
    plugin = creator.create_plugin("node", trt.PluginFieldCollection([field]), trt.TensorRTPhase.BUILD)
    core, build = (
        plugin.get_capability_interface(each)
        for each in (trt.PluginCapabilityType.CORE, trt.PluginCapabilityType.BUILD)
    )
    said = [core.plugin_namespace, core.plugin_name, core.plugin_version, build.num_outputs, build.metadata_string]
    print("PLUGIN", json.dumps([*said, build.timing_cache_id, build.format_combination_limit]))
    wrong = trt.PluginField("alpa", np.array([3.5], np.float32), trt.PluginFieldType.FLOAT32)
    print("WRONG", creator.create_plugin("node", trt.PluginFieldCollection([wrong]), trt.TensorRTPhase.BUILD))


def main(library: str, what: str, *rest: str) -> None:
    log = Log()
    builder = trt.Builder(log)
    registry = builder.get_plugin_registry()
    registry.load_library(library)
    if what == "creators":
        creators(registry)
    else:
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, log)
        print("PARSED", parser.parse_from_file(rest[0]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
