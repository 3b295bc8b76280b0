"""Small models in every form that users write: the family of each is the file that it stands in.

| module | |
| --- | --- |
| form | what a form is, and the list of all |
| gradients | gradients in forward, by autograd |
| gradients_of_layers | the gradients of common layers |
| transforms | torch.func |
| higher_order | attention by score functions, scans, loops and branches |
| modes | gradient modes, checkpoints, autocast |
| wrapped | parametrisations, hooks, compiled and scripted parts |
| custom | operators and autograd functions of the user's own |
| scripts | modules and functions of TorchScript |
| state | tied weights, buffers, and writes in place |
| sizes | tensors and branches that depend on sizes and on values |
| interfaces | structures of inputs and outputs |
| attentions | torch.nn's attention and transformer modules |
| codebooks | vector quantisation |
| containers | containers, and classes of the user's own among inputs and outputs |
| data_sizes | layers over tensors whose sizes data decide |
| distributed | torch.distributions, and random augmentations |
| factorisations | linear algebra |
| fourier | Fourier transforms and complex numbers |
| graphs | messages along the edges of graphs, by scatter operators |
| halves | whole models in float16 and bfloat16 |
| lengths | sizes as Python's numbers |
| loops | loops and branches whose bodies need ranks |
| nested | nested tensors that end padded |
| recurrences | state space models, linear attention, cells |
| parts | lists of as many tensors as data decide |
| sparse | sparse weights |
| written | results that are written: `out=`, slices and masks |
"""

from __future__ import annotations

from models.forms import (
    attentions,
    codebooks,
    containers,
    custom,
    data_sizes,
    distributed,
    factorisations,
    fourier,
    gradients,
    gradients_of_layers,
    graphs,
    halves,
    higher_order,
    interfaces,
    lengths,
    loops,
    modes,
    nested,
    parts,
    recurrences,
    scripts,
    sizes,
    sparse,
    state,
    transforms,
    wrapped,
    written,
)
from models.forms.form import FORMS, Form

__all__ = [
    "FORMS",
    "Form",
    "attentions",
    "codebooks",
    "containers",
    "custom",
    "data_sizes",
    "distributed",
    "factorisations",
    "fourier",
    "gradients",
    "gradients_of_layers",
    "graphs",
    "halves",
    "higher_order",
    "interfaces",
    "lengths",
    "loops",
    "modes",
    "nested",
    "parts",
    "recurrences",
    "scripts",
    "sizes",
    "sparse",
    "state",
    "transforms",
    "wrapped",
    "written",
]
