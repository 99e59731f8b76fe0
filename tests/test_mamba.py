"""Mamba: two other implementations give its outputs, and the definition of the scan its gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F
from transformers import MambaConfig as PublicConfig
from transformers import MambaModel as PublicMamba

from _support import DEVICES, rng
import bayeswind_lib as bw
from bayeswind_lib.models import mamba
from bayeswind_lib.training.optimiser import split_parameters

HOW = ["sequential", "parallel"]
TOKENS = {"n_tokens": 12, "n_positions": 14, "scored": (0, 3, 5, 13), "n_outputs": 6,
          "first_output_token": 6, "width": 16, "n_layers": 3, "n_states": 5}  # fmt: skip
VECTORS = TOKENS | {"n_tokens": 0, "n_features": 3, "n_outputs": 2, "first_output_token": None,
                    "outcome": "gaussian"}  # fmt: skip


def lively(sizes: dict = TOKENS, seed: int = 0, **changes) -> mamba.Mamba:
    """A network in which every weight matters; time steps stay at 0.001 to 0.1, but for the token."""
    model = bw.models.build("mamba", sizes | changes, rng(seed))
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=rng(seed + len(name)))
            if name.endswith(("gain", "mixer.D")):
                parameter.copy_(1 + 0.3 * noise)
            elif name.endswith(("A_log", "tokens.weight", "conv.bias")):
                parameter.copy_(noise)
            elif not name.endswith("bias"):
                parameter.copy_(noise / parameter[0].numel() ** 0.5)
    return model.eval()


def inputs(sizes: dict = TOKENS, batch: int = 4, length: int = 14, seed: int = 1) -> torch.Tensor:
    if sizes["n_tokens"]:
        return torch.randint(sizes["n_tokens"], (batch, length), generator=rng(seed))
    return torch.randn(batch, length, sizes["n_features"], generator=rng(seed))


def drawn_parts(B: int, T: int, E: int, N: int, dtype=torch.float64, device: str = "cpu"):
    """x, dt, A, B, C of a scan; its decays are spread over (0, 1)."""
    shapes = ((B, T, E), (B, T, E), (E, N), (B, T, N), (B, T, N))
    x, dt, A, written, read = (
        torch.randn(shape, generator=rng(seed), dtype=dtype).to(device)
        for seed, shape in enumerate(shapes)
    )
    return [part.requires_grad_() for part in (x, dt.exp() / 2, -A.exp(), written, read)]


def pulled_back(y, parts):
    """Gradients of a random weighting of the outputs."""
    weights = torch.randn(y.shape, generator=rng(9), dtype=y.dtype).to(y.device)
    return torch.autograd.grad((y * weights).sum(), parts)


def distance(own, other) -> float:
    """The largest difference, in units of the largest number."""
    return ((own - other).abs().max() / other.abs().max()).item()


# A second implementation: `transformers`, pure PyTorch, with the same weights.


def public_name(name: str) -> str:
    """What `transformers` calls one of our weights."""
    if name == "norm.gain":
        return "norm_f.weight"
    for own, theirs in (("blocks.", "layers."), (".conv.", ".conv1d."), ("norm.gain", "norm.weight"),
                        ("tokens.", "embeddings.")):  # fmt: skip
        name = name.replace(own, theirs)
    return name


def public(model: mamba.Mamba) -> PublicMamba:
    """The `MambaModel` of `transformers` that has the weights of `model`."""
    c = model.config
    other = PublicMamba(PublicConfig(
        vocab_size=c.n_tokens, hidden_size=c.width, num_hidden_layers=c.n_layers,
        state_size=c.n_states, expand=c.expand, conv_kernel=c.conv, time_step_rank=c.dt_rank,
        layer_norm_epsilon=1e-5, use_mambapy=False, use_associative_scan=False, use_cache=False,
    ))  # fmt: skip
    weights = {public_name(name): tensor for name, tensor in model.state_dict().items()}
    other.load_state_dict(weights)  # strict: each of their weights is one of ours
    return other.eval()


@pytest.mark.parametrize("changes", [
    {},
    {"n_states": 1, "expand": 3, "conv": 2, "dt_rank": 4},
    {"width": 64, "n_layers": 2, "n_states": 8},  # the classroom's
    {"width": 40, "n_layers": 1, "n_states": 16, "conv": 1},  # here D / 16 is not whole
])  # fmt: skip
@torch.no_grad()
def test_transformers_with_the_same_weights_has_the_same_channels(changes):
    """Largest error over these sizes and 50 tokens: 2e-6, of channels up to 5."""
    model, tokens = lively(**changes), inputs(length=50)
    own, other = model.trunk(model.embed(tokens)), public(model)(tokens).last_hidden_state
    assert (own - other).abs().max() < 1e-5
    assert own.std() > 0.5  # they do not agree because both are small


def test_transformers_with_the_same_weights_has_the_same_gradients():
    """Largest error: 1.2e-6 of the largest gradient of a weight."""
    model = lively()
    other, tokens = public(model), inputs(length=30)
    for output in model.trunk(model.embed(tokens)), other(tokens).last_hidden_state:
        (output * torch.randn(output.shape, generator=rng(3))).sum().backward()
    theirs = dict(other.named_parameters())
    assert len(theirs) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        assert distance(parameter.grad, theirs[public_name(name)].grad) < 1e-5, name


# The recurrence.


def test_the_recurrence_by_hand():
    """One channel, two numbers of state: one halves each step, the other falls to a quarter."""
    rates = -torch.tensor([[1.0, 2.0]], dtype=torch.float64) * math.log(2)
    x = torch.tensor([8.0, 0, 4, 0], dtype=torch.float64).view(1, 4, 1)
    ones = torch.ones(1, 4, 2, dtype=torch.float64)
    read = ones * torch.tensor([1.0, 10.0], dtype=torch.float64)
    y, h = mamba.selective_scan_sequential(x, torch.ones_like(x), rates, ones, read)
    assert torch.allclose(h[0, :, 0, 0], torch.tensor([8.0, 4, 6, 3], dtype=torch.float64))
    assert torch.allclose(h[0, :, 0, 1], torch.tensor([8.0, 2, 4.5, 1.125], dtype=torch.float64))
    assert torch.allclose(y[0, :, 0], torch.tensor([88.0, 24, 51, 14.25], dtype=torch.float64))
    # Twice the time step: twice the intake, the decay squared.
    _, faster = mamba.selective_scan_sequential(x, 2 * torch.ones_like(x), rates, ones, read)
    assert torch.allclose(faster[0, :2, 0, 0], torch.tensor([16.0, 4.0], dtype=torch.float64))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("numbers", [1, 40, 10**6])  # one episode at a time, a few, all
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 13, 31])
def test_the_fast_scans_are_the_recurrence_and_so_are_their_gradients(
    monkeypatch, length, numbers, how, device
):
    monkeypatch.setattr(mamba, "NUMBERS_AT_ONCE", numbers * length)
    parts = drawn_parts(5, length, 3, 4, device=device)
    defined, _ = mamba.selective_scan_sequential(*parts)
    y = mamba.selective_scan(*parts, how)
    assert distance(y, defined) < 1e-13
    for own, other in zip(pulled_back(y, parts), pulled_back(defined, parts), strict=True):
        assert own.shape == other.shape
        assert (own - other).abs().max() <= 1e-12 * (1 + other.abs().max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("length", [30, 93])
def test_the_fast_scans_are_the_recurrence_in_float32_at_the_sizes_of_the_book(how, length, device):
    parts = drawn_parts(4, length, 128, 16, torch.float32, device)
    precise = [part.detach().double().requires_grad_() for part in parts]
    defined, _ = mamba.selective_scan_sequential(*precise)
    y = mamba.selective_scan(*parts, how)
    assert distance(y, defined) < 1e-5
    upstream = torch.randn(y.shape, generator=rng(9)).to(device)
    ours = torch.autograd.grad((y * upstream).sum(), parts)
    theirs = torch.autograd.grad((defined * upstream).sum(), precise)
    assert max(map(distance, ours, theirs)) < 1e-5


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_gradients_are_those_of_finite_differences(how, length):
    parts = drawn_parts(2, length, 2, 3)
    assert torch.autograd.gradcheck(lambda *parts: mamba.selective_scan(*parts, how), parts)


@pytest.mark.parametrize("how", HOW)
def test_a_second_derivative_is_refused_and_not_wrong(how):
    parts = drawn_parts(2, 3, 2, 2)
    y = mamba.selective_scan(*parts, how).square()
    (slope,) = torch.autograd.grad(y.sum(), parts[0], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [*range(1, 18), 93])
def test_both_ways_through_time_agree_in_both_directions(length, reverse):
    links = torch.rand(length - 1, 3, 2, generator=rng(), dtype=torch.float64)
    h = torch.randn(length, 3, 2, generator=rng(1), dtype=torch.float64)
    states = h.clone()
    order = range(length - 2, -1, -1) if reverse else range(1, length)
    for t in order:
        states[t] += links[t] * states[t + 1] if reverse else links[t - 1] * states[t - 1]
    for scan in (mamba.scan_sequential, mamba.scan_parallel):
        assert torch.allclose(scan(links, h.clone(), reverse), states, rtol=1e-13, atol=1e-13)


def test_a_parallel_scan_takes_two_log2_rounds_and_the_other_all_steps(monkeypatch):
    calls = []

    class Counted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(getattr(function, "__name__", ""))
            return super().__torch_function__(function, types, args, kwargs or {})

    counts = {}
    for scan in (mamba.scan_sequential, mamba.scan_parallel):
        calls.clear()
        scan(torch.rand(1023, 1).as_subclass(Counted), torch.rand(1024, 1).as_subclass(Counted))
        counts[scan] = sum(name.startswith("addcmul") for name in calls)
    assert counts == {mamba.scan_sequential: 1023, mamba.scan_parallel: 20}


def test_the_device_chooses_the_scan_unless_it_is_named(monkeypatch):
    used = []

    def noted(how, scan):
        return lambda *parts, **options: used.append(how) or scan(*parts, **options)

    for how in HOW:
        monkeypatch.setattr(mamba, f"scan_{how}", noted(how, getattr(mamba, f"scan_{how}")))
    for device in DEVICES:
        parts = drawn_parts(2, 3, 2, 2, device=device)
        mamba.selective_scan(*parts).sum().backward()
        assert set(used) == {"sequential" if device == "cpu" else "parallel"}
        used.clear()
    model = lively()
    for block in model.blocks:
        block.mixer.scan.how = "parallel"
    model(inputs())
    assert set(used) == {"parallel"}


def test_no_state_is_kept_for_the_backward_pass():
    parts = drawn_parts(4, 10, 6, 8, torch.float32)

    def largest_kept(scan) -> int:
        kept = []
        note = torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: kept.append(tensor.numel()) or tensor, lambda tensor: tensor
        )
        with note:
            scan(*parts)
        return max(kept)

    assert largest_kept(mamba.selective_scan) == 4 * 10 * 8
    assert largest_kept(mamba.selective_scan_sequential) == 4 * 10 * 6 * 8  # the test has power


# The network.


@pytest.mark.parametrize("sizes", [TOKENS, VECTORS], ids=["tokens", "vectors"])
@torch.no_grad()
def test_longer_inputs_are_read_on_and_change_nothing_before(sizes):
    model, given = lively(sizes), inputs(sizes)
    whole = model.predict(given)
    longer = torch.cat([given, inputs(sizes, seed=2)], dim=1)  # no learned positions: no limit
    predicted = model.predict(longer)
    assert predicted.shape[1] == 5  # readouts go on 8 further, with the last spacing
    assert torch.allclose(predicted[:, :4], whole, atol=1e-5)


@torch.no_grad()
def test_the_order_of_the_inputs_matters_without_position_codes():
    model = lively(conv=1, n_layers=1)  # only the recurrence can know an order
    given = inputs()
    swapped = given[:, [1, 0, *range(2, 14)]]
    assert not any("position" in name for name, _ in model.named_parameters())
    assert (model(swapped)[:, -1] - model(given)[:, -1]).abs().max() > 1e-3


def test_a_network_of_a_hundred_and_thirty_million_has_the_published_size():
    """mamba-130m of Gu and Dao: 24 layers of 768 channels, 50,280 tokens, tied head."""
    config = mamba.MambaConfig(n_tokens=50280, n_positions=2048, scored=(2047,), n_outputs=50280,
                               first_output_token=0, width=768, n_layers=24)  # fmt: skip
    assert (config.dt_rank, config.n_states, config.conv) == (48, 16, 4)
    with torch.device("meta"):
        other = PublicMamba(PublicConfig(num_hidden_layers=24))  # its defaults are mamba-130m
    assert config.n_parameters == bw.models.count_parameters(other) == 129_135_360


# States.


@torch.no_grad()
def test_states_are_those_that_the_outputs_are_read_from():
    model, given, seen = lively(), inputs(), []
    hooks = [
        block.mixer.scan.register_forward_hook(lambda module, parts, y: seen.append((parts, y)))
        for block in model.blocks
    ]
    states = model.states(given)
    for hook in hooks:
        hook.remove()
    assert len(states) == len(seen) == 3
    for h, ((x, dt, A, B, C), y) in zip(states, seen, strict=True):
        assert h.shape == (4, 14, 32, 5) and h.dtype == torch.float32
        assert torch.allclose(torch.einsum("bten,btn->bte", h, C), y, atol=1e-5)
        intake = torch.einsum("bte,bte,btn->bten", dt, x, B)
        assert torch.allclose(h[:, 0], intake[:, 0], atol=1e-6)
        assert torch.allclose(
            h[:, 1:], torch.exp(dt[:, 1:, :, None] * A) * h[:, :-1] + intake[:, 1:], atol=1e-5
        )
        assert h.std() > 0.01


@torch.no_grad()
def test_looking_at_states_changes_nothing_and_leaves_no_hook():
    model = lively()
    before = model(inputs())
    model.states(inputs())
    assert torch.equal(model(inputs()), before)
    with pytest.raises(IndexError):
        model.states(torch.full((1, 3), 99))
    assert not any(block.mixer.scan._forward_hooks for block in model.blocks)


@torch.no_grad()
def test_a_hook_on_the_scan_changes_what_the_network_does():
    model, before = lively(), lively()(inputs())
    model.blocks[1].mixer.scan.register_forward_hook(lambda module, parts, y: torch.zeros_like(y))
    assert (model(inputs()) - before).abs().max() > 1e-3


# Initial weights.


def test_initial_weights_have_the_stated_sizes():
    model = bw.models.build("mamba", TOKENS | {"width": 256, "n_layers": 2, "n_states": 8}, rng())
    weights = model.state_dict()
    assert weights["tokens.weight"].std().item() == pytest.approx(0.02, rel=0.1)
    bounds = {"in_proj.weight": 256**-0.5, "conv.weight": 0.5, "conv.bias": 0.5,
              "x_proj.weight": 512**-0.5, "dt_proj.weight": 0.25,
              "out_proj.weight": 512**-0.5 / 2**0.5}  # fmt: skip
    for block in ("blocks.0.mixer.", "blocks.1.mixer."):
        assert torch.allclose(weights[block + "A_log"].exp(), torch.arange(1.0, 9.0))
        assert (weights[block + "D"] == 1).all()
        steps = F.softplus(weights[block + "dt_proj.bias"]).log10()  # uniform from -3 to -1
        assert -3.001 < steps.min() < -2.985 and -1.015 < steps.max() < -0.999
        assert steps.mean().item() == pytest.approx(-2, abs=0.1)
        assert steps.std().item() == pytest.approx(2 / 12**0.5, rel=0.1)
        for name, bound in bounds.items():
            drawn = weights[block + name]
            assert drawn.abs().max().item() == pytest.approx(bound, rel=0.02), name
            assert drawn.std().item() == pytest.approx(bound / 3**0.5, rel=0.1), name


def test_muon_turns_no_table_of_decay_rates():
    model = lively()
    matrices, rest = split_parameters(model)
    by_id = {id(p): name for name, p in model.named_parameters()}
    kinds = {by_id[id(p)].split(".", 3)[-1] for p in matrices}
    assert kinds == {"in_proj.weight", "x_proj.weight", "dt_proj.weight", "out_proj.weight"}
    assert sum(by_id[id(p)].endswith("A_log") for p in rest) == 3


# Training.


def trained_to_copy(how: str = "auto", cut: bool = False) -> list[float]:
    """Losses of learning to say which token came 5 steps ago; two convolutions of 3 see back 4."""
    sizes = {"n_tokens": 8, "n_positions": 12, "scored": tuple(range(5, 12)), "n_outputs": 4,
             "first_output_token": 4, "width": 32, "n_layers": 2, "n_states": 8, "conv": 3}  # fmt: skip
    model = bw.models.build("mamba", sizes, rng())
    for block in model.blocks:
        block.mixer.scan.how = how
        if cut:
            block.mixer.scan.register_forward_hook(lambda module, parts, y: torch.zeros_like(y))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    losses = []
    for step in range(180):
        tokens = torch.randint(4, (32, 12), generator=rng(step))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens[:, :7].flatten())
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return losses


@pytest.mark.parametrize("how", HOW)
def test_it_learns_to_copy_what_its_convolutions_cannot_see(how):
    losses = trained_to_copy(how)
    assert losses[0] == pytest.approx(math.log(4), abs=0.1)
    assert sum(losses[-20:]) / 20 < 0.3 * math.log(4)


def test_without_its_scan_it_does_not_learn_to_copy():
    assert min(trained_to_copy(cut=True)) > 0.95 * math.log(4)


@pytest.mark.parametrize("device", DEVICES)
def test_in_bfloat16_the_scan_stays_in_float32(device):
    model, seen = lively().to(device), []
    given = inputs(length=93).to(device)
    exact = model(given)
    for block in model.blocks:
        block.mixer.scan.register_forward_hook(lambda module, parts, y: seen.append((parts, y)))
    with torch.autocast(device, torch.bfloat16):
        rough = model(given)
        rough.square().mean().backward()  # within autocast, where sums could be rounded too
    assert rough.dtype == torch.float32
    assert 0 < distance(rough, exact) < 0.2
    for parts, y in seen:
        assert parts[0].dtype == torch.bfloat16 and y.dtype == torch.float32
        precise = [part.detach().float() for part in parts]
        assert torch.allclose(y, mamba.selective_scan_sequential(*precise)[0], atol=1e-4)
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("how", HOW)
def test_a_backward_pass_inside_autocast_is_the_one_outside(how):
    parts = drawn_parts(2, 20, 8, 4, torch.float32)
    loss = mamba.Scan(how)(*parts).square().sum()
    outside = torch.autograd.grad(loss, parts, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = torch.autograd.grad(loss, parts)
    assert all(torch.equal(a, b) for a, b in zip(outside, inside, strict=True))


# Refusals.


def test_impossible_settings_are_refused():
    for name in ("n_states", "n_layers", "expand", "conv", "dt_rank", "width"):
        with pytest.raises(ValueError, match=f"{name} is 0: it has to be at least 1"):
            mamba.MambaConfig(**(TOKENS | {name: 0}))
    with pytest.raises(ValueError, match="either tokens or vectors"):
        mamba.MambaConfig(**(TOKENS | {"n_features": 2}))
    with pytest.raises(ValueError, match="scan is 'fast': choose one of auto, seq"):
        mamba.selective_scan(*drawn_parts(1, 2, 2, 2), "fast")
    with pytest.raises(ValueError, match="this network reads vectors"):
        lively(VECTORS)(torch.zeros(2, 5, 4))
    with pytest.raises(ValueError, match="does not fit a mamba"):
        bw.models.build("mamba", TOKENS | {"n_heads": 2})
