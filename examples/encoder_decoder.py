"""An encoder and a decoder, exported as one set: two model files, and one file for the shared weights.

Each is compared with PyTorch separately. Then `translate` runs with the PyTorch models and with the files instead:
whole sentences must agree, token by token.

    opbridge export examples/encoder_decoder.py:build -o translator
"""

from __future__ import annotations

import pathlib
import tempfile

import torch

import opbridge

VOCABULARY, WIDTH = 2000, 32


class Encoder(torch.nn.Module):
    def __init__(self, embedding: torch.nn.Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(ids))


class Decoder(torch.nn.Module):
    def __init__(self, embedding: torch.nn.Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layer = torch.nn.TransformerDecoderLayer(WIDTH, 4, 64, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = embedding.weight  # shared by three layers

    def forward(self, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        steps = ids.shape[1]
        ahead = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        return self.head(self.layer(self.embedding(ids), states, tgt_mask=ahead))


def translate(parts, source: torch.Tensor) -> torch.Tensor:
    """Chooses the likeliest token six times."""
    states = parts.encoder(source)
    target = torch.zeros(source.shape[0], 1, dtype=torch.int64)
    for _ in range(6):
        logits = parts.decoder(target, states=states)
        target = torch.cat([target, logits[:, -1:].argmax(-1)], 1)
    return target


def build() -> opbridge.Parts:
    """The two models, and how they are run together."""
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
    encoder, decoder = Encoder(embedding).eval(), Decoder(embedding).eval()
    source, target = torch.randint(VOCABULARY, (2, 7)), torch.randint(VOCABULARY, (2, 3))
    states = torch.randn(2, 7, WIDTH)
    return opbridge.Parts(
        {
            "encoder": (encoder, (source,), {"dynamic_shapes": {"ids": {0: "batch", 1: "length"}}}),
            "decoder": (
                decoder,
                (target, states),
                {"dynamic_shapes": {"ids": {0: "batch", 1: "steps"}, "states": {0: "batch", 1: "length"}}},
            ),
        },
        run=translate,
        args=(source,),
        inputs=[(torch.randint(VOCABULARY, (3, 11)),), (torch.randint(VOCABULARY, (1, 4)),)],
    )


def main() -> None:
    parts = build()
    for name, plan in parts.check().items():
        print(f"{name}: {plan.summary()}")

    with tempfile.TemporaryDirectory() as folder:
        exported = parts.export(pathlib.Path(folder, "translator"))
        for name, program in exported.programs.items():
            print(f"{name}: {program.verification.summary()}")
        print(f"run: {exported.verification.summary()}")
        sizes = {path.name: path.stat().st_size for path in exported.files}
        unique = {id(each): each.nbytes for part in parts.parts.values() for each in part.model.parameters()}
        *models, weights = sizes
        print(f"{', '.join(models)}; weights stored once: {sizes[weights] <= sum(unique.values())}")

        # On the machine that runs them, each is an ordinary ONNX file; torch is not needed.
        encoder = opbridge.session(exported.path / "encoder.onnx")
        (states,) = encoder.run(None, {"ids": parts.args[0].numpy()})
        print(f"states {states.shape}")


if __name__ == "__main__":
    main()
