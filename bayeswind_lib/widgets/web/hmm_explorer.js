// The HMM explorer: see a hidden chain's symbols one by one; the exact belief about its state beside
// predictors that remember less. A classic script without dependencies, so that it also runs from a
// folder. It mounts on every element .bw-explorer[data-explorer="hmm"]; its arithmetic is that of
// bayeswind_lib/tunnels/hmm.py, baselines/hmm.py and widgets/hmm.py, and is compared with it by the
// tests. More predictors can stand beside these: bwHmm.addPredictor for all explorers that the page
// has, bwHmm.mountOn(root, {predictors}) for one; bwHmm.tablePredictor makes one from answers.
// With data-shows="forecasts" it shows what everyone says of the next observation, and how far that
// is from the exact forecast at each step, in place of beliefs.
(function () {
  "use strict";

  const {
    axes, button, chipInFocus, count, element, entropyBits: entropy, frame, generator, handOn, klBits: divergence, number, player,
    radios, range, readout, scrubber, slider, statusLine, steps, text, trace, trail, watchWidth,
  } = bwExplorer;
  const SIZE = 3, LENGTH = 20; // states and symbols; symbols that nature draws
  const CHAINS = { fast: { kappa: 0, least: 5 }, slow: { kappa: 20, least: 1 } };
  const ofPage = []; // predictors that joined the page, and so every explorer that brings none of its own
  const live = []; // those explorers, to draw again when a predictor joins

  // ---- the mathematics -----------------------------------------------------------------------

  const states = range(SIZE);
  const even = () => states.map(() => 1 / SIZE);
  const sum = (row) => row.reduce((total, p) => total + p, 0);
  const normalised = (row) => { const total = sum(row); return row.map((p) => p / total); };

  // Where the belief goes when the chain moves: sum over i of belief[i] T[i][j].
  function transport(belief, transition) {
    return states.map((j) => sum(states.map((i) => belief[i] * transition[i][j])));
  }

  // The belief once a symbol is seen: each state by how likely it emits the symbol.
  function correct(belief, emission, symbol) {
    return normalised(states.map((s) => belief[s] * emission[s][symbol]));
  }

  // Exact belief after every symbol; the first one is emitted by the start state itself.
  function filter(transition, emission, symbols, start = even()) {
    const rows = [];
    symbols.forEach((symbol, t) => {
      const before = t ? transport(rows[t - 1], transition) : start;
      rows.push(correct(before, emission, symbol));
    });
    return rows;
  }

  // The distribution that the chain keeps, by elimination on pi (I - T + 1) = (1, 1, 1).
  function stationary(transition) {
    const rows = states.map((j) => [
      ...states.map((i) => (i === j ? 1 : 0) - transition[i][j] + 1), 1,
    ]);
    for (const i of states) {
      const pivot = states.slice(i).reduce((best, r) => (Math.abs(rows[r][i]) > Math.abs(rows[best][i]) ? r : best), i);
      [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
      for (const r of states) {
        if (r === i) continue;
        const share = rows[r][i] / rows[i][i];
        rows[r] = rows[r].map((value, c) => value - share * rows[i][c]);
      }
    }
    return states.map((i) => rows[i][SIZE] / rows[i][i]);
  }

  // The exact filter on the last `window` symbols alone, started from the stationary distribution.
  function windowFilter(transition, emission, symbols, window) {
    const start = stationary(transition);
    return symbols.map((_, t) => {
      const first = Math.max(t + 1 - window, 0);
      const seen = symbols.slice(first, t + 1);
      return filter(transition, emission, seen, first ? start : even())[seen.length - 1];
    });
  }

  // What a belief says of the next symbol: the chain moves, then the state emits.
  const emitted = (belief, emission) => states.map((v) => sum(states.map((s) => belief[s] * emission[s][v])));
  const forecast = (belief, transition, emission) => emitted(transport(belief, transition), emission);

  function emissionOnly(emission, symbols) {
    return symbols.map((symbol) => correct(even(), emission, symbol));
  }

  // ---- nature --------------------------------------------------------------------------------

  // To the nearest whole number, from the middle to the even one, as Python rounds.
  function roundEven(x) {
    const up = Math.round(x);
    return up - x === 0.5 && up % 2 ? up - 1 : up;
  }

  // A distribution in whole cents; every step as in widgets/hmm.py, so that both draw the same.
  function drawRow(random, own, kappa, least) {
    const cuts = Array.from({ length: SIZE + kappa - 1 }, random).sort((a, b) => a - b);
    const edges = [0, ...cuts, 1];
    let place = 0;
    const share = states.map((i) => {
      const from = place;
      place += i === own ? 1 + kappa : 1;
      return Math.max(edges[place] - edges[from], least / 100);
    });
    const total = share[0] + share[1] + share[2];
    const cents = share.map((part) => Math.max(roundEven(part * (100 / total)), least));
    while (sum(cents) < 100) cents[cents.indexOf(Math.min(...cents))] += 1;
    while (sum(cents) > 100) cents[cents.indexOf(Math.max(...cents))] -= 1;
    return cents;
  }

  function draw(seed, { kappa, least } = CHAINS.fast) {
    const random = generator(seed);
    const transition = states.map((i) => drawRow(random, i, kappa, least));
    const emission = states.map((i) => drawRow(random, i, 0, 5));
    const outcome = (row) => {
      const place = random() * 100;
      return (place >= row[0]) + (place >= row[0] + row[1]);
    };
    const path = [], symbols = [];
    let state = Math.floor(random() * SIZE);
    for (let t = 0; t < LENGTH; t++) {
      path.push(state);
      symbols.push(outcome(emission[state]));
      state = outcome(transition[state]);
    }
    return { transition, emission, states: path, symbols };
  }

  const probabilities = (cents) => cents.map((row) => row.map((cent) => cent / 100));

  // ---- predictors ----------------------------------------------------------------------------

  // Each is { name, look, label(episode), beliefs(episode) }; an episode is { seed, chain, transition,
  // emission, symbols (those seen), window }. `beliefs` gives one row a symbol, or null where it
  // has no answer; then nothing is drawn. One that has `forecasts` in place of `beliefs` speaks of the
  // next symbol. `look` is its colour and shape: 1 (blue, a circle) is the network on all pages.
  const predictors = [
    {
      name: "window",
      look: 2,
      label: (e) => (e.window === 1 ? `last ${e.thing}` : `last ${e.window} ${e.thing}s`),
      beliefs: (e) => windowFilter(e.transition, e.emission, e.symbols, e.window),
    },
    {
      name: "look",
      look: 3,
      label: () => "this symbol alone",
      beliefs: (e) => emissionOnly(e.emission, e.symbols),
    },
  ];

  function addPredictor(predictor) {
    const at = ofPage.findIndex((known) => known.name === predictor.name);
    if (at >= 0) ofPage[at] = predictor;
    else ofPage.push(predictor);
    live.forEach((redraw) => redraw());
  }

  // A predictor that looks its answers up: rows by "seed chain symbol,symbol,...", as
  // { "1 fast 0,2": [0.1, 0.2, 0.7] }. A trained network fits into such a table. `says` is what the
  // answers are: "beliefs" or "forecasts".
  function tablePredictor(name, label, table, says = "beliefs") {
    return {
      name,
      look: 1,
      label: () => label,
      [says](e) {
        const rows = e.symbols.map((_, t) => table[`${e.seed} ${e.chain} ${e.symbols.slice(0, t + 1).join(",")}`]);
        return rows.every(Boolean) ? rows : null;
      },
    };
  }

  // ---- one episode ---------------------------------------------------------------------------

  class Episode {
    constructor(seed, chain, joined = ofPage) {
      const drawn = draw(seed, CHAINS[chain]);
      Object.assign(this, { seed, chain, joined, states: drawn.states, all: drawn.symbols });
      this.transition = probabilities(drawn.transition);
      this.emission = probabilities(drawn.emission);
      this.seen = 0;
      this.window = 2;
      this.thing = "symbol"; // what a page calls it
      this.chosen = false; // whether the reader put a symbol in nature's place
    }

    get symbols() { return this.all.slice(0, this.seen); }
    get done() { return this.seen >= LENGTH; }
    get exact() { return filter(this.transition, this.emission, this.symbols); }

    reveal(symbol = this.all[this.seen]) {
      if (this.done) return;
      if (symbol !== this.all[this.seen]) this.chosen = true;
      this.all[this.seen] = symbol;
      this.seen += 1;
    }

    asked(names) {
      return [...predictors, ...this.joined].filter((one) => !names || names.includes(one.name));
    }

    // The exact belief and every predictor's that has one, at steps 0 (nothing seen) to `seen`.
    rows(names) {
      const found = [{ name: "exact", look: 0, label: "exact posterior", rows: [even(), ...this.exact] }];
      for (const { name, look = 1, label, beliefs } of this.asked(names)) {
        const rows = beliefs ? beliefs(this) : null;
        if (rows) found.push({ name, look, label: label(this), rows: [even(), ...rows] });
      }
      return found;
    }

    // The same of the next symbol: of a belief what follows from it, of a network what it says.
    forecasts(names) {
      const first = emitted(even(), this.emission);
      const ahead = (row) => forecast(row, this.transition, this.emission);
      const found = this.rows(names).map((one) => ({ ...one, rows: [first, ...one.rows.slice(1).map(ahead)] }));
      found[0].label = "exact filter";
      for (const { name, look = 1, label, forecasts } of this.asked(names)) {
        const rows = forecasts ? forecasts(this) : null;
        if (rows) found.push({ name, look, label: label(this), rows: [first, ...rows] });
      }
      return found;
    }
  }

  // ---- small helpers -------------------------------------------------------------------------

  const bits = (value) => `${number(value)} bits`;
  // A label beside a number: "exact", "last 2".
  const brief = ({ label }) => label.replace(/^exact .*/, "exact").replace(/^last (?:(\d+) )?\w+$/, (_, n = 1) => `last ${n}`);

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id, { predictors: joined = ofPage }) {
    const names = root.dataset.predictors ? root.dataset.predictors.split(/[\s,]+/) : null;
    const ahead = root.dataset.shows === "forecasts", thing = ahead ? "observation" : "symbol";
    const chains = +(root.dataset.chains || Infinity); // after the last one comes the first
    let episode = new Episode(+(root.dataset.seed || 1), root.dataset.chain || "fast", joined);
    episode.seen = +(root.dataset.opens ?? 5); // so that there is something to see
    episode.thing = thing;
    let spot = null; // the chip that has to keep the keyboard's focus after a redraw

    const seen = slider(id, "seen", ahead ? "Observations" : "Symbols seen", [0, LENGTH], 0, (n) => change(() => { episode.seen = n; }));
    const memory = slider(id, "window", ahead ? "Window" : "Window, symbols remembered", [1, 10], episode.window,
      (n) => change(() => { episode.window = n; }));
    const kinds = ahead ? [["slow", "slow"], ["fast", "fast"]]
      : [["fast: states change often", "fast"], ["slow: states stay", "slow"]];
    const kind = radios(id, "chain", "Chain", kinds, episode.chain, (chain) => start(episode.seed, chain));
    const hidden = element("input", { type: "checkbox", id: `${id}-hidden`, onchange: () => update() });
    const next = button(ahead ? "Next observation" : "See next symbol", "next", () => change(() => episode.reveal()));
    const back = button("Step back", "back", () => change(() => { episode.seen = Math.max(episode.seen - 1, 0); }));
    const play = player(root, {
      more: () => !episode.done, step: () => change(() => episode.reveal()), again: () => change(() => { episode.seen = 0; }),
    });
    const fresh = button("New chain", "new", () => start(episode.seed % chains + 1, episode.chain));

    const chips = element("div", { class: "bw-chips", role: "group", "aria-labelledby": `${id}-choose` });
    const status = statusLine();
    const legend = element("ul", { class: "bw-legend" });
    const triangle = element("div", { class: "bw-chart" });
    const bars = element("div", { class: "bw-chart" });
    const curve = element("div", { class: "bw-chart" });
    const told = element("p", { class: "bw-told" });
    const moves = element("table", {}), shows = element("table", {});

    const unveil = element("label", { class: "bw-field", for: `${id}-hidden` }, hidden, " show the hidden states");
    const choose = element("div", { class: "bw-choose" },
      element("span", { id: `${id}-choose` }, "Or choose the symbol that follows:"), chips);
    root.replaceChildren(
      legend, element("div", { class: "bw-pair" }, ...(ahead ? [bars, curve] : [triangle, bars])), status,
      element("div", { class: "bw-controls" },
        element("div", { class: "bw-buttons" }, next, back, play, fresh), kind, seen.field, memory.field),
      ...(ahead ? [] : [choose]), unveil, told, ...(ahead ? [] : [curve]),
      element("div", { class: "bw-tables" }, moves, shows));

    function start(seed, chain) {
      const { window, seen: before } = episode;
      episode = new Episode(seed, chain, joined);
      Object.assign(episode, { window, thing });
      episode.seen = before; // the same step of another chain
      update();
    }

    function change(action) {
      spot = chipInFocus(root);
      action();
      update();
    }

    function update() {
      const all = ahead ? episode.forecasts(names) : episode.rows(names);
      seen.input.value = episode.seen;
      memory.input.value = episode.window;
      seen.output.textContent = `${episode.seen} of ${LENGTH}`;
      memory.output.textContent = episode.window;
      next.disabled = episode.done;
      back.disabled = episode.seen === 0;
      status.textContent = (ahead ? describeForecasts : describe)(episode, all);
      legend.replaceChildren(...all.map((one) => element("li", {},
        element("span", { class: `bw-key bw-look-${one.look}`, "aria-hidden": "true" }), one.label)));
      if (ahead) {
        drawBars(bars, all, episode, 230, "forecast probability", "next observation");
        drawMisses(curve, all);
      } else {
        drawChips();
        drawTriangle(triangle, all);
        drawBars(bars, all, episode);
        drawEntropy(curve, all);
      }
      tell();
      matrix(moves, "Chance of the next state", episode.transition, "to", null);
      matrix(shows, `Chance of ${ahead ? "an" : "a"} ${thing}`, episode.emission, ahead ? "emits" : "symbol", episode.seen ? episode.symbols[episode.seen - 1] : null);
      Object.assign(root.dataset, { seen: episode.seen, seed: episode.seed, entropy: entropy(all[0].rows[episode.seen]) });
      handOn(next, fresh);
      handOn(back, next);
    }

    function drawChips() {
      chips.replaceChildren(...states.map((symbol) => {
        const p = episode.seen ? transport(episode.exact[episode.seen - 1], episode.transition) : even();
        const likely = sum(states.map((s) => p[s] * episode.emission[s][symbol]));
        return element("button", {
          type: "button", class: "bw-chip", "data-chip": `symbol ${symbol}`, disabled: episode.done,
          "aria-label": `symbol ${symbol}, probability ${number(likely)}`, title: `probability ${number(likely)}`,
          onclick: () => change(() => episode.reveal(symbol)),
        }, String(symbol));
      }));
      if (!spot) return;
      const again = chips.querySelector(`[data-chip="${spot}"]:not(:disabled)`) || back;
      again.focus();
      spot = null;
    }

    function tell() {
      const n = episode.seen;
      hidden.disabled = episode.chosen;
      if (!n) { told.textContent = `No ${thing} seen yet.`; return; }
      let words = `${ahead ? "Observed" : "Symbols"}: ${episode.symbols.join(", ")}.`;
      if (episode.chosen) words += " You chose one of them, so nature\u2019s hidden states no longer belong to them.";
      else if (hidden.checked) words += ` Hidden states: ${episode.states.slice(0, n).join(", ")}.`;
      told.textContent = words;
    }

    scrubber(curve, (steps) => change(() => { episode.seen = steps; }));
    if (joined === ofPage) live.push(update);
    update();
    watchWidth(root, curve, update);
  }

  // ---- the words -----------------------------------------------------------------------------

  function describe(episode, all) {
    const n = episode.seen, exact = all[0].rows[n];
    if (!n) return `No symbol seen: every state has probability 1/3, entropy ${bits(entropy(exact))}.`;
    const others = all.slice(1).map((one) => ` ${one.label[0].toUpperCase()}${one.label.slice(1)}: KL ${bits(divergence(exact, one.rows[n]))}.`);
    return `After ${count(n, "symbol")}: the belief is ${exact.map((p) => number(p)).join(", ")}, ` +
      `entropy ${bits(entropy(exact))}.${others.join("")}`;
  }

  function describeForecasts(episode, all) {
    const n = episode.seen, exact = all[0].rows[n];
    if (!n) return `Nothing observed: the exact forecast is ${exact.map((p) => number(p)).join(", ")}.`;
    const others = all.slice(1).map((one) => `${bits(divergence(exact, one.rows[n]))} (${one.label})`);
    return `After ${count(n, "observation")} the exact forecast of the next is ${exact.map((p) => number(p)).join(", ")}. ` +
      `KL divergence from it: ${others.join(", ")}.`;
  }

  function matrix(table, caption, rows, kind, column) {
    table.replaceChildren(
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, element("td", {}),
        ...states.map((j) => element("th", { scope: "col" }, `${kind} ${j}`)))),
      element("tbody", {}, ...rows.map((row, i) => element("tr", {},
        element("th", { scope: "row" }, `state ${i}`),
        ...row.map((p, j) => element("td", j === column ? { class: "bw-seen" } : {}, p.toFixed(2)))))));
  }

  // ---- the drawings --------------------------------------------------------------------------

  // A circle, a square, a triangle, ...: predictors differ in shape as well as in colour.
  function mark(i, [x, y], size) {
    const kind = `bw-mark bw-look-${i}`;
    if (i === 0) return element("circle", { cx: x, cy: y, r: size + 3, class: kind });
    if (i === 1) return element("circle", { cx: x, cy: y, r: size, class: kind });
    if (i === 2) return element("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, class: kind });
    return element("path", { d: `M${x} ${y - size * 1.2}L${x + size * 1.2} ${y + size}L${x - size * 1.2} ${y + size}Z`, class: kind });
  }

  // Certainty about state 0 is the left corner, 1 the right one, 2 the top.
  function drawTriangle(box, all) {
    const n = all[0].rows.length - 1;
    const now = all.map((one) => `${one.label} ${one.rows[n].map((p) => number(p)).join(", ")}`).join("; ");
    const side = Math.min(Math.max(box.clientWidth, 200) - 60, 300), tall = side * Math.sqrt(3) / 2;
    const f = frame(box, tall + 62, `Triangle of beliefs about states 0, 1 and 2 after ${n} symbols: ${now}.`);
    const left = (f.width - side) / 2, bottom = 30 + tall;
    const at = (row) => [left + side * (row[1] + row[2] / 2), bottom - tall * row[2]];
    const corner = (i) => states.map((s) => (s === i ? 1 : 0));
    for (const share of [0.25, 0.5, 0.75]) {
      for (const i of states) {
        const ends = states.filter((j) => j !== i).map((j) => at(states.map((s) => (s === i ? share : s === j ? 1 - share : 0))));
        f.svg.append(element("path", { d: trace(ends), class: "bw-grid" }));
      }
    }
    f.svg.append(element("path", { d: `${trace(states.map((i) => at(corner(i))))}Z`, class: "bw-edge" }));
    const names = [["start", 0, 20], ["end", 0, 20], ["middle", 0, -8]];
    names.forEach(([anchor, dx, dy], i) => {
      const [x, y] = at(corner(i));
      f.svg.append(text(x + dx, y + dy, `state ${i}`, anchor));
    });
    all.slice().reverse().forEach((one) => {
      const points = one.rows.map(at);
      if (one.look === 0) {
        f.svg.append(element("path", { d: trace(points), class: "bw-trail" }),
          ...points.slice(0, -1).map(([x, y]) => element("circle", { cx: x, cy: y, r: 2.6, class: "bw-past" })));
      }
      f.svg.append(mark(one.look, points[n], 5.5));
    });
    readout(box, all.flatMap((one) => one.rows.map((row, t) => ({
      x: at(row)[0], ys: [at(row)[1]], lines: [`${brief(one)}, after ${count(t, "symbol")}`, ...states.map((s) => `state ${s} ${number(row[s])}`)],
    })).slice(one.look === 0 ? 0 : n)), "xy");
  }

  // On a phone the drawings and the buttons below them fit into one view.
  const highFor = (height) => (window.innerWidth < 500 ? 170 : height);

  function drawBars(box, all, { seed, chain }, height = 300, title = "probability", below = "hidden state now") {
    const n = all[0].rows.length - 1;
    const told = all.map((one) => `${one.label} ${one.rows[n].map((p) => number(p)).join(", ")}`).join("; ");
    const f = frame(box, highFor(height), `Bars of the ${title} of 0, 1 and 2 (${below}): ${told}.`);
    const toY = (p) => f.bottom - p * (f.bottom - f.top);
    axes(f, [0, 0.25, 0.5, 0.75, 1], toY, title, below);
    const step = (f.right - f.left) / SIZE;
    for (const s of states) {
      const x = f.left + s * step, inner = (step * 0.7) / (all.length - 1 || 1);
      f.svg.append(text(x + step / 2, f.bottom + 17, String(s)));
      all.slice(1).forEach((one, i) => f.svg.append(element("rect", {
        x: x + step * 0.15 + i * inner, width: inner * 0.92, y: toY(one.rows[n][s]),
        height: f.bottom - toY(one.rows[n][s]), class: `bw-bar bw-look-${one.look}`,
      })));
      f.svg.append(element("rect", {
        x: x + step * 0.08, width: step * 0.84, y: toY(all[0].rows[n][s]),
        height: f.bottom - toY(all[0].rows[n][s]), class: "bw-bar bw-look-0",
      }));
    }
    trail(box, f.svg, ".bw-look-0", `${seed} ${chain}`);
    readout(box, states.map((s) => ({
      x: f.left + (s + 0.5) * step, ys: all.map((one) => toY(one.rows[n][s])),
      lines: [`${below} ${s}`, ...all.map((one) => `${brief(one)} ${number(one.rows[n][s])}`)],
    })));
  }

  function drawEntropy(box, all) {
    const n = all[0].rows.length - 1, heights = all.map((one) => one.rows.map(entropy));
    const told = all.map((one, i) => `${one.label} ${heights[i].map((h) => number(h)).join(", ")}`).join("; ");
    const f = frame(box, highFor(230), `Entropy in bits after 0 to ${n} symbols: ${told}.`);
    const top = Math.log2(SIZE) * 1.06;
    const toY = (h) => f.bottom - (h / top) * (f.bottom - f.top);
    const toX = (i) => f.left + 8 + (i / LENGTH) * (f.right - f.left - 16);
    axes(f, [0, 0.5, 1, 1.5], toY, "entropy (bits)", "symbols seen", (t) => t.toFixed(1));
    const stride = f.width < 420 ? 5 : 2;
    for (let i = 0; i <= LENGTH; i += stride) f.svg.append(text(toX(i), f.bottom + 17, String(i)));
    heights.map((hs, i) => [hs, all[i].look]).reverse().forEach(([hs, look]) => {
      const points = hs.map((h, t) => [toX(t), toY(h)]);
      f.svg.append(element("path", { d: trace(points), class: `bw-line bw-look-${look}` }));
      points.forEach((point, t) => f.svg.append(look || t === n ? mark(look, point, t === n ? 4.5 : 2.6)
        : element("circle", { cx: point[0], cy: point[1], r: 2.6, class: "bw-past" })));
    });
    box.steps = steps(toX, LENGTH + 1, n);
    readout(box, range(n + 1).map((t) => ({
      x: toX(t), ys: heights.map((hs) => toY(hs[t])),
      lines: [`after ${count(t, "symbol")}`, ...all.map((one, i) => `${brief(one)} ${bits(heights[i][t])}`)],
    })));
  }

  // How far every forecast so far is from the exact one, on one scale for all chains: a line down is ten
  // times nearer. What is nearer than the line of FLOOR is an open mark below it; where a filter is exact it has no point.
  const FLOOR = -5, BELOW = -5.8, EXACT = 1e-12;

  function drawMisses(box, all) {
    const n = all[0].rows.length - 1;
    const gaps = all.slice(1).map((one) => one.rows.slice(1).map((row, t) => divergence(all[0].rows[t + 1], row)));
    const told = gaps.map((row, i) => `${all[i + 1].label} ${row.map(bits).join(", ") || "nothing yet"}`).join("; ");
    const f = frame(box, highFor(230), `KL divergence from the exact forecast after 1 to ${n} observations, logarithmic: ${told}.`);
    const place = (power) => f.bottom - ((power - BELOW) / -BELOW) * (f.bottom - f.top);
    const tiny = (gap) => gap < 10 ** FLOOR, clipped = gaps.flat().some((gap) => gap > EXACT && tiny(gap)) ? "below" : "";
    const toY = (gap) => place(tiny(gap) ? BELOW : Math.min(0, Math.log10(gap)));
    const toX = (step) => f.left + ((step - 0.3) / LENGTH) * (f.right - f.left);
    axes(f, [0, -1, -2, -3, -4, -5, BELOW], place, "KL divergence from exact (bits)", "observation",
      (power) => (power === BELOW ? clipped : power < -3 ? `10\u207b${"\u2074\u2075"[-4 - power]}` : String(10 ** power)));
    for (const step of [1, 5, 10, 15, 20]) f.svg.append(text(toX(step), f.bottom + 17, String(step)));
    gaps.forEach((row, i) => {
      const look = all[i + 1].look, steps = range(n).filter((t) => row[t] > EXACT);
      const inside = steps.map((t) => !tiny(row[t])), points = steps.map((t) => [toX(t + 1), toY(row[t])]);
      const line = points.map(([x, y], at) => (inside[at] ? `${inside[at - 1] ? "L" : "M"}${x} ${y}` : "")).join("");
      f.svg.append(element("path", { d: line, class: `bw-line bw-look-${look}` }),
        ...points.map((point, at) => {
          const one = mark(look, point, steps[at] === n - 1 ? 5 : 2.8);
          one.classList.toggle("bw-open-mark", !inside[at]);
          return one;
        }));
    });
    box.steps = steps(toX, LENGTH + 1, n);
    readout(box, range(n).map((t) => ({
      x: toX(t + 1), ys: gaps.map((row) => toY(row[t])),
      lines: [`after ${count(t + 1, "observation")}`, ...gaps.map((row, i) => `${brief(all[i + 1])} ${bits(row[t])}`)],
    })));
  }

  bwExplorer.start("hmm", "Hidden chain explorer", mount, {
    CHAINS, Episode, addPredictor, correct, divergence, draw, emissionOnly, entropy, filter, forecast,
    probabilities, stationary, tablePredictor, transport, windowFilter,
  });
})();
