"""Small drawings as inline SVG, which take the page's colours and letters: a frame with words, and text."""

from __future__ import annotations

import html
from collections.abc import Iterable


def drawn(words: str, parts: Iterable[str], width: float, height: float) -> str:
    """A drawing out of its parts; `words` say what it shows to those who do not see it."""
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(words)}">{"".join(parts)}</svg>'


def word(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """Words at a place; anchor: "start", "middle" or "end" of them stands there."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'
