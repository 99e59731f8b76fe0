// The attention explorer: pick an episode, a layer and a head, and see where it looks from each token.
// The network runs in the page (network.js), fetched when the reader comes near; its numbers are those
// of bayeswind_lib and are compared with them by the tests.
(function () {
  "use strict";

  const { count, element, entropyBits: entropy, number, range, statusLine, watchWidth } = bwExplorer;
  const { drawBars, drawMap, episode, episodeControls, headGrid, posterior, tokensOf } = bwNetworkParts;
  const FILE = "bijection-transformer-classroom-seed0";

  // What one head does at question k: share of its attention on the values shown, how evenly it is
  // spread over them (1 is even), and its entropy in bits.
  function coverage(pattern, k) {
    const row = pattern[2 * k], on = range(k).map((i) => row[2 * i + 1]);
    const mass = on.reduce((sum, p) => sum + p, 0);
    const even = k > 1 && mass > 0 ? entropy(on.map((p) => p / mass)) / Math.log2(k) : NaN;
    return { mass, even, bits: entropy(row) };
  }

  // What attention that is spread over all it may see would give: k values of 2 k + 1 tokens.
  const uniform = (k) => k / (2 * k + 1);

  function mount(root, id, network) {
    const V = network.config.n_outputs;
    const state = { episode: episode(V, 1), question: Math.min(5, V - 1), layer: 0, head: 0, seed: 1 };
    let seen = null; // the pass on this episode

    const controls = episodeControls(id, state, update, run);
    const grid = headGrid(network, "Choose a head; on it, its attention on the values shown",
      (l, h) => number(coverage(seen.patterns[l][h], state.question).mass),
      (l, h) => l === state.layer && h === state.head,
      (l, h) => { Object.assign(state, { layer: l, head: h }); update(); });
    const status = statusLine();
    const map = element("div", { class: "bw-chart" }), bars = element("div", { class: "bw-chart" });

    root.replaceChildren(
      element("div", { class: "bw-controls" }, controls.question, controls.fresh),
      element("p", { class: "bw-label" }, "The episode: choose any keys and values"), controls.pairs,
      element("p", { class: "bw-label" }, "Choose a head; on it: attention on the values shown"), grid.field,
      status, map, bars);

    // The head that looks at most of the values shown: its overlap with an even look at all of them.
    function headOnValues() {
      const k = state.question, row = (l, h) => seen.patterns[l][h][2 * k];
      const overlap = (l, h) => range(k).reduce((sum, i) => sum + Math.min(row(l, h)[2 * i + 1], 1 / k), 0);
      const all = seen.patterns.flatMap((heads, l) => heads.map((_, h) => [l, h]));
      const [layer, head] = all.reduce((best, one) => (overlap(...one) > overlap(...best) ? one : best));
      return { layer, head };
    }

    function run() {
      const first = seen === null;
      seen = network.run(tokensOf(state.episode));
      if (first) Object.assign(state, headOnValues());
      update();
    }

    function update() {
      const { layer, head, question: k } = state, now = coverage(seen.patterns[layer][head], k);
      controls.draw();
      grid.draw();
      const even = Number.isNaN(now.even) ? "" : ` Over them it is spread with evenness ${number(now.even)} (1 is even).`;
      status.textContent = `Layer ${layer}, head ${head}, asked for key ${state.episode.keys[k]} after ${count(k, "pair")}: ` +
        `${(100 * now.mass).toFixed(1)} % of its attention is on the values shown; ` +
        `spread over all that it may see it would be ${(100 * uniform(k)).toFixed(1)} %.${even} ` +
        `Entropy of its attention: ${number(now.bits)} bits.`;
      drawMap(map, seen.patterns[layer][head], state, `layer ${layer}, head ${head}`);
      const exact = posterior(state.episode, k);
      drawBars(bars, { network: seen.probabilities[k] }, exact, `answer for key ${state.episode.keys[k]}`, state.seed);
      Object.assign(root.dataset, { mass: now.mass, even: now.even, bits: now.bits });
    }

    run();
    watchWidth(root, map, update);
  }

  bwNetworkParts.start("attention", "Attention explorer", FILE, mount, { coverage, uniform, FILE });
})();
