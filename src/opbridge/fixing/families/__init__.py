"""The repairs, one file a family, each registered for the rules whose findings it repairs. Results stay as they are.

types          inputs of types that differ, or that the target does not take
names          names, initializers, inputs that are outputs
older          operators in other operators: those that they were before, or that ONNX defines them by
folding        what depends on constants alone
"""

from opbridge.fixing.families import folding, names, older, types

__all__ = ["folding", "names", "older", "types"]
