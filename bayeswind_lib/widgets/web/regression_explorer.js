// The regression explorer: add points, watch the exact belief about a line and what it predicts.
// A classic script without dependencies, so that it also runs from a folder. It mounts on every
// element .bw-explorer[data-explorer="regression"]; its arithmetic is that of
// bayeswind_lib/tunnels/regression.py with x = (1, t), and is compared with it by the tests.
(function () {
  "use strict";

  const {
    button, count, dragging, element, frame, gaussianEntropyBits: entropy, gaussianKlBits: kl, generator, handOn, lineBelief: belief,
    linePredict: predict, normal, number, player, readout, slider, statusLine, tenth, text, trace, trail, watchWidth, within,
  } = bwExplorer;
  const GRIP = 14; // pixels around a point in which a hand takes it
  const MANY = 12; // points to which Play goes
  const REACH = 3, TALL = 5; // the picture shows t from -3 to 3 and y from -5 to 5

  // ---- the mathematics -----------------------------------------------------------------------

  // Bits that are learned of the line.
  const learned = ({ covariance: [[p, q], [, r]] }) => -0.5 * Math.log2(p * r - q * q);

  // The last points only: what a reader with a short memory still has.
  const recent = (points, memory) => points.slice(Math.max(0, points.length - memory));

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    let points = [], noise = 0.5, memory = 2, asked = 1, seed = 1, random, line, toPoint, pressed = [0, 0];

    function control(name, words, range, value, change) {
      const show = (now) => number(now, range[2] < 1 ? 1 : 0);
      const { field, output } = slider(id, name, words, range, value, (now) => {
        change(now);
        output.textContent = show(now);
        update();
      });
      output.textContent = show(value);
      return field;
    }
    const next = button("Nature adds a point", "next", () => { points.push(drawPoint()); update(); });
    const back = button("Remove last point", "back", () => { points.pop(); update(); });
    const play = player(root, {
      more: () => points.length < MANY, step: () => { points.push(drawPoint()); update(); }, again: () => start(seed),
    });
    const fresh = button("New line", "new", () => start(seed + 1));

    const box = (name, words, reach) => element("input", {
      type: "number", id: `${id}-${name}`, "data-control": name, min: -reach, max: reach, step: 0.1, value: name === "t" ? 0 : 1,
      "aria-label": words,
    });
    const tBox = box("t", "t of your point", REACH), yBox = box("y", "y of your point", TALL);
    const add = button("Add", "add", () => {
      if (tBox.value === "" || yBox.value === "") return;
      points.push([within(+tBox.value, REACH), within(+yBox.value, TALL)]);
      update();
    });

    const status = statusLine();
    const bands = element("div", { class: "bw-chart" });
    const weights = element("div", { class: "bw-chart" });
    const told = element("p", { class: "bw-pairs" });

    root.replaceChildren(
      element("p", { class: "bw-label bw-first-seen" }, "Click into the picture to add a point there, or drag a point."),
      bands,
      element("div", { class: "bw-controls" },
        element("div", { class: "bw-buttons" }, next, back, play, fresh),
        control("memory", "Memory of the short one, points", [0, 6, 1], memory, (v) => { memory = v; }),
        control("asked", "Asked at t", [-REACH, REACH, 0.1], asked, (v) => { asked = v; }),
        control("noise", "Noise, standard deviation", [0.1, 1.5, 0.1], noise, (v) => { noise = v; }),
        element("div", { class: "bw-field" }, element("span", {}, "Or a point of your own: t "), tBox,
          element("span", {}, " y "), yBox, add)),
      status, weights, told);

    function start(newSeed, shown = 0) {
      seed = newSeed;
      random = generator(seed);
      line = [normal(random), normal(random)];
      points = Array.from({ length: shown }, drawPoint);
      update();
    }

    // Of points that lie close together the nearest is taken.
    function nearest(event) {
      pressed = [event.clientX, event.clientY];
      const apart = [...bands.querySelectorAll("[data-point]")].map((grip) => {
        const { left, top, width, height } = grip.getBoundingClientRect();
        return Math.hypot(left + width / 2 - event.clientX, top + height / 2 - event.clientY);
      });
      const least = Math.min(...apart);
      return least <= GRIP ? apart.indexOf(least) : null;
    }
    dragging(bands, nearest, (event, held) => {
      points[held] = toPoint(event);
      update();
    });

    function drawPoint() {
      const t = tenth(within(normal(random), REACH));
      return [t, tenth(within(line[0] + line[1] * t + noise * normal(random), TALL))];
    }

    function update() {
      const exact = belief(points, noise), short = belief(recent(points, memory), noise);
      const truth = predict(exact, asked, noise), guess = predict(short, asked, noise);
      back.disabled = points.length === 0;
      handOn(back, next);
      status.textContent = describe(points, asked, noise, memory, exact, truth, guess);
      toPoint = drawBands(bands, { points, noise, memory, asked, exact, short, truth, id, seed }, (event) => {
        if (Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 6) return; // a drag, not a click
        points.push(toPoint(event));
        update();
      });
      drawWeights(weights, { points, noise, memory });
      const shown = points.map(([t, y]) => `(${number(t, 1)}, ${number(y, 1)})`);
      told.textContent = shown.length ? `Points (t, y), in order: ${shown.join(", ")}` : "No point yet.";
      Object.assign(root.dataset, {
        points: JSON.stringify(points), mean: truth[0], variance: truth[1], kl: kl(truth, guess),
        learned: learned(exact),
      });
    }

    start(seed, +(root.dataset.opens ?? 3)); // so that there is something to see
    watchWidth(root, bands, update);
  }

  // ---- the words -----------------------------------------------------------------------------

  const pair = ([mean, variance]) => `${number(mean)} \u00b1 ${number(Math.sqrt(variance))}`;

  function describe(points, asked, noise, memory, exact, truth, guess) {
    return `After ${count(points.length, "point")}, ${number(learned(exact))} bits are learned about the line. ` +
      `At t = ${number(asked, 1)} the exact prediction is ${pair(truth)} (one standard deviation), ` +
      `entropy ${number(entropy(truth[1]))} bits, of which the noise alone makes ${number(entropy(noise ** 2))}. ` +
      `A memory of ${count(memory, "point")} predicts ${pair(guess)}, KL ${number(kl(truth, guess))} bits.`;
  }

  // ---- the drawings --------------------------------------------------------------------------

  function grid(f, toX, toY, xs, ys, title, below) {
    for (const x of xs) {
      f.svg.append(element("line", { x1: toX(x), x2: toX(x), y1: f.top, y2: f.bottom, class: "bw-grid" }),
        text(toX(x), f.bottom + 17, number(x, 0)));
    }
    for (const y of ys) {
      f.svg.append(element("line", { x1: f.left, x2: f.right, y1: toY(y), y2: toY(y), class: "bw-grid" }),
        text(f.left - 7, toY(y) + 4, number(y, 0), "end"));
    }
    f.svg.append(text(4, 15, title, "start", "bw-title"), text((f.left + f.right) / 2, f.bottom + 35, below));
  }

  const PLACES = Array.from({ length: 61 }, (_, i) => -REACH + (i * 2 * REACH) / 60);

  // The predictions and the points; choose gets the click between them. Returns how a place on the
  // screen becomes a point [t, y].
  function drawBands(box, s, choose) {
    const label = `Predictions over t from ${number(-REACH, 0)} to ${REACH}, two standard deviations to both sides. ` +
      `At t = ${number(s.asked, 1)}: exact ${pair(s.truth)}. ${count(s.points.length, "point")} shown.`;
    const f = frame(box, 330, label);
    const toX = (t) => f.left + ((t + REACH) / (2 * REACH)) * (f.right - f.left);
    const toY = (y) => f.bottom - ((y + TALL) / (2 * TALL)) * (f.bottom - f.top);
    grid(f, toX, toY, [-3, -2, -1, 0, 1, 2, 3], [-4, -2, 0, 2, 4],
      "y: exact (dashed), short memory (solid)", "t");
    const curve = (knows, wide) => PLACES.map((t) => {
      const [mean, variance] = predict(knows, t, s.noise);
      return [toX(t), toY(mean + wide * 2 * Math.sqrt(variance))];
    });
    const clip = `${s.id}-clip`;
    const inside = element("g", { "clip-path": `url(#${clip})` });
    f.svg.append(element("defs", {}, element("clipPath", { id: clip },
      element("rect", { x: f.left, y: f.top, width: f.right - f.left, height: f.bottom - f.top }))), inside);
    inside.append(
      element("path", { d: `${trace([...curve(s.short, 1), ...curve(s.short, -1).reverse()])}Z`, class: "bw-shade" }),
      element("path", { d: trace(curve(s.short, 0)), class: "bw-short" }),
      element("path", { d: trace(curve(s.exact, 1)), class: "bw-exact bw-edge" }),
      element("path", { d: trace(curve(s.exact, -1)), class: "bw-exact bw-edge" }),
      element("path", { d: trace(curve(s.exact, 0)), class: "bw-exact bw-mean" }),
      element("line", { x1: toX(s.asked), x2: toX(s.asked), y1: f.top, y2: f.bottom, class: "bw-asked" }));
    trail(box, inside, ".bw-exact", s.seed);
    const kept = s.points.length - Math.min(s.memory, s.points.length);
    s.points.forEach(([t, y], i) => inside.append(element("circle", {
      cx: toX(t), cy: toY(y), r: 5, class: i < kept ? "bw-point bw-forgotten" : "bw-point",
    })));
    const area = element("rect", {
      x: f.left, y: f.top, width: f.right - f.left, height: f.bottom - f.top, class: "bw-area",
      onclick: choose,
    });
    function pointAt(event) {
      const place = area.getBoundingClientRect();
      const [right, down] = [(event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height];
      return [tenth(within((2 * right - 1) * REACH, REACH)), tenth(within((1 - 2 * down) * TALL, TALL))];
    }
    f.svg.append(area, ...s.points.map(([t, y], i) => element("circle", {
      cx: toX(t), cy: toY(y), r: GRIP, class: "bw-grip", "data-point": i,
    })));
    readout(box, PLACES.map((t) => {
      const both = [s.exact, s.short].map((knows) => predict(knows, t, s.noise)), here = s.points.filter((point) => tenth(point[0]) === tenth(t));
      return {
        x: toX(t), ys: [...both.map(([mean]) => mean), ...here.map((point) => point[1])].map(toY),
        lines: [`t ${number(t, 1)}`, `exact ${pair(both[0])}`, `short ${pair(both[1])}`, ...here.map((point) => `point ${number(point[1], 1)}`)],
      };
    }));
    return pointAt;
  }

  // The belief about intercept and slope as an ellipse, and those after fewer points, fading.
  function drawWeights(box, s) {
    const steps = s.points.map((_, i) => belief(s.points.slice(0, i), s.noise));
    const now = belief(s.points, s.noise), short = belief(recent(s.points, s.memory), s.noise);
    const height = 330;
    const label = "Belief about the line as an ellipse two standard deviations wide: intercept " +
      `${number(now.mean[0])} \u00b1 ${number(Math.sqrt(now.covariance[0][0]))}, slope ${number(now.mean[1])} \u00b1 ` +
      `${number(Math.sqrt(now.covariance[1][1]))}.`;
    const f = frame(box, height, label);
    const scale = Math.min((f.right - f.left) / 7, (f.bottom - f.top) / 5.6);
    const middle = [(f.left + f.right) / 2, (f.top + f.bottom) / 2];
    const toX = (v) => middle[0] + scale * v, toY = (v) => middle[1] - scale * v;
    const ticks = [-2, -1, 0, 1, 2];
    grid(f, toX, toY, ticks, ticks, "slope: exact (dashed), short memory (solid)", "intercept");
    const oval = ({ mean, covariance: [[p, q], [, r]] }, kind) => {
      const half = (p + r) / 2, away = Math.hypot((p - r) / 2, q);
      const [long, thin] = [half + away, Math.max(half - away, 0)].map((v) => 2 * scale * Math.sqrt(v));
      const turn = (-0.5 * Math.atan2(2 * q, p - r) * 180) / Math.PI;
      return element("ellipse", {
        cx: 0, cy: 0, rx: long, ry: thin, class: kind,
        transform: `translate(${toX(mean[0]).toFixed(2)} ${toY(mean[1]).toFixed(2)}) rotate(${turn.toFixed(3)})`,
      });
    };
    steps.slice(-3).forEach((one) => f.svg.append(oval(one, "bw-past")));
    f.svg.append(oval(short, "bw-short-oval"), oval(now, "bw-now"),
      element("circle", { cx: toX(now.mean[0]), cy: toY(now.mean[1]), r: 3.5, class: "bw-centre" }));
    readout(box, [["exact", now], ["short memory", short]].map(([words, { mean, covariance }]) => ({
      x: toX(mean[0]), ys: [toY(mean[1])], lines: [words, ...["intercept", "slope"].map((what, i) => `${what} ${pair([mean[i], covariance[i][i]])}`)],
    })), "xy");
  }

  bwExplorer.start("regression", "Regression explorer", mount, { belief, predict, entropy, kl, learned, recent });
})();
