"""Quantisation: QuantizeLinear, DequantizeLinear, their parameters, and products of quantised matrices."""
