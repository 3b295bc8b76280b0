"""Translations for complex tensors, which are real ones with a trailing dimension of 2, and of Fourier transforms."""
