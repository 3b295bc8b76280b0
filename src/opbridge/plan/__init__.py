"""The second stage: every operator gets a route, or a reason and a remedy.

In: a Capture, a registry of translations, the target's opset.
Out: a Plan.
May import: capture, and what it stands on.
"""
