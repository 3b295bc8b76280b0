"""What a notebook shows of a plan, a verification and a program."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import torch

import opbridge


class _Balanced(HTMLParser):
    """Takes note of elements that are opened and not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.wrong = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def checked(text: str) -> str:
    found = _Balanced(text)
    assert not found.open and not found.wrong
    return text


def test_a_plan_shows_its_operators():
    shown = checked(opbridge.check(lambda x: torch.linalg.eigvals(x).real.sin(), (torch.randn(3, 3),))._repr_html_())
    assert "aten::linalg_eigvals" in shown and "missing" in shown and "<script" not in shown


def test_a_verification_shows_errors_and_outputs():
    program = opbridge.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    shown = checked(program.verification._repr_html_())
    assert "1 output agrees with PyTorch" in shown and shown.count("<circle") == 3 and "<script" not in shown


def test_a_program_shows_all_and_has_the_report_in_a_frame():
    program = opbridge.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    shown = checked(program._repr_html_())
    assert "Does it run?" in shown and "aten::linear" in shown
    frame = html.unescape(shown.partition('srcdoc="')[2].partition('"></iframe>')[0])
    assert frame.lstrip().startswith("<!doctype html>") and "The exported model agrees with PyTorch" in frame
