// The machine: a trained network drawn whole, live, beside the exact posterior. This file holds what is
// shown (the episode, the network, what is cut, what flows), its controls, and links to states of it:
// an address with #machine?task=bijection&pairs=7&off=0.3,1.m&flow=belief sets the first machine of its
// page, #machine-2?... the second; data-task, data-pairs, ... of the element say how it opens.
(function () {
  "use strict";

  const { arrive, button, count, element, entropyBits, handOn, klBits, land, number, radios, range, scrubber, slider, statusLine, watchWidth } = bwExplorer;
  const { Bijection, Chain } = bwTasks;
  const FILES = {
    "bijection": {
      "transformer": {"file": "bijection-transformer-classroom-seed0"},
      "lstm": {"file": "bijection-lstm-classroom-seed0"},
      "mamba": {"file": "bijection-mamba-classroom-seed0"}
    },
    "returning": {
      "transformer": {"file": "bijection-transformer-classroom-replacement-convolution-seed0"}
    },
    "hmm": {
      "transformer": {"file": "hmm-transformer-classroom-seed0"},
      "lstm": {"file": "hmm-lstm-classroom-seed0"},
      "mamba": {"file": "hmm-mamba-classroom-seed0"}
    }
  };
  const NAMES = { bijection: "Bijection", returning: "Returning keys", hmm: "Hidden chain", transformer: "Transformer", lstm: "LSTM", mamba: "Mamba" };
  const FLOWS = [["attention", "attention"], ["contribution", "contribution"], ["belief", "belief"]];
  const START = { task: "bijection", net: "transformer", pairs: 5, seed: 3, off: "", flow: "attention", about: "true", focus: "" };
  const PACE = 1300; // milliseconds that a step of Play stays after its pulses have arrived
  const CALM = 900; // and without pulses
  const NEARER = 2, FARTHER = 1 / 1.5; // what a press of a button does to the size
  const HASH = /^#(machine(?:-\d+)?)?\??((?:\w+=[^&]*)(?:&\w+=[^&]*)*)$/;

  // ---- states as words ---------------------------------------------------------------------------

  // The state that an address names: [id of a machine, {task, pairs, ...}], or null.
  function fromHash(hash) {
    const found = decodeURIComponent(hash).match(HASH);
    if (!found || !(found[1] || /(^|&)(task|pairs|off|flow)=/.test(found[2]))) return null;
    return [found[1] || "machine", Object.fromEntries(found[2].split("&").map((pair) => pair.split("=")))];
  }

  // A state with only what differs from how a machine opens by itself.
  function toHash(id, state) {
    const said = { ...state, off: [...state.off].sort().join(",") };
    return `#${id}?${Object.keys(START).filter((key) => key === "task" || key === "pairs" || String(said[key]) !== String(START[key])).map((key) => `${key}=${said[key]}`).join("&")}`;
  }

  const knows = (list, word, other) => (list.includes(word) ? word : other);

  // A sentence on what a link asks for and no machine draws.
  function strange({ task = START.task, net = START.net }) {
    const word = !Object.hasOwn(FILES, task) ? task : !Object.hasOwn(FILES[task], net) ? net : "";
    return word && `The link asks for \u201c${word}\u201d, which is not drawn here. `;
  }

  // What is asked for, as far as it exists.
  function cleaned(wanted) {
    const task = knows(Object.keys(FILES), wanted.task, "bijection");
    return {
      task, net: knows(Object.keys(FILES[task]), wanted.net, "transformer"),
      pairs: Math.max(0, Math.round(+wanted.pairs) || 0), seed: Math.max(0, Math.round(+wanted.seed) || 0),
      off: new Set(String(wanted.off).split(",").filter((name) => /^(\d+(\.(\d+|m))?|t\d+)$/.test(name))),
      flow: knows(FLOWS.map(([word]) => word), wanted.flow, "attention"),
      about: /^\d+$/.test(wanted.about) || wanted.about === "excluded" ? String(wanted.about) : "true", focus: String(wanted.focus || ""),
    };
  }

  // ---- what is shown -----------------------------------------------------------------------------

  // An episode with some pairs (or symbols) seen.
  function episode({ task, seed, pairs }, V) {
    const play = task === "hmm" ? new Chain(seed) : new Bijection(V, seed, task === "returning");
    while (play.shown < pairs && play.canNext) play.next();
    return play;
  }

  // The parts that can be cut.
  function partsOf({ architecture, config: { n_layers: L, n_heads: H } }) {
    if (architecture !== "transformer") return range(L).map(String);
    return range(L).flatMap((l) => [...range(H).map((h) => `${l}.${h}`), `${l}.m`]);
  }

  const layerParts = (network, l) => partsOf(network).filter((name) => name.split(".")[0] === String(l));

  // Weights of the logits that contributions are about, against the mean of all; the outcomes they are.
  function question(about, play, exact) {
    const Y = exact.length, order = range(Y).sort((a, b) => exact[b] - exact[a]), hmm = play.kind === "hmm";
    const right = hmm ? order[0] : play.map[play.key], out = hmm ? [order[Y - 1]] : range(Y).filter((y) => exact[y] === 0);
    const chosen = about === "excluded" ? out : [about === "true" ? right : Math.min(+about, Y - 1)];
    const weights = Float64Array.from({ length: Y }, (_, y) => (chosen.includes(y) ? 1 / chosen.length : 0) - (chosen.length ? 1 / Y : 0));
    const one = hmm ? `state ${chosen[0]}` : `value ${chosen[0]}`;
    const words = about === "excluded" ? (hmm ? `the least likely state, ${chosen[0]}` : "the values ruled out")
      : about === "true" ? (hmm ? `the likeliest state, ${chosen[0]}` : `the true value, ${chosen[0]}`) : one;
    return { chosen, weights, words };
  }

  // All numbers of a state: the network taken apart, with its cuts and without, beside the truth.
  function measured(network, play, { off, about }) {
    const { inputs } = play, exacts = play.exact(), exact = exacts[exacts.length - 1];
    const seen = bwAnatomy.look(network, inputs, off), whole = off.size ? bwAnatomy.look(network, inputs) : null;
    const asked = question(about, play, exact);
    const added = asked.chosen.length ? bwAnatomy.contributions(seen, asked.weights) : null;
    const measure = (p) => ({ entropy: entropyBits(p), kl: klBits(exact, p) });
    return {
      seen, whole, exact, exacts, asked, added, now: measure(seen.probabilities), before: whole && measure(whole.probabilities), truth: entropyBits(exact),
      lens: seen.lens.map(({ probabilities: p }) => ({ p, kl: klBits(exact, p) })),
    };
  }

  // Entropy of the network's answer at every step so far.
  function courseOf(network, play, off) {
    const skips = [...off].some((name) => name.startsWith("t"));
    if (!skips) return network.run(play.inputs, { off }).probabilities.map(entropyBits);
    const first = play.kind === "hmm" ? play.inputs.length - play.shown : 0, stride = play.kind === "hmm" ? 1 : 2;
    return range(play.questions).map((k) => entropyBits(bwAnatomy.look(network, play.inputs.slice(0, first + k * stride + 1), off).probabilities));
  }

  // ---- one machine -------------------------------------------------------------------------------

  class Machine {
    constructor(root, id, network, own) {
      Object.assign(this, { root, id, network, own, state: root.machineState, strange: root.machineStrange || "", timer: 0, looked: null });
      this.build();
      this.fit();
      this.update();
      watchWidth(root, this.stage, () => this.update());
      const theme = new MutationObserver(() => this.update()); // states are pictures in the theme's colours
      theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      if (root.parentElement) theme.observe(root.parentElement, { attributeFilter: ["class"] });
    }

    get V() { return this.network.config.n_outputs; }
    get recurrent() { return this.network.architecture !== "transformer"; }
    get least() { return this.state.task === "hmm" ? 1 : 0; }
    get most() { return this.play.limit - (this.state.task === "hmm" ? 0 : 1); }

    // ---- controls --------------------------------------------------------------------------------

    build() {
      const { id, state } = this, select = (name, words, options, change) => {
        const input = element("select", { id: `${id}-${name}`, "data-control": name, onchange: () => change(input.value) },
          ...options.map((value) => element("option", { value }, NAMES[value])));
        return { field: element("span", { class: "bw-field" }, element("label", { for: `${id}-${name}` }, words), input), input };
      };
      this.task = select("task", "Task", Object.keys(FILES), (task) => this.choose({ task, pairs: task === "hmm" ? 6 : 5 }));
      this.net = select("net", "Network", Object.keys(FILES.bijection), (net) => this.choose({ net }));
      this.flows = radios(id, "flow", "Show", FLOWS.map(([value, words]) => [words, value]), state.flow, (flow) => this.set({ flow }));
      this.flows.classList.add("bw-segments");
      this.aboutBox = element("div", { class: "bw-about" });
      this.hint = element("p", { class: "bw-m-hint" });
      this.status = statusLine();
      this.key = element("ul", { class: "bw-m-key", "aria-hidden": "true" });
      this.answerBox = element("div", { class: "bw-chart" });
      this.courseBox = element("div", { class: "bw-chart" });
      this.card = element("div", { class: "bw-m-card", hidden: true });
      this.stage = element("div", { class: "bw-m-stage" });
      this.sticking = element("div", { class: "bw-m-answer" }, this.status, this.key, this.answerBox);
      this.steps = slider(id, "pairs", "Pairs", [0, 1, 1], state.pairs, (pairs) => { this.stop(); this.step(pairs); });
      scrubber(this.courseBox, (i) => { this.stop(); this.step(Math.min(i + this.least, this.most)); });
      this.buildButtons();
      this.bar = element("div", { class: "bw-m-bar" }, element("div", { class: "bw-m-course" }, element("span", {}, "entropy"), this.courseBox, this.steps.field),
        element("div", { class: "bw-buttons" }, this.back, this.playing, this.next, this.restore));
      this.buildDrawing();
      this.root.replaceChildren(
        element("div", { class: "bw-m-head" }, ...(this.own ? [] : [this.task.field, this.net.field]), this.flows, this.aboutBox), this.hint,
        this.sticking, this.stage, this.bar,
        element("div", { class: "bw-buttons bw-m-more" }, this.closer, this.farther, this.all, this.fresh, this.share, this.link));
    }

    buildButtons() {
      this.back = button("Back", "back", () => { this.stop(); this.step(this.state.pairs - 1); });
      this.next = button("Next pair", "next", () => { this.stop(); this.step(this.state.pairs + 1, true); });
      this.playing = button("Play", "play", () => (this.timer ? this.stop() : this.start()));
      this.restore = button("Restore", "restore", () => this.set({ off: new Set() }));
      this.closer = button("Zoom in", "zoom-in", () => this.zoom.by(NEARER));
      this.farther = button("Zoom out", "zoom-out", () => this.zoom.by(FARTHER));
      this.all = button("Whole machine", "zoom-reset", () => this.zoom.reset());
      this.fresh = button("New episode", "new", () => this.set({ seed: this.state.seed + 1 }));
      this.share = button("Share this state", "share", () => this.hand());
      this.link = element("span", { class: "bw-m-link", "aria-live": "polite" });
    }

    buildDrawing() {
      this.drawing = bwMachineDrawing.drawing({
        flip: (name) => this.flip(name), layer: (l) => this.flipLayer(l), token: (t) => this.flip(`t${t}`),
        look: (name) => this.look(name), key: (event, name, l) => this.pressed(event, name, l),
      });
      this.stage.append(this.drawing.svg, this.card);
      const size = () => ({ width: this.stage.clientWidth || 320, height: this.drawing.places().height });
      this.zoom = bwMachineZoom.zooming(this.drawing.svg, size, (k) => {
        this.farther.disabled = this.all.disabled = k <= 1;
        this.closer.disabled = k >= 6;
        for (const [from, to] of [[this.farther, this.closer], [this.all, this.closer], [this.closer, this.farther]]) handOn(from, to);
        this.card.hidden = true;
      });
      this.pulses = bwMachineZoom.pulses(this.drawing);
      window.addEventListener("scroll", () => this.placeCard(this.looked), { passive: true });
      this.drawing.svg.addEventListener("dblclick", (event) => this.closeUp(event));
    }

    // A double click on a layer's ground shows it large, a second one the whole.
    closeUp(event) {
      if (event.target.closest("[role=button]")) return;
      const band = event.target.closest("[data-band]"), p = this.drawing.places();
      if (!band || this.zoom.view.k > 1) this.zoom.reset();
      else this.zoom.to({ x: 0, y: p.base[+band.dataset.band + 1], width: p.xs * 0.62, height: p.pitch });
    }

    // ---- what the reader does ----------------------------------------------------------------------

    set(change, strange = "") {
      Object.assign(this.state, change);
      this.strange = strange;
      this.fit();
      this.update();
    }

    step(pairs, alive = false) {
      this.set({ pairs });
      if (alive) this.pulses.start();
    }

    flip(name) {
      const off = new Set(this.state.off);
      if (!off.delete(name)) off.add(name);
      this.set({ off });
      this.look(name);
    }

    layerCut(l) { return layerParts(this.network, l).every((name) => this.state.off.has(name)); }

    flipLayer(l) {
      const off = new Set(this.state.off), cut = this.layerCut(l);
      for (const name of layerParts(this.network, l)) off[cut ? "delete" : "add"](name);
      this.set({ off });
    }

    // Another task or network, as soon as it is here; until then what is shown stays.
    choose(change, strange = "") {
      this.stop();
      const wanted = cleaned({ ...this.state, off: "", focus: "", ...change, ...(change.off ? {} : { off: "" }) }), { file } = FILES[wanted.task][wanted.net];
      this.wanted = file;
      this.link.textContent = `${NAMES[wanted.net]} is on its way.`;
      return bwNetworkParts.bring(file).then((network) => {
        if (this.wanted !== file) return;
        this.link.textContent = "";
        Object.assign(this, { network, state: wanted, strange });
        this.fit();
        this.zoom.reset();
        this.update();
      }, (problem) => {
        this.link.textContent = `${problem.message} Choose it again to try again.`;
        this.update();
      });
    }

    // To a state that a link names: `wanted` says what differs from how this machine opens.
    go(wanted) {
      this.stop();
      const state = cleaned({ ...START, ...wanted });
      if (this.own || (state.task === this.state.task && state.net === this.state.net)) {
        this.zoom.reset();
        this.set(this.own ? { ...state, task: this.state.task, net: this.state.net } : state, strange(wanted));
      } else this.choose({ ...state, off: [...state.off].join(",") }, strange(wanted));
    }

    // Keep a state within what this network and task have.
    fit() {
      const { state } = this, parts = partsOf(this.network);
      this.play = episode(state, this.V);
      state.pairs = this.play.shown;
      const all = [...state.off].flatMap((name) => (/^\d+$/.test(name) && !this.recurrent ? layerParts(this.network, name) : [name]));
      const last = this.play.inputs.length - 1;
      state.off = new Set(all.filter((name) => parts.includes(name) || (this.recurrent && /^t\d+$/.test(name) && +name.slice(1) < last)));
      if (state.focus && !/^\d+\.\d+$/.test(state.focus)) state.focus = "";
      if (!parts.includes(state.focus)) state.focus = "";
      if (+state.about >= this.V) state.about = "true";
    }

    start() {
      this.playing.textContent = "Pause";
      const go = () => {
        this.step(this.state.pairs >= this.most ? this.least : this.state.pairs + 1, true);
        const calm = bwMachineZoom.calm(), { n_layers: L } = this.network.config;
        if (this.state.pairs >= this.most) this.stop();
        else this.timer = setTimeout(go, calm ? CALM : 520 * (2 * L + 1) + PACE);
      };
      go();
    }

    stop() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.playing.textContent = "Play";
    }

    // Show a link to this state, and put it where it can be pasted from.
    hand() {
      const hash = toHash(this.root.id, this.state), address = `${location.href.split("#")[0]}${hash}`;
      const told = (words) => this.link.replaceChildren(element("a", { href: hash, class: "disabled" }, "A link to this state"), words);
      told(".");
      navigator.clipboard?.writeText(address).then(() => told(" is copied."), () => told(": copy its address."));
    }

    // Bring a head forward while it is pointed at or has the focus.
    look(name) {
      this.looked = name;
      this.drawing.light(name || this.state.focus);
      this.showCard(name);
    }

    pressed(event, name, l) {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        if (name) this.flip(name);
        else this.flipLayer(l);
      } else if (event.key.startsWith("Arrow")) {
        event.preventDefault();
        this.walk(event.currentTarget, event.key);
      } else if (event.key === "+" || event.key === "-") this.zoom.by(event.key === "+" ? NEARER : FARTHER);
      else if (event.key === "0" || event.key === "Escape") this.zoom.reset();
    }

    // The focus goes to the nearest part in the direction of an arrow key.
    walk(from, key) {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
      const middle = (node) => { const { left, top, width, height } = node.getBoundingClientRect(); return [left + width / 2, top + height / 2]; };
      const [x, y] = middle(from), far = (node) => {
        const [a, b] = middle(node), along = (a - x) * dx + (b - y) * dy, across = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
        return along > 3 ? along + 2.5 * across : Infinity;
      };
      const others = [...this.drawing.svg.querySelectorAll("[role=button]")].filter((node) => node !== from);
      const best = others.reduce((a, b) => (far(b) < far(a) ? b : a));
      if (far(best) === Infinity) return;
      this.drawing.rove(best);
      best.focus();
    }

    // ---- drawing -----------------------------------------------------------------------------------

    update() {
      this.pulses.stop();
      const { state, network, play } = this, found = (this.found = measured(network, play, state));
      const width = Math.max(this.stage.clientWidth, 260), narrow = width < 520;
      this.stage.drawnWidth = this.stage.clientWidth;
      const p = this.drawing.draw(this.model(width));
      const { svg } = this.drawing;
      svg.setAttribute("width", width);
      svg.setAttribute("height", p.height);
      this.zoom.show();
      bwMachineAnswer.answer(this.answerBox, {
        width, narrow, what: play.outcome, names: play.labels, exact: found.exact, now: found.seen.probabilities, whole: found.whole && found.whole.probabilities, from: p.xs,
        chosen: state.flow === "contribution" ? found.asked.chosen : [], pick: (y) => this.set({ flow: "contribution", about: String(y) }), title: play.title,
        scene: `${state.task} ${state.seed} ${network.architecture}`,
      });
      this.drawCourse();
      this.say();
    }

    drawCourse() {
      const { play, state } = this, box = this.courseBox, hmm = play.kind === "hmm", network = courseOf(this.network, play, state.off);
      const exact = hmm || play.comesBack ? this.found.exacts.map(entropyBits) : range(play.limit).map((k) => Math.log2(play.V - k));
      bwMachineAnswer.course(box, { width: Math.max(this.steps.input.clientWidth, 120), steps: play.limit, first: this.least, step: hmm ? "symbol" : "pair", exact, network, now: network.length - 1, high: Math.log2(this.V) * 1.08 });
      const { input, output } = this.steps;
      this.steps.field.querySelector("label").textContent = hmm ? "Symbols" : "Pairs";
      Object.assign(input, { min: this.least, max: this.most, value: state.pairs });
      output.textContent = state.pairs;
    }

    // What the drawing is told.
    model(width) {
      const { state, network, play, found } = this, { n_layers: layers, n_heads: heads = 0, width: D } = network.config, { seen, added } = found;
      const amounts = added && added.byPart, norms = new Map(seen.parts.map(({ name, written }) => [name, Math.hypot(...written)]));
      const parts = partsOf(network), largest = (all) => Math.max(1e-9, ...all);
      const widest = largest(parts.map((name) => norms.get(name) || 0));
      const shares = (l, h) => (added ? bwAnatomy.bySource(seen, l, h, added.vector) : seen.patterns[l][h][play.inputs.length - 1].map(() => 0));
      const all = state.flow === "contribution" && !this.recurrent ? range(layers).map((l) => range(heads).map((h) => shares(l, h))) : null;
      return {
        width, layers, heads, recurrent: this.recurrent, single: network.architecture === "lstm", tokens: play.tokens, question: play.kind === "bijection", off: state.off, flow: state.flow, exact: found.exact,
        lens: this.recurrent && found.lens.length === 1 ? [] : found.lens, amounts, focus: this.looked || state.focus,
        digits: largest([...(amounts ? amounts.values() : [])].map(Math.abs)) < 1 ? 2 : 1,
        scale: largest(parts.map((name) => Math.abs((amounts && amounts.get(name)) || 0))), shareScale: all ? largest(all.flat(2).map(Math.abs)) : 1,
        sizes: new Map(parts.map((name) => [name, (norms.get(name) || 0) / widest])),
        looks: (l, h) => seen.patterns[l][h][play.inputs.length - 1], shares: (l, h) => all[l][h],
        describe: (name) => this.describe(name), layerCut: (l) => this.layerCut(l), title: `${NAMES[network.architecture]}, drawn: ${count(layers, "layer")}. ${play.title}`,
        cells: (l) => this.cells(l), unitWords: () => `${width < 520 ? "" : "state: "}${network.architecture === "lstm" ? `${D} units` : `${network.config.expand * D} channels`}`, inks: this.inks(),
      };
    }

    // Numbers of a layer's state for its picture: units in the order of the last token.
    cells(l) {
      const { seen, added } = this.found, rows = this.state.flow === "contribution" && added ? bwAnatomy.byUnit(seen, l, added.vector) : seen.states[l].rows;
      const sizes = rows.flatMap((row) => (row ? [...row] : [])).map(Math.abs).sort((a, b) => a - b), last = rows[rows.length - 1];
      return { rows, most: Math.max(1e-9, sizes[Math.floor(0.97 * (sizes.length - 1))]), order: range(last.length).sort((a, b) => last[b] - last[a]) };
    }

    // Colours of the theme as numbers: what raises, what lowers, and what is neither.
    inks() {
      const style = getComputedStyle(this.root), ink = (name) => [1, 3, 5].map((i) => parseInt(style.getPropertyValue(name).trim().slice(i, i + 2), 16) || 0);
      return [ink("--bw-network"), ink("--bw-lowers"), ink("--bw-still")];
    }

    // ---- words -------------------------------------------------------------------------------------

    // The tokens a head reads most.
    reads(name) {
      const [l, h] = name.split(".").map(Number), row = this.found.seen.patterns[l][h][this.play.inputs.length - 1], { tokens } = this.play;
      return range(row.length).sort((a, b) => row[b] - row[a]).slice(0, 3).filter((t, i) => !i || row[t] > 0.02).map((t) => `${tokens[t].short} ${number(row[t])}`).join(", ");
    }

    nameOf(name) { return name.endsWith(".m") ? `MLP of layer ${parseInt(name, 10)}` : name.includes(".") ? `head ${name}` : name.startsWith("t") ? this.play.tokens[+name.slice(1)].long : `layer ${name}`; }

    // What a part does, in words: lines for its card.
    lines(name) {
      const { found, state } = this, cut = state.off.has(name), value = found.added && found.added.byPart.get(name), lines = [];
      if (/^\d+\.\d+$/.test(name)) lines.push(`reads ${this.reads(name)}`);
      if (cut) lines.push("cut: it writes nothing");
      else if (value !== null && value !== undefined) lines.push(`adds ${number(value)} to the logit of ${found.asked.words}`);
      return lines;
    }

    describe(name) { return `${this.nameOf(name)}: ${this.lines(name).join("; ")}`; }

    showCard(name) {
      if (name && this.drawing.node(name)) this.card.replaceChildren(element("b", {}, this.nameOf(name)), ...this.lines(name).map((line) => element("span", {}, line)),
        element("small", {}, this.state.off.has(name) ? "press to join it again" : "press to cut it"));
      this.placeCard(name);
    }

    // The card stands above its part and the mark of a cut, else below, else beside, where the drawing is seen: between
    // the answer and the controls that stay in the window. A part out of sight has none.
    placeCard(name) {
      const { card } = this, node = name && this.drawing.node(name);
      card.hidden = !node;
      if (!node) return;
      const box = (one) => one.getBoundingClientRect(), stage = box(this.stage), face = box(node.querySelector(".bw-face"));
      const top = Math.max(stage.top, box(this.sticking).bottom, 0), foot = Math.min(stage.bottom, box(this.bar).top, window.innerHeight);
      const cross = this.drawing.cross(name), high = Math.min(face.top, cross ? box(cross).top : Infinity);
      const wide = card.offsetWidth, tall = card.offsetHeight, least = (low, value, most) => Math.max(low, Math.min(value, most));
      const above = high - 6 - tall, below = face.bottom + 8, fits = above >= top ? above : below + tall <= foot ? below : null;
      const beside = face.left - wide - 8 >= stage.left ? face.left - wide - 8 : face.right + 8;
      card.hidden = face.bottom < top || face.top > foot;
      card.style.left = `${least(0, (fits === null ? beside : face.left + face.width / 2 - wide / 2) - stage.left, stage.width - wide)}px`;
      card.style.top = `${(fits ?? least(top, high, foot - tall)) - stage.top}px`;
    }

    say() {
      const { found, state, play, network } = this, { now, before, truth } = found;
      const place = play.kind === "hmm" ? `After ${count(play.shown, "symbol")}` : `Key ${play.key}, after ${count(play.shown, "pair")}`;
      this.status.textContent = `${place}: entropy ${number(now.entropy)} bits, exact ${number(truth)}; KL ${number(now.kl)} bits${before ? ` (uncut ${number(before.kl)})` : ""}.`;
      this.key.replaceChildren(element("li", {}, "probability"), ...[["bw-first", before ? "network, cut" : "network"], ...(before ? [["bw-ghost", "uncut"]] : []),
        ...(this.answerBox.querySelector(".bw-was-here") ? [["bw-was", "before"]] : []), ["bw-exact", "exact"]]
        .map(([kind, words]) => element("li", {}, element("span", { class: kind.replace("bw-", "bw-key-") }), words)));
      this.hint.textContent = this.strange + this.hintWords();
      this.aboutControl();
      this.back.disabled = state.pairs <= this.least;
      this.next.disabled = state.pairs >= this.most;
      this.next.textContent = play.kind === "hmm" ? "Next symbol" : "Next pair";
      this.restore.disabled = !state.off.size;
      for (const [from, to] of [[this.back, this.next], [this.next, this.back], [this.restore, this.playing]]) handOn(from, to);
      for (const option of this.net.input.options) option.disabled = !(option.value in FILES[state.task]);
      for (const [{ input }, value] of [[this.task, state.task], [this.net, state.net]]) input.value = value;
      for (const input of this.flows.querySelectorAll("input")) input.checked = input.value === state.flow;
      this.flows.querySelector("label").lastChild.textContent = this.recurrent ? " state" : " attention";
      if (this.looked) this.showCard(this.looked);
      Object.assign(this.root.dataset, {
        task: state.task, net: network.architecture, pairs: state.pairs, off: [...state.off].sort().join(" "), flow: state.flow, about: state.about, entropy: now.entropy, kl: now.kl, whole: before ? before.kl : now.kl,
      });
    }

    hintWords() {
      const { state, found } = this, cut = this.recurrent ? "Press a layer, or a token, to cut it." : "Press a head or an MLP to cut its wire.";
      if (state.flow === "contribution") {
        return found.added ? `Contribution to the logit of ${found.asked.words}, against the mean of all: blue raises it, orange lowers it. ${cut}` : `No value is ruled out yet. ${cut}`;
      }
      if (state.flow === "belief") {
        if (this.network.architecture === "lstm") return `An LSTM of one layer has one belief: the answer above. ${cut}`;
        return `Belief: what would be answered if the stream were read out where each layer begins. ${cut}`;
      }
      if (this.recurrent) return `The state after each token: a column a token, units sorted by what they hold in the end. ${cut}`;
      return `${state.task === "hmm" ? "Arcs: what each head reads from the last symbol; blue symbols, grey rows of the matrices." : "Arcs: what each head reads from the key that is asked; blue values, grey keys."} ${cut}`;
    }

    aboutControl() {
      const { state, play } = this, wanted = state.flow === "contribution" ? `${play.kind} ${state.about}` : "";
      if (this.aboutShown === wanted) return;
      this.aboutShown = wanted;
      const words = play.kind === "hmm" ? ["likeliest state", "least likely state"] : ["true value", "values ruled out"];
      const focused = this.aboutBox.contains(document.activeElement);
      this.aboutBox.replaceChildren(...(wanted ? [radios(this.id, "about", "to the", [[words[0], "true"], [words[1], "excluded"]], state.about, (about) => this.set({ about }))] : []));
      this.aboutBox.firstChild?.classList.add("bw-segments");
      if (focused) this.aboutBox.querySelector("input:checked")?.focus();
    }
  }

  // ---- start -------------------------------------------------------------------------------------

  const machines = [];

  // The state in which an element opens: what its data- attributes say, then what the address says.
  function opening(root) {
    if (!root.id) root.id = machines.length ? `machine-${machines.length + 1}` : "machine";
    machines.push(root);
    const said = Object.fromEntries(Object.keys(START).filter((key) => key in root.dataset).map((key) => [key, root.dataset[key]]));
    handOver(location.hash);
    const linked = fromHash(location.hash), here = linked && linked[0] === root.id;
    if ("opens" in root.dataset && !("pairs" in said)) said.pairs = root.dataset.opens;
    root.machineState = cleaned({ ...START, ...(here ? linked[1] : said) });
    if (here) {
      root.machineStrange = strange(linked[1]);
      root.machineSettle = land(gapTo(root));
    }
    return root.machineState;
  }

  const fileFor = (root) => { const { task, net } = opening(root); return FILES[task][net].file; };

  function mount(root, id, network, own) {
    root.machine = new Machine(root, id, network, own);
    if (root.machineNext) root.machine.go(root.machineNext);
    root.machineSettle?.();
  }

  // How far below the top of the window a machine's answer is, with the drawing below it (or the line that says what is not
  // drawn); as long as neither is here, the figure.
  function gapTo(root) {
    return () => (root.machine ? root.machine.hint.getBoundingClientRect()[root.machine.strange ? "top" : "bottom"] - (parseFloat(getComputedStyle(root.machine.sticking).top) || 0)
      : root.getBoundingClientRect().top - parseFloat(getComputedStyle(root).scrollMarginTop));
  }

  // A task that no machine draws, but the playground of this page plays, opens there.
  function handOver(hash) {
    const { task, pairs } = fromHash(hash)?.[1] || {};
    if (!task || Object.hasOwn(FILES, task) || !Object.hasOwn(bwTasks.FILES, task) || !document.querySelector("[data-explorer=playground]:not([data-small])")) return false;
    location.replace(`#playground?task=${task}${pairs ? `&shown=${pairs}` : ""}`);
    return true;
  }

  // A link to a state on this page sets it in place.
  function follow(hash) {
    const linked = fromHash(hash), root = linked && machines.find((one) => one.id === linked[0]);
    if (!root || handOver(hash)) return;
    root.machineSettle = arrive(gapTo(root));
    if (root.machine) root.machine.go(linked[1]);
    else root.machineNext = linked[1]; // as soon as its network is here
  }

  window.addEventListener("hashchange", () => follow(location.hash));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) follow(location.hash); // no change, so nobody else tells
  });

  bwNetworkParts.start("machine", "Machine explorer", fileFor, mount, { FILES, cleaned, courseOf, fromHash, measured, toHash });
})();
