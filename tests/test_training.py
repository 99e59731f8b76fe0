"""The training loop: that it learns, what it records, and what it leaves alone."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode

from _support import DEVICES
import bayeswind_lib as bw
from bayeswind_lib import training
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.training import loop, precision

UNIFORM_KL = bw.baselines.exact_baselines(4)["uniform"]["kl"]  # bits: what knows nothing scores


def smoke(**changes) -> training.Recipe:
    return training.recipe("bijection", "transformer", "smoke", **changes)


def train(recipe, *words, **settings):
    return training.train(recipe, *words, progress=False, **settings)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("supervision", ["sampled", "posterior"])
@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_it_learns(optimiser, supervision, device):
    """A hundred updates take the divergence well below that of a uniform guess."""
    recipe = smoke(steps=100, batch_size=32, optimiser=optimiser, supervision=supervision, eval_every=50)
    model, record = train(recipe, device=device)
    first, last = record["curve"][0], record["curve"][-1]
    assert first["kl"] == pytest.approx(UNIFORM_KL, rel=0.15)
    assert last["kl"] < 0.5 * UNIFORM_KL
    assert last["loss"] < math.log2(4)
    assert next(model.parameters()).device.type == device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_every_precision_trains_and_keeps_float32_weights(precision, device):
    recipe = smoke(steps=60, batch_size=32, precision=precision)
    before = torch.get_float32_matmul_precision()
    model, record = train(recipe, device=device)
    assert torch.get_float32_matmul_precision() == before
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert record["curve"][-1]["kl"] < 0.8 * UNIFORM_KL
    exact, _ = train(recipe.but(precision="float32"), device=device)
    same = torch.equal(exact.tokens.weight, model.tokens.weight)
    assert same == (precision == "float32" or (precision == "tf32" and device == "cpu"))


def test_the_networks_own_products_are_bfloat16_only_if_asked():
    seen = set()
    for asked in ("float32", "bfloat16"):
        run = loop.start(smoke(precision=asked))
        run.model.blocks[0].attention.query.register_forward_hook(
            lambda module, given, out: seen.add(out.dtype)
        )
        loop.update(run, run.model)
        assert seen == {getattr(torch, asked)}
        seen.clear()


def test_compiling_is_asked_for_by_the_recipe(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda model: compiled.append(model) or model)
    plain, _ = train(smoke())
    assert not compiled
    fast, _ = train(smoke(compile=True))
    assert len(compiled) == 1
    assert torch.equal(plain.tokens.weight, fast.tokens.weight)


def test_the_learning_curve_is_on_its_grid_and_repeats_the_score():
    model, record = train(smoke(steps=10, eval_every=4))
    assert [row["step"] for row in record["curve"]] == [0, 4, 8, 10]
    assert [row["episodes"] for row in record["curve"]] == [0, 64, 128, 160]
    assert record["curve"][0]["loss"] is None
    episodes, fingerprint = loop.evaluation_episodes(smoke())
    result = bw.scoring.score_episodes(model, episodes)
    for name in ("entropy_mae", "kl", "tv"):
        assert record["curve"][-1][name] == pytest.approx(getattr(result, name), abs=1e-9)
    assert record["evaluation_sha256"] == fingerprint
    seconds = [row["seconds"] for row in record["curve"]]
    assert seconds == sorted(seconds)


def test_evaluation_episodes_are_fixed_hashed_and_unlike_those_of_training():
    recipe = smoke(tunnel_config={"n_values": 10}, eval_episodes=64)
    episodes, fingerprint = loop.evaluation_episodes(recipe)
    again, same = loop.evaluation_episodes(recipe.but(seed=5, data_seed=7, steps=3))
    assert fingerprint == same
    assert torch.equal(episodes.inputs, again.inputs)
    assert loop.evaluation_episodes(recipe.but(eval_seed=1))[1] != fingerprint
    content = episodes.inputs.numpy().tobytes() + episodes.targets.numpy().tobytes()
    assert hashlib.sha256(content).hexdigest().startswith(fingerprint)
    held_out = {tuple(row) for row in episodes.inputs.tolist()}
    for step in range(20):
        rng = loop.generator("cpu", recipe.data_seed, step)
        batch = bw.tunnels.Bijection(10).sample(64, rng)
        assert not held_out & {tuple(row) for row in batch.inputs.tolist()}


def test_every_update_reads_its_own_episodes():
    """No two updates, and no two data seeds, share a stream."""
    streams = {
        tuple(torch.rand(3, generator=loop.generator("cpu", seed, step)).tolist())
        for seed in range(20)
        for step in range(200)
    }
    assert len(streams) == 20 * 200


def test_the_learning_rate_of_every_update_is_the_schedules():
    recipe = smoke(steps=8, warmup_steps=2)
    run, rates = loop.start(recipe), []
    for _ in range(8):
        loop.update(run, run.model)
        rates.append([o.param_groups[0]["lr"] for o in run.optimisers])
    muon, adamw = np.array(rates).T
    wanted = np.array([recipe.rate(step) for step in range(8)])
    np.testing.assert_allclose(muon, recipe.matrix_learning_rate * wanted)
    np.testing.assert_allclose(adamw, recipe.learning_rate * wanted)


@pytest.mark.parametrize("grad_clip", [0.0, 1e-3])
def test_gradients_are_clipped_to_the_recipes_norm(monkeypatch, grad_clip):
    run, norms = loop.start(smoke(grad_clip=grad_clip, optimiser="adamw")), []
    step = run.optimisers[0].step

    def noted():
        norms.append(torch.stack([p.grad.norm() for p in run.model.parameters()]).norm().item())
        step()

    monkeypatch.setattr(run.optimisers[0], "step", noted)
    loop.update(run, run.model)
    if grad_clip:
        assert norms[0] == pytest.approx(1e-3, rel=1e-3)
    else:
        assert norms[0] > 1e-2
    assert all(p.grad is None for p in run.model.parameters())


def test_the_record_is_complete_and_plain_json():
    model, record = train(smoke(steps=3))
    again = json.loads(json.dumps(record, allow_nan=False))
    assert again == record
    assert record["parameters"] == bw.models.count_parameters(model) == model.config.n_parameters
    assert training.Recipe.from_dict(record["recipe"]) == smoke(steps=3)
    assert record["recipe_tag"] == smoke(steps=3).tag
    assert bw.models.TransformerConfig(**record["config"]) == model.config
    assert record["tunnel_config"] == {"n_values": 4, "n_pairs": 4, "with_replacement": False}
    assert record["steps"] == 3
    assert record["schedule_ended"] is True
    assert record["device"].startswith("cpu (")
    assert record["torch"] == torch.__version__
    assert record["seconds"] >= 0


def test_training_leaves_global_randomness_alone():
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    train(smoke())
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    torch.manual_seed(99)  # and global randomness leaves training alone
    first, _ = train(smoke())
    torch.manual_seed(100)
    second, _ = train(smoke())
    assert torch.equal(first.tokens.weight, second.tokens.weight)


def test_snapshots_are_the_weights_on_the_way(tmp_path):
    recipe = smoke(steps=27, n_snapshots=4)
    assert recipe.snapshot_steps == (1, 3, 9, 27)
    model, _ = train(recipe, tmp_path)
    kept = sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    assert kept == [f"step{step:07d}.safetensors" for step in (1, 3, 9, 27)]
    run = loop.start(recipe)
    for step in range(1, 28):
        loop.update(run, run.model)
        if step in recipe.snapshot_steps:
            tensors, _ = read_tensors(loop.snapshot_path(tmp_path, step))
            for name, tensor in run.model.state_dict().items():
                assert torch.equal(tensors[name], tensor), (step, name)
    assert torch.equal(model.tokens.weight, run.model.tokens.weight)


def test_progress_goes_to_standard_output_and_can_be_switched_off():
    """A chapter fails if anything reaches the error stream (design, Decided 3)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        training.train(smoke())
    assert "8/8" in out.getvalue()
    assert "entropy error" in out.getvalue()
    assert err.getvalue() == ""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        train(smoke())
    assert out.getvalue() == err.getvalue() == ""


