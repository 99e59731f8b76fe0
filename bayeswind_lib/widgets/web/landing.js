// The landing page: the game at its top, and the pictures that one scrolls past. A classic script, so that it also
// runs from a folder. Whatever it moves stands in the page already (widgets/landing.py): here it comes alive.
// Episodes are those of playground_tasks.js, exact answers those of oracles.js, networks run in network.js.
(function () {
  "use strict";

  const { axes, count, element, entropyBits, frame, klBits, number, range, readout, text, watchWidth } = bwExplorer;
  const { Bijection, FILES, MOVES, mean, moved, wasted } = bwTasks;
  const NETWORKS = { game: FILES.bijection.game.file, chain: FILES.hmm.main.file };
  const FOUND = 3; // rounds after which one line says what there was to find
  const SPARE = 0.03; // of a bet, on values that are taken: less, and the reader has found out
  const START = 5; // pixels of a finger's way before it moves a bar: until then the page may scroll
  const TURN = 700; // milliseconds of a change that is shown as a movement
  const BEAT = 260; // milliseconds from sign to sign
  const NAMES = ["A", "B", "C"], SIGNS = ["a", "b", "c"];
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const one = (root, what) => root.querySelector(what);
  const all = (root, what) => [...root.querySelectorAll(what)];

  // ---- the game --------------------------------------------------------------------------------

  class Game {
    constructor(root) {
      const { seed, shown, floor } = root.dataset;
      Object.assign(this, { root, opens: +shown, floor: +floor, network: null, problem: "", listeners: [] });
      this.parts = {
        question: one(root, ".bw-question"), go: one(root, ".bw-go"), even: one(root, ".bw-even"), fresh: one(root, ".bw-new"),
        threads: one(root, ".bw-threads"), keys: all(root, ".bw-keys li"), bets: all(root, ".bw-bet"), say: one(root, ".bw-say"),
        scores: one(root, ".bw-scores"), dots: all(root, ".bw-dots i"), count: one(root, ".bw-count"),
      };
      this.parts.go.addEventListener("click", () => this.go());
      this.parts.even.addEventListener("click", () => { this.level(); this.draw(); });
      this.parts.fresh.addEventListener("click", () => this.begin(this.play.seed + 1));
      this.parts.bets.forEach((row, value) => this.betsWith(row, value));
      this.begin(+seed);
      this.fetch();
    }

    get V() { return this.play.V; }
    get exact() { return this.play.exactAt(this.play.shown); }
    get over() { return !this.play.canNext && this.revealed; }

    // A game from its seed: the same map, the same keys.
    begin(seed) {
      this.play = new Bijection(this.parts.bets.length, seed);
      range(this.opens).forEach(() => this.play.next());
      Object.assign(this, { rounds: [], revealed: false });
      this.level();
      this.draw();
      this.listeners.forEach((told) => told());
    }

    level() { this.mine = range(this.V).map(() => 1 / this.V); }

    // The network comes while the reader bets; rounds that were played before it came are scored when it is here.
    async fetch() {
      try {
        this.network = await bwNetwork.fetch(NETWORKS.game);
        this.problem = "";
      } catch (problem) {
        this.problem = problem.message;
      }
      this.rounds.forEach((round) => this.askNetwork(round));
      this.draw();
      this.listeners.forEach((told) => told());
    }

    askNetwork(round) {
      if (!this.network) return;
      round.said = [...this.network.run(round.inputs).probabilities.at(-1)];
      round.network = klBits(round.exact, round.said);
    }

    go() {
      if (this.over) this.begin(this.play.seed + 1);
      else if (this.revealed) this.next();
      else this.reveal();
    }

    reveal() {
      const { exact, mine, play } = this;
      const round = { inputs: play.inputs, exact, mine: [...mine], you: wasted(exact, mine, this.floor), at: play.shown, value: play.map[play.key] };
      round.floored = exact.some((p, v) => p > 0 && mine[v] < this.floor);
      round.spare = mine.reduce((sum, q, v) => (exact[v] > 0 ? sum : sum + q), 0);
      this.askNetwork(round);
      if (!this.network && this.problem) this.fetch(); // the connection may be back
      this.rounds.push(round);
      this.revealed = true;
      this.draw();
      this.listeners.forEach((told) => told());
    }

    next() {
      this.play.next();
      this.revealed = false;
      this.draw();
    }

    // ---- moving the bars -------------------------------------------------------------------------

    // A value's row is a slider. A mouse sets it where it is pressed; a finger may also mean to scroll, so it sets
    // the bar when it has moved sideways, or when it leaves without having moved.
    betsWith(row, value) {
      const track = one(row, ".bw-track");
      let held = null;
      row.setAttribute("role", "slider");
      row.tabIndex = 0;
      for (const [name, now] of [["aria-valuemin", 0], ["aria-valuemax", 100], ["aria-orientation", "horizontal"]]) row.setAttribute(name, now);
      const place = (event) => {
        const { left, width } = track.getBoundingClientRect();
        this.bet(value, (event.clientX - left) / width, held.before);
      };
      row.addEventListener("pointerdown", (event) => {
        if (event.button || this.revealed) return;
        held = { before: [...this.mine], x: event.clientX, moves: event.pointerType !== "touch" };
        row.setPointerCapture(event.pointerId);
        this.root.classList.add("bw-dragging");
        if (held.moves) place(event);
      });
      row.addEventListener("pointermove", (event) => {
        if (!held) return;
        held.moves = held.moves || Math.abs(event.clientX - held.x) > START;
        if (held.moves) place(event);
      });
      row.addEventListener("pointerup", (event) => {
        if (held) place(event);
        held = this.drop();
      });
      row.addEventListener("pointercancel", () => { // the page scrolls instead
        if (held) this.mine = held.before;
        held = this.drop();
        this.draw();
      });
      row.addEventListener("keydown", (event) => {
        if (!(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey || this.revealed) return;
        event.preventDefault();
        this.bet(value, this.mine[value] + MOVES[event.key] / 100, this.mine);
      });
    }

    drop() {
      this.root.classList.remove("bw-dragging");
      return null;
    }

    bet(value, p, before) {
      this.mine = moved(before, value, p);
      this.draw();
    }

    // ---- drawing ---------------------------------------------------------------------------------

    draw() {
      const { parts, play, revealed } = this, round = revealed ? this.rounds.at(-1) : null;
      parts.question.innerHTML = round ? `Key <b>${play.key}</b> goes to <b>${round.value}</b>` : `Which value follows key <b>${play.key}</b>?`;
      parts.go.textContent = this.over ? "Play again" : revealed ? "Next key" : "Reveal";
      parts.go.disabled = parts.fresh.disabled = false;
      parts.even.disabled = revealed;
      this.root.classList.toggle("bw-revealed", revealed);
      this.drawBoard(round);
      this.drawScores();
      parts.say.textContent = this.words();
      const here = play.shown + (revealed ? 1 : 0);
      parts.dots.forEach((dot, k) => { dot.className = k < here ? "bw-done" : k === here ? "bw-here" : ""; });
      parts.count.textContent = `${here} of ${this.V} pairs shown`;
      Object.assign(this.root.dataset, { seed: play.seed, shown: play.shown, rounds: this.rounds.length, network: this.network ? "here" : this.problem ? "failed" : "coming" });
    }

    drawBoard(round) {
      const { parts, play, mine } = this, pairs = new Map(play.pairs), taken = new Set(pairs.values());
      parts.keys.forEach((node, key) => { node.className = key === play.key ? "bw-asked" : pairs.has(key) ? "bw-shown" : ""; });
      parts.bets.forEach((row, value) => {
        const share = Math.round(100 * mine[value]);
        row.style.setProperty("--mine", mine[value]);
        row.style.setProperty("--net", round && round.said ? round.said[value] : 0);
        row.style.setProperty("--truth", round ? round.exact[value] : 0);
        row.classList.toggle("bw-taken", taken.has(value));
        row.classList.toggle("bw-right", Boolean(round) && round.value === value);
        one(row, ".bw-share").textContent = `${share}%`;
        row.setAttribute("aria-label", `Value ${value}${taken.has(value) ? ", follows another key" : ""}`);
        row.setAttribute("aria-valuenow", share);
        row.setAttribute("aria-valuetext", `${share} percent`);
        row.toggleAttribute("aria-disabled", Boolean(round));
        if (round) row.setAttribute("aria-disabled", "true");
      });
      const known = [...pairs, ...(round ? [[play.key, round.value]] : [])];
      const open = round ? [] : mine.map((p, value) => [value, p]);
      parts.threads.replaceChildren(
        ...open.map(([value, p]) => element("path", { class: "bw-maybe", style: `--p:${p}`, d: thread(play.key, value) })),
        ...known.map(([key, value]) => element("path", { class: round && key === play.key ? "bw-known bw-fresh" : "bw-known", d: thread(key, value) })));
      const told = known.map(([key, value]) => `key ${key} goes to value ${value}`).join(", ");
      parts.threads.setAttribute("aria-label", `Shown so far: ${told}.${round ? "" : ` Asked now: key ${play.key}.`}`);
    }

    drawScores() {
      const { rounds } = this, last = rounds.at(-1);
      this.parts.scores.hidden = !last;
      if (!last) return;
      const rows = { you: rounds.map((r) => r.you), network: rounds.map((r) => r.network).filter((v) => v !== undefined), exact: rounds.map(() => 0) };
      for (const [who, values] of Object.entries(rows)) {
        const now = values.length ? number(values.at(-1)) : "\u2026", average = values.length ? `average ${number(mean(values))}` : this.problem ? "not here" : "arriving";
        one(this.parts.scores, `[data-now=${who}]`).textContent = now;
        one(this.parts.scores, `[data-mean=${who}]`).textContent = average;
        this.root.dataset[`${who}Bits`] = values.length ? values.at(-1) : "";
      }
    }

    // One line: what to do, what came out, and after some rounds what there was to find.
    words() {
      const { rounds } = this, last = rounds.at(-1);
      if (this.problem && last) return this.problem;
      if (!last) return "Drag the bars: how likely is each value? Then press Reveal.";
      if (!this.revealed && rounds.length !== FOUND) return "Bits wasted in the last round. Where do you bet now?";
      if (this.over) return `You wasted ${number(mean(rounds.map((r) => r.you)))} bits a round. How does the network do it? Read on.`;
      if (rounds.length >= FOUND) {
        if (last.spare < SPARE) return "You found it: a value that is taken never comes back. So did the network.";
        return "Look at the threads: a value that is taken never comes back. Pull its bar to zero.";
      }
      if (last.floored) return "Bits wasted: you gave nothing to a value that was still possible. It counts as 1 in 1,000.";
      return "Bits wasted: how much worse each bet was than the best possible one.";
    }
  }

  // As in widgets/landing.py.
  const thread = (key, value) => `M0 ${key + 0.5}C45 ${key + 0.5} 55 ${value + 0.5} 100 ${value + 0.5}`;

  // ---- movement --------------------------------------------------------------------------------

  // A list of numbers that goes over into another, frame by frame, or at once where movement is not wanted.
  class Turning {
    constructor(values, draw) { Object.assign(this, { values, draw, frame: 0 }); }

    to(goal) {
      cancelAnimationFrame(this.frame);
      const from = this.values, start = performance.now();
      if (calm.matches || from.length !== goal.length) {
        this.values = goal;
        return this.draw();
      }
      const step = (time) => {
        const t = Math.min(1, Math.max(0, (time - start) / TURN)), ease = t * t * (3 - 2 * t);
        this.values = goal.map((v, i) => from[i] + ease * (v - from[i]));
        this.draw();
        if (t < 1) this.frame = requestAnimationFrame(step);
      };
      this.frame = requestAnimationFrame(step);
    }
  }

  const legend = (...entries) => element("p", { class: "bw-legend" }, ...entries.map(([kind, words]) => element("span", { class: kind }, words)));

  // ---- the staircase ---------------------------------------------------------------------------

  class Stairs {
    constructor(figure, game) {
      Object.assign(this, { figure, game, attention: true, network: false });
      this.box = element("div", { class: "bw-picture" });
      this.button = element("button", { type: "button", "aria-pressed": "true", onclick: () => this.show({ attention: !this.attention, network: true }) }, "Attention is on");
      this.controls = element("div", { class: "bw-picture-controls" }, this.button);
      figure.replaceChildren(legend(["bw-l-exact", "exact"], ["bw-l-net", "the network"], ["bw-l-you", "your bets"]), this.box, this.controls);
      this.line = new Turning([], () => this.draw());
      game.listeners.push(() => this.show({}));
      this.show({});
    }

    get off() { return new Set(this.attention ? [] : this.heads); }

    get heads() {
      const { n_layers: L, n_heads: H } = this.game.network.config;
      return range(L).flatMap((l) => range(H).map((h) => `${l}.${h}`));
    }

    // Every question of this game, up to the last: what was hidden stays hidden, only how sure one may be is shown.
    whole() {
      const { V, seed } = this.game.play, play = new Bijection(V, seed);
      while (play.canNext) play.next();
      return play;
    }

    show({ attention = this.attention, network = this.network }) {
      Object.assign(this, { attention, network });
      const play = this.whole();
      this.exact = play.exact().map((row) => entropyBits(row));
      this.button.textContent = `Attention is ${attention ? "on" : "off"}`;
      this.button.setAttribute("aria-pressed", String(attention));
      this.button.disabled = !this.game.network;
      this.figure.classList.toggle("bw-off", !attention);
      if (!this.game.network || !network) {
        this.line.values = this.exact;
        return this.draw();
      }
      this.line.to(this.game.network.run(play.inputs, { off: this.off }).probabilities.map((row) => entropyBits([...row])));
    }

    draw() {
      const { exact, game } = this, n = exact.length, drawn = this.network && game.network ? this.line.values : null;
      const f = frame(this.box, heightOf(this.box), this.words(drawn));
      const toY = (bitsHere) => f.bottom - (bitsHere / 3.6) * (f.bottom - f.top), toX = (k) => f.left + (k / n) * (f.right - f.left);
      axes(f, [0, 1, 2, 3], toY, "uncertainty (bits)", "pairs shown");
      range(n).forEach((k) => f.svg.append(text((toX(k) + toX(k + 1)) / 2, f.bottom + 17, String(k))));
      const stair = (values) => values.map((v, k) => `${k ? "L" : "M"}${toX(k)} ${toY(v)}H${toX(k + 1)}`).join("");
      if (drawn) f.svg.append(element("path", { class: "bw-s-net", d: stair(drawn) }));
      f.svg.append(element("path", { class: "bw-s-exact", d: stair(exact) }));
      for (const round of game.rounds) {
        f.svg.append(element("circle", { class: "bw-s-you", r: 5, cx: (toX(round.at) + toX(round.at + 1)) / 2, cy: toY(entropyBits(round.mine)) }));
      }
      readout(this.box, exact.map((bitsHere, k) => {
        const shown = [["exact", bitsHere], ...(drawn ? [["network", drawn[k]]] : []), ...game.rounds.filter((round) => round.at === k).map((round) => ["your bet", entropyBits(round.mine)])];
        return { x: (toX(k) + toX(k + 1)) / 2, ys: shown.map(([, v]) => toY(v)), lines: [`after ${count(k, "pair")}`, ...shown.map(([who, v]) => `${who} ${number(v)}`)] };
      }));
      Object.assign(this.figure.dataset, { exact: JSON.stringify(exact), network: JSON.stringify(drawn) });
    }

    words(drawn) {
      const say = (values) => values.map((v) => number(v)).join(", ");
      return `Uncertainty in bits before each pair. Exact: ${say(this.exact)}.` +
        (drawn ? ` The network, attention ${this.attention ? "on" : "off"}: ${say(drawn)}.` : "");
    }
  }

  const heightOf = (box) => Math.max(170, box.clientHeight || 300);

  // ---- the hidden chain ------------------------------------------------------------------------

  class Chain {
    constructor(figure, chain) {
      Object.assign(this, { figure, ...chain, shown: chain.symbols.length, network: null, withNetwork: false, timer: 0 });
      const T = chain.transition.map((row) => row.map((cent) => cent / 100)), E = chain.emission.map((row) => row.map((cent) => cent / 100));
      this.exact = bwOracles.hmmFilter(T, E, T.map(() => 1 / T.length), chain.symbols).map((row) => [...row]);
      this.inputs = bwOracles.hmmInputs(T, E, chain.symbols);
      this.box = element("div", { class: "bw-picture" });
      this.slider = element("input", { type: "range", min: 1, max: chain.symbols.length, value: this.shown, "aria-label": "Signs seen", oninput: () => { this.halt(); this.at(+this.slider.value); } });
      this.controls = element("div", { class: "bw-picture-controls" }, element("span", { "aria-hidden": "true" }, "signs seen"), this.slider);
      figure.replaceChildren(legend(["bw-l-exact", "exact"], ["bw-l-net", "the network"], ["bw-l-true", "the truth"]), this.box, this.controls);
      this.draw();
    }

    async fetch() {
      if (this.network || this.asked) return;
      this.asked = true;
      try {
        this.network = await bwNetwork.fetch(NETWORKS.chain);
        this.said = this.network.run(this.inputs).probabilities.map((row) => [...row]);
        this.draw();
      } catch {
        this.asked = false; // asked again at the next step; the exact belief is drawn meanwhile
      }
    }

    // Play from the first sign to the last, or show all of it where movement is not wanted.
    start(withNetwork) {
      this.withNetwork = withNetwork;
      this.fetch();
      this.halt();
      if (calm.matches) return this.at(this.symbols.length);
      this.at(1);
      this.timer = setInterval(() => (this.shown < this.symbols.length ? this.at(this.shown + 1) : this.halt()), BEAT);
    }

    halt() { clearInterval(this.timer); }

    at(shown) {
      this.shown = shown;
      this.slider.value = shown;
      this.draw();
    }

    draw() {
      const n = this.symbols.length, S = this.exact[0].length, drawn = this.withNetwork && this.said;
      const f = frame(this.box, heightOf(this.box), this.words(drawn));
      f.bottom += 14; // no name of the axis: the slider below has it
      const high = (f.bottom - f.top) / S, toX = (k) => f.left + (k / n) * (f.right - f.left);
      const toY = (s, p) => f.top + (s + 1) * high - 3 - p * (high - 12);
      f.svg.append(text(4, 15, "how likely each hidden state is", "start", "bw-title"));
      for (let k = 0; k < this.shown; k++) {
        const s = this.states[k];
        f.svg.append(element("rect", { class: "bw-s-true", x: toX(k), y: toY(s, 1), width: toX(k + 1) - toX(k) + 0.5, height: high - 12 }));
      }
      range(S).forEach((s) => {
        const path = (rows) => rows.slice(0, this.shown).map((row, k) => `${k ? "L" : "M"}${toX(k)} ${toY(s, row[s])}H${toX(k + 1)}`).join("");
        f.svg.append(element("line", { class: "bw-grid", x1: f.left, x2: f.right, y1: toY(s, 0), y2: toY(s, 0) }), text(f.left - 10, toY(s, 0.4), NAMES[s], "end", "bw-name"));
        if (drawn) f.svg.append(element("path", { class: "bw-s-net", d: path(this.said) }));
        f.svg.append(element("path", { class: "bw-s-exact", d: path(this.exact) }));
      });
      this.symbols.forEach((sign, k) => {
        if (k < this.shown) f.svg.append(text((toX(k) + toX(k + 1)) / 2, f.bottom + 18, SIGNS[sign], "middle", k === this.shown - 1 ? "bw-now" : ""));
      });
      readout(this.box, range(this.shown).map((k) => ({
        x: (toX(k) + toX(k + 1)) / 2, ys: range(S).flatMap((s) => [this.exact, ...(drawn ? [this.said] : [])].map((rows) => toY(s, rows[k][s]))),
        lines: [`after ${count(k + 1, "sign")}`, ...range(S).map((s) => `${NAMES[s]} ${number(this.exact[k][s])}${drawn ? `, network ${number(this.said[k][s])}` : ""}`)],
      })));
      Object.assign(this.figure.dataset, { shown: this.shown, network: drawn ? "here" : "", exact: JSON.stringify(this.exact), said: JSON.stringify(this.said ?? null) });
    }

    words(drawn) {
      const say = (row) => row.map((p, s) => `${NAMES[s]} ${Math.round(100 * p)} %`).join(", "), k = this.shown - 1;
      return `After ${this.shown} signs, the last ${SIGNS[this.symbols[k]]}, the exact belief is ${say(this.exact[k])}.` + (drawn ? ` The network's: ${say(this.said[k])}.` : "");
    }
  }

  // ---- scrolling -------------------------------------------------------------------------------

  // The step that is being read says what the picture beside it shows.
  function tell(section, game) {
    const scenes = one(section, ".bw-scenes"), figures = all(scenes, "figure"), steps = all(section, ".bw-step");
    const stairs = new Stairs(figures[0], game), chain = new Chain(figures[1], JSON.parse(scenes.dataset.chain));
    const plan = [
      () => stairs.show({ attention: true, network: false }), () => stairs.show({ attention: true, network: true }),
      () => stairs.show({ attention: false, network: true }), () => chain.start(false), () => chain.start(true),
    ];
    let now = -1;
    const go = (step) => {
      if (step === now) return;
      now = step;
      figures.forEach((figure, i) => figure.classList.toggle("bw-scene-now", i === (step < 3 ? 0 : 1)));
      steps.forEach((node, i) => node.classList.toggle("bw-step-now", i === step));
      chain.halt();
      plan[step]();
      section.dataset.step = step;
    };
    section.classList.add("bw-alive");
    go(0);
    const reading = new IntersectionObserver((seen) => seen.forEach(({ target, isIntersecting }) => isIntersecting && go(steps.indexOf(target))),
      { rootMargin: "-55% 0px -35% 0px" });
    steps.forEach((step) => reading.observe(step));
    const near = new IntersectionObserver((seen) => { if (seen.some((entry) => entry.isIntersecting)) { chain.fetch(); near.disconnect(); } }, { rootMargin: "600px" });
    near.observe(steps[1]);
    watchWidth(scenes, stairs.box, () => stairs.draw());
    watchWidth(scenes, chain.box, () => chain.draw());
  }

  // ---- claims in pictures that answer (ledger/pictures.py) ----------------------------------------

  const EPISODES = 60; // that the page's network is measured on, at each press

  // How far the network's uncertainty is off, in bits: the mean over the questions of fresh episodes.
  function measured(network, V, seed) {
    const off = range(EPISODES).map((i) => {
      const play = new Bijection(V, seed + i);
      while (play.canNext) play.next();
      return mean(network.run(play.inputs).probabilities.map((said, k) => Math.abs(entropyBits([...said]) - entropyBits(play.exactAt(k)))));
    });
    return mean(off);
  }

  // A mark of its own in a picture, over what is drawn there.
  const mark = (card, attributes) => one(card, "svg").appendChild(element("circle", { r: 6, class: "bw-p-now", ...attributes }));

  const LIVE = {
    measure(card, { zero, decade, y }, game, say) {
      let seed = 1000, dot = null;
      const words = element("text", { x: 66, y: y + 4, "text-anchor": "end" }, "this page");
      return element("button", { type: "button", onclick: () => {
        if (!game.network) return say(game.problem || "The network is still on its way.");
        const error = measured(game.network, game.V, seed);
        seed += EPISODES;
        if (!dot) one(card, "svg").append(words);
        dot = dot || mark(card, { cy: y });
        dot.setAttribute("cx", zero + decade * Math.log10(error));
        say(`Just now, in ${EPISODES} episodes: the small network of this page is off by ${number(error)} bits.`);
      } }, "Measure the game's network");
    },

    updates(card, { most, long, plain, faster }, game, say) {
      const bars = all(card, "rect.bw-p-here"), ends = [plain, faster], counts = bars.map((bar) => bar.nextElementSibling);
      const input = element("input", { type: "range", min: 0, max: most, step: 10, value: most, "aria-label": "Updates so far", oninput: () => {
        const now = +input.value;
        bars.forEach((bar, i) => {
          bar.setAttribute("width", long * Math.min(now, ends[i]) / most);
          counts[i].style.visibility = now < ends[i] ? "hidden" : "";
        });
        say(`After ${now} updates: the faster head ${now < faster ? "is still learning" : "is there"}, the plain one ${now < plain ? "is still learning" : "is there"}.`);
      } });
      say("All updates are shown: drag back.");
      return input;
    },

    steps(card, { errors, from, to, trained }, game, say) {
      const last = errors.at(-1)[1], dot = mark(card, {});
      const input = element("input", { type: "range", min: 1, max: last, step: 1, value: trained, "aria-label": "Step of the sequence", oninput: () => {
        const now = +input.value, [, , error, y] = errors.find(([a, b]) => now >= a && now <= b);
        dot.setAttribute("cx", from + (to - from) * (now - 0.5) / last);
        dot.setAttribute("cy", y);
        say(now <= trained ? `Step ${now}, as in training: ${number(error)} bits off.` : `Step ${now}: ${number(error)} bits off, ${(error / errors[0][2]).toFixed(0)} times the error of the first ${trained}.`);
      } });
      input.dispatchEvent(new Event("input"));
      return input;
    },

    abilities(card, { rivals, names, x, y }, game, say) {
      const rings = Object.keys(rivals).map((_, i) => mark(card, { cy: y + 44 * i, r: 11, class: "bw-p-ring" }));
      return element("div", { role: "group", "aria-label": "Ability" }, ...names.map((name, k) => element("button", { type: "button", onclick: () => {
        rings.forEach((ring) => ring.setAttribute("cx", x + 24 * k));
        say(`To ${name}: ${Object.entries(rivals).map(([rival, found]) => `${rival} learned it in ${found[k].realised} of ${found[k].n}`).join(", ")} trainings.`);
      } }, name)));
    },
  };

  // What a picture can be asked stands below it, with one line for the answer.
  function enliven(card, game) {
    const live = JSON.parse(card.dataset.live), told = element("output", { class: "bw-reply" });
    const control = LIVE[live.kind](card, live, game, (words) => { told.textContent = words; });
    one(card, "svg").after(element("div", { class: "bw-ask" }, control, told));
  }

  // ---- the map and the header --------------------------------------------------------------------

  // A card on the map shows what it builds on and what builds on it.
  function light(map) {
    const cards = all(map, ".bw-chapter"), needs = (card) => card.dataset.needs.split(" ").filter(Boolean), chapter = (card) => card.id.slice(4);
    const show = (chosen) => {
      map.classList.toggle("bw-lit", Boolean(chosen));
      for (const card of cards) {
        card.classList.toggle("bw-chosen", card === chosen);
        card.classList.toggle("bw-before", Boolean(chosen) && needs(chosen).includes(chapter(card)));
        card.classList.toggle("bw-after", Boolean(chosen) && needs(card).includes(chapter(chosen)));
      }
    };
    for (const card of cards) {
      card.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") show(card); });
      card.addEventListener("focusin", () => show(card));
      for (const leave of ["pointerleave", "focusout"]) card.addEventListener(leave, () => show(null));
    }
  }

  // Light, dark, or as the reader's machine has it: kept where the book's other pages look for it.
  function colours(button) {
    const page = document.documentElement.dataset, dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = (mode) => {
      page.mode = mode;
      page.theme = mode === "auto" ? (dark.matches ? "dark" : "light") : mode;
      button.setAttribute("aria-label", `Colours: ${mode === "auto" ? "as the system" : mode}. Change`);
    };
    dark.addEventListener("change", () => apply(page.mode));
    button.addEventListener("click", () => {
      const mode = page.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("mode", mode);
        localStorage.setItem("theme", mode);
      } catch { /* a browser may keep nothing */ }
      apply(mode);
    });
    apply(page.mode || "auto");
  }

  function start() {
    const root = one(document, ".bw-game");
    if (!root) return;
    const game = new Game(root);
    root.game = game;
    const story = one(document, ".bw-scenes");
    all(document, ".bw-theme").forEach(colours);
    setTimeout(() => { // what lies below the game can wait for its first answer
      if (story) tell(story.closest("section"), game);
      all(document, ".bw-claim").forEach((card) => enliven(card, game));
      all(document, ".bw-map").forEach(light);
    }, 200);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
