"""Translations of reductions and of cumulative operators."""
