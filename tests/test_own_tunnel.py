"""The promise of chapter 20: one file of at most 75 lines, and everything else works unchanged.

The files are those that the chapter shows, letter for letter. A driver in a process of its own, in an
empty folder, uses the installed commands on them; the exported page is opened from file://.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import bayeswind_lib as bw
import pytest
import torch
from _support import CHAPTERS, HANGS, ROOT, rng
from bayeswind_lib.probes import sources
from bayeswind_lib.baselines import mixture

CHAPTER = CHAPTERS / "20_capstone.md"
EXAMPLES = ROOT / "bayeswind_lib" / "examples"
NAMES = ("dirichlet", "hmm_list")
LONGEST = 75


def shown(name: str) -> str:
    """The file as the chapter shows it: the block that registers the tunnel of that name."""
    blocks = re.findall(r"^```python\n(.*?)^```$", CHAPTER.read_text(), re.M | re.S)
    found = [block for block in blocks if f'@bw.tunnels.register("{name}")' in block]
    assert len(found) == 1, name
    return found[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_chapter_shows_the_whole_file_and_it_is_short(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert shown(name) == text
    assert len(text.splitlines()) <= LONGEST
    assert max(map(len, text.splitlines())) <= 72


def test_nothing_in_the_library_imports_an_example():
    for path in (ROOT / "bayeswind_lib").rglob("*.py"):
        if path.parent != EXAMPLES and "experiments" not in path.as_posix():
            assert not re.search(r"^\s*(from|import) bayeswind_lib\.examples\.", path.read_text(), re.M), path


# ---- the promise ---------------------------------------------------------------------------------

DRIVER = """
import json, sys
import torch
import bayeswind_lib as bw
from bayeswind_lib import training
from bayeswind_lib.__main__ import app
from typer.testing import CliRunner

