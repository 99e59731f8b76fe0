"""Under which key the records store what belongs to a task: a tunnel with its settings."""

from __future__ import annotations


def task_key(tunnel: str, config: dict) -> str:
    """The task under which the reference points of a tunnel are stored.

    >>> task_key("bijection", {"n_values": 10, "n_pairs": 10, "with_replacement": False})
    'V10-L10/distinct'
    """
    if tunnel == "bijection":
        sampling = "replacement" if config.get("with_replacement") else "distinct"
        return f"V{config['n_values']}-L{config.get('n_pairs') or config['n_values']}/{sampling}"
    return {
        "hmm": _hmm_key, "regression": _regression_key, "recall": _recall_key,
        "recurrence": _recurrence_key,
    }[tunnel](config)


def _hmm_key(config: dict) -> str:
    """The header does not matter: every reference point knows the matrices."""
    parts = [
        f"S{config.get('n_states', 5)}-V{config.get('n_symbols', 5)}-K{config.get('length', 20)}",
        config.get("generator", "grid"),
    ]
    if config.get("sticky"):
        parts.append(f"sticky{config['sticky']:g}")
    if config.get("fixed") is not None:
        parts.append(f"fixed{config['fixed']}")
    if config.get("transition_first"):
        parts.append("moved")
    if config.get("predicts", "states") != "states":
        parts.append("next")
    return "-".join(parts)


def _regression_key(config: dict) -> str:
    noise = config.get("noise", 0.5)
    return f"d{config.get('n_dims', 8)}-K{config.get('n_pairs', 20)}" + (
        "" if noise == 0.5 else f"-noise{noise:g}"
    )


def _recall_key(config: dict) -> str:
    return f"N{config.get('n_pairs', 64)}-V{config.get('n_values', 256)}"


def _recurrence_key(config: dict) -> str:
    return f"p{config.get('modulus', 17)}-L{config.get('length', 16)}"
