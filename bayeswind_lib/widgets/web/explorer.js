// What all explorers share: elements, drawings on a pair of axes, repeatable random numbers, and how
// an explorer starts. A classic script, so that it also runs from a folder; it is loaded before
// theirs. A script NAME_explorer.js ends with bwExplorer.start("NAME", title, mount, its functions).
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const DRAWN = ["svg", "g", "rect", "path", "line", "circle", "ellipse", "text", "defs", "clipPath"];
  let mounted = 0;

  // ---- elements ------------------------------------------------------------------------------

  // An element of the page or of a drawing. oninput, onclick, ... are listeners; false and
  // undefined leave an attribute out.
  function element(name, attributes = {}, ...children) {
    const node = DRAWN.includes(name) ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  const button = (words, action, press) =>
    element("button", { type: "button", "data-action": action, onclick: press }, words);

  // A button that takes one step after another, as long as there are `more`; at the end it begins `again`. Whatever
  // else the reader does in the explorer stops it, and nobody hears every step told on the way.
  function player(root, { more, step, again, pace = 900 }) {
    let timer = 0;
    const play = button("Play", "play", () => (timer ? stop() : begin()));
    const hush = (how) => root.querySelector(".bw-status").setAttribute("aria-live", how);
    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
      hush("polite");
    }
    function next() {
      turn += 1;
      if (root.isConnected) step();
      if (!root.isConnected || !more()) stop();
    }
    function begin() {
      play.textContent = "Pause";
      hush("off");
      timer = setInterval(next, pace);
      if (more()) next();
      else again();
    }
    const other = (event) => { if (timer && event.target !== play) stop(); };
    for (const kind of ["pointerdown", "click", "input"]) root.addEventListener(kind, other, true);
    return play;
  }

  // A labelled slider and the number that it shows; move is called with the new value.
  function slider(id, name, words, [min, max, step], value, move) {
    const input = element("input", {
      type: "range", min, max, step, value, id: `${id}-${name}`, "data-control": name,
      oninput: () => move(+input.value),
    });
    const output = element("output", { for: `${id}-${name}` }, String(value));
    const label = element("label", { for: `${id}-${name}` }, words);
    return { field: element("div", { class: "bw-field bw-slider" }, label, input, output), input, output };
  }

  // One choice out of a few: options are [words, value], choose is called with the value.
  function radios(id, name, legend, options, chosen, choose) {
    return element("fieldset", { class: "bw-field" }, element("legend", {}, legend),
      ...options.map(([words, value]) => element("label", {}, element("input", {
        type: "radio", name: `${id}-${name}`, value: String(value), checked: value === chosen,
        onchange: () => choose(value),
      }), ` ${words}`)));
  }

  // The sentence that says in words what the drawings show, also to those who hear the page.
  const statusLine = () => element("p", { class: "bw-status", role: "status", "aria-live": "polite" });

  // Which chip has the keyboard's focus, or null: chips are drawn anew, and the focus has to come back.
  const chipInFocus = (root) => (root.contains(document.activeElement) && document.activeElement.dataset.chip) || null;

  // A disabled button takes no keys: the focus goes on to another.
  function handOn(from, to) {
    if (from.disabled && document.activeElement === from) to.focus();
  }

  // ---- numbers -------------------------------------------------------------------------------

  // A number as every figure writes it: three decimals, or two digits where it is small, so that only a zero reads as one. What lies
  // on a grid (the place of a slider, a tick) has the digits of that grid. The minus sign is one, and there is no "-0.00".
  function number(value, digits) {
    const size = Math.abs(value), measured = digits === undefined && size > 1e-12; // less is the rounding of a zero
    if (!Number.isFinite(size)) return "infinite";
    if (measured && size < 1e-6) return "<0.000001";
    const words = digits === undefined && !measured ? "0" : size.toFixed(digits ?? (size < 0.00995 ? 1 - Math.floor(Math.log10(size)) : 3));
    return (value < 0 && Number(words) ? "\u2212" : "") + words;
  }
  const count = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
  const within = (value, reach) => Math.min(reach, Math.max(-reach, value));
  const tenth = (value) => Math.round(value * 10) / 10;

  // The least of 1, 2 and 5 times a power of ten that is not below a number.
  function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-9));
  }

  // ---- drawings ------------------------------------------------------------------------------

  const text = (x, y, words, anchor = "middle", kind = "") =>
    element("text", { x, y, "text-anchor": anchor, class: kind }, words);

  // A line through points [x, y].
  const trace = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");

  // An empty drawing as wide as its box, with the room that ticks and titles need.
  function frame(box, height, label) {
    const width = Math.max(box.clientWidth, 200);
    box.drawnWidth = box.clientWidth;
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    box.replaceChildren(svg);
    return { svg, width, left: 46, right: width - 12, top: 28, bottom: height - 40 };
  }

  // Lines across at the ticks, a title above, and the name of the other axis below.
  function axes(f, ticks, toY, title, below, format = (tick) => String(tick).replace("-", "\u2212")) {
    for (const tick of ticks) {
      f.svg.append(element("line", { x1: f.left, x2: f.right, y1: toY(tick), y2: toY(tick), class: "bw-grid" }),
        text(f.left - 7, toY(tick) + 4, format(tick), "end"));
    }
    f.svg.append(text(4, 15, title, "start", "bw-title"), text((f.left + f.right) / 2, f.bottom + 35, below));
  }

  // A handle in a drawing follows the hand: take(event) says what is held, or null, and move(event, held)
  // is called as it moves. What is drawn may be drawn anew meanwhile (under a finger only by move). A finger that holds
  // something does not scroll the page: `touch-action` of a part of a drawing does not see to that.
  function dragging(box, take, move) {
    let held = null;
    box.addEventListener("pointerdown", (event) => {
      held = event.button ? null : take(event);
      if (held === null) return;
      box.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    box.addEventListener("touchstart", (event) => { if (held !== null) event.preventDefault(); }, { passive: false });
    box.addEventListener("pointermove", (event) => { if (held !== null) move(event, held); });
    for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => { held = null; });
  }

  // Of a drawing in which step i, of n, stands at toX(i): which one is `at` a place across, and where `now` is.
  const steps = (toX, n, now) => ({ at: (x) => range(n).reduce((best, i) => (Math.abs(toX(i) - x) < Math.abs(toX(best) - x) ? i : best)), now: toX(now) });

  // A curve over steps is a scrubber: a mouse takes it anywhere, a finger at the point that stands for now; a tap goes there. Its
  // drawing leaves its steps() in box.steps.
  function scrubber(box, go) {
    const across = (event) => event.clientX - box.getBoundingClientRect().left;
    const goTo = (event) => go(box.steps.at(across(event)));
    dragging(box, (event) => (event.pointerType === "mouse" || Math.abs(across(event) - box.steps.now) < 24 ? (goTo(event), true) : null), goTo);
    box.addEventListener("click", goTo);
    box.classList.add("bw-scrubber");
  }

  // The values under the pointer, in words beside the nearest of `marks`: {x, ys, lines}, which stands at x and at the heights ys;
  // `along` says by which of the two nearness is measured. Called at every drawing. A finger leaves the words there until it taps elsewhere or scrolls; nobody hears them.
  function readout(box, marks, along = "x") {
    if (!box.marks) {
      const at = (event) => {
        const { left, top } = box.getBoundingClientRect();
        box.pointer = event && [event.clientX - left, event.clientY - top];
        showReadout(box);
      };
      for (const kind of ["pointerdown", "pointermove"]) box.addEventListener(kind, at);
      box.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") at(null); });
      box.addEventListener("pointercancel", () => at(null));
      document.addEventListener("pointerdown", (event) => { if (!event.composedPath().includes(box)) at(null); }); // the target itself may be drawn anew by now
    }
    Object.assign(box, { marks, along });
    showReadout(box);
  }

  function showReadout(box) {
    const svg = box.querySelector("svg"), { pointer, along } = box;
    const away = ({ x, ys }) => Math.hypot(along === "y" ? 0 : x - pointer[0], along === "x" ? 0 : Math.min(...ys.map((y) => Math.abs(y - pointer[1]))));
    svg.querySelector(".bw-readout-box")?.remove();
    if (!pointer || !box.marks.length) return;
    const nearest = box.marks.reduce((best, mark) => (away(mark) < away(best) ? mark : best)), { x, ys, lines } = nearest, high = Math.min(...ys);
    const words = lines.map((line, i) => text(8, 17 + 15 * i, line, "start"));
    const group = element("g", { class: "bw-readout-box", "aria-hidden": "true" }, ...words);
    svg.append(group);
    const wide = Math.max(...words.map((line) => line.getBBox().width)) + 16, tall = 15 * lines.length + 9;
    group.prepend(element("rect", { width: wide, height: tall, rx: 4 }));
    const { width, height } = svg.viewBox.baseVal, inside = (place, size, all) => Math.max(1, Math.min(place, all - size - 1));
    const under = ([left, top], mark) => mark.ys.filter((y) => mark.x > left - 7 && mark.x < left + wide + 7 && y > top - 7 && y < top + tall + 7).length;
    const covered = (place) => box.marks.reduce((sum, mark) => sum + (mark === nearest ? 99 : 1) * under(place, mark), 0);
    const places = [x + 12, x - 12 - wide, x - wide / 2].flatMap((left) => [high - tall - 10, high - tall / 2, Math.max(...ys) + 10, 1, height].map((top) => [inside(left, wide, width), inside(top, tall, height)]));
    group.setAttribute("transform", `translate(${places.reduce((best, place) => (covered(place) < covered(best) ? place : best))})`);
  }

  // What is drawn between two presses of a hand, two keys or two steps of Play counts as one drawing.
  let turn = 0;
  for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, () => { turn += 1; }, true);

  // Where things were before: the marks chosen by `kinds` of the last drawings, faint and behind those of today. Another size
  // or another scene (an episode) begins anew. `into` is the drawing in the box, or the part of it that holds the marks; `scale` is
  // [the value at which bars are one unit high, where they stand], if that may change from drawing to drawing.
  function trail(box, into, kinds, scene = "", { most = 1, scale: [top, base] = [1, 0] } = {}) {
    into.querySelector(":scope > .bw-wake")?.remove();
    const key = `${into.closest("svg").getAttribute("viewBox")} ${scene}`;
    const earlier = box.trail?.key === key ? box.trail.drawings.filter((one) => one.turn !== turn) : [];
    const marks = [...into.querySelectorAll(kinds)].map((mark) => {
      const copy = mark.cloneNode();
      copy.setAttribute("class", "bw-was-here");
      return copy;
    });
    const shown = marks.map((mark) => mark.outerHTML).join("");
    if (earlier.at(-1)?.shown === shown) earlier.pop();
    const past = earlier.slice(-most);
    into.prepend(element("g", { class: "bw-wake", "aria-hidden": "true" }, ...past.map((one, i) =>
      element("g", { opacity: (i + 1) / past.length, transform: one.top !== top && `translate(0 ${base}) scale(1 ${one.top / top}) translate(0 ${-base})` },
        ...one.marks.map((mark) => mark.cloneNode())))));
    box.trail = { key, drawings: [...past, { turn, marks, shown, top }] };
  }

  // ---- arriving at a figure ------------------------------------------------------------------------

  let leave = () => {};

  // Bring a place of the page to the top of the window, and hold it there while fonts, figures and networks still
  // arrive above it, until the reader moves. gap() is how far below the top it is. Returns a function that looks again.
  function arrive(gap) {
    leave();
    const held = new AbortController(), page = document.documentElement;
    let at = scrollY, tall = 0;
    function settle() {
      if (held.signal.aborted) return;
      if (Math.abs(gap()) > 1) window.scrollTo({ top: scrollY + gap(), behavior: "instant" });
      [at, tall] = [scrollY, page.scrollHeight];
    }
    const sizes = new ResizeObserver(settle);
    leave = () => { held.abort(); sizes.disconnect(); };
    for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) window.addEventListener(kind, leave, { capture: true, passive: true, signal: held.signal });
    window.addEventListener("scroll", () => { if (Math.abs(scrollY - at) > 1 && page.scrollHeight === tall) leave(); }, { signal: held.signal });
    settle();
    sizes.observe(document.body);
    return settle;
  }

  // The same for the address that a page is opened with: not where the browser brings a reader back, nor for one who scrolls already.
  const land = (gap) => (scrollY > 4 || performance.getEntriesByType("navigation")[0]?.type === "back_forward" ? null : arrive(gap));

  // ---- chance --------------------------------------------------------------------------------

  // Random numbers from 0 to 1 that a seed repeats (mulberry32), as in widgets/hmm.py.
  function generator(seed) {
    let state = seed >>> 0;
    return function () {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  // A standard normal number from two even ones (Box and Muller).
  function normal(random) {
    const size = Math.sqrt(-2 * Math.log(1 - random()));
    return size * Math.cos(2 * Math.PI * random());
  }

  // The numbers 0 to n - 1, in order and in random order.
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  function shuffled(n, random) {
    const deck = range(n);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [deck[i], deck[j]] = [deck[j], deck[i]];
    }
    return deck;
  }

  // ---- start ---------------------------------------------------------------------------------

  // Draw again when the box of a drawing has another width.
  function watchWidth(root, box, draw) {
    new ResizeObserver(() => {
      if (Math.abs(box.clientWidth - (box.drawnWidth || 0)) > 1) draw();
    }).observe(root);
  }

  // Mount on every element .bw-explorer[data-explorer="NAME"], and show the functions as bwName; a
  // notebook mounts on one of its own. mount gets the element, an id of its own, and what a notebook
  // brings for this element alone: {predictors} for the hidden chain, {network} to fetch for those of one.
  function start(name, title, mount, functions) {
    function mountOn(root, own = {}) {
      if (root.dataset.mounted) return;
      root.dataset.mounted = "true";
      root.setAttribute("role", "group");
      root.setAttribute("aria-label", title);
      try {
        mount(root, `bw-${name}-${++mounted}`, own);
      } catch (problem) {
        root.textContent = `The explorer could not start: ${problem.message}`;
        throw problem;
      }
    }
    const mountAll = () => document.querySelectorAll(`.bw-explorer[data-explorer="${name}"]`).forEach((root) => mountOn(root));
    window[`bw${name[0].toUpperCase()}${name.slice(1)}`] = { ...functions, generator, mountAll, mountOn };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
    else mountAll();
  }

  function softmax(scores) {
    const top = Math.max(...scores), high = scores.map((s) => Math.exp(s - top));
    const sum = high.reduce((a, b) => a + b, 0);
    return high.map((h) => h / sum);
  }

  // Shannon entropy of a distribution in bits; 0 log 0 counts as 0.
  const entropyBits = (p) => p.reduce((sum, v) => (v > 0 ? sum - v * Math.log2(v) : sum), 0);

  // Divergence of the truth p from a prediction q; infinite where q rules out what can happen.
  const klBits = (p, q) => Math.max(0, p.reduce((sum, v, i) => (v > 0 ? sum + v * (Math.log2(v) - Math.log2(q[i])) : sum), 0));

  // The same of Gaussians: of one with this variance, and between two [mean, variance].
  const gaussianEntropyBits = (variance) => 0.5 * Math.log2(2 * Math.PI * Math.E * variance);
  function gaussianKlBits([mean, variance], [other, wide]) {
    const ratio = variance / wide;
    return Math.max(0, (0.5 * (ratio + (mean - other) ** 2 / wide - 1 - Math.log(ratio))) / Math.LN2);
  }

  // What is known about intercept and slope after some points [t, y]: a Gaussian. The prior is
  // standard normal; precision = I + X'X / noise^2, mean = covariance X'y / noise^2.
  function lineBelief(points, noise) {
    let a = 1, b = 0, c = 1, u = 0, v = 0; // precision [[a, b], [b, c]], moment [u, v]
    for (const [t, y] of points) {
      a += 1 / noise ** 2;
      b += t / noise ** 2;
      c += (t * t) / noise ** 2;
      u += y / noise ** 2;
      v += (t * y) / noise ** 2;
    }
    const det = a * c - b * b;
    const covariance = [[c / det, -b / det], [-b / det, a / det]];
    const mean = [(c * u - b * v) / det, (a * v - b * u) / det];
    return { mean, covariance };
  }

  // Mean and variance of the y that will be seen at t.
  function linePredict({ mean, covariance: [[p, q], [, r]] }, t, noise) {
    return [mean[0] + mean[1] * t, noise ** 2 + p + 2 * q * t + r * t * t];
  }

  window.bwExplorer = {
    arrive, axes, button, chipInFocus, count, dragging, element, entropyBits, frame, gaussianEntropyBits, gaussianKlBits, generator, handOn,
    klBits, land, lineBelief, linePredict, normal, number, player, radios, range, readout, roundUp, scrubber, shuffled, slider, softmax, start, statusLine, steps, tenth, text, trace, trail, watchWidth,
    within,
  };
})();