file, name, config = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
def cli(*words, code=0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, (words, result.output, result.exception)
    return result.output

print("CHECK", cli("check", file, "--preset", "smoke", "--episodes", "600").strip().splitlines()[-4:])
assert bw.tunnels.load_file(file) == name
assert bw.tunnels.TUNNELS[name].__module__ != f"bayeswind_lib.examples.{name}"
recipe = training.recipe(name, "transformer", "smoke", seed=0, data_seed=0, supervision="sampled")
assert recipe.tunnel_config == config
whole, _ = training.train(recipe, progress=False)
try:
    updates = iter(range(100))
    training.train(recipe, "run", progress=False, stop=lambda: next(updates) == 2)
    raise SystemExit("it was not stopped")
except training.Interrupted:
    pass
cli("train", file, "transformer", "--preset", "smoke", "--folder", "run", "--resume")
saved = f"run/{name}-transformer-smoke-seed0.safetensors"
model = bw.checkpoints.load_file(saved)
assert model.record["interruptions"] == 1
for key, value in whole.state_dict().items():
    assert torch.equal(value, model.state_dict()[key]), key
told = json.loads(cli("score", saved, "--tunnel", file, "--episodes", "64", "--json"))
tunnel = bw.tunnels.build(name, model.record["tunnel_config"])
direct = bw.score(model, tunnel, 64, rng=torch.Generator().manual_seed(1))
assert len(direct.per_position["kl"]) == len(tunnel.interface.scored)
for what in ("activations", "heads", "layers", "beliefs"):
    rows = json.loads(cli("probe", saved, what, "--tunnel", file, "--episodes", "12", "--json"))
    assert rows, what
listed = json.loads(cli("list", "run", "--json"))
assert [row["name"] for row in listed] == [f"{name}-transformer-smoke"] and listed[0]["scores"]["n_episodes"] == 2000
claims = [{"id": "mine", "statement": "It learns.", "published": "5", "measure": "kl"},
          {"id": "too-much", "statement": "It is exact.", "published": "1e-9", "measure": "kl"}]
rows = bw.ledger.own(model, claims=claims, n_episodes=64)
if getattr(bw.tunnels.find(name), "claims", None):
    assert json.loads(cli("ledger", saved, "--tunnel", file, "--json"))[0]["measured"] > 0
cli("page", saved, "--tunnel", file, "--out", "page.html", "--episodes", "3")
episodes = tunnel.sample(3, torch.Generator().manual_seed(1))
forecast = model.predict(episodes.inputs)
numbers = {
    "forecast": forecast.exp2().tolist(), "exact": episodes.posterior.tolist(), "inputs": episodes.inputs.tolist(),
    "kl": bw.scoring.measure(forecast, episodes)["kl"].tolist(),
    "entropy": bw.scoring.entropy_bits(forecast).tolist(), "targets": episodes.targets.tolist(),
}
print("RESULT", json.dumps({"score": [told["kl"], direct.kl], "rows": rows, "numbers": numbers}))
"""


@dataclass
class Promise:
    name: str
    folder: object
    output: str
    result: dict


def environment() -> dict:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@pytest.fixture(scope="module", params=NAMES)
def promise(request, tmp_path_factory):
    """What a process of its own makes of the one file, in a folder that holds nothing else."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    (folder / "my_tunnel.py").write_text(shown(name))
    config = bw.tunnels.build(name, bw.training.presets.tunnel_config(name, "smoke")).config
    smoke = {key: value for key, value in config.items() if key in bw.tunnels.find(name).presets["smoke"]}
    words = [sys.executable, "-W", "error::DeprecationWarning", "-c", DRIVER, "my_tunnel.py", name, json.dumps(smoke)]
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return Promise(name, folder, done.stdout, json.loads(done.stdout.split("RESULT ", 1)[1]))


def test_one_file_is_trained_stopped_resumed_scored_probed_and_listed(promise):
    told, direct = promise.result["score"]
    assert told == pytest.approx(direct, rel=1e-9) and told > 0
    assert "uniform" in promise.output and "exact" in promise.output and "0.0000" in promise.output


def test_one_file_has_rows_of_the_ledger_with_null_and_status(promise):
    low, high = promise.result["rows"]
    assert (low["id"], low["published"], low["status"]) == ("mine", 5.0, "reproduced")
    assert low["null"] > low["measured"] > 0 and low["draws"] == 20 and low["null_what"] == "the same network before training"
    assert high["status"] in ("not settled", "not reproduced") and high["measured"] == low["measured"]


def test_a_fresh_process_scores_it_with_the_file_alone(promise):
    saved = f"run/{promise.name}-transformer-smoke-seed0.safetensors"
    words = [sys.executable, "-m", "bayeswind_lib", "score", saved, "--tunnel", "my_tunnel.py", "--episodes", "64", "--json"]
    done = subprocess.run(words, cwd=promise.folder, env=environment(), capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kl"] == pytest.approx(promise.result["score"][0], rel=1e-9)


@pytest.mark.book  # opens a browser
def test_the_page_opens_from_a_folder_and_its_numbers_are_the_librarys(promise):
    from _support_browser import chromium

    numbers = promise.result["numbers"]
    with chromium() as browser:
        for scheme, size in (("light", {"width": 1280, "height": 900}), ("dark", {"width": 390, "height": 844})):
            context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
            page, said, asked = context.new_page(), [], []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda problem, said=said: said.append(str(problem)))
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto((promise.folder / "page.html").as_uri())
            page.wait_for_selector("[data-explorer=page][data-state=ready]", timeout=HANGS * 1000)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            K = len(numbers["targets"][0])
            for episode, position in itertools.product(range(3), (0, K - 1)):
                page.evaluate(f"bwPageSet({{episode: {episode}, position: {position}}})")
                now = page.evaluate("bwPageNow()")
                assert now["live"] and now["difference"] < 1e-5
                assert now["inputs"] == numbers["inputs"][episode] and now["target"] == numbers["targets"][episode][position]
                assert now["exact"] == pytest.approx(numbers["exact"][episode][position], abs=1e-8)
                assert now["forecast"] == pytest.approx(numbers["forecast"][episode][position], abs=1e-5)
                assert now["divergence"] == pytest.approx(numbers["kl"][episode], abs=2e-5)
                assert now["entropy"] == pytest.approx(numbers["entropy"][episode], abs=2e-5)
            assert f"episode 3, scored position {K} of {K}" in page.inner_text(".bw-status").lower()
            page.focus('[data-control="position"]')
            page.keyboard.press("ArrowLeft")
            assert page.evaluate("bwPageNow().position") == K - 2
            page.check('[data-head="0.0"]')
            without = page.evaluate("bwPageNow()")
            assert without["off"] == ["0.0"] and without["difference"] is None
            assert without["forecast"] != pytest.approx(numbers["forecast"][2][K - 2], abs=1e-6)
            assert page.get_attribute(".bw-chart svg", "role") == "img"
            assert not said and all(url.startswith(("file://", "data:")) for url in asked), (said, asked)
            context.close()


# ---- what is refused -----------------------------------------------------------------------------

GOOD = textwrap.dedent("""
    from dataclasses import dataclass
    import torch
    import bayeswind_lib as bw

    @bw.tunnels.register("coin_of_a_reader")
    @dataclass(frozen=True)
    class Coin(bw.tunnels.Tunnel):
        length: int = 5

        @property
        def interface(self):
            return bw.tunnels.sequence(2, self.length)

        def sample(self, batch, rng, device=None):
            bias = torch.rand(batch, 1, generator=rng)
            return self.episodes((torch.rand(batch, self.length + 1, generator=rng) < bias).long())

        def posterior(self, inputs):
            heads = (inputs.cumsum(1).double() + 1) / (torch.arange(self.length) + 3.0)
            return torch.stack([1 - heads, heads], -1)
""")
BAD = {
    "name taken": ('"coin_of_a_reader"', '"hmm"', "the name 'hmm' is taken by bayeswind_lib.tunnels.hmm.HMM"),
    "no name": ('("coin_of_a_reader")', '("Coin!")', "no name for a tunnel"),
    "no sample": ("def sample", "def draw", "has no sample"),
    "no device": ("rng, device=None", "rng", "cannot be called as sample(batch, rng, device=None)"),
    "no interface": ("def interface", "def sizes", "has no interface"),
    "not registered": ('@bw.tunnels.register("coin_of_a_reader")', "", "registers no tunnel"),
    "broken": ("import torch", "import torch, no_such_package_at_all", "ModuleNotFoundError"),
    "syntax": ("def sample", "def def", "line 15: SyntaxError"),
    "preset": ("length: int = 5", "length: int = 5\n    presets = {'huge': {}}", "presets for huge"),
}  # fmt: skip
WRONG = {
    "rows": ("[1 - heads, heads]", "[1 - heads, heads + 0.1]", "do not sum to 1"),
    "negative": ("[1 - heads, heads]", "[2 - heads, heads - 1]", "negative entry"),
    "shape": ("[1 - heads, heads], -1", "[1 - heads, heads], 1", "the posterior is float64 (4, 2, 5)"),
    "precision": ("cumsum(1).double()", "cumsum(1).float()", "expected float64"),
    "targets": ("return self.episodes((torch", "return self.episodes(2 * (torch", "tokens 0 to 2: the interface has 0..1"),
    "scored": ("sequence(2, self.length)", "sequence(2, self.length + 1)", "inputs have 5 positions"),
    "outcomes": ("sequence(2, self.length)", "sequence(1, self.length)", "at least 2 outcomes"),
    "not episodes": ("return self.episodes((torch.rand(batch, self.length + 1, generator=rng) < bias).long())", "return bias", "sample returned Tensor"),
}  # fmt: skip
UNCALIBRATED = {
    "too sure": ("+ 1) / (torch.arange(self.length) + 3.0)", "+ 0.1) / (torch.arange(self.length) + 1.2)", "does not predict the targets"),
    "ignores": ("heads = (inputs", "heads = 0.5 + 0 * (inputs", "does not predict the targets"),
    "late": ("(inputs.cumsum(1).double() + 1) / (torch.arange(self.length) + 3.0)",
             "((inputs.cumsum(1) - inputs).double() + 1) / (torch.arange(self.length) + 2.0)", "does not predict the targets"),
    "other chance": ("bias = torch.rand(batch, 1, generator=rng)", "bias = torch.rand(batch, 1)", "the same seed gives other episodes"),
    "deaf": ("torch.rand(batch, self.length + 1, generator=rng) < bias", "torch.ones(batch, self.length + 1) > 0", "another seed gives the same"),
    "ruled out": ("heads = (inputs.cumsum(1).double() + 1) / (torch.arange(self.length) + 3.0)", "heads = (inputs > 0).double()", "rules out"),
}  # fmt: skip


@pytest.fixture
def own(tmp_path):
    """Writes a file with a change, and forgets the tunnels that it registered."""
    before = dict(bw.tunnels.TUNNELS)

    def write(old: str = "", new: str = ""):
        assert not old or old in GOOD
        path = tmp_path / "coin.py"
        path.write_text(GOOD.replace(old, new) if old else GOOD)
        return path

    yield write
    bw.tunnels.TUNNELS.clear()
    bw.tunnels.TUNNELS.update(before)


def test_a_good_tunnel_passes_and_may_be_loaded_twice(own):
    assert bw.tunnels.load_file(own()) == bw.tunnels.load_file(own()) == "coin_of_a_reader"
    found = bw.tunnels.check(bw.tunnels.build("coin_of_a_reader"))
    assert found.ok and found.n_tests > 8 and "nothing is wrong" in str(found)


@pytest.mark.parametrize("old, new, words", BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_in_words_and_leaves_nothing_behind(own, old, new, words):
    before = dict(bw.tunnels.TUNNELS)
    with pytest.raises(ValueError, match=re.escape(words)):
        bw.tunnels.load_file(own(old, new))
    assert before == bw.tunnels.TUNNELS
    with pytest.raises(FileNotFoundError, match="no such file"):
        bw.tunnels.load_file("nowhere.py")


@pytest.mark.parametrize("old, new, words", WRONG.values(), ids=WRONG)
def test_wrong_shapes_are_refused_before_a_run(own, old, new, words):
    tunnel = bw.tunnels.build(bw.tunnels.load_file(own(old, new)))
    assert words in str(bw.tunnels.check(tunnel))
    recipe = bw.training.recipe("coin_of_a_reader", "transformer", "smoke")
    with pytest.raises(ValueError, match=re.escape(words)):
        bw.training.train(recipe, progress=False)


@pytest.mark.parametrize("old, new, words", UNCALIBRATED.values(), ids=UNCALIBRATED)
def test_a_posterior_that_does_not_predict_is_told(own, old, new, words):
    found = bw.tunnels.check(bw.tunnels.build(bw.tunnels.load_file(own(old, new))))
    assert not found.ok and words in str(found)


@pytest.mark.parametrize("name", [*bw.tunnels.TUNNELS, *NAMES])
def test_the_librarys_own_tunnels_pass_the_check(name):
    tunnel = bw.tunnels.build(name, bw.training.presets.tunnel_config(name, "smoke"))
    found = bw.tunnels.check(tunnel, 1000)
    assert found.ok, str(found)


def test_false_alarms_are_as_rare_as_stated():
    """The largest of all averages, in units of what is allowed, over seeds: never near 1 by chance."""
    tunnel = bw.tunnels.build("dirichlet", {"n_faces": 3, "length": 6})
    found = [bw.tunnels.check(tunnel, 400, seed) for seed in range(20)]
    assert all(one.ok for one in found)
    assert 1.0 < sorted(one.worst[0] for one in found)[10] < 3.5  # about 2.2 of 20 Gaussian averages


def test_names_that_nobody_registered_are_told_what_to_do():
    with pytest.raises(ValueError, match="one of your own has to be registered first"):
        bw.tunnels.build("sausage")
    with pytest.raises(ValueError, match="cannot be built with"):
        bw.tunnels.build("dirichlet", {"n_sides": 3})


def test_an_own_claim_may_be_divided_by_a_stored_reference_point():
    """A network in a tunnel of the book's own: the error as a share of the uniform guess's."""
    model = bw.load("bijection-transformer-classroom")
    claim = {"id": "x", "statement": "y", "published": "1", "measure": "entropy_mae"}
    share = claim | {"unit": "", "over_key": "tasks/V10-L10/distinct/baselines/uniform/entropy_mae"}
    plain, divided = (bw.ledger.own(model, claims=[one], n_episodes=64)[0]["measured"] for one in (claim, share))
    uniform = bw.baselines.exact_baselines(10)["uniform"]["entropy_mae"]
    assert divided == pytest.approx(plain / uniform, rel=1e-6)


def test_own_claims_that_lack_something_are_refused():
    class Fake:
        record = {"tunnel": "bijection", "name": "bijection-transformer-x", "architecture": "transformer", "seed": 0}

    with pytest.raises(ValueError, match="claims nothing"):
        bw.ledger.own(Fake())
    with pytest.raises(ValueError, match="lacks published, measure"):
        bw.ledger.own(Fake(), claims=[{"id": "x", "statement": "y"}])
    with pytest.raises(ValueError, match="the ledger stores such reference points of bijection, hmm.*none of dirichlet"):
        Fake.record = Fake.record | {"tunnel": "dirichlet"}
        bw.ledger.own(Fake(), claims=[{"id": "x", "statement": "y", "published": "1", "measure": "kl", "over_key": "tasks/a/baselines/uniform/kl"}])
    with pytest.raises(ValueError, match="unexpected keyword argument 'sausage'"):
        bw.ledger.own(Fake(), claims=[{"id": "x", "statement": "y", "published": "1", "measure": "kl", "sausage": 1}])


def test_a_page_refuses_what_it_cannot_show(tmp_path):
    die = bw.tunnels.build("dirichlet", {"n_faces": 3, "length": 4})
    some = die.sample(2, rng())
    write = bw.widgets.page
    for words, call in {
        "ends in .html": lambda: write(die, some, tmp_path / "page.txt"),
        "no such folder": lambda: write(die, some, tmp_path / "none" / "page.html"),
        "hand over what tunnel.sample": lambda: write(die, [1, 2], tmp_path / "page.html"),
        "has no predict": lambda: write(object(), some, tmp_path / "page.html"),
        "a page shows 1 to 200": lambda: write(die, die.sample(201, rng()), tmp_path / "page.html"),
        "another tunnel": lambda: write(bw.load("bijection-transformer-classroom"), some, tmp_path / "page.html"),
    }.items():
        with pytest.raises(ValueError, match=re.escape(words)):
            call()
    assert not list(tmp_path.iterdir())
    text = write(die, some, tmp_path / "page.html", title="A <die> & more").read_text()
    assert "A &lt;die&gt; &amp; more" in text and 'id="bw-weights"></script>' in text  # an oracle has no weights
    assert not re.search(r'(src|href)="(?!data:)', text)


def test_a_gaussian_tunnel_has_a_page_too(tmp_path):
    tunnel = bw.tunnels.build("regression", bw.training.presets.tunnel_config("regression", "smoke"))
    episodes = tunnel.sample(2, rng())
    shown = bw.widgets.page(tunnel, episodes, tmp_path / "page.html").read_text()
    data = json.loads(re.search(r'id="bw-data">(.*?)</script>', shown, re.S)[1])
    assert data["interface"]["outcome"] == "gaussian"
    assert data["episodes"][0]["exact"][0] == pytest.approx(episodes.posterior[0, 0].tolist(), rel=1e-8)


# ---- the list of HMMs ----------------------------------------------------------------------------


def small(seed: int = 3):
    return bw.tunnels.build("hmm_list", {"n_models": 3, "n_states": 2, "n_symbols": 3, "length": 5, "list_seed": seed})


def test_the_mixture_is_that_of_all_paths_of_all_models():
    tunnel = small()
    inputs = tunnel.sample(6, rng()).inputs
    move, emit = tunnel.matrices()
    for row, truth in zip(inputs.tolist(), tunnel.posterior(inputs), strict=True):
        for k in range(len(row)):
            joint = torch.zeros(3, dtype=torch.float64)
            for m, path in itertools.product(range(3), itertools.product(range(2), repeat=k + 2)):
                p = 1 / 6
                for t in range(k + 1):
                    p *= float(emit[m, path[t], row[t]] * move[m, path[t], path[t + 1]])
                joint += p * emit[m, path[-1]]
            assert torch.allclose(truth[k], joint / joint.sum(), atol=1e-12)


def test_the_list_is_one_chain_that_never_leaves_its_block():
    tunnel = small(4)
    inputs = tunnel.sample(20, rng(1)).inputs
    big_move, big_emit = mixture.block_diagonal(*tunnel.matrices())
    start = torch.full((20, 6), 1 / 6, dtype=torch.float64)
    one = bw.tunnels.hmm.forward_filter(big_move.expand(20, -1, -1), big_emit.expand(20, -1, -1), inputs, start=start)
    assert torch.allclose(one.view(20, 5, 3, 2), tunnel.beliefs(inputs), atol=1e-12)


def test_observers_are_what_they_say():
    tunnel = small(5)
    episodes = tunnel.sample(300, rng(2))
    said = mixture.observers(*tunnel.matrices(), episodes.inputs, episodes.latents["which"])
    assert torch.allclose(said["exact"], episodes.posterior, atol=1e-12)
    kl = {name: sources.divergence(episodes.posterior, p.log2()) for name, p in said.items()}
    assert all(torch.allclose(p.sum(-1), torch.ones(300, 5).double()) for p in said.values())
    assert kl["exact"] < 1e-12 < kl["window 4"] < kl["window 2"] < kl["window 1"] < kl["by position"] < kl["uniform"]
    assert torch.allclose(said["window 8"], said["exact"], atol=1e-12)  # it sees all five symbols
    alone = bw.tunnels.build("hmm_list", tunnel.config | {"n_models": 1})
    one = alone.sample(50, rng())
    lonely = mixture.observers(*alone.matrices(), one.inputs, one.latents["which"])
    for name in ("state, no which", "likeliest only"):
        assert torch.allclose(lonely[name], one.posterior, atol=1e-12)
    assert torch.allclose(lonely["which, no state"], lonely["given which, no state"], atol=1e-12)


def test_window_1_is_the_mean_posterior_among_episodes_with_the_same_last_symbol():
    """Enumerated: all sequences of four symbols, each with its probability."""
    tunnel = bw.tunnels.build("hmm_list", {"n_models": 2, "n_states": 2, "n_symbols": 2, "length": 4})
    every = torch.tensor(list(itertools.product(range(2), repeat=4)))
    move, emit = tunnel.matrices()
    exact = tunnel.posterior(every)
    chance = torch.full((16,), 0.5, dtype=torch.float64)
    first = mixture.state_marginals(move, 1)[0]
    chance = torch.einsum("ms,msv->v", first / 2, emit)[every[:, 0]]
    for k in range(3):
        chance = chance * exact[torch.arange(16), k, every[:, k + 1]]
    assert float(chance.sum()) == pytest.approx(1)
    said = mixture.windowed(move, emit, every, 1)
    for symbol in (0, 1):
        same = every[:, 3] == symbol
        mean = (chance[same, None] * exact[same, 3]).sum(0) / chance[same].sum()
        assert torch.allclose(said[same, 3], mean.expand(int(same.sum()), -1), atol=1e-12)


def test_a_hybrid_of_an_episode_with_itself_is_exact():
    tunnel = small(6)
    a, b = tunnel.sample(8, rng(3)), tunnel.sample(8, rng(4))
    assert torch.allclose(sources.hybrid(tunnel, a, a), a.posterior, atol=1e-12)
    mixed = sources.hybrid(tunnel, a, b)
    assert torch.allclose(mixed.sum(-1), torch.ones(8, 5).double())
    assert not torch.allclose(mixed, a.posterior, atol=1e-3) and not torch.allclose(mixed, b.posterior, atol=1e-3)


def test_readers_find_what_was_planted():
    """Activations that hold the log probabilities as they are give 1; noise gives nothing."""
    tunnel = small(7)
    episodes = tunnel.sample(60, rng(5))
    logs, state = sources.targets(tunnel, episodes)
    noise = torch.randn(60, 5, 6, generator=rng(6)).numpy()
    assert sources.read_which(logs @ torch.randn(3, 6, generator=rng(7)).double().numpy(), logs)[0] > 0.99
    assert sources.read_which(noise, logs)[0] < 0.1
    assert sources.read_state(state, state, episodes.latents["which"].numpy())[0] > 0.95
