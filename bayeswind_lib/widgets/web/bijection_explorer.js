// The bijection explorer: reveal a hidden bijection pair by pair and watch the exact posterior.
// A classic script without dependencies, so that it also runs from a folder. It mounts on every
// element .bw-explorer[data-explorer="bijection"]; its arithmetic is that of
// bayeswind_lib/tunnels/bijection.py and is compared with it by the tests.
(function () {
  "use strict";

  const {
    axes, button, chipInFocus, count, element, entropyBits: entropy, frame, generator, handOn, number, player, radios, range, readout,
    scrubber, shuffled, slider, statusLine, steps, text, trail, watchWidth,
  } = bwExplorer;

  // ---- the mathematics -----------------------------------------------------------------------

  // Exact distribution of the value at every key, given all earlier pairs: one row a key.
  // keys, values: whole numbers 0..nValues-1; the last value does not matter.
  function posterior(keys, values, nValues) {
    const shown = new Map(); // key -> value, of the pairs so far
    const used = new Array(nValues).fill(false);
    return keys.map((key, k) => {
      const row = new Array(nValues).fill(0);
      if (shown.has(key)) {
        row[shown.get(key)] = 1;
      } else {
        const free = used.filter((taken) => !taken).length;
        used.forEach((taken, value) => { if (!taken) row[value] = 1 / free; });
        shown.set(key, values[k]);
        if (k < keys.length - 1) used[values[k]] = true;
      }
      return row;
    });
  }

  // ---- one episode ---------------------------------------------------------------------------

  class Episode {
    constructor(nValues, replacement, seed) {
      Object.assign(this, { nValues, replacement, seed });
      this.random = generator(seed);
      this.map = shuffled(nValues, this.random); // nature's bijection, hidden
      this.order = shuffled(nValues, this.random);
      this.keys = [];
      this.values = [];
      this.key = this.nextKey();
    }

    get limit() { return this.replacement ? 2 * this.nValues : this.nValues; }
    get done() { return this.keys.length >= this.limit; }
    get rows() { return posterior([...this.keys, this.key], [...this.values, 0], this.nValues); }

    asked(key) { return this.keys.includes(key); }

    nextKey() {
      if (this.replacement) return Math.floor(this.random() * this.nValues);
      const next = this.order.find((key) => !this.asked(key));
      return next === undefined ? null : next;
    }

    // The value follows the key: nature's own if none is chosen.
    reveal(value = this.map[this.key]) {
      const other = this.map.indexOf(value); // a chosen value changes places with nature's
      [this.map[other], this.map[this.key]] = [this.map[this.key], this.map[other]];
      this.keys.push(this.key);
      this.values.push(value);
      this.key = this.done ? null : this.nextKey();
    }

    // So many pairs shown: nature's own are revealed, or the last ones taken back.
    go(pairs) {
      while (this.keys.length > pairs) this.back();
      while (this.keys.length < pairs && !this.done) this.reveal();
    }

    back() {
      if (!this.keys.length) return;
      this.key = this.keys.pop();
      this.values.pop();
    }
  }

  // ---- small helpers -------------------------------------------------------------------------

  const bits = (value) => `${number(value)} ${value === 1 ? "bit" : "bits"}`;

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    let episode = new Episode(10, false, 1);
    for (let k = +(root.dataset.opens ?? 3); k > 0; k--) episode.reveal(); // so that there is something to see
    let spot = null; // what has to keep the keyboard's focus after a redraw

    const size = slider(id, "size", "Keys and values, V", [2, 20], 10, (n) => start(n, episode.replacement, episode.seed));
    const modes = [["distinct keys", "distinct"], ["keys with replacement", "replacement"]];
    const mode = radios(id, "mode", "Keys asked", modes, "distinct",
      (value) => start(episode.nValues, value === "replacement", episode.seed));
    const next = button("Reveal next pair", "next", () => change(() => episode.reveal()));
    const back = button("Step back", "back", () => change(() => episode.back()));
    const play = player(root, {
      more: () => !episode.done, step: () => change(() => episode.reveal()), again: () => change(() => episode.go(0)),
    });
    const fresh = button("New episode", "new", () =>
      start(episode.nValues, episode.replacement, episode.seed + 1));

    const keyRow = element("div", { class: "bw-chips bw-ten", role: "group", "aria-labelledby": `${id}-keys` });
    const valueRow = element("div", { class: "bw-chips bw-ten", role: "group", "aria-labelledby": `${id}-values` });
    const status = statusLine();
    const bars = element("div", { class: "bw-chart" });
    const stairs = element("div", { class: "bw-chart" });
    const pairs = element("p", { class: "bw-pairs" });

    root.replaceChildren(
      element("div", { class: "bw-pair" }, bars, stairs), status,
      element("div", { class: "bw-controls" },
        element("div", { class: "bw-buttons" }, next, back, play, fresh), size.field, mode),
      element("p", { class: "bw-label", id: `${id}-keys` }, "Choose the key to ask"), keyRow,
      element("p", { class: "bw-label", id: `${id}-values` }, "Or choose the value that follows"), valueRow, pairs);

    scrubber(stairs, (pairs) => change(() => episode.go(pairs)));

    function start(nValues, replacement, seed) {
      episode = new Episode(nValues, replacement, seed);
      update();
    }

    function change(action) {
      spot = chipInFocus(root);
      action();
      update();
    }

    function update() {
      const rows = episode.key === null ? null : episode.rows;
      const row = rows && rows[rows.length - 1];
      size.output.textContent = episode.nValues;
      next.disabled = episode.done;
      back.disabled = episode.keys.length === 0;
      status.textContent = row ? describe(episode, row) : finished(episode);
      drawChips(row);
      drawBars(bars, episode, row, (value) => change(() => episode.reveal(value)));
      drawStairs(stairs, episode, rows);
      const told = episode.keys.map((key, k) => `${key} \u2192 ${episode.values[k]}`);
      pairs.textContent = told.length ? `Pairs shown (key \u2192 value): ${told.join(", ")}` : "No pair shown yet.";
      root.dataset.entropy = row ? entropy(row) : "";
      root.dataset.pairs = episode.keys.length;
      handOn(next, fresh);
      handOn(back, next);
    }

    function drawChips(row) {
      const numbers = range(episode.nValues);
      keyRow.replaceChildren(...numbers.map((key) => {
        const asked = episode.asked(key);
        const closed = episode.done || (asked && !episode.replacement);
        return chip("key", key, asked ? ", asked before" : "", closed, String(key === episode.key),
          () => change(() => { episode.key = key; }));
      }));
      valueRow.replaceChildren(...numbers.map((value) => {
        const p = row ? row[value] : 0;
        const chance = row ? (p ? `, probability ${number(p)}` : ", ruled out") : "";
        return chip("value", value, chance, !p, undefined, () => change(() => episode.reveal(value)));
      }));
      keepFocus();
    }

    function chip(kind, number, more, closed, pressed, press) {
      const node = element("button", {
        type: "button", class: "bw-chip", "data-chip": `${kind} ${number}`, disabled: closed,
        "aria-label": `${kind} ${number}${more}`, "aria-pressed": pressed, onclick: press,
      }, String(number));
      if (more === ", asked before") node.classList.add("bw-asked");
      return node;
    }

    // A chip that was pressed is drawn anew, perhaps disabled: focus goes to it or to its neighbour.
    function keepFocus() {
      if (!spot) return;
      const [kind, number] = spot.split(" ");
      const row = kind === "key" ? keyRow : valueRow;
      const open = [...row.children].filter((node) => !node.disabled);
      const after = open.find((node) => +node.textContent >= +number) || open[open.length - 1] || back;
      after.focus();
      spot = null;
    }

    update();
    watchWidth(root, bars, update);
  }

  // ---- the words -----------------------------------------------------------------------------

  function describe(episode, row) {
    const k = episode.keys.length;
    const after = `After ${count(k, "pair")}: `;
    const left = row.filter((p) => p > 0).length;
    if (episode.asked(episode.key)) {
      return `${after}key ${episode.key} was asked before, its value is ${row.indexOf(1)}. ` +
        "1 value left, entropy 0 bits.";
    }
    const share = left === 1 ? "with probability 1" : `each with probability 1/${left} = ${number(1 / left)}`;
    return `${after}key ${episode.key} is new. ${count(left, "value")} left, ${share}. ` +
      `Entropy ${left > 1 ? `log\u2082 ${left} = ` : ""}${bits(entropy(row))}.`;
  }

  function finished(episode) {
    return episode.replacement
      ? `All ${episode.keys.length} questions are asked. Start a new episode or step back.`
      : `All ${episode.nValues} keys are shown: nothing is left to ask. Start a new episode or step back.`;
  }

  // ---- the drawings --------------------------------------------------------------------------

  // On a phone both drawings and the buttons below them fit into one view.
  const highFor = (box, height) => (box.clientWidth < 300 || window.innerWidth < 500 ? height - 60 : height);

  // Bars of the posterior; the heights of an earlier drawing of the same size are moved, not redrawn.
  function drawBars(box, episode, row, choose) {
    const n = episode.nValues, height = highFor(box, 210);
    const label = row ? barWords(episode, row) : finished(episode);
    const kept = box.firstChild && box.bars === n && Math.abs(box.clientWidth - box.drawnWidth) <= 1;
    if (!kept) {
      const f = frame(box, height, label);
      const toY = (p) => f.bottom - p * (f.bottom - f.top);
      const step = (f.right - f.left) / n;
      axes(f, [0, 0.5, 1], toY, "exact posterior (probability)", "value");
      const skip = step < 18 ? 2 : 1;
      f.rects = range(n).map((value) => {
        const x = f.left + value * step;
        if (value % skip === 0) f.svg.append(text(x + step / 2, f.bottom + 17, String(value)));
        const kind = step < 22 ? "bw-bar bw-narrow" : "bw-bar";
        const rect = element("rect", { x: x + step * 0.1, width: step * 0.8, class: kind });
        const area = element("rect", {
          x, width: step, y: f.top, height: f.bottom - f.top, class: "bw-area",
          onclick: () => box.choose(value),
        });
        f.svg.append(rect, area);
        return [rect, area];
      });
      Object.assign(box, { bars: n, frame: f, toY, step });
    }
    box.choose = (value) => { if (row && row[value] > 0) choose(value); };
    box.frame.svg.setAttribute("aria-label", label);
    box.frame.rects.forEach(([rect, area], value) => {
      const p = row ? row[value] : 0;
      rect.style.y = `${box.toY(p)}px`;
      rect.style.height = `${box.frame.bottom - box.toY(p)}px`;
      rect.style.visibility = p ? "visible" : "hidden";
      area.classList.toggle("bw-open", p > 0);
    });
    trail(box, box.frame.svg, ".bw-bar", episode.seed);
    readout(box, (row || []).map((p, value) => ({
      x: box.frame.left + (value + 0.5) * box.step, ys: [box.toY(p)], lines: [`value ${value}`, p ? `probability ${number(p)}` : "ruled out"],
    })));
  }

  function barWords(episode, row) {
    const open = row.flatMap((p, value) => (p > 0 ? [value] : []));
    return `Bars of the exact posterior for key ${episode.key}: ${open.length} of ${row.length} values are ` +
      `possible, ${open.join(", ")}, each with probability ${number(row[open[0]])}.`;
  }

  // The entropy at every question so far: a staircase, or a sawtooth if keys come back.
  function drawStairs(box, episode, rows) {
    const n = episode.nValues, k = episode.keys.length;
    const all = rows || posterior(episode.keys, episode.values, n);
    const heights = all.map(entropy);
    const told = heights.map((h) => number(h)).join(", ");
    const f = frame(box, highFor(box, 210), `Entropy in bits at question 0 to ${heights.length - 1}: ${told}. ` +
      `The largest possible is ${bits(Math.log2(n))}.`);
    const top = Math.log2(n) * 1.06, last = episode.limit;
    const toY = (h) => f.bottom - (h / top) * (f.bottom - f.top);
    const toX = (i) => f.left + (i / last) * (f.right - f.left);
    const ticks = range(Math.floor(top) + 1), middle = (i) => (toX(i) + toX(i + 1)) / 2;
    box.steps = steps(middle, last + 1, k);
    axes(f, ticks, toY, "entropy (bits)", "pairs shown before the question");
    const stride = Math.max(1, Math.ceil(last / Math.max(2, (f.right - f.left) / 42)));
    for (let i = 0; i < last; i += stride) f.svg.append(text(middle(i), f.bottom + 17, String(i)));
    const stair = (hs) => hs.map((h, i) => `${i ? "L" : "M"}${toX(i)} ${toY(h)}H${toX(i + 1)}`).join("");
    if (!episode.replacement) { // with distinct keys the way down is known beforehand
      const ahead = range(last).map((i) => Math.log2(n - i));
      f.svg.append(element("path", { d: stair(ahead), class: "bw-ahead" }));
    }
    f.svg.append(element("path", { d: stair(heights), class: "bw-stairs" }));
    heights.forEach((h, i) => f.svg.append(element("circle", {
      cx: middle(i), cy: toY(h), r: i === k ? 6 : 3.5, class: i === k ? "bw-now" : "bw-past",
    })));
    if (rows) {
      const h = heights[k], right = middle(k) > f.right - 70;
      const y = Math.max(toY(h) - 10, 27), x = middle(k) + (right ? -10 : 10);
      f.svg.append(text(y < 36 && !right ? Math.max(x, 110) : x, y, bits(h), right ? "end" : "start", "bw-number")); // beside the title
    }
    readout(box, heights.map((h, i) => ({ x: middle(i), ys: [toY(h)], lines: [`after ${count(i, "pair")}`, bits(h)] })));
  }

  bwExplorer.start("bijection", "Bijection explorer", mount, { posterior, entropy, Episode });
})();
