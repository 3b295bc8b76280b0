"""Campaigns: modules with `run(seconds, seed)`."""
