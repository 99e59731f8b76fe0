// The three keys explorer: one query, three keys, values in a plane, and one step of gradient descent.
// A classic script without dependencies, so that it also runs from a folder. It mounts on every
// element .bw-explorer[data-explorer="threekeys"]; its arithmetic is that of
// bayeswind_lib/dynamics/three_keys.py and is compared with it by the tests.
(function () {
  "use strict";

  const {
    axes, button, count, dragging, element, frame, number, player, radios, readout, slider, softmax, statusLine, tenth, text, trace, trail, watchWidth, within,
  } = bwExplorer;
  const REACH = 3; // the plane shows both coordinates from -3 to 3
  const MOST = 2; // the longest error along one coordinate
  const START = { scores: [0.5, 0, -0.5], values: [[1.2, 0.3], [-0.8, 1], [-0.2, -1.2]], error: [1, 0.4] };

  // ---- the mathematics -----------------------------------------------------------------------

  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const mean = (weights, rows) => [0, 1].map((i) => weights.reduce((sum, w, j) => sum + w * rows[j][i], 0));


  // One step of gradient descent on |g - y|^2 / 2, where the error u = g - y is given.
  function step(scores, values, error, rate, moves) {
    const pattern = softmax(scores), context = mean(pattern, values);
    const target = context.map((g, i) => g - error[i]);
    const compatibility = values.map((v) => dot(v, error)), baseline = dot(pattern, compatibility);
    const advantage = compatibility.map((b) => baseline - b);
    const scoreGradient = pattern.map((a, j) => -a * advantage[j]);
    const valueGradient = pattern.map((a) => error.map((u) => a * u));
    const scored = moves !== "values" ? rate : 0, valued = moves !== "scores" ? rate : 0;
    const newScores = scores.map((s, j) => s - scored * scoreGradient[j]);
    const newValues = values.map((v, j) => v.map((x, i) => x - valued * valueGradient[j][i]));
    const newPattern = softmax(newScores), newContext = mean(newPattern, newValues);
    const far = newContext.map((g, i) => g - target[i]);
    const predicted = -scored * dot(scoreGradient, scoreGradient) -
      valued * valueGradient.reduce((sum, row) => sum + dot(row, row), 0);
    return {
      pattern, context, target, compatibility, baseline, advantage, scoreGradient, valueGradient, newScores,
      newValues, newPattern, newContext, loss: dot(error, error) / 2, newLoss: dot(far, far) / 2, predicted,
    };
  }

  // ---- small helpers -------------------------------------------------------------------------

  const signed = (value) => (value > 1e-12 ? "+" : "") + number(value);
  const pair = (point) => `(${number(point[0])}, ${number(point[1])})`;

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    let state, taken;

    const control = (name, words, range, get, set) => {
      const made = slider(id, name, words, range, get(), (value) => { set(value); update(); });
      const digits = range[2] < 0.1 ? 2 : 1;
      return { ...made, show() { made.input.value = get(); made.output.textContent = number(get(), digits); } };
    };
    const again = () => {
      state = { ...structuredClone(START), rate: state ? state.rate : 1, moves: state ? state.moves : "both", beginning: (state?.beginning ?? 0) + 1 };
      taken = 0;
    };
    again();
    const ofError = (name, words, i) =>
      control(name, words, [-MOST, MOST, 0.1], () => state.error[i], (value) => { state.error[i] = value; });
    const controls = [
      ofError("across", "Error, across", 0), ofError("upwards", "Error, upwards", 1),
      control("rate", "Size of the step", [0, 4, 0.05], () => state.rate, (value) => { state.rate = value; }),
      ...[0, 1, 2].map((j) => control(`score${j + 1}`, `Score of key ${j + 1}`, [-4, 4, 0.1],
        () => state.scores[j], (value) => { state.scores[j] = value; })),
    ];
    const moves = radios(id, "moves", "The step moves",
      [["scores", "scores"], ["values", "values"], ["both", "both"]], state.moves,
      (value) => { state.moves = value; update(); });
    const take = () => {
      const now = result();
      state.scores = now.newScores;
      state.values = now.newValues;
      state.error = now.newContext.map((g, i) => g - now.target[i]);
      taken += 1;
      update();
    };
    const next = button("Take the step", "next", take);
    const play = player(root, { // until a step no longer pays
      more: () => { const { loss, newLoss } = result(); return loss - newLoss > 1e-3 * (loss + 0.1); },
      step: take, again: () => { again(); update(); },
    });
    const reset = button("Start again", "again", () => { again(); update(); });
    const status = statusLine();
    const plane = element("div", { class: "bw-chart bw-plane" }), bars = element("div", { class: "bw-chart" });
    const numbers = element("table", { class: "bw-numbers" });

    root.replaceChildren(
      element("div", { class: "bw-controls" }, ...controls.map((c) => c.field), moves,
        element("div", { class: "bw-buttons" }, next, play, reset)),
      status,
      element("p", { class: "bw-label bw-first-seen" }, "Drag the head of the error, or move its two sliders."),
      plane,
      element("p", { class: "bw-key bw-first-seen" },
        element("span", { class: "bw-mark bw-mark-value" }), " value ",
        element("span", { class: "bw-mark bw-mark-move" }), " its step ",
        element("span", { class: "bw-mark bw-mark-error" }), " error u, from the context g ",
        element("span", { class: "bw-mark bw-mark-target" }, "+"), " wanted ",
        element("span", { class: "bw-mark bw-mark-new" }), " g after the step"),
      bars, numbers);

    const result = () => step(state.scores, state.values, state.error, state.rate, state.moves);
    let place = null; // from a point of the screen to the plane, as last drawn

    function pointTo(event) {
      const now = result(), [x, y] = place(event);
      state.error = [x - now.context[0], y - now.context[1]].map((u) => tenth(within(u, MOST)));
      update();
    }
    // A mouse takes the head of the error from anywhere in the plane; a finger takes it where it is.
    dragging(plane, (event) => {
      if (event.pointerType !== "mouse") return event.target.classList.contains("bw-handle") ? "error" : null;
      if (Math.max(...place(event).map(Math.abs)) > REACH) return null;
      pointTo(event);
      return "error";
    }, pointTo);
    plane.addEventListener("click", (event) => { if (event.pointerType === "touch") pointTo(event); });

    function update() {
      for (const one of controls) one.show();
      const now = result();
      status.textContent = describe(now);
      drawPlane(now);
      drawBars(now);
      drawNumbers(now);
      const { loss, predicted, newLoss, baseline } = now;
      Object.assign(root.dataset, {
        loss, predicted, actual: newLoss - loss, baseline, advantage: JSON.stringify(now.advantage),
        pattern: JSON.stringify(now.pattern), after: JSON.stringify(now.newPattern),
        values: JSON.stringify(now.newValues), state: JSON.stringify({ ...state, taken }),
      });
    }

    function describe(now) {
      const actual = now.newLoss - now.loss, best = now.advantage.indexOf(Math.max(...now.advantage));
      const steps = `${taken === 0 ? "No step" : count(taken, "step")} taken. `;
      const gain = `The loss is ${number(now.loss)}; the next step should change it by ${number(now.predicted)}, to ` +
        `first order, and changes it by ${number(actual)}`;
      const ratio = Math.abs(now.predicted) > 1e-9 ? `, ${number(actual / now.predicted)} times as much. ` : ". ";
      return `${steps}${gain}${ratio}Key ${best + 1} has the largest advantage, ${signed(now.advantage[best])}; ` +
        `its attention goes from ${number(now.pattern[best])} to ${number(now.newPattern[best])}.`;
    }

    // An arrow between two points of the drawing, with its head.
    function arrow(from, to, kind, size = 7) {
      const [dx, dy] = [to[0] - from[0], to[1] - from[1]], length = Math.hypot(dx, dy);
      const group = element("g", { class: kind });
      if (length < 0.5) return group;
      const [ex, ey] = [dx / length, dy / length], head = Math.min(size, length);
      const back = [to[0] - ex * head, to[1] - ey * head];
      const side = (s) => [back[0] - s * ey * head * 0.45, back[1] + s * ex * head * 0.45];
      group.append(element("path", { d: trace([from, back]), class: "bw-shaft" }),
        element("path", { d: `${trace([to, side(1), side(-1)])}Z`, class: "bw-head-of" }));
      return group;
    }

    function drawPlane(now) {
      const told = state.values.map((v, j) => `value ${j + 1} ${pair(v)} to ${pair(now.newValues[j])}`).join(", ");
      const f = frame(plane, plane.clientWidth < 500 ? 340 : 440, `The plane of the values. Error ${pair(state.error)} at the context ${pair(now.context)}, ` +
        `wanted ${pair(now.target)}; ${told}; the context goes to ${pair(now.newContext)}.`);
      const scale = Math.min((f.right - f.left) / (2 * REACH + 0.6), (f.bottom - f.top) / (2 * REACH - 0.6));
      const middle = [(f.left + f.right) / 2, (f.top + f.bottom) / 2];
      const at = ([x, y]) => [middle[0] + scale * x, middle[1] - scale * y];
      for (const tick of [-2, -1, 0, 1, 2]) {
        const [x, y] = at([tick, tick]);
        f.svg.append(element("line", { x1: x, x2: x, y1: f.top, y2: f.bottom, class: "bw-grid" }),
          element("line", { x1: f.left, x2: f.right, y1: y, y2: y, class: "bw-grid" }),
          text(x, f.bottom + 17, number(tick, 0)), text(f.left - 7, y + 4, number(tick, 0), "end"));
      }
      f.svg.append(text(4, 15, "values, context and error", "start", "bw-title"),
        text(middle[0], f.bottom + 35, "first coordinate"));
      const zero = at([0, 0]), names = []; // where a name stands, where it goes if that is taken, and the name
      state.values.forEach((v, j) => {
        const tip = at(v), long = Math.hypot(...v) || 1;
        f.svg.append(arrow(zero, tip, "bw-value"), element("circle", { cx: tip[0], cy: tip[1], r: 2.5, class: "bw-tip" }), arrow(tip, at(now.newValues[j]), "bw-move"));
        const away = [(14 * v[0]) / long, (-14 * v[1]) / long];
        names.push([[tip[0] + away[0], tip[1] + away[1]], [tip[0] - 1.3 * away[1], tip[1] + 1.3 * away[0]], String(j + 1)]);
      });
      const [g, tip, wanted, after] =
        [now.context, now.context.map((x, i) => x + state.error[i]), now.target, now.newContext].map(at);
      f.svg.append(
        element("path", { d: `M${wanted[0] - 7} ${wanted[1]}h14M${wanted[0]} ${wanted[1] - 7}v14`, class: "bw-target" }),
        arrow(g, tip, "bw-error", 11),
        element("circle", { cx: g[0], cy: g[1], r: 4.5, class: "bw-context" }),
        element("circle", { cx: after[0], cy: after[1], r: 5.5, class: "bw-after" }),
        element("circle", { cx: tip[0], cy: tip[1], r: 16, class: "bw-handle" }));
      names.push([[g[0] + 12, g[1] + 12], [g[0] - 12, g[1] - 12], "g"]);
      for (const [spot, other, words] of names) {
        const [x, y] = Math.hypot(spot[0] - tip[0], spot[1] - tip[1]) < 26 ? other : spot;
        const inside = [[x, f.left, f.right], [y, f.top, f.bottom]].map(([v, low, high]) => Math.min(Math.max(v, low + 8), high - 8));
        f.svg.append(text(inside[0], inside[1] + 4, words, "middle", "bw-name"));
      }
      const spots = [...state.values.map((v, j) => [`value ${j + 1}`, v]), ["context g", now.context], ["wanted", now.target], ["g after the step", now.newContext]];
      readout(plane, spots.map(([words, v]) => ({ x: at(v)[0], ys: [at(v)[1]], lines: [words, pair(v)] })), "xy");
      trail(plane, f.svg, ".bw-tip", state.beginning, { most: 12 });
      const svg = f.svg;
      place = (event) => {
        const box = svg.getBoundingClientRect(), zoom = f.width / box.width;
        return [((event.clientX - box.left) * zoom - middle[0]) / scale, (middle[1] - (event.clientY - box.top) * zoom) / scale];
      };
    }

    function drawBars(now) {
      const f = frame(bars, 210, "Attention before and after the step: " + now.pattern.map((a, j) =>
        `key ${j + 1} ${number(a)} to ${number(now.newPattern[j])}`).join(", ") + ".");
      const toY = (h) => f.bottom - h * (f.bottom - f.top - 14), wide = (f.right - f.left) / 3;
      axes(f, [0, 0.25, 0.5, 0.75, 1], toY, "attention: before (pale), after the step (full)", "key");
      now.pattern.forEach((a, j) => {
        const left = f.left + j * wide, after = now.newPattern[j];
        const bar = (x, w, h, kind) => element("rect", { x, width: w, y: toY(h), height: Math.max(0, toY(0) - toY(h)), class: kind });
        f.svg.append(bar(left + wide * 0.16, wide * 0.34, a, "bw-was"), bar(left + wide * 0.5, wide * 0.34, after, "bw-is"),
          text(left + wide / 2 - 2, toY(a) - 5, number(a), "end"), text(left + wide / 2 + 2, toY(after) - 5, number(after), "start"),
          text(left + wide / 2, f.bottom + 17, String(j + 1)));
      });
      readout(bars, now.pattern.map((a, j) => ({
        x: f.left + (j + 0.5) * wide, ys: [a, now.newPattern[j]].map(toY), lines: [`key ${j + 1}`, `before ${number(a)}`, `after ${number(now.newPattern[j])}`],
      })));
    }

    function drawNumbers(now) {
      const heads = ["key", "b", "advantage", "score moves", "value moves"];
      const scored = state.moves !== "values" ? state.rate : 0;
      const rows = now.pattern.map((_, j) => {
        const moved = now.newValues[j].map((x, i) => x - state.values[j][i]);
        const cells = [number(now.compatibility[j]), signed(now.advantage[j]),
          signed(-scored * now.scoreGradient[j]), number(Math.hypot(...moved))];
        return element("tr", {}, element("th", { scope: "row" }, String(j + 1)), ...cells.map((c) => element("td", {}, c)));
      });
      numbers.replaceChildren(
        element("caption", {}, `b = u\u00b7v; what the query gets now, the baseline: ${number(now.baseline)}`),
        element("thead", {}, element("tr", {}, ...heads.map((h) => element("th", { scope: "col" }, h)))),
        element("tbody", {}, ...rows));
    }

    update();
    watchWidth(root, plane, update);
  }

  bwExplorer.start("threekeys", "Three keys explorer", mount, { softmax, step });
})();
