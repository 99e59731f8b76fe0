// The ablation explorer: switch heads of a trained network off and watch its posterior move.
// The network runs in the page (network.js), fetched when the reader comes near; its numbers are those
// of bayeswind_lib and are compared with them by the tests.
(function () {
  "use strict";

  const {
    axes, button, count, element, frame, generator, handOn, klBits: divergence, normal, number, radios, range, readout, roundUp, scrubber, statusLine,
    steps, text, trace, watchWidth,
  } = bwExplorer;
  const { drawBars, episode, episodeControls, headGrid, posterior, tokensOf } = bwNetworkParts;
  const FILE = "bijection-transformer-classroom-seed0";
  const WAYS = [["nothing", "zero"], ["its mean over 64 episodes", "mean"], ["what it is, plus noise as long", "noise"]];
  const N_MEAN = 64; // episodes over which "mean" averages

  // Every token's vector (C numbers) plus a random one as long.
  function withNoise(head, C, random) {
    const result = Float64Array.from(head);
    for (let t = 0; t < head.length; t += C) {
      const noise = range(C).map(() => normal(random)), length = Math.hypot(...noise);
      const size = Math.hypot(...head.subarray(t, t + C));
      noise.forEach((v, c) => { result[t + c] += (v / length) * size; });
    }
    return result;
  }

  // What a network answers when some heads, named "layer.head", hand on something else.
  function without(network, tokens, heads, way, means, seed = 1) {
    if (way !== "noise") return network.run(tokens, { off: heads, means: way === "mean" ? means : null }).probabilities;
    const C = network.config.width / network.config.n_heads, random = generator(seed);
    const change = (head, l, h) => (heads.has(`${l}.${h}`) ? withNoise(head, C, random) : head);
    return network.run(tokens, { change }).probabilities;
  }

  // Mean divergence from the exact posterior over all questions, bits.
  const cost = (probabilities, played) =>
    probabilities.reduce((sum, row, k) => sum + divergence(posterior(played, k), row), 0) / probabilities.length;

  function mount(root, id, network) {
    const V = network.config.n_outputs;
    const state = { episode: episode(V, 1), question: Math.min(5, V - 1), seed: 1, way: "zero", off: new Set() };
    let means = null, whole = null;

    const way = radios(id, "way", "A head that is off hands on", WAYS, state.way,
      (value) => { state.way = value; update(); });
    const all = button("All heads on", "on", () => { state.off.clear(); update(); });
    const controls = episodeControls(id, state, update, run);
    const grid = headGrid(network, "Switch heads off and on", (l, h) => `${state.off.has(`${l}.${h}`) ? "off" : "on"}`,
      (l, h) => state.off.has(`${l}.${h}`),
      (l, h) => {
        const name = `${l}.${h}`;
        if (!state.off.delete(name)) state.off.add(name);
        update();
      });
    const status = statusLine();
    const bars = element("div", { class: "bw-chart" }), costs = element("div", { class: "bw-chart" });

    root.replaceChildren(
      element("div", { class: "bw-controls" }, controls.question, way, element("div", { class: "bw-buttons" }, all, controls.fresh)),
      element("p", { class: "bw-label" }, "Switch heads off"), grid.field,
      status, bars, costs,
      element("p", { class: "bw-label" }, "The episode: choose any keys and values"), controls.pairs);

    function run() {
      whole = network.run(tokensOf(state.episode)).probabilities;
      update();
    }

    function update() {
      const { question: k, way: how, off } = state, tokens = tokensOf(state.episode);
      if (how === "mean" && !means) {
        means = network.means(range(N_MEAN).map((i) => tokensOf(episode(V, 1000 + i))));
      }
      const changed = off.size ? without(network, tokens, off, how, means, state.seed) : whole;
      const exact = posterior(state.episode, k);
      all.disabled = off.size === 0;
      controls.draw();
      grid.draw();
      const key = state.episode.keys[k], before = divergence(exact, whole[k]), after = divergence(exact, changed[k]);
      const told = off.size === 0 ? "All heads are on" : `${off.size} of ${network.config.n_layers * network.config.n_heads} heads are off`;
      status.textContent = `${told}. At key ${key}, after ${count(k, "pair")}, the network is ` +
        `${number(after)} bits from the exact posterior (whole: ${number(before)}); over all ${V} questions of this episode ` +
        `${number(cost(changed, state.episode))} (whole: ${number(cost(whole, state.episode))}).`;
      const rows = off.size ? { changed: changed[k], whole: whole[k] } : { whole: whole[k] };
      drawBars(bars, rows, exact, off.size ? `key ${key}: changed, whole (grey)` : `key ${key}: whole network`);
      drawCosts(costs, changed);
      Object.assign(root.dataset, { kl: after, whole: before, mean: cost(changed, state.episode), off: [...off].sort().join(" ") });
      handOn(all, controls.fresh);
    }

    // Divergence at every question: of the whole network thin, of the changed one thick.
    function drawCosts(box, changed) {
      const bits = (rows) => rows.map((row, k) => divergence(posterior(state.episode, k), row));
      const now = bits(changed), before = bits(whole), top = roundUp(Math.max(0.1, ...now, ...before));
      const f = frame(box, 200, `Divergence from the exact posterior in bits at questions 0 to ${V - 1}: ` +
        `${now.map((h) => number(h)).join(", ")}; whole network ${before.map((h) => number(h)).join(", ")}.`);
      const toY = (h) => f.bottom - (h / top) * (f.bottom - f.top);
      const toX = (k) => f.left + ((k + 0.5) / V) * (f.right - f.left);
      axes(f, [0, 0.5, 1].map((share) => share * top), toY, "divergence (bits), whole network thin",
        "pairs shown before the question", (h) => h.toFixed(2));
      range(V).forEach((k) => f.svg.append(text(toX(k), f.bottom + 17, String(k))));
      const path = (heights, kind) => element("path", { d: trace(heights.map((h, k) => [toX(k), toY(h)])), class: kind });
      f.svg.append(path(before, "bw-thin"), path(now, "bw-thick"), element("circle", {
        cx: toX(state.question), cy: toY(now[state.question]), r: 5.5, class: "bw-now",
      }));
      box.steps = steps(toX, V, state.question);
      readout(box, now.map((h, k) => ({
        x: toX(k), ys: [h, before[k]].map(toY), lines: [`after ${count(k, "pair")}`, `now ${number(h)} bits`, `whole ${number(before[k])} bits`],
      })));
    }

    scrubber(costs, (k) => { state.question = k; update(); });
    run();
    watchWidth(root, bars, update);
  }

  bwNetworkParts.start("ablation", "Ablation explorer", FILE, mount, { without, withNoise, cost, FILE, N_MEAN });
})();
