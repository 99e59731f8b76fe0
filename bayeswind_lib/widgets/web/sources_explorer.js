// The sources explorer: one of six known hidden chains speaks. The exact answer keeps a belief about which, and about the
// state of each; beside it stand observers that lack one of the two. A classic script, so that it also runs from a folder. It
// mounts on every element .bw-explorer[data-explorer="sources"]; the chains are in sources_chains.js, its arithmetic is that
// of bayeswind_lib/baselines/mixture.py, and the tests compare it with that.
(function () {
  "use strict";

  const {
    axes, button, chipInFocus, count, element, entropyBits, frame, generator, handOn, klBits, number, radios, range, readout, scrubber, slider, statusLine,
    steps, text, watchWidth,
  } = bwExplorer;
  const { move: MOVE, emit: EMIT, length: LENGTH } = window.bwSourcesChains;
  const M = MOVE.length, S = MOVE[0].length, V = EMIT[0][0].length;

  // ---- the mathematics -----------------------------------------------------------------------

  const sum = (row) => row.reduce((total, x) => total + x, 0);
  const moved = (m, belief) => range(S).map((j) => sum(belief.map((p, i) => p * MOVE[m][i][j])));
  const shown = (m, state) => range(V).map((v) => sum(state.map((p, i) => p * EMIT[m][i][v])));
  const even = () => range(S).map(() => 1 / S);

  // After each number of symbols, 0 to all: the chance of every source, and what every source that is followed, or whose
  // state is never looked at, expects next.
  function readings(symbols) {
    const idle = range(M).map(even), joint = range(M).map(() => even().map((p) => p / M));
    let belief = joint, states = idle; // of the symbol that comes next, before it is seen
    const rows = [];
    for (let k = 0; ; k++) {
      const weight = belief.map(sum);
      rows.push({
        weight, idle: states.map((state, m) => shown(m, state)),
        each: belief.map((state, m) => (weight[m] > 0 ? shown(m, state.map((p) => p / weight[m])) : shown(m, even()))),
      });
      if (k === symbols.length) return rows;
      const seen = belief.map((state, m) => state.map((p, i) => p * EMIT[m][i][symbols[k]])), total = sum(seen.map(sum));
      belief = seen.map((state, m) => moved(m, state.map((p) => p / total)));
      states = states.map((state, m) => moved(m, state));
    }
  }

  const mixed = (weight, each) => range(V).map((v) => sum(weight.map((w, m) => w * each[m][v])));
  const exact = ({ weight, each }) => mixed(weight, each);
  const OBSERVERS = {
    likeliest: ["the likeliest source only", ({ weight, each }) => each[weight.indexOf(Math.max(...weight))]],
    idle: ["no state: which, and not where", ({ weight, idle }) => mixed(weight, idle)],
    level: ["no which: all sources, even weights", ({ each }) => mixed(range(M).map(() => 1 / M), each)],
  };

  // One source, and what it says.
  function episode(seed) {
    const random = generator(seed);
    const draw = (row) => {
      let place = random();
      return Math.max(0, row.findIndex((p) => (place -= p) < 0));
    };
    const source = Math.floor(random() * M), symbols = [];
    for (let k = 0, state = Math.floor(random() * S); k < LENGTH; k++) {
      symbols.push(draw(EMIT[source][state]));
      state = draw(MOVE[source][state]);
    }
    return { source, symbols };
  }

  // ---- the explorer --------------------------------------------------------------------------

  const name = (m) => "ABCDEFGHIJ"[m];

  function mount(root, id) {
    let seed = +(root.dataset.seed || 5), now = episode(seed), seen = +(root.dataset.opens ?? 6), observer = "likeliest";

    const read = slider(id, "seen", "Symbols read", [0, LENGTH, 1], seen, (k) => { seen = k; update(); });
    const next = button("Next symbol", "next", () => { seen += 1; update(); });
    const back = button("Step back", "back", () => { seen -= 1; update(); });
    const fresh = button("Another source", "new", () => { seed += 1; now = episode(seed); update(); });
    const beside = radios(id, "observer", "Beside the exact answer", Object.entries(OBSERVERS).map(([key, [words]]) => [words, key]), observer,
      (key) => { observer = key; update(); });
    const unveil = element("input", { type: "checkbox", id: `${id}-unveil`, onchange: () => update() });
    const chips = element("div", { class: "bw-chips", role: "group", "aria-label": "Symbols so far; press one to change it" });
    const status = statusLine();
    const which = element("div", { class: "bw-chart" }), ahead = element("div", { class: "bw-chart" }), missed = element("div", { class: "bw-chart" });

    root.replaceChildren(element("div", { class: "bw-pair" }, which, ahead),
      element("div", { class: "bw-controls" }, element("div", { class: "bw-buttons" }, next, back, fresh), read.field), chips, status, missed,
      element("div", { class: "bw-controls" }, beside, element("label", { class: "bw-field", for: `${id}-unveil` }, unveil, " show which source speaks")));

    function update() {
      const spot = chipInFocus(root), rows = readings(now.symbols.slice(0, seen)), says = OBSERVERS[observer][1];
      const misses = rows.map((row) => klBits(exact(row), says(row))), here = rows[seen];
      read.input.value = seen;
      read.output.textContent = seen;
      next.disabled = seen === LENGTH;
      back.disabled = seen === 0;
      handOn(next, back);
      handOn(back, next);
      chips.replaceChildren(...now.symbols.slice(0, seen).map((symbol, k) => element("button", {
        type: "button", class: "bw-chip", "data-chip": `symbol ${k}`, "aria-label": `symbol ${k + 1} is ${symbol}: change it`,
        onclick: () => { now.symbols[k] = (symbol + 1) % V; now.source = null; update(); },
      }, String(symbol))));
      if (spot) (chips.querySelector(`[data-chip="${spot}"]`) || back).focus();
      const best = here.weight.indexOf(Math.max(...here.weight)), truth = unveil.checked ? now.source : null;
      status.textContent = `After ${count(seen, "symbol")}: source ${name(best)} has probability ${number(here.weight[best])}, and ` +
        `${number(entropyBits(here.weight))} bits are open about which speaks. ${OBSERVERS[observer][0].split(":")[0].replace(/^./, (c) => c.toUpperCase())}: KL ` +
        `${number(misses[seen])} bits from the exact forecast here, ${number(sum(misses.slice(1)) / Math.max(1, seen))} on average over the symbols read.` +
        (unveil.checked ? (now.source === null ? " You changed a symbol: no source speaks any more." : ` In truth ${name(now.source)} speaks.`) : "");
      drawBars(which, "Which source speaks", "source", here.weight, null, name, truth);
      drawBars(ahead, "The next symbol", "symbol", exact(here), says(here), String, null);
      drawMisses(missed, misses);
      Object.assign(root.dataset, { seen, weight: JSON.stringify(here.weight), exact: JSON.stringify(exact(here)), said: JSON.stringify(says(here)) });
    }

    scrubber(missed, (k) => { seen = k; update(); });
    update();
    watchWidth(root, which, update);
  }

  // ---- the drawings --------------------------------------------------------------------------

  // Exact probabilities, dashed, and beside them what the observer says.
  function drawBars(box, title, below, truth, said, words, marked) {
    const told = truth.map((p, i) => `${words(i)} ${number(p)}${said ? ` (observer ${number(said[i])})` : ""}`).join(", ");
    const f = frame(box, 190, `${title}, exact: ${told}.`);
    const toY = (p) => f.bottom - p * (f.bottom - f.top), step = (f.right - f.left) / truth.length;
    axes(f, [0, 0.5, 1], toY, title, below);
    truth.forEach((p, i) => {
      const x = f.left + i * step, bar = (q, kind) => element("rect", { x: x + step * 0.16, width: step * 0.68, y: toY(q), height: f.bottom - toY(q), class: kind });
      f.svg.append(text(x + step / 2, f.bottom + 17, words(i), "middle", i === marked ? "bw-row-now" : ""));
      if (said) f.svg.append(bar(said[i], "bw-guess"));
      f.svg.append(bar(p, said ? "bw-bar" : "bw-weight"));
      if (i === marked) f.svg.append(text(x + step / 2, Math.max(toY(p) - 6, f.top + 10), "\u25bc"));
    });
    readout(box, truth.map((p, i) => ({
      x: f.left + (i + 0.5) * step, ys: [p, ...(said ? [said[i]] : [])].map(toY),
      lines: [`${below} ${words(i)}`, `exact ${number(p)}`, ...(said ? [`observer ${number(said[i])}`] : [])],
    })));
  }

  // How far the observer was from the exact forecast, after each symbol.
  function drawMisses(box, misses) {
    const f = frame(box, 150, `KL divergence in bits of the observer from the exact forecast after 0 to ${misses.length - 1} symbols: ${misses.map((x) => number(x)).join(", ")}.`);
    const top = Math.max(0.5, Math.ceil(2 * Math.max(...misses)) / 2);
    const toY = (h) => f.bottom - (h / top) * (f.bottom - f.top), toX = (k) => f.left + (k / LENGTH) * (f.right - f.left);
    axes(f, [0, top / 2, top], toY, "the observer's KL divergence (bits)", "symbols read");
    for (const k of [0, LENGTH / 4, LENGTH / 2, (3 * LENGTH) / 4, LENGTH]) f.svg.append(text(toX(k), f.bottom + 17, String(k)));
    misses.forEach((h, k) => f.svg.append(
      element("line", { x1: toX(k), x2: toX(k), y1: f.bottom, y2: toY(h), class: "bw-stem" }),
      element("circle", { cx: toX(k), cy: toY(h), r: k === misses.length - 1 ? 5.5 : 3, class: "bw-miss" })));
    box.steps = steps(toX, LENGTH + 1, misses.length - 1);
    readout(box, misses.map((h, k) => ({ x: toX(k), ys: [toY(h)], lines: [`after ${count(k, "symbol")}`, `${number(h)} bits`] })));
  }

  bwExplorer.start("sources", "Sources explorer", mount, {
    readings, exact, episode, observers: Object.fromEntries(Object.entries(OBSERVERS).map(([key, [, says]]) => [key, says])),
  });
})();
