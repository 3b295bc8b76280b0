"""Translations of the layers of torch.nn."""
