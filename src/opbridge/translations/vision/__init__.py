"""Translations of torchvision's operators, of resizing and of grid sampling."""
