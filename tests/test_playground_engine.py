"""The engine of the page's networks: its numbers against PyTorch, its speed, and what it says when something is missing."""

from __future__ import annotations

import base64
import contextlib
import re

import numpy as np
import pytest
import torch

from _support_browser import served
from _support_explorer import WEB

import bayeswind_lib as bw
from bayeswind_lib import probes


from tools import kernel  # noqa: E402
from tools import measure_engine  # noqa: E402
from tools import networks  # noqa: E402
from tools.measure_engine import FIRST, MAIN, file_of  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")
SINGLE = 1e-4  # what single precision on both sides leaves of a logit; asked for is 1e-2
ASKED = {"logits": 1e-2, "entropy": 1e-3}  # of the published network: logits, bits
STEP = 50  # milliseconds, for a new token at the end of an episode
ENGINE_FILES = ("anatomy.js", "explorer.js", "matmul.js", "network.js", "network_parts.js", "oracles.js")
FETCH = """async file => { try { const found = await bwNetwork.fetch(file); return found.architecture || found.steps.length; }
  catch (problem) { return problem.message; } }"""
ONE = """async ([file, inputs, options]) => {
  const network = await bwNetwork.fetch(file), off = new Set((options || {}).off || []);
  const means = (options || {}).reference ? network.means(options.reference) : null;
  return network.run(inputs, { off, means }).logits.map(row => [...row]);
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page, every shipped network as a file beside it, and two as scripts."""
    folder = tmp_path_factory.mktemp("engine")
    measure_engine.write_page(folder, [file_of(MAIN), file_of(FIRST)])
    for path in networks.WEIGHTS.rglob("*.safetensors"):
        if not (folder / "networks" / path.name).exists():
            (folder / "networks" / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def site(folder):
    with served(folder) as home:
        yield f"{home}/engine.html"


@pytest.fixture(scope="module")
def page(browser, site):
    """One page for all that only computes."""
    page = browser.new_page()
    page.goto(site)
    return page


@pytest.fixture
def window(browser):
    """A window of its own, for what goes wrong in it."""
    context = browser.new_context()
    yield context
    context.close()


def open_in(window, address: str, before: str = ""):
    page = window.new_page()
    if before:
        page.add_init_script(before)
    page.goto(address)
    return page


# ---- numbers ------------------------------------------------------------------------------------


def test_the_published_network_in_the_page_is_the_network(page):
    """On 1,000 prompts: logits and entropies at every scored position."""
    found = measure_engine.parity(page, MAIN, measure_engine.N_PROMPTS)
    assert page.evaluate("bwNetwork.backend") == "wasm"
    assert found["prompts"] == 1000 and found["positions"] > 9000
    assert found["logits"] <= SINGLE < ASKED["logits"], found
    assert found["entropy"] <= ASKED["entropy"] / 10, found


@pytest.mark.parametrize("architecture", ["transformer", "mlp", "lstm", "mamba"])
def test_every_shipped_network_runs_in_the_page(page, architecture):
    """All positional encodings, MLP variants, depths and readouts that ship, each on a few prompts."""
    rows = [r for r in bw.checkpoints.shipped() if r["architecture"] == architecture and r["seed"] == 0 and r["name"] != MAIN]
    apart = {row["name"]: measure_engine.parity(page, row["name"], 6) for row in rows}
    assert len(apart) >= 8 and all(found["positions"] for found in apart.values())
    assert {name: found for name, found in apart.items() if found["logits"] > SINGLE or found["entropy"] > SINGLE} == {}


@pytest.mark.parametrize("changes", [
    {"n_key_heads": 2}, {"n_key_heads": 1, "positions": "rotary"}, {"window": 4}, {"n_key_heads": 2, "window": 3, "attention": "uniform"},
    {"n_key_heads": 1, "window": 5, "positions": "rotary", "without_attention": (0,)},
])  # fmt: skip
def test_shared_key_heads_and_windows_run_in_the_page(page, folder, changes):
    """Logits and patterns of networks with weights drawn at random, token by token and at once."""
    tunnel, rng = bw.tunnels.Bijection(6), torch.Generator().manual_seed(7)
    wanted = bw.models.TransformerConfig.__dataclass_fields__
    sizes = {"n_layers": 2, "n_heads": 4, "width": 16, "hidden": 24, "init": "fan_in"} | changes
    config = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted} | sizes
    model = bw.models.build("transformer", config, rng).requires_grad_(False).eval()
    name = "tried-" + "-".join(str(part) for pair in changes.items() for part in pair if isinstance(part, str | int))
    record = {"tunnel": "bijection", "tunnel_config": tunnel.config, "architecture": "transformer", "config": model.config.to_dict()}
    file = bw.checkpoints.save(model, record, name, 0, folder / "networks").stem
    tokens = tunnel.sample(1, rng).inputs
    whole, grown = page.evaluate(
        """async ([file, tokens]) => {
          const network = await bwNetwork.fetch(file), plain = (seen) => ({logits: seen.logits.map(row => [...row]), patterns: seen.patterns});
          const whole = plain(network.run(tokens));
          network.passes.splice(0);
          for (let t = 1; t < tokens.length; t++) network.run(tokens.slice(0, t));
          return [whole, plain(network.run(tokens))];
        }""",
        [file, tokens[0].tolist()],
    )
    for seen in (whole, grown):
        np.testing.assert_allclose(seen["logits"], model(tokens)[0], atol=SINGLE)
        drawn = [rows for rows in seen["patterns"] if rows[0]]
        for pattern, heads in zip(model.attention_patterns(tokens), drawn, strict=True):
            full = np.array([[row + [0] * (len(mine) - len(row)) for row in mine] for mine in heads])
            np.testing.assert_allclose(full, pattern[0], atol=1e-5)