def test_best_precision_is_one_that_a_recipe_takes():
    for device in DEVICES:
        assert smoke(precision=training.best_precision(device)).precision


FASTER = {
    "AMD's AVX-512": ("AMD EPYC", True, False, "bfloat16"),
    "Intel's tiles": ("Intel(R) Xeon(R) Processor", True, True, "bfloat16"),
    "Intel's AVX-512 alone": ("Intel(R) Xeon(R) Processor", True, False, "float32"),
    "neither": ("AMD EPYC", False, False, "float32"),
}


@pytest.mark.parametrize("case", FASTER)
def test_a_processor_takes_bfloat16_only_where_that_is_faster(monkeypatch, case):
    name, instruction, tiles, best = FASTER[case]
    monkeypatch.setattr(precision, "processor", lambda: name)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: instruction, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles)
    assert training.best_precision("cpu") == best


class Seen(TorchDispatchMode):
    """Takes down in which number types the processor multiplies matrices."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation in precision.PRODUCTS:
            self.types |= {x.dtype for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()}
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("architecture", ["transformer", "mamba", "lstm", "mlp"])
def test_without_instructions_for_bfloat16_its_products_go_by_float32(monkeypatch, architecture):
    """Number by number a run of the queue took five days, and an LSTM was refused."""
    monkeypatch.setattr(precision, "_has_bfloat16", lambda: False)
    run = loop.start(training.recipe("bijection", architecture, "smoke", precision="bfloat16", optimiser="muon"))
    with Seen() as seen, precision.products(run.device, "bfloat16"):
        loop.update(run, run.model)
    assert seen.types == {torch.float32}


def test_by_float32_a_product_of_bfloat16_is_rounded_once(monkeypatch):
    monkeypatch.setattr(precision, "_has_bfloat16", lambda: False)
    rng = torch.Generator().manual_seed(0)
    a, b = (torch.randn(64, 64, generator=rng).bfloat16() for _ in range(2))
    with precision.products(torch.device("cpu"), "bfloat16"):
        found = a @ b
    exact = a.double() @ b.double()
    assert found.dtype == torch.bfloat16
    # Half a step of bfloat16, and what float32 may lose of the largest terms.
    assert bool(((found.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-5).all())


@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
def test_the_precision_auto_is_settled_when_a_run_starts(monkeypatch, fast):
    """The record says which it was, and bears the tag of a recipe that asks for it by name."""
    monkeypatch.setattr(loop, "best_precision", lambda device: fast)
    model, record = train(smoke(precision="auto"))
    named, _ = train(smoke(precision=fast))
    assert record["recipe"]["precision"] == fast
    assert record["recipe_tag"] == smoke(precision=fast).tag != smoke(precision="auto").tag
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), named.parameters(), strict=True))
    optimiser = loop.start(smoke(precision="auto", optimiser="muon")).optimisers[0]
    assert optimiser.dtype == getattr(torch, fast)


def test_a_run_that_is_resumed_elsewhere_keeps_the_precision_it_began_with(monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "best_precision", lambda device: "bfloat16")
    with pytest.raises(training.Interrupted):
        train(smoke(precision="auto"), tmp_path, stop=lambda: True)
    monkeypatch.setattr(loop, "best_precision", lambda device: "float32")
    _, record = train(smoke(precision="auto"), tmp_path, resume=True)
    assert record["recipe"]["precision"] == "bfloat16"


def test_the_device_auto_is_a_gpu_where_there_is_one():
    assert training.check_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


PAIRS = [
    (tunnel, architecture, variant)
    for tunnel in bw.tunnels.TUNNELS
    for architecture, variant in (
        ("transformer", None), ("transformer", "uniform"), ("mamba", None), ("lstm", None),
        ("mlp", None), ("mlp", "sum"), ("mlp", "flattened"),
    )
]


@pytest.mark.parametrize(("tunnel", "architecture", "variant"), PAIRS)
def test_every_architecture_trains_in_every_tunnel(tunnel, architecture, variant):
    """Forty updates lower the loss of what can be lowered, and the network comes back from its record."""
    recipe = training.recipe(
        tunnel, architecture, "smoke", variant, steps=40, batch_size=32, eval_every=40,
        supervision="posterior", optimiser="adamw", learning_rate=1e-2,
    )
    model, record = train(recipe)
    first, last = record["curve"][0], record["curve"][-1]
    assert last["kl"] < first["kl"] + 0.05
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    again = bw.models.build(record["architecture"], record["config"])
    again.load_state_dict(model.state_dict())
    inputs = bw.tunnels.build(tunnel, recipe.tunnel_config).sample(3, torch.Generator()).inputs
    assert torch.equal(again.eval().predict(inputs), model.predict(inputs))


def drawn_by_updates(recipe, n_updates):
    """The episodes that the updates of a run read, and the run; the network itself is not computed."""
    run, drawn = loop.start(recipe), []
    for run.step in range(n_updates):
        drawn.append(loop.draw(run))
    return drawn, run


@pytest.mark.parametrize("tunnel", ["bijection", "hmm", "regression"])
def test_no_two_of_many_updates_read_the_same_episodes(tunnel):
    """A training stream that repeated itself would be a pool that nobody asked for."""
    sizes = {"bijection": {"n_values": 10}, "hmm": {"length": 10}, "regression": {}}[tunnel]
    drawn, _ = drawn_by_updates(training.recipe(tunnel, "transformer", "smoke", tunnel_config=sizes), 200)
    assert len({episodes.inputs.numpy().tobytes() for episodes in drawn}) == 200
    rows = [row.numpy().tobytes() for episodes in drawn for row in episodes.inputs]
    assert len(set(rows)) == len(rows)


def test_what_a_network_randomises_has_a_stream_of_its_own(monkeypatch):
    """Random positions must not be drawn by the numbers that drew the episodes: no seed serves both."""
    used, make = {"data": set(), "positions": set()}, loop.generator
    run = loop.start(smoke(steps=60, model_config={"positions": "random_subset", "n_positions": 30}))
    sample, forward = run.tunnel.sample, run.model.forward

    def sampled(batch, rng, *words, **settings):
        used["data"].add(rng.initial_seed())
        return sample(batch, rng, *words, **settings)

    def given(inputs, rng):
        used["positions"].add(rng.initial_seed())
        return forward(inputs, rng)

    object.__setattr__(run.tunnel, "sample", sampled)
    for _ in range(20):
        loop.update(run, given)
    assert len(used["data"]) == len(used["positions"]) == 20
    assert not used["data"] & used["positions"]
    ours = torch.rand(8, generator=make("cpu", run.recipe.data_seed, 0))
    theirs = torch.rand(8, generator=make("cpu", run.recipe.data_seed, 0, 1))
    assert not torch.equal(ours, theirs)


def test_a_pool_is_all_that_is_ever_read():
    """With a pool of 5, every update's episodes are among those 5, posteriors and all, each as often as the others."""
    recipe = smoke(pool=5, batch_size=16, tunnel_config={"n_values": 10})
    drawn, run = drawn_by_updates(recipe, 200)
    numbers = {tuple(row): i for i, row in enumerate(run.pool.inputs.tolist())}
    assert len(numbers) == 5
    counts = np.zeros(5)
    for episodes in drawn:
        for i, (inputs, targets, posterior) in enumerate(zip(episodes.inputs, episodes.targets, episodes.posterior, strict=True)):
            number = numbers[tuple(inputs.tolist())]  # KeyError: an episode that is not in the pool
            assert torch.equal(targets, run.pool.targets[number]) and torch.equal(posterior, run.pool.posterior[number]), i
            counts[number] += 1
    assert counts.sum() == 200 * 16
    assert stats.chisquare(counts).pvalue > 1e-4
    assert len({episodes.inputs.numpy().tobytes() for episodes in drawn}) == 200  # in another order for every update
    other = loop.start(smoke(pool=5, data_seed=1)).pool
    assert not torch.equal(other.inputs, run.pool.inputs)


