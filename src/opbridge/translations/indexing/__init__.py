"""Translations of indexing, scattering, sorting and searching."""
