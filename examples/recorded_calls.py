"""A model inside a pipeline, exported from the calls that the pipeline makes.

The inputs of the model, and the sizes that vary, are determined from the recorded calls.

    opbridge export examples/recorded_calls.py:build -o denoiser.onnx
"""

from __future__ import annotations

import torch

import opbridge


class Denoiser(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = torch.nn.Conv2d(4, 16, 3, padding=1)
        self.outside = torch.nn.Conv2d(16, 4, 3, padding=1)
        self.prompt = torch.nn.Linear(8, 16)

    def forward(self, sample, step, prompt, scale: float = 1.0, return_dict: bool = True):
        told = self.prompt(prompt).mean(1) + torch.log1p(step)[:, None]
        noise = self.outside(torch.tanh(self.inside(sample) + told[:, :, None, None])) * scale
        return {"noise": noise} if return_dict else (noise,)


class Pipeline:
    """Pictures from words, in a few steps."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.denoiser = Denoiser().eval()
        self.words = torch.nn.Embedding(256, 8)

    @torch.no_grad()
    def __call__(self, text: str, height: int = 16, width: int = 16, count: int = 2, **options) -> torch.Tensor:
        prompt = self.words(torch.tensor([list(text.encode())] * count))
        sample = torch.randn(count, 4, height // 4, width // 4)
        for step in (3.0, 2.0, 1.0):
            given = torch.full((count,), step)
            sample = sample - 0.3 * self.denoiser(sample, given, prompt=prompt, return_dict=False, **options)[0]
        return sample


def build() -> opbridge.Recording:
    """The calls of two runs."""
    pipeline = Pipeline()
    with opbridge.record(pipeline.denoiser) as calls:
        pipeline("a red boat")
        pipeline("a red boat on a lake", height=24, width=32, count=3)
    return calls


def main() -> None:
    calls = build()
    print(calls)
    print(f"dynamic_shapes={calls.dynamic_shapes}")
    program = calls.export()
    print(program.verification)

    # Calls that a single file cannot support are grouped.
    pipeline = Pipeline()
    with opbridge.record(pipeline.denoiser) as calls:
        pipeline("a boat")
        pipeline("a boat", scale=0.5)
    try:
        calls.export()
    except opbridge.UsageError as error:
        print(f"refused: {error}")
    print(f"the second group: {calls.groups[1].export().verification.summary()}")


if __name__ == "__main__":
    main()
