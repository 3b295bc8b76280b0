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
"""

from __future__ import annotations

from models.forms import (
    custom,
    gradients,
    gradients_of_layers,
    higher_order,
    interfaces,
    modes,
    scripts,
    sizes,
    state,
    transforms,
    wrapped,
)
from models.forms.form import FORMS, Form

__all__ = [
    "FORMS",
    "Form",
    "custom",
    "gradients",
    "gradients_of_layers",
    "higher_order",
    "interfaces",
    "modes",
    "scripts",
    "sizes",
    "state",
    "transforms",
    "wrapped",
]
