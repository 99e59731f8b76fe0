"""Stored answers to the exercises of chapter 14: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import itertools
import math

import numpy as np
import torch

# --- my_settled(steps, distance, share) ---------------------------------------------------------


def settled_by_loop(steps, distance, share):
    goal = (1 - share) * distance[0]
    for i in range(len(steps) - 1, 0, -1):
        if distance[i - 1] > goal:
            part = (distance[i - 1] - goal) / (distance[i - 1] - distance[i])
            return (1 + steps[i - 1]) * ((1 + steps[i]) / (1 + steps[i - 1])) ** part - 1
    return float(steps[0])


def _settled(place, unit=None, first=False):
    def answer(steps, distance, share):
        done = 1 - np.array(distance) / (unit or distance[0])
        below = np.flatnonzero(done < share)
        i = int(np.flatnonzero(done >= share)[0]) - 1 if first else int(below[-1])
        return place(steps[i], steps[i + 1], (share - done[i]) / (done[i + 1] - done[i]))

    return answer


def _log(a, b, w):
    return (1 + a) * ((1 + b) / (1 + a)) ** w - 1


SETTLED_WRONG = [
    (_settled(lambda a, b, w: a + w * (b - a)), "straight in the updates"),
    (_settled(lambda a, b, w: a * (b / a) ** w if a else b * w), "logarithm of 1 + step"),
    (_settled(lambda a, b, w: float(b)), "that is a snapshot"),
    (_settled(_log, first=True), "first time does not count"),
    (_settled(_log, unit=4.0), "in another unit"),
]

# --- my_power(distance, where) ------------------------------------------------------------------


def power_by_logs(distance, where):
    return 1 / (math.log10(distance[0]) - math.log10(distance[where]))


def _power(rule):
    return lambda distance, where: rule(distance[where], distance[0])


POWER_WRONG = [
    (_power(lambda x, x0: math.log(x / x0) / math.log(0.1)), "upside down"),
    (_power(lambda x, x0: math.log(0.9) / math.log(x / x0)), "one tenth is left"),
    (_power(lambda x, x0: math.log(0.1) / math.log(x)), "is the unit"),
    (_power(lambda x, x0: math.log(0.1) / math.log(x0 / x)), "the sign"),
]

# --- my_equivalent(distance, way, shares) -------------------------------------------------------


def equivalent_by_loop(distance, way, shares):
    found = []
    for x in distance:
        i = next((i for i in range(1, len(way)) if way[i] <= x), len(way) - 1)
        part = (way[i - 1] - x) / (way[i - 1] - way[i])
        found.append(shares[i - 1] + min(max(part, 0), 1) * (shares[i] - shares[i - 1]))
    return np.array(found)


def _nearest(distance, way, shares):
    return np.array([shares[int(np.abs(np.array(way) - x).argmin())] for x in distance])


EQUIVALENT_WRONG = [
    (lambda d, w, s: 1 - np.array(d) / w[0], "the progress itself"),
    (lambda d, w, s: 1 - equivalent_by_loop(d, w, s), "run backwards"),
    (lambda d, w, s: np.full(len(d), s[-1]), "all snapshots get one share"),
    (_nearest, "between two points"),
]

# --- my_in_step(rates, share, power) ------------------------------------------------------------


def in_step_by_loop(rates, share, power):
    left, total = sum(rates), sum(rates)
    for n, rate in enumerate(rates, 1):
        left -= rate
        if (max(left, 0) / total) ** power <= 1 - share + 1e-9:
            return n
    return len(rates)


def _in_step(rule):
    return lambda rates, share, power: rule(rates, share, power)


IN_STEP_WRONG = [
    (_in_step(lambda r, s, p: in_step_by_loop(r, s, p) - 1), "counted from 0"),
    (_in_step(lambda r, s, p: in_step_by_loop(r, s, 1)), "power is missing"),
    (_in_step(lambda r, s, p: in_step_by_loop(r, s ** (1 / p), 1)), "a power of what is done"),
    (_in_step(lambda r, s, p: in_step_by_loop([1] * len(r), s, p)), "do not count the updates"),
    (_in_step(lambda r, s, p: in_step_by_loop(r, s, p) / len(r)), "not a fraction of the run"),
]

# --- my_apart(p, q) -----------------------------------------------------------------------------


def _costs(p, q):
    return torch.stack([(p - q[:, [j] * q.shape[1]]).abs()[:, :, 1:].sum(-1).mean((0, 2)) / 2 for j in range(q.shape[1])], 1)


def apart_by_permutations(p, q):
    H = p.shape[1]
    return min(
        float((p[:, list(order)] - q).abs()[:, :, 1:].sum(-1).mean() / 2) for order in itertools.permutations(range(H))
    )


def _every_query(p, q):
    H = p.shape[1]
    return min(float((p[:, list(o)] - q).abs().sum(-1).mean() / 2) for o in itertools.permutations(range(H)))


APART_WRONG = [
    (lambda p, q: float((p - q).abs()[:, :, 1:].sum(-1).mean() / 2), "as they are numbered"),
    (lambda p, q: float(_costs(p, q).amin(1).mean()), "one is taken twice"),
    (lambda p, q: 2 * apart_by_permutations(p, q), "half the sum"),
    (_every_query, "leave it out"),
    (lambda p, q: p.shape[1] * apart_by_permutations(p, q), "not the sum"),
]

# --- my_speak(pattern, x, value, output) --------------------------------------------------------


def speak_by_heads(pattern, x, value, output):
    B, H, T, _ = pattern.shape
    C, result = x.shape[-1] // H, torch.zeros_like(x)
    for h in range(H):
        some = slice(h * C, (h + 1) * C)
        result = result + pattern[:, h] @ (x @ value[some].T) @ output[:, some].T
    return result


def _speak(p, x, v, o, mix):
    return mix(p, (x @ v.T)) @ o.T


def _side_by_side(p, v):
    C = v.shape[-1] // p.shape[1]
    return torch.cat([p[:, h] @ v[..., h * C : (h + 1) * C] for h in range(p.shape[1])], -1)


def _interleaved(p, v):
    out = torch.zeros_like(v)
    for h in range(p.shape[1]):
        out[..., h :: p.shape[1]] = p[:, h] @ v[..., h :: p.shape[1]]
    return out


SPEAK_WRONG = [
    (lambda p, x, v, o: _side_by_side(p, x @ v) @ o, "outputs by inputs"),
    (lambda p, x, v, o: _side_by_side(p, x @ v.T), "has not been applied"),
    (lambda p, x, v, o: p.mean(1) @ x @ v.T @ o.T, "were averaged"),
    (lambda p, x, v, o: _speak(p, x, v, o, _interleaved), "lie side by side"),
    (lambda p, x, v, o: _speak(p.transpose(-2, -1), x, v, o, _side_by_side), "turned round"),
]

ANSWERS = {
    "check_settled": {
        "alternative": settled_by_loop, "shape_stub": lambda steps, distance, share: 1.0, "wrong": SETTLED_WRONG,
    },
    "check_power": {"alternative": power_by_logs, "shape_stub": lambda distance, where: 1.0, "wrong": POWER_WRONG},
    "check_equivalent": {
        "alternative": equivalent_by_loop, "shape_stub": lambda d, w, s: np.full(len(d), 0.5), "wrong": EQUIVALENT_WRONG,
    },
    "check_in_step": {"alternative": in_step_by_loop, "shape_stub": lambda r, s, p: 1, "wrong": IN_STEP_WRONG},
    "check_apart": {"alternative": apart_by_permutations, "shape_stub": lambda p, q: 0.5, "wrong": APART_WRONG},
    "check_speak": {
        "alternative": speak_by_heads, "shape_stub": lambda p, x, v, o: torch.zeros_like(x), "wrong": SPEAK_WRONG,
    },
}