@pytest.mark.parametrize("changes", [{"pool": 7}, {"model_config": {"positions": "random_subset", "n_positions": 30}}])
def test_pools_and_random_positions_resume_exactly(tmp_path, changes):
    recipe = smoke(steps=6, eval_every=6, **changes)
    whole, _ = train(recipe)
    run = loop.start(recipe)
    for _ in range(3):
        loop.update(run, run.model)
    tmp_path.mkdir(exist_ok=True)
    loop.save_state(run, tmp_path)
    resumed, _ = train(recipe, tmp_path, resume=True)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


# ---- parts that are not trained -----------------------------------------------------------------


def after(steps: int, **changes) -> dict[str, torch.Tensor]:
    """The weights after some updates of a smoke run."""
    wanted = smoke(**changes)
    run = loop.start(wanted)
    for _ in range(steps):
        loop.update(run, run.model)
    return {name: x.clone() for name, x in run.model.state_dict().items()}


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_what_is_frozen_stays_and_all_else_moves(optimiser):
    chosen = {"optimiser": optimiser, "frozen": ("*.query.weight", "*.key.weight"), "weight_decay": 0.1}
    first, later = after(0, **chosen), after(3, **chosen)
    for name in first:
        still = torch.equal(first[name], later[name])
        assert still == name.endswith(("query.weight", "key.weight")), name


def test_what_is_frozen_later_is_trained_until_then():
    chosen = {"frozen": ("tokens.weight",), "frozen_from": 2}
    steps = [after(n, **chosen)["tokens.weight"] for n in range(5)]
    assert not torch.equal(steps[0], steps[1]) and not torch.equal(steps[1], steps[2])
    assert torch.equal(steps[2], steps[3]) and torch.equal(steps[3], steps[4])
    assert torch.equal(after(2)["tokens.weight"], steps[2])


def test_a_frozen_name_that_fits_nothing_is_told():
    with pytest.raises(ValueError, match=r"frozen names '\*.queri', and no parameter of this transformer"):
        after(0, frozen=("*.queri",))


def test_freezing_is_part_of_the_recipe():
    plain = smoke()
    assert plain.but(frozen=(), frozen_from=0).tag == plain.tag
    frozen = plain.but(frozen=["tokens.weight"])
    assert frozen.tag != plain.tag and type(frozen).from_dict(frozen.to_dict()) == frozen
