"""Translations of torch.special."""
