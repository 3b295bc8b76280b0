"""Translations of linear algebra."""
