// The hazard explorer: a chain with two states, its exact log odds, and an integrator that leaks.
// A classic script without dependencies, so that it also runs from a folder. It mounts on every
// element .bw-explorer[data-explorer="hazard"]; its arithmetic is that of
// bayeswind_lib/baselines/switching.py and is compared with it by the tests.
(function () {
  "use strict";

  const { axes, button, element, frame, generator, number, readout, scrubber, slider, statusLine, steps, text, trace, watchWidth } = bwExplorer;
  const STEPS = 40, N_STEPS = 12, KEEPS = Array.from({ length: 51 }, (_, i) => i / 50);

  // ---- the mathematics -----------------------------------------------------------------------

  const softplus = (x) => (x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x)));
  const share = (x) => Math.exp(-softplus(-x)); // the probability that has these log odds
  const logaddexp = (a, b) => b + softplus(a - b);

  // What each symbol (0 or 1) adds to the log odds of state 1, nats.
  function evidence(symbols, reliability) {
    const step = Math.log(reliability / (1 - reliability));
    return symbols.map((symbol) => (2 * symbol - 1) * step);
  }

  // The log odds one step later, before a symbol is seen; the hazard is above 0.
  function carry(odds, hazard) {
    const stays = Math.log(1 - hazard), moves = Math.log(hazard);
    return logaddexp(odds + stays, moves) - logaddexp(odds + moves, stays);
  }

  function scan(given, next) {
    const steps = [];
    given.forEach((now, t) => steps.push(t ? next(steps[t - 1]) + now : now));
    return steps;
  }
  const filtered = (given, hazard) => scan(given, (odds) => carry(odds, hazard));
  const leaky = (given, keep) => scan(given, (held) => keep * held);

  // KL divergence in bits between two beliefs given as log odds.
  function divergence(truth, guess) {
    const p = share(truth);
    return (p * (softplus(-guess) - softplus(-truth)) + (1 - p) * (softplus(guess) - softplus(truth))) / Math.LN2;
  }

  // Mean divergence of each integrator from the exact filter over all sequences of nSteps symbols.
  function expectedKl(hazard, reliability, keeps, nSteps = N_STEPS) {
    const step = Math.log(reliability / (1 - reliability)), total = keeps.map(() => 0);
    let exact = [step], chance = [1], held = keeps.map(() => [step]);
    for (let t = 0; ; t++) {
      keeps.forEach((_, i) => exact.forEach((odds, n) => {
        total[i] += chance[n] * divergence(odds, held[i][n]);
      }));
      if (t === nSteps - 1) return total.map((sum) => sum / nSteps);
      const before = exact.map((odds) => carry(odds, hazard));
      const up = before.map((odds, n) => {
        const p = share(odds);
        return chance[n] * (p * reliability + (1 - p) * (1 - reliability));
      });
      chance = [...up, ...up.map((p, n) => chance[n] - p)];
      exact = [...before.map((odds) => odds + step), ...before.map((odds) => odds - step)];
      held = held.map((row, i) => [...row.map((x) => keeps[i] * x + step), ...row.map((x) => keeps[i] * x - step)]);
    }
  }

  // The same random numbers for every hazard and reliability: only what they decide changes.
  function sequence(hazard, reliability, seed) {
    const random = generator(seed), states = [], symbols = [];
    for (let t = 0; t < STEPS; t++) {
      const turn = random(), wrong = random();
      states.push(t ? states[t - 1] ^ (turn < hazard) : +(turn < 0.5));
      symbols.push(states[t] ^ (wrong >= reliability));
    }
    return { states, symbols };
  }

  // ---- small helpers -------------------------------------------------------------------------

  const path = (heights, toX, toY, kind) =>
    element("path", { d: trace(heights.map((h, i) => [toX(i), toY(h)])), class: kind });
  const spaced = (top, n) => { // about n round numbers from 0 to top
    const rough = top / n, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => +(i * step).toPrecision(3));
  };

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    const state = { hazard: 0.1, reliability: 0.7, keep: 0.9, seed: 1 };
    let expected = null, expectedFor = "";

    const control = (name, words, range) =>
      slider(id, name, words, range, state[name], (value) => { state[name] = value; update(); });
    const controls = {
      hazard: control("hazard", "Hazard", [0.01, 0.5, 0.01]),
      reliability: control("reliability", "Reliability", [0.55, 0.95, 0.01]),
      keep: control("keep", "Kept each step", [0, 1, 0.02]),
    };
    const fresh = button("New sequence", "new", () => { state.seed += 1; update(); });
    const tuned = button("Best leak", "best", () => choose(best()));
    const status = statusLine();
    const odds = element("div", { class: "bw-chart" }), leaks = element("div", { class: "bw-chart" });

    root.replaceChildren(
      element("p", { class: "bw-key bw-first-seen" }, ...Object.entries({ exact: "exact filter", leaky: "leaky", sum: "no leak", truth: "true state" })
        .flatMap(([kind, words]) => [element("span", {}, element("span", { class: `bw-mark bw-mark-${kind}` }), ` ${words}`), " "])),
      odds,
      element("div", { class: "bw-controls" }, ...Object.values(controls).map((c) => c.field),
        element("div", { class: "bw-buttons" }, fresh, tuned)),
      status, leaks);

    const best = () => expected.reduce((low, kl, i) => (kl < expected[low] ? i : low), 0);

    function choose(i) {
      state.keep = KEEPS[i];
      controls.keep.input.value = state.keep;
      update();
    }

    function update() {
      const { hazard, reliability, keep } = state;
      for (const [name, { output }] of Object.entries(controls)) output.textContent = state[name].toFixed(2);
      if (expectedFor !== `${hazard} ${reliability}`) {
        expected = expectedKl(hazard, reliability, KEEPS);
        expectedFor = `${hazard} ${reliability}`;
      }
      const shown = sequence(hazard, reliability, state.seed);
      const given = evidence(shown.symbols, reliability);
      const exact = filtered(given, hazard), held = leaky(given, keep), sum = leaky(given, 1);
      const here = expected[Math.round(keep * 50)], low = best();
      const sides = exact.filter((x, t) => (x > 0) !== (held[t] > 0)).length;
      status.textContent =
        `An integrator that keeps ${keep.toFixed(2)} is ${number(here)} bits from the exact filter on average; ` +
        `the best one keeps ${KEEPS[low].toFixed(2)} and is ${number(expected[low])} bits away. ` +
        `In this sequence the two name different states at ${sides} of ${STEPS} steps.`;
      drawOdds(shown, exact, held, sum);
      drawLeaks(low);
      Object.assign(root.dataset, { here, best: KEEPS[low], least: expected[low] });
    }

    // The log odds; above state 1 is believed. The true state is the band behind the curves.
    function drawOdds({ states, symbols }, exact, held, sum) {
      const most = Math.max(2, ...exact.map(Math.abs), ...held.map(Math.abs)) * 1.1;
      const told = (row) => row.filter((_, t) => t % 8 === 7).map((x) => number(x)).join(", ");
      const f = frame(odds, 250, `Log odds of state 1 at steps 8, 16, 24, 32 and 40: exact ${told(exact)}; ` +
        `leaky ${told(held)}; without a leak ${told(sum)}. The state changes ` +
        `${states.filter((s, t) => t && s !== states[t - 1]).length} times.`);
      const toY = (x) => (f.top + f.bottom) / 2 - (Math.max(-most, Math.min(most, x)) / most) * (f.bottom - f.top) / 2;
      const wide = (f.right - f.left) / STEPS, toX = (t) => f.left + (t + 0.5) * wide;
      states.forEach((s, t) => f.svg.append(element("rect", {
        x: f.left + t * wide, width: wide + 0.3, class: "bw-truth",
        y: s ? f.top : toY(0), height: (f.bottom - f.top) / 2,
      })));
      const up = spaced(most, 3).slice(1);
      axes(f, [...up.map((x) => -x).reverse(), 0, ...up], toY, "log odds of state 1 (nats)", "step");
      [1, 10, 20, 30, 40].forEach((step) => f.svg.append(text(toX(step - 1), f.bottom + 17, String(step))));
      f.svg.append(path(sum, toX, toY, "bw-sum"), path(held, toX, toY, "bw-leaky"), path(exact, toX, toY, "bw-exact"));
      symbols.forEach((symbol, t) => f.svg.append(element("rect", {
        x: toX(t) - 1.5, width: 3, y: symbol ? f.top - 1 : f.bottom - 7, height: 8, class: "bw-symbol",
      })));
      readout(odds, exact.map((x, t) => ({
        x: toX(t), ys: [x, held[t], sum[t]].map(toY),
        lines: [`step ${t + 1}`, `exact ${number(x)}`, `leaky ${number(held[t])}`, `no leak ${number(sum[t])}`],
      })));
    }

    function drawLeaks(low) {
      const now = Math.round(state.keep * 50), top = Math.max(...expected) * 1.08;
      const f = frame(leaks, 220, `Mean KL divergence in bits over what an integrator keeps: ` +
        [0, 10, 20, 30, 40, 50].map((i) => `${KEEPS[i]}: ${number(expected[i])}`).join(", ") +
        `; least at ${KEEPS[low]}, chosen ${KEEPS[now]}.`);
      const toY = (h) => f.bottom - (h / top) * (f.bottom - f.top), toX = (i) => f.left + (i / 50) * (f.right - f.left);
      axes(f, spaced(top, 3), toY, "mean KL divergence (bits), all sequences", "kept from one step to the next");
      [0, 0.25, 0.5, 0.75, 1].forEach((keep) => f.svg.append(text(toX(keep * 50), f.bottom + 17, String(keep))));
      const slope = 50 * (1 - 2 * state.hazard);
      f.svg.append(
        element("line", { x1: toX(slope), x2: toX(slope), y1: f.top, y2: f.bottom, class: "bw-slope" }),
        text(toX(slope) + (slope > 32 ? -5 : 5), f.top + 10, "1 − 2 × hazard", slope > 32 ? "end" : "start"),
        path(expected, toX, toY, "bw-leaky"),
        element("circle", { cx: toX(low), cy: toY(expected[low]), r: 6, class: "bw-least" }),
        element("circle", { cx: toX(now), cy: toY(expected[now]), r: 6, class: "bw-now" }));
      leaks.steps = steps(toX, KEEPS.length, now);
      readout(leaks, expected.map((kl, i) => ({ x: toX(i), ys: [toY(kl)], lines: [`kept ${KEEPS[i].toFixed(2)}`, `${number(kl)} bits`] })));
    }

    scrubber(leaks, choose);
    update();
    watchWidth(root, odds, update);
  }

  bwExplorer.start("hazard", "Hazard explorer", mount, { evidence, carry, filtered, leaky, divergence, expectedKl, sequence });
})();
