"""Problems that people reported in public trackers, each as a small model beside a clean one.

The models were written from the reports, before lint was run on them.
"""

from reported.of_devices import REPORTS as OF_DEVICES
from reported.of_onnxruntime import REPORTS as OF_ONNXRUNTIME
from reported.of_openvino import REPORTS as OF_OPENVINO
from reported.of_tensorrt import REPORTS as OF_TENSORRT
from reported.of_web import REPORTS as OF_WEB
from reported.report import Report

__all__ = ["REPORTS", "Report"]

REPORTS: tuple[Report, ...] = (*OF_ONNXRUNTIME, *OF_OPENVINO, *OF_TENSORRT, *OF_WEB, *OF_DEVICES)
