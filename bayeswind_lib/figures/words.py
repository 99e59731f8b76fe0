"""Numbers in words: the same formatting in figures, alternative texts and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

# What a measure is called, and its unit ("" for a probability between 0 and 1).
ROUNDING = 1e-12  # below it a difference between numbers of ordinary size is only rounding
MEASURES = {
    "entropy_mae": ("entropy error", "bits"),
    "kl": ("KL divergence", "bits"),
    "cross_entropy_gap": ("cross-entropy gap", "bits"),
    "tv": ("total variation", ""),
    "support_leak": ("probability on impossible values", ""),
    "entropy": ("entropy", "bits"),
    "loss": ("training loss", "bits"),
}


def measure_name(measure: str) -> tuple[str, str]:
    """Words and unit of a measure.

    Raises:
        ValueError: for an unknown name; the message lists the known ones.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure is {measure!r}: choose one of {', '.join(MEASURES)}")
    return MEASURES[measure]


def number(value: float, digits: int = 2) -> str:
    """A number as a person writes it: `digits` significant below 1, two more from 1 on.

    What is nothing but rounding (below `ROUNDING`) has no digits: another processor has others.

    >>> number(0.00312), number(0.000312), number(1.26811), number(3.0), number(float("inf"))
    ('0.0031', '3.1e-4', '1.268', '3', 'infinite')
    >>> number(2.2e-16), number(0.0)
    ('≈ 0', '0')
    """
    value = float(value)
    if math.isnan(value):
        return "not defined"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if abs(value) < ROUNDING:
        return "≈ 0" if value else "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.{max(digits - 1, 0)}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.{digits + 2 if abs(value) >= 1 else digits}g}"
    return text


def quantity(value: float, unit: str = "bits", digits: int = 2) -> str:
    """A number with its unit: `0.0031 bits`; what is not finite has none."""
    return f"{number(value, digits)} {unit if math.isfinite(value) else ''}".rstrip()


def largest_gap(
    gaps: np.ndarray, places: Iterable, unit: str = "bits", where: str = "at position"
) -> str:
    """`largest gap 0.0031 bits at position 7`; the first place if several share it.

    >>> largest_gap(np.array([0.1, -0.4, 0.2]), [0, 1, 2])
    'largest gap 0.4 bits at position 1'
    >>> largest_gap(np.array([2.2e-16, 0.0]), [0, 1])
    'largest gap 0 bits, the same everywhere'
    """
    size = np.abs(rounded(np.asarray(gaps, dtype=float)))
    if not np.isfinite(size).any() and not np.isinf(size).any():
        return "largest gap not defined (0 numbers)"
    if not np.nanmax(size):
        return f"largest gap {quantity(0, unit)}, the same everywhere"
    index = int(np.nanargmax(size))
    place = list(places)[index]
    several = int((size == size[index]).sum()) - 1
    more = f" and {several} more" if several and np.isinf(size[index]) else ""
    return f"largest gap {quantity(size[index], unit)} {where} {place}{more}"


def span(values: np.ndarray, unit: str = "bits") -> str:
    """`from 0.1 to 4.322 bits`, of the finite values."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return "with no finite value"
    return f"from {number(finite.min())} to {quantity(finite.max(), unit)}"


def sentence(text: str) -> str:
    """The text with a capital first letter and one full stop."""
    text = text.strip().rstrip(".")
    return text[:1].upper() + text[1:] + "."


def with_unit(words: str, unit: str) -> str:
    """`entropy error (bits)`, or just the words where there is no unit."""
    return f"{words} ({unit})" if unit else words


def rounded(values: np.ndarray) -> np.ndarray:
    """The values, with what float64 rounding leaves of zero (below 1e-12) set to zero."""
    return np.where(np.abs(values) < ROUNDING, 0.0, values)


def array(values) -> np.ndarray:
    """Numbers as a float64 numpy array: lists, arrays and tensors on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=float)
