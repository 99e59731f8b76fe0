// The EM explorer: one query, four values that each make a forecast, and an outcome. Where would an E-step take the weights,
// and where does attention's own step take them? A classic script without dependencies, so that it also runs from a folder. It
// mounts on every element .bw-explorer[data-explorer="em"]; its arithmetic is that of bayeswind_lib/dynamics/mixture.py and is
// compared with it by the tests.
(function () {
  "use strict";

  const {
    axes, button, dragging, element, frame, number, player, radios, range, readout, slider, softmax, statusLine, tenth, text, trail, watchWidth, within,
  } = bwExplorer;
  const REACH = 2.5; // the plane shows both channels of a value from -2.5 to 2.5
  const NAMES = ["A", "B", "C"]; // outcomes
  const OUTPUT = [90, 210, 330].map((angle) => [1.5 * Math.cos((angle * Math.PI) / 180), 1.5 * Math.sin((angle * Math.PI) / 180)]); // an outcome's row
  const START = { scores: [0, 0.6, 0.3, 0], values: [[0.5, 1.7], [-1.5, -0.3], [1.3, -1.1], [-0.1, 0.3]], outcome: 0, spread: 1, beginning: 0 };
  const LEAST = 0.05; // of the spread

  // ---- the mathematics -----------------------------------------------------------------------

  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const length = (a) => Math.sqrt(dot(a, a));
  const mean = (weights, rows) => [0, 1].map((i) => weights.reduce((sum, w, j) => sum + w * rows[j][i], 0));

  const forecast = (value) => softmax(OUTPUT.map((w) => dot(value, w)));

  // Values moved towards their mean: their spread is a share of what it was.
  function drawnTogether(values, share) {
    const middle = mean(values.map(() => 1 / values.length), values);
    return values.map((v) => v.map((x, i) => middle[i] + share * (x - middle[i])));
  }

  // Weights before the outcome, the posterior (E-step), and the weights less attention's gradient at the scores.
  function steps(scores, values, outcome) {
    const pattern = softmax(scores);
    const chances = values.map((v) => forecast(v)[outcome]);
    const mixture = dot(pattern, chances);
    const posterior = pattern.map((a, j) => (a * chances[j]) / mixture);
    const said = forecast(mean(pattern, values));
    const error = [0, 1].map((i) => OUTPUT.reduce((sum, w, y) => sum + (said[y] - (y === outcome)) * w[i], 0));
    const fit = values.map((v) => dot(error, v)), level = dot(pattern, fit);
    const step = pattern.map((a, j) => -a * (fit[j] - level)), towards = posterior.map((r, j) => r - pattern[j]);
    return {
      pattern, posterior, after: pattern.map((a, j) => a + step[j]), mixture, attention: said[outcome],
      cosine: dot(step, towards) / (length(step) * length(towards)), apart: length(towards.map((t, j) => t - step[j])) / length(towards),
    };
  }

  // ---- the explorer --------------------------------------------------------------------------

  const listed = (row) => row.map((x) => number(x)).join(", ");

  function mount(root, id) {
    let state = structuredClone(START), place = null;

    const spread = slider(id, "spread", "Spread of the values", [LEAST, 1.5, 0.05], 1, (share) => { state.spread = share; update(); });
    const scores = range(4).map((j) => slider(id, `score${j + 1}`, `Score of value ${j + 1}`, [-3, 3, 0.1], 0,
      (score) => { state.scores[j] = score; update(); }));
    const outcome = radios(id, "outcome", "What is seen", NAMES.map((name, y) => [name, y]), 0, (y) => { state.outcome = y; update(); });
    const half = button("Draw them together", "next", () => { state.spread = Math.max(LEAST, state.spread / 2); update(); });
    const play = player(root, {
      more: () => state.spread > LEAST, step: () => { state.spread = Math.max(LEAST, 0.8 * state.spread); update(); },
      again: () => { state.spread = 1; update(); },
    });
    const reset = button("Start again", "again", () => { state = { ...structuredClone(START), beginning: state.beginning + 1 }; outcome.querySelector("input").checked = true; update(); });
    const status = statusLine();
    const bars = element("div", { class: "bw-chart" }), plane = element("div", { class: "bw-chart bw-plane" });
    root.replaceChildren(
      element("p", { class: "bw-key" },
        element("span", { class: "bw-mark bw-mark-was" }), " weight of attention ",
        element("span", { class: "bw-mark bw-mark-exact" }), " after an E-step (the posterior) ",
        element("span", { class: "bw-mark bw-mark-is" }), " weight plus attention\u2019s step"),
      element("div", { class: "bw-pair" }, bars, plane), status,
      element("div", { class: "bw-controls" }, element("div", { class: "bw-buttons" }, half, play, reset), outcome, spread.field,
        ...scores.map((one) => one.field)));

    const shown = () => drawnTogether(state.values, state.spread);
    dragging(plane, (event) => {
      const at = event.target.closest("[data-value]");
      if (!at) return null;
      Object.assign(state, { values: shown(), spread: 1 }); // what is seen is what is held
      return +at.dataset.value;
    }, (event, j) => {
      state.values[j] = place(event).map((x) => tenth(within(x, REACH)));
      update();
    });

    function update() {
      const values = shown(), now = steps(state.scores, values, state.outcome);
      spread.input.value = state.spread;
      spread.output.textContent = number(state.spread, 2);
      scores.forEach((one, j) => {
        one.input.value = state.scores[j];
        one.output.textContent = number(state.scores[j], 1);
      });
      status.textContent = `${NAMES[state.outcome]} is seen. An E-step makes the weights ${listed(now.posterior)}. With attention\u2019s step on the scores added they would read ` +
        `${listed(now.after)}, which misses the E-step by ${number(now.apart)} of its length (cosine ${number(now.cosine)}). ` +
        `${NAMES[state.outcome]} had probability ${number(now.attention)}; a mixture of the four forecasts would have given it ${number(now.mixture)}.`;
      drawBars(bars, now);
      place = drawPlane(plane, values, now, state);
      Object.assign(root.dataset, {
        spread: state.spread, outcome: state.outcome, values: JSON.stringify(values), scores: JSON.stringify(state.scores),
        posterior: JSON.stringify(now.posterior), after: JSON.stringify(now.after), apart: now.apart, cosine: now.cosine,
      });
    }

    update();
    watchWidth(root, plane, update);
  }

  // ---- the drawings --------------------------------------------------------------------------

  const highFor = (box) => (window.innerWidth < 500 ? 190 : 260);

  function drawBars(box, now) {
    const told = now.pattern.map((a, j) => `value ${j + 1}: ${number(a)}, E-step ${number(now.posterior[j])}, attention ${number(now.after[j])}`).join("; ");
    const f = frame(box, highFor(box), `Weights of the four values. ${told}.`);
    const low = Math.min(0, Math.floor(Math.min(...now.after) * 4) / 4), high = Math.max(1, Math.ceil(Math.max(...now.after) * 4) / 4);
    const toY = (p) => f.bottom - ((p - low) / (high - low)) * (f.bottom - f.top), wide = (f.right - f.left) / 4;
    axes(f, low < 0 ? [low, 0, 0.5, 1] : [0, 0.5, 1], toY, "weight of each value", "value");
    const bar = (x, w, p, kind) => element("rect", { x, width: w, y: Math.min(toY(p), toY(0)), height: Math.abs(toY(p) - toY(0)), class: kind });
    now.pattern.forEach((a, j) => {
      const x = f.left + j * wide;
      f.svg.append(bar(x + wide * 0.14, wide * 0.3, a, "bw-was"), bar(x + wide * 0.5, wide * 0.34, now.after[j], "bw-is"),
        bar(x + wide * 0.46, wide * 0.42, now.posterior[j], "bw-exact"), text(x + wide / 2, f.bottom + 17, String(j + 1)));
    });
    readout(box, now.pattern.map((a, j) => ({
      x: f.left + (j + 0.5) * wide, ys: [a, now.posterior[j], now.after[j]].map(toY),
      lines: [`value ${j + 1}`, `weight ${number(a)}`, `E-step ${number(now.posterior[j])}`, `attention ${number(now.after[j])}`],
    })));
  }

  // The values, each a dot as large as its weight, and the directions of the outcomes. Returns how a place on the screen becomes one of the plane.
  function drawPlane(box, values, now, { outcome, beginning }) {
    const told = values.map((v, j) => `value ${j + 1} (${listed(v)}) forecasts ${NAMES[outcome]} with ${number(forecast(v)[outcome])}`).join("; ");
    const f = frame(box, highFor(box), `The plane of the values: ${told}.`);
    const scale = Math.min(f.width - 20, f.bottom - f.top + 40) / (2 * REACH), middle = [f.width / 2, (f.top + f.bottom + 30) / 2];
    const at = ([x, y]) => [middle[0] + scale * x, middle[1] - scale * y];
    f.svg.append(text(4, 15, "values, and what each outcome asks for", "start", "bw-title"));
    const dots = values.map((v) => at(v.map((x) => within(x, REACH))));
    OUTPUT.forEach((w, y) => {
      const [x1, y1] = at([0, 0]), [x2, y2] = at(w.map((x) => 0.95 * x));
      const free = [1.2, 1.42, 0.7, 0.45].map((far) => at(w.map((x) => far * x))).find(([x, y]) => dots.every((d) => Math.hypot(d[0] - x, d[1] - y) > 24));
      const [tx, ty] = free || at(w.map((x) => 1.2 * x));
      f.svg.append(element("line", { x1, y1, x2, y2, class: y === outcome ? "bw-ray bw-seen-ray" : "bw-ray" }),
        text(tx, ty + 4, NAMES[y], "middle", y === outcome ? "bw-name" : ""));
    });
    values.forEach((v, j) => {
      const [cx, cy] = dots[j];
      f.svg.append(element("circle", { cx, cy, r: 5 + 13 * Math.sqrt(now.pattern[j]), class: "bw-dot" }), text(cx, cy + 4, String(j + 1), "middle", "bw-name"),
        element("circle", { cx, cy, r: 18, class: "bw-grip", "data-value": j }));
    });
    trail(box, f.svg, ".bw-dot", beginning, { most: 6 });
    readout(box, values.map((v, j) => ({
      x: dots[j][0], ys: [dots[j][1]],
      lines: [`value ${j + 1} (${listed(v)})`, `weight ${number(now.pattern[j])}`, `forecasts ${NAMES[outcome]} ${number(forecast(v)[outcome])}`],
    })), "xy");
    return (event) => {
      const { left, top } = f.svg.getBoundingClientRect();
      return [(event.clientX - left - middle[0]) / scale, (middle[1] - (event.clientY - top)) / scale];
    };
  }

  bwExplorer.start("em", "EM explorer", mount, { steps, drawnTogether, OUTPUT });
})();