def test_a_wrong_product_is_found(browser, site):
    """The comparison goes red when one row of one map of six layers is off by a tenth."""
    page = browser.new_page()
    page.goto(site)
    page.evaluate("""async file => { const network = await bwNetwork.fetch(file);
      network.data("blocks.3.attention.value.weight").subarray(0, 192).forEach((v, i, row) => { row[i] = 1.1 * v; }); }""", file_of(MAIN))  # fmt: skip
    assert measure_engine.parity(page, MAIN, 10)["logits"] > SINGLE
    page.close()


def test_the_posterior_training_network_and_attention(page):
    """Patterns of every head, of a network that was trained on the exact posterior."""
    name = "bijection-transformer-posterior"
    model = bw.load(name)
    tokens = measure_engine.tunnel_of(model.record).sample(1, torch.Generator().manual_seed(3)).inputs
    theirs = page.evaluate(
        "async ([file, tokens]) => (await bwNetwork.fetch(file)).run(tokens).patterns", [file_of(name), tokens[0].tolist()]
    )
    for pattern, rows in zip(model.attention_patterns(tokens), theirs, strict=True):
        for head, mine in zip(pattern[0], rows, strict=True):
            full = np.array([row + [0] * (len(mine) - len(row)) for row in mine])
            np.testing.assert_allclose(full, head, atol=1e-5)


def test_a_beginning_that_is_known_changes_nothing(page):
    """Token by token, back, and with another middle: always what a fresh pass says, in both outcomes of the memory."""
    tokens = measure_engine.prompts(bw.tunnels.Bijection(10), 40, seed=5)
    apart, known = page.evaluate(
        """async ([file, prompts]) => {
          const network = await bwNetwork.fetch(file);
          let apart = 0, known = 0;
          const check = (tokens) => {
            const kept = network.run(tokens), passes = network.passes.splice(0);
            const fresh = network.run(tokens);
            network.passes.splice(0, Infinity, ...passes);
            const all = (seen) => [...seen.logits, ...seen.patterns.flat(2), ...seen.heads.flat()].flatMap((row) => [...row]);
            const [a, b] = [all(kept), all(fresh)];
            if (a.length !== b.length) throw new Error(`${a.length} numbers and ${b.length}`);
            apart = Math.max(apart, ...a.map((v, i) => Math.abs(v - b[i])));
          };
          for (const tokens of prompts) {
            for (const length of [1, Math.ceil(tokens.length / 2), tokens.length, Math.ceil(tokens.length / 3)]) check(tokens.slice(0, length));
            check(tokens.map((token, t) => (t === tokens.length >> 1 ? (token + 1) % 20 : token)));
            known += network.passes[0].inputs.length;
          }
          return [apart, known];
        }""",
        [file_of(FIRST), [row.tolist() for row in tokens]],
    )
    assert apart < 1e-4 and known > 0


