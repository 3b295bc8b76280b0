"""A part of any ONNX file as a file of its own.

In: a file, and the values or nodes between which the part lies. Out: an `Extracted`, and a valid file.
May import: conversion, save, runtimes, onnx, base.

places.py        what a user names -> the values that a part begins and ends with
extracting.py    the part, typed, checked and written
"""

from __future__ import annotations

from opbridge.extraction.extracting import Extracted, extract

__all__ = ["Extracted", "extract"]
