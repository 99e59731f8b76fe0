// The ladder explorer: choose what a position may see of a bijection episode, and read what that
// allows at best. A classic script without dependencies, so that it also runs from a folder. It
// mounts on every element .bw-explorer[data-explorer="ladder"]; its arithmetic is that of
// bayeswind_lib/baselines/views.py and is compared with it by the tests.
(function () {
  "use strict";

  const {
    axes, button, count, element, frame, generator, klBits: divergence, number, radios, range, readout, scrubber, shuffled, slider, statusLine,
    steps, text, trace, watchWidth,
  } = bwExplorer;
  const VIEWS = {
    token: "its own token",
    window: "the last w pairs",
    set: "which tokens came",
    bag: "how often each token came",
    order: "everything, in order",
  };

  // ---- the mathematics -----------------------------------------------------------------------

  const times = (list, entry) => list.filter((one) => one === entry).length;

  // The best prediction of the value of the last key from a view of the pairs before it.
  function best(view, keys, values, nValues, window) {
    const asked = keys[keys.length - 1];
    let shown = keys.slice(0, -1);
    if (view === "window") {
      const first = Math.max(shown.length - window, 0);
      shown = shown.slice(first);
      values = values.slice(first);
    }
    const met = times(shown, asked);
    let possible;
    if (view === "token") possible = () => true;
    else if (!met) possible = (v) => !values.includes(v);
    else if (view === "set") possible = (v) => values.includes(v);
    else if (view === "bag") possible = (v) => times(values, v) === met;
    else possible = (v) => v === values[shown.indexOf(asked)];
    const fits = range(nValues).map(possible);
    const left = fits.filter(Boolean).length;
    return fits.map((fit) => (fit ? 1 / left : 0));
  }

  // Mean of value(number of different keys) over independent draws of one of nKeys keys.
  function meanLog(nKeys, nDraws, value) {
    let chance = [1];
    for (let draw = 0; draw < nDraws; draw++) {
      const grown = new Array(chance.length + 1).fill(0);
      chance.forEach((p, d) => {
        if (!p) return;
        grown[d] += (p * d) / nKeys;
        grown[d + 1] += (p * (nKeys - d)) / nKeys;
      });
      chance = grown;
    }
    return chance.reduce((sum, p, d) => (p ? sum + p * value(d) : sum), 0);
  }

  const factorial = (n) => (n < 2 ? 1 : n * factorial(n - 1));
  const choose = (n, k) => factorial(n) / factorial(k) / factorial(n - k);

  // Chance that 0, 1, 2, ... of nKeys keys come exactly n times in nDraws draws, key by key.
  function howManyCame(nKeys, nDraws, n) {
    if (nKeys === 0) return [1];
    const most = Math.floor(nDraws / n);
    const empty = () => range(nDraws + 1).map(() => new Array(most + 2).fill(0));
    let table = empty();
    table[0][0] = 1;
    for (let key = 0; key < nKeys; key++) {
      const grown = empty();
      for (let own = 0; own <= nDraws; own++) {
        for (let spent = 0; spent + own <= nDraws; spent++) {
          for (let j = 0; j <= most; j++) {
            grown[spent + own][j + (own === n ? 1 : 0)] += table[spent][j] / factorial(own);
          }
        }
      }
      table = grown;
    }
    return table[nDraws].slice(0, most + 1).map((w) => (w * factorial(nDraws)) / nKeys ** nDraws);
  }

  // Mean of log2(how many keys came exactly as often as the one asked), 0 where that is new.
  function meanAlike(nValues, k) {
    let total = 0;
    for (let n = 1; n <= k; n++) {
      const met = choose(k, n) * (1 / nValues) ** n * (1 - 1 / nValues) ** (k - n);
      howManyCame(nValues - 1, k - n, n).forEach((p, others) => {
        total += met * p * Math.log2(others + 1);
      });
    }
    return total;
  }

  // The least possible error of every view at every question, bits.
  function floors(nValues, nPairs, replacement, window) {
    const V = nValues, log = (n) => (n > 0 ? Math.log2(n) : 0);
    const at = (k) => {
      const few = Math.min(k, window);
      if (!replacement) {
        const free = log(V - k);
        return { token: log(V), window: log(V - few), set: free, bag: free, order: free };
      }
      const unseen = (draws) => (1 - 1 / V) ** draws * meanLog(V - 1, draws, (d) => log(V - d));
      const order = unseen(k);
      return {
        token: log(V), window: unseen(few), order,
        set: order + meanLog(V, k, (d) => (d / V) * log(d)), bag: order + meanAlike(V, k),
      };
    };
    const rows = range(nPairs).map(at);
    return Object.fromEntries(Object.keys(VIEWS).map((view) =>
      [view, rows.map((row) => Math.max(row[view] - row.order, 0))]));
  }

  function episode(nValues, replacement, seed) {
    const random = generator(seed);
    const map = shuffled(nValues, random), order = shuffled(nValues, random);
    const keys = replacement ? range(nValues).map(() => Math.floor(random() * nValues)) : order;
    return { keys, values: keys.map((key) => map[key]) };
  }

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    const state = { view: "token", replacement: false, nValues: 8, pairs: 4, window: 3, seed: 1 };
    let shown = episode(state.nValues, state.replacement, state.seed);

    const control = (name, words, range) => slider(id, name, words, range, state[name],
      (value) => { state[name] = value; settle(name === "nValues"); });
    const choice = (name, legend, options) => radios(id, name, legend, options, state[name],
      (value) => { state[name] = value; settle(name === "replacement"); });
    const controls = {
      pairs: control("pairs", "Pairs shown", [0, 7]), window: control("window", "Window, w", [1, 7]),
      nValues: control("nValues", "Keys and values, V", [2, 10]),
    };
    const fresh = button("New episode", "new", () => { state.seed += 1; settle(true); });
    const strip = element("div", { class: "bw-strip bw-first-seen" });
    const status = statusLine();
    const bars = element("div", { class: "bw-chart" }), curves = element("div", { class: "bw-chart" });
    const means = element("table", { class: "bw-means" });

    root.replaceChildren(
      strip, bars,
      element("div", { class: "bw-controls" },
        choice("view", "A position sees", Object.entries(VIEWS).map(([view, words]) => [words, view])),
        choice("replacement", "Keys asked", [["distinct keys", false], ["keys with replacement", true]]),
        controls.pairs.field, controls.window.field, controls.nValues.field, fresh),
      status, curves,
      element("div", { class: "bw-scroll", tabindex: 0, role: "region", "aria-label": "Mean error of every view" }, means));

    scrubber(curves, (pairs) => { state.pairs = pairs; settle(false); });

    function settle(anew) {
      const V = state.nValues;
      state.pairs = Math.min(state.pairs, V - 1);
      state.window = Math.max(1, Math.min(state.window, V - 1));
      if (anew) shown = episode(V, state.replacement, state.seed);
      update();
    }

    function update() {
      const { nValues: V, replacement, pairs: k, window, view } = state;
      for (const [name, { input, output }] of Object.entries(controls)) {
        if (name !== "nValues") input.max = Math.max(V - 1, 1);
        input.value = state[name];
        output.textContent = state[name];
      }
      controls.window.input.disabled = view !== "window";
      const keys = shown.keys.slice(0, k + 1), values = shown.values.slice(0, k);
      const guess = best(view, keys, values, V, window);
      const truth = best("order", keys, values, V, window);
      const all = floors(V, V, replacement, window);
      const mean = (row) => row.reduce((sum, x) => sum + x, 0) / row.length;
      const left = guess.filter((p) => p > 0).length;
      status.textContent =
        `After ${count(k, "pair")}, a position that sees ${named(view).replace(",", "")} has ${count(left, "value")} left: ${number(divergence(truth, guess))} bits from the posterior in this ` +
        `episode, on average ${number(all[view][k])} at this question and ${number(mean(all[view]))} over all ${V}.`;
      drawStrip(keys, values);
      drawBars(bars, guess, truth, keys[k]);
      drawCurves(curves, all);
      drawMeans(all, mean);
      root.dataset.floor = all[view][k];
      root.dataset.mean = mean(all[view]);
    }

    const named = (view) => (view === "window" ? `the last ${state.window === 1 ? "pair" : state.window + " pairs"}` : VIEWS[view]);

    // The tokens: those in view are filled, the others stand as empty frames.
    function drawStrip(keys, values) {
      const { view, window } = state, k = values.length;
      const token = (kind, words, seen, more = "") => element("li", {
        class: `bw-token bw-${kind} ${seen ? "bw-seen" : "bw-hidden"} ${more}`,
        "aria-label": seen ? words : `${kind}, hidden`,
      }, seen ? words : `${kind} ·`);
      const asked = token("key", `key ${keys[k]} ?`, true, "bw-asked-now");
      let items;
      if (view === "set" || view === "bag") {
        const gathered = (kind, list) => [...new Set(list)].sort((a, b) => a - b).map((n) =>
          token(kind, `${kind} ${n}${view === "bag" ? ` \u00d7${times(list, n)}` : ""}`, true));
        items = [...gathered("key", keys.slice(0, k)), ...gathered("value", values), asked];
      } else {
        const first = { token: k, window: Math.max(k - window, 0), order: 0 }[view];
        items = values.flatMap((value, i) =>
          [token("key", `key ${keys[i]}`, i >= first), token("value", `value ${value}`, i >= first)]);
        items.push(asked);
      }
      const order = view === "set" || view === "bag" ? "in no order" : "in their order";
      strip.replaceChildren(
        element("p", { class: "bw-label", id: `${id}-strip` }, `What it sees, ${order}`),
        element("ul", { class: "bw-tokens", "aria-labelledby": `${id}-strip` }, ...items));
    }

    function drawMeans(all, mean) {
      means.replaceChildren(
        element("caption", {}, `Least possible error, mean over ${state.nValues} questions`),
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "A position sees"),
          element("th", { scope: "col" }, "bits"))),
        element("tbody", {}, ...Object.keys(VIEWS).map((view) =>
          element("tr", { class: view === state.view ? "bw-chosen" : "" },
            element("th", { scope: "row" }, named(view)),
            element("td", { "data-view": view }, number(mean(all[view])))))));
    }

    function drawBars(box, guess, truth, key) {
      const told = guess.map((p, v) => `${v}: ${number(p)} (exact ${number(truth[v])})`).join(", ");
      const f = frame(box, 190, `Best prediction of this view for key ${key}, by value: ${told}.`);
      const toY = (p) => f.bottom - p * (f.bottom - f.top), step = (f.right - f.left) / guess.length;
      axes(f, [0, 0.5, 1], toY, "best of this view, and exact (dashed)", "value");
      guess.forEach((p, v) => {
        const x = f.left + v * step, bar = (q, kind) => element("rect", {
          x: x + step * 0.14, width: step * 0.72, y: toY(q), height: f.bottom - toY(q), class: kind,
        });
        f.svg.append(text(x + step / 2, f.bottom + 17, String(v)));
        if (p) f.svg.append(bar(p, "bw-guess"));
        if (truth[v]) f.svg.append(bar(truth[v], "bw-bar"));
      });
      readout(box, guess.map((p, v) => ({
        x: f.left + (v + 0.5) * step, ys: [p, truth[v]].map(toY), lines: [`value ${v}`, `this view ${number(p)}`, `exact ${number(truth[v])}`],
      })));
    }

    function drawCurves(box, all) {
      const V = state.nValues, row = all[state.view];
      const told = row.map((h) => number(h)).join(", ");
      const f = frame(box, 220, `Least possible error in bits of ${named(state.view)} at questions 0 to ${V - 1}: ${told}. ` +
        "The other views are drawn thin.");
      const top = Math.max(...all.token) * 1.08, toY = (h) => f.bottom - (h / top) * (f.bottom - f.top);
      const toX = (i) => f.left + ((i + 0.5) / V) * (f.right - f.left);
      const tick = top > 2 ? 1 : 0.5;
      axes(f, range(Math.floor(top / tick) + 1).map((i) => i * tick), toY, "least possible error (bits)",
        "pairs shown before the question");
      range(V).forEach((i) => f.svg.append(text(toX(i), f.bottom + 17, String(i))));
      const path = (heights) => trace(heights.map((h, i) => [toX(i), toY(h)]));
      for (const view of Object.keys(VIEWS)) {
        if (view !== state.view) f.svg.append(element("path", { d: path(all[view]), class: "bw-other" }));
      }
      f.svg.append(element("path", { d: path(row), class: "bw-floor" }));
      row.forEach((h, i) => f.svg.append(element("circle", {
        cx: toX(i), cy: toY(h), r: i === state.pairs ? 6 : 3.5, class: i === state.pairs ? "bw-now" : "bw-past",
      })));
      box.steps = steps(toX, V, state.pairs);
      readout(box, row.map((h, i) => ({ x: toX(i), ys: [toY(h)], lines: [`after ${count(i, "pair")}`, `${number(h)} bits`] })));
    }

    settle(false);
    watchWidth(root, bars, update);
  }

  bwExplorer.start("ladder", "Ladder explorer", mount, { best, floors, divergence, episode });
})();