def test_layers_and_heads_are_switched_off_as_in_the_library(page):
    """A layer that is off writes nothing, or its mean; heads beside it too; with a prefix as well."""
    model = bw.load(FIRST)
    drawn = bw.tunnels.Bijection(10).sample(12, torch.Generator().manual_seed(8)).inputs
    row, reference = drawn[0], drawn[1:]
    seen: dict[int, torch.Tensor] = {}
    with hooked(model, range(3), lambda layer, x, out: seen.__setitem__(layer, out - x)):
        model(reference)

    def mean(layer, x, out):
        return x + seen[layer].mean(0)[: x.shape[1]]

    def nothing(layer, x, out):
        return x

    for off, means in ((["1"], False), (["0", "2"], False), (["1"], True), (["0.2", "1"], False), (["0.2", "2"], True)):
        layers, heads = [int(name) for name in off if "." not in name], [f"head.{name}" for name in off if "." in name]
        with hooked(model, layers, mean if means else nothing), contextlib.ExitStack() as stack:
            if heads:
                stack.enter_context(probes.ablate(model, heads, "mean" if means else "zero", reference))
            expected = model(row[None])[0]
        options = {"off": off, **({"reference": reference.tolist()} if means else {})}
        for length in (19, 9):
            theirs = page.evaluate(ONE, [file_of(FIRST), row[:length].tolist(), options])
            np.testing.assert_allclose(theirs, expected[: (length + 1) // 2], atol=2e-4, err_msg=str((off, means)))


@contextlib.contextmanager
def hooked(model, layers, change):
    """Let some layers give change(layer, what came in, what would go out)."""
    hooks = [model.blocks[i].register_forward_hook(lambda m, args, out, i=i: change(i, args[0], out)) for i in layers]
    yield
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize(("architecture", "words"), [
    ("lstm", "heads are switched off in transformers only, this is a lstm"),
    ("mlp", "heads and layers are switched off in other networks only, this is a mlp"),
])  # fmt: skip
def test_other_architectures_have_no_heads_to_switch_off(page, architecture, words):
    told = page.evaluate(
        """async file => { const network = await bwNetwork.fetch(file);
          try { network.run([1], { off: new Set(["0.1"]) }); } catch (problem) { return problem.message; } }""",
        file_of(f"bijection-{architecture}-classroom"),
    )
    assert told == words


def test_inputs_that_do_not_fit_are_refused(page):
    told = page.evaluate(
        """async ([tokens, rows]) => { const said = [];
          for (const [file, inputs] of [[tokens, [99]], [tokens, Array(20).fill(1)], [rows, [[1, 2]]]]) {
            try { (await bwNetwork.fetch(file)).run(inputs); } catch (problem) { said.push(problem.message); }
          } return said; }""",
        [file_of(FIRST), file_of("hmm-transformer-classroom")],
    )
    assert [re.sub(r"\D+", " ", words).split() for words in told] == [["99", "0", "19"], ["20", "19"], ["12"]]


# ---- the product --------------------------------------------------------------------------------


def test_the_program_is_what_its_source_says():
    assert kernel.SCRIPT.read_text("utf-8") == kernel.script(), "matmul.wat changed: run make kernel"
    assert len(base64.b64decode("".join(re.findall(r'"([^"]+)"', kernel.SCRIPT.read_text("utf-8"))))) < 2000


def test_both_products_are_numpy_s(browser, site):
    """All remainders of rows and columns, in WebAssembly and in JavaScript, a bias or none."""
    page, rng = browser.new_page(), np.random.default_rng(0)
    page.goto(site)
    shapes = [(T, D, M) for T in (1, 2, 3, 4, 5, 7, 8, 9, 39) for D, M in ((1, 1), (3, 8), (12, 17), (64, 9))]
    cases = [(rng.normal(size=(T, D)), rng.normal(size=(M, D)), rng.normal(size=M)) for T, D, M in shapes]
    run = """cases => cases.map(([x, w, bias]) => [null, bias].map(b => [...new bwNetwork.Matrix({shape: [w.length, w[0].length],
      data: Float32Array.from(w.flat())}).times(Float32Array.from(x.flat()), b)]))"""
    for backend in ("wasm", "javascript"):
        assert page.evaluate("bwNetwork.backend") == backend
        found = page.evaluate(run, [[part.tolist() for part in case] for case in cases])
        for (x, w, bias), (bare, whole) in zip(cases, found, strict=True):
            np.testing.assert_allclose(np.reshape(bare, (len(x), -1)), x @ w.T, atol=3e-5)
            np.testing.assert_allclose(np.reshape(whole, (len(x), -1)), x @ w.T + bias, atol=3e-5)
        page.evaluate("bwNetwork.useJavaScript()")
    page.close()


@pytest.mark.parametrize("missing", [
    "delete window.WebAssembly",
    "WebAssembly.Module = class { constructor() { throw new WebAssembly.CompileError('no SIMD'); } }",
    "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('no room'); }",
])  # fmt: skip
def test_without_webassembly_it_is_javascript_and_says_so(window, site, missing):
    page = open_in(window, site, missing)
    assert measure_engine.parity(page, FIRST, 10)["logits"] <= SINGLE
    assert page.evaluate("bwNetwork.backend") == "javascript"
    assert "WebAssembly" in page.evaluate("bwNetwork.notice")


def test_memory_that_runs_full_on_the_way_is_no_failure(window, site):
    page = open_in(window, site)
    assert page.evaluate("[bwNetwork.backend, bwNetwork.notice]") == ["wasm", ""]
    page.evaluate("() => { WebAssembly.Memory.prototype.grow = () => { throw new RangeError('no room'); }; }")
    assert measure_engine.parity(page, FIRST, 3)["logits"] <= SINGLE
    assert page.evaluate("bwNetwork.backend") == "javascript"


@pytest.mark.parametrize("backend", ["wasm", "javascript"])
def test_a_step_is_fast_enough_to_play_with(window, site, backend):
    """One new token at 37 to 39 tokens of the published network; the best of five, the machine may be busy."""
    page = open_in(window, site)
    if backend == "javascript":
        page.evaluate("bwNetwork.useJavaScript()")
    steps = []
    while len(steps) < 5 and min(steps, default=np.inf) > STEP:
        steps.append(measure_engine.times(page, MAIN, 1)["step"])
    assert page.evaluate("bwNetwork.backend") == backend
    assert min(steps) <= STEP, steps


# ---- where weights come from --------------------------------------------------------------------


def test_weights_are_small_enough():
    sizes = {name: bw.checkpoints.path_of(name).stat().st_size for name in (MAIN, FIRST)}
    assert sizes[MAIN] <= 6e6 and sizes[FIRST] <= 1e6


def test_both_forms_are_written_once(tmp_path):
    written = networks.write(tmp_path, file_of(FIRST))
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [f"networks/{file_of(FIRST)}{end}" for end in (".safetensors", ".js")]
    assert written[0].read_bytes() == bw.checkpoints.path_of(FIRST).read_bytes()
    before = [path.stat().st_mtime_ns for path in written]
    assert [path.stat().st_mtime_ns for path in networks.write(tmp_path, file_of(FIRST))] == before
    with pytest.raises(FileNotFoundError, match="nobody"):
        networks.write(tmp_path, "nobody")


@pytest.mark.parametrize("place", ["http", "file"])
def test_it_works_from_a_site_and_from_a_folder(window, site, folder, place):
    """Nothing is asked for before it is wanted, each file once, and nothing from elsewhere."""
    asked: list[str] = []
    window.on("request", lambda request: asked.append(request.url))
    page = open_in(window, site if place == "http" else (folder / "engine.html").as_uri())
    assert not [url for url in asked if "/networks/" in url]
    told = page.evaluate("""async file => { const steps = [];
      const [a, b] = await Promise.all([bwNetwork.fetch(file, {onProgress: (...now) => steps.push(now)}), bwNetwork.fetch(file)]);
      return [a === b, a.architecture, a.config.n_layers, steps, Object.keys(bwNetworkFiles)]; }""", file_of(FIRST))  # fmt: skip
    size = bw.checkpoints.path_of(FIRST).stat().st_size
    assert told[:3] == [True, "transformer", 3] and told[4] == []
    assert place == "file" or told[3][-1] == [size, size]
    ending = ".safetensors" if place == "http" else ".js"
    assert [url.rsplit("/", 1)[-1] for url in asked if "/networks/" in url] == [file_of(FIRST) + ending]
    assert measure_engine.parity(page, FIRST, 3)["logits"] <= SINGLE


def broken(kind: str, good: bytes) -> dict:
    """What a server answers instead of the file."""
    name, numbers = b'"norm.gain"', 8 + int.from_bytes(good[:8], "little")  # where the header ends
    return {
        "gone": {"status": 404, "body": "no"},
        "empty": {"body": b""},
        "cut": {"body": good[:-1000]},
        "cut in the header": {"body": good[:100]},
        "a web page": {"body": b"<!DOCTYPE html>" + b" " * 5000},
        "a tensor is missing": {"body": good.replace(name, b'"norm.gaim"')},
        "no numbers": {"body": good[:numbers] + b"\xff" * 8 + good[numbers + 8 :]},
    }[kind]


@pytest.mark.parametrize("kind", ["gone", "empty", "cut", "cut in the header", "a web page", "a tensor is missing", "no numbers", "offline"])
def test_a_file_that_does_not_come_is_told_and_can_be_asked_for_again(window, site, kind):
    page, file, good = open_in(window, site), file_of(FIRST), bw.checkpoints.path_of(FIRST).read_bytes()
    pattern = "**/networks/*"
    if kind == "offline":
        window.route(pattern, lambda route: route.abort("internetdisconnected"))
    else:
        window.route(pattern, lambda route: route.fulfill(**broken(kind, good)))
    told = page.evaluate(FETCH, file)
    if kind == "a tensor is missing":  # noticed when it is needed
        told = page.evaluate("async file => { try { (await bwNetwork.fetch(file)).run([1]); } catch (p) { return p.message; } }", file)
        assert "damaged" in told and "norm.gain" in told
        return
    assert file in told and "ry again" in told
    why = {"gone": "answered 404", "offline": "connection failed"}
    assert why.get(kind, "damaged") in told
    window.unroute(pattern)
    assert page.evaluate(FETCH, file) == "transformer"


def test_in_a_folder_a_missing_or_damaged_script_is_told(window, tmp_path):
    address = measure_engine.write_page(tmp_path, [file_of(FIRST)]).as_uri()
    script = tmp_path / "networks" / f"{file_of(FIRST)}.js"
    good = script.read_text("utf-8")
    page = open_in(window, address)
    script.unlink()
    told = [page.evaluate(FETCH, file_of(FIRST))]
    script.write_text("window.bwNothing = 1;", "utf-8")
    told.append(page.evaluate(FETCH, file_of(FIRST)))
    assert all(f"networks/{file_of(FIRST)}.js of the book is missing or damaged" in words and "try again" in words for words in told)
    script.write_text(good, "utf-8")
    assert page.evaluate(FETCH, file_of(FIRST)) == "transformer"
    assert page.evaluate("document.querySelectorAll('script[src*=networks]').length") == 0


def test_a_provider_goes_before_all_others(window, site):
    """A notebook hands the bytes over itself."""
    page = open_in(window, site)
    code = base64.b64encode(bw.checkpoints.path_of("bijection-mlp-classroom").read_bytes()).decode()
    asked = page.evaluate("""async code => { const asked = [];
      bwNetwork.provider = async (file) => { asked.push(file); return bwNetwork.bytesOf(code); };
      asked.push((await bwNetwork.fetch("any")).architecture, (await bwNetwork.fetch("any")).architecture);
      return asked; }""", code)  # fmt: skip
    assert asked == ["any", "mlp", "mlp"]


def test_snapshots_come_the_same_way(page):
    run = bw.checkpoints.load_snapshots("hmm-transformer-classroom-snapshots")
    row = measure_engine.tunnel_of(run.note).sample(1, torch.Generator().manual_seed(1)).inputs[0]
    steps, last = page.evaluate(
        """async ([file, rows]) => { const { steps, networks } = await bwNetwork.fetch(file);
          return [steps, networks[networks.length - 1].run(rows).logits.map(row => [...row])]; }""",
        ["snapshots/hmm-transformer-classroom-snapshots-seed0", row.tolist()],
    )
    assert steps == run.steps
    np.testing.assert_allclose(last, run.network(steps[-1])(row[None])[0], atol=SINGLE)


@pytest.mark.parametrize("file", ENGINE_FILES)
def test_it_names_no_other_place(file):
    """No address in the scripts, no module; one `fetch`, of a file that lies beside them."""
    text = (WEB / file).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    text = re.sub(r'"[A-Za-z0-9+/=]{80,}"', "", re.sub(r"^ *//.*| // .*", "", text, flags=re.M))
    assert not re.search(r"https?:|//\w|\bimport\b|url\(|XMLHttpRequest|eval\(", text)
    assert len(re.findall(r"window\.fetch\(", text)) == (file == "network.js")


# ---- exact answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("replacement", [False, True])
def test_the_page_s_posterior_of_a_bijection_is_the_library_s(page, replacement):
    for n in (2, 5, 20):
        tunnel = bw.tunnels.Bijection(n, with_replacement=replacement)
        drawn = tunnel.sample(20, torch.Generator().manual_seed(n))
        keys, values = drawn.latents["keys"], drawn.latents["values"]
        theirs = page.evaluate(
            """([n, keys, values, replacement]) => keys.map((row, b) => row.map((key, k) =>
              [...bwOracles.bijection(n, row.slice(0, k), values[b].slice(0, k), key, {replacement})]))""",
            [n, keys.tolist(), values.tolist(), replacement],
        )
        np.testing.assert_allclose(theirs, drawn.posterior, atol=1e-12, rtol=0)


@pytest.mark.parametrize("call", ["[[0, 1], [2, 2], 3]", "[[0, 0], [1, 2], 3]", "[[0], [1], 0, {replacement: false}]", "[[0], [9], 1]"])
def test_pairs_that_are_impossible_are_refused(page, call):
    told = page.evaluate(f"() => {{ try {{ bwOracles.bijection(4, ...{call}); }} catch (problem) {{ return problem.message; }} }}")
    assert re.search("no bijection agrees|asked once|0 to 3", told)


@pytest.mark.parametrize("first", [False, True])
def test_the_page_s_filter_and_inputs_are_the_library_s(page, first):
    tunnel = bw.tunnels.HMM(5, 4, generator="raw", transition_first=first)
    drawn = tunnel.sample(20, torch.Generator().manual_seed(2))
    transition, emission, seen = (drawn.latents[name] for name in ("transition", "emission", "observations"))
    start = torch.rand(20, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start /= start.sum(1, keepdim=True)
    given = [part.tolist() for part in (transition, emission, start, seen)]
    even, other, rows = page.evaluate(
        """([T, E, start, seen, transitionFirst]) => [
          seen.map((row, b) => bwOracles.hmmFilter(T[b], E[b], null, row, {transitionFirst}).map(p => [...p])),
          seen.map((row, b) => bwOracles.hmmFilter(T[b], E[b], start[b], row, {transitionFirst}).map(p => [...p])),
          seen.map((row, b) => bwOracles.hmmInputs(T[b], E[b], row).map(p => [...Float32Array.from(p)])),
        ]""",
        [*given, first],
    )
    np.testing.assert_allclose(even, drawn.posterior, atol=1e-12, rtol=0)
    exact = bw.tunnels.hmm.forward_filter(transition, emission, seen, first, start)
    np.testing.assert_allclose(other, exact, atol=1e-12, rtol=0)
    np.testing.assert_array_equal(np.float32(rows), drawn.inputs)
    told = page.evaluate("() => { try { bwOracles.hmmFilter([[1, 0], [0, 1]], [[1, 0], [1, 0]], null, [1]); } catch (p) { return p.message; } }")
    assert "probability 0" in told


def test_the_page_s_scores_are_the_library_s(page):
    rng = torch.Generator().manual_seed(4)
    p, q = (torch.rand(50, 6, generator=rng, dtype=torch.float64) for _ in range(2))
    p[:, :2] *= torch.rand(50, 1, generator=rng, dtype=torch.float64) > 0.5  # impossible outcomes
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    theirs = page.evaluate(
        "([p, q]) => p.map((row, i) => [bwOracles.entropyBits(row), bwOracles.klBits(row, q[i]), bwOracles.totalVariation(row, q[i])])",
        [p.tolist(), q.tolist()],
    )
    exact = torch.stack([bw.scoring.entropy_bits(p.log2()), bw.scoring.kl_bits(p, q.log2()), (p - q).abs().sum(1) / 2], 1)
    np.testing.assert_allclose(theirs, exact, atol=1e-12, rtol=0)
    assert page.evaluate("bwOracles.klBits([0.5, 0.5], [1, 0])") == float("inf")


# ---- the record ---------------------------------------------------------------------------------


def test_the_record_is_of_the_networks_that_ship():
    """What the page "How this book is checked" says was measured with these weights, and held."""
    record = bw.ledger.record("engine")
    assert set(record["networks"]) == set(measure_engine.shown())
    for name, row in record["networks"].items():
        assert row["sha256"] == bw.load(name).record["sha256"], f"{name} was retrained: run make bench"
        assert row["logits"] <= ASKED["logits"] and row["entropy"] <= ASKED["entropy"]
    main = record["networks"][MAIN]
    assert main["prompts"] == measure_engine.N_PROMPTS and main["bytes"] == bw.checkpoints.path_of(MAIN).stat().st_size
    assert record["milliseconds"]["wasm"]["step"] <= STEP and record["javascript"]["logits"] <= ASKED["logits"]
