"""`torch.istft` to a length that is a size of an input, or a tensor."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.rows import one_in


@pytest.mark.slow
@pytest.mark.parametrize(
    ("center", "is_complex"), one_in(2, [(True, False), (False, False), (False, True), (True, True)])
)
def test_length_of_another_input(center, is_complex):
    window = torch.hamming_window(16)

    def back(x, like):
        settings = {"window": window, "center": center, "onesided": not is_complex}
        spectrum = torch.stft(x, 16, 4, return_complex=True, **settings)
        signal = torch.istft(spectrum, 16, 4, length=like.shape[0], return_complex=is_complex, **settings)
        return torch.view_as_real(signal) if is_complex else signal

    # As long as the signal, shorter, and longer.
    sizes = [(1, 48, 48), (3, 52, 7), (2, 40, 60)]
    others = [(torch.randn(rows, length), torch.zeros(wanted)) for rows, length, wanted in sizes]
    shapes = ({0: "rows", 1: "length"}, {0: "wanted"})
    assert_matches(back, torch.randn(2, 64), torch.zeros(50), others=others, dynamic_shapes=shapes, verify=False)


@pytest.mark.slow
def test_length_in_a_tensor():
    def back(x, length):
        spectrum = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
        return spectrum.istft(16, 4, window=torch.hann_window(16), length=length)

    others = [(torch.randn(64), torch.tensor(each)) for each in (64, 9)]
    assert_matches(back, torch.randn(64), torch.tensor(50), others=others)
