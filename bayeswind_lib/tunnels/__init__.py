"""Wind tunnels: tasks whose posterior is known exactly. They know no model."""

from bayeswind_lib.tunnels.base import AnyTunnel, Episodes, Interface, Tunnel, sequence
from bayeswind_lib.tunnels.bijection import Bijection
from bayeswind_lib.tunnels.bijection_set import BijectionSet
from bayeswind_lib.tunnels.check import Checked, check, refuse
from bayeswind_lib.tunnels.composition import Composition
from bayeswind_lib.tunnels.hmm import HMM
from bayeswind_lib.tunnels.recall import Recall
from bayeswind_lib.tunnels.recurrence import Recurrence
from bayeswind_lib.tunnels.registry import TUNNELS, build, find, is_known, load_file, register
from bayeswind_lib.tunnels.regression import Regression

# The order in which they are listed.
for _kind in (Bijection, HMM, Regression, Recall, Recurrence, BijectionSet, Composition):
    register(_kind.name)(_kind)

__all__ = [
    "HMM", "TUNNELS", "AnyTunnel", "Bijection", "BijectionSet", "Checked", "Composition", "Episodes", "Interface", "Recall", "Recurrence", "Regression",
    "Tunnel", "build", "check", "find", "is_known", "load_file", "refuse", "register", "sequence",
]
