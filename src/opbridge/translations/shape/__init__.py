"""Translations of operators that move, join, make or reshape tensors."""
