// The machine: a trained network drawn whole, live, beside the exact posterior. This file holds what is
// shown (the episode, the network, what is cut, what flows), its controls, and links to states of it:
// an address with #machine?task=bijection&pairs=7&off=0.3,1.m&flow=belief sets the first machine of its
// page, #machine-2?... the second; data-task, data-pairs, ... of the element say how it opens; data-map puts the
// attention of one head beside the drawing, data-ways offers what a cut head hands on; with either a reader chooses the pairs. In the playground the machine is a view of what is played there (`host`).
(function () {
  "use strict";

  const { arrive, button, count, element, entropyBits, gaussianEntropyBits, generator, handOn, land, normal, number, radios, range, scrubber, slider, statusLine, watchWidth } = bwExplorer;
  const { Bijection, Chain, measures, says } = bwTasks;
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
  const HOSTED = { ...FILES, recall: FILES.bijection, regression: FILES.bijection }; // tasks and networks that the playground's machine draws
  const STEPS = { bijection: ["Pairs", "Next pair"], hmm: ["Symbols", "Next symbol"], recall: ["Questions", "Next question"], regression: ["Points", "Next point"] };
  const ARCS = {
    bijection: "the key that is asked; blue values, grey keys", hmm: "the last symbol; blue symbols, grey rows of the matrices",
    recall: "the place of the answer; blue values, grey keys and marks", regression: "the t that is asked; blue y, grey t",
  };
  const START = { task: "bijection", net: "transformer", pairs: 5, seed: 3, off: "", flow: "attention", about: "true", focus: "", way: "zero" };
  const WAYS = [["nothing", "zero"], ["its mean", "mean"], ["its own write, plus noise of that length", "noise"]]; // that a cut head hands on
  const N_MEAN = 64; // episodes of the mean
  const TOLD = { zero: "it writes nothing", mean: "it writes its mean", noise: "it writes what it would, and noise" };
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
  function strange({ task = START.task, net = START.net }, drawn = FILES) {
    const word = !Object.hasOwn(drawn, task) ? task : !Object.hasOwn(drawn[task], net) ? net : "";
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
      way: knows(WAYS.map(([, way]) => way), wanted.way, "zero"),
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

  // The cuts that a network has, at the tokens of an episode: a layer "l" of a transformer stands for all its parts.
  function fitted(off, network, play) {
    const parts = partsOf(network), recurrent = network.architecture !== "transformer", last = play.inputs.length - 1;
    const all = [...off].flatMap((name) => (/^\d+$/.test(name) && !recurrent ? layerParts(network, name) : [name]));
    return new Set(all.filter((name) => parts.includes(name) || (recurrent && /^t\d+$/.test(name) && +name.slice(1) < last)));
  }

  // Weights of the logits that contributions are about, against the mean of all; the outcomes they are, in words what is added to.
  function question(about, play, exact) {
    if (play.gaussian) return { chosen: [0], weights: Float64Array.from([1, 0]), words: "the mean", target: "the mean" };
    const Y = exact.length, order = range(Y).sort((a, b) => exact[b] - exact[a]), { kind } = play, hmm = kind === "hmm";
    const right = hmm || kind === "recall" ? order[0] : play.map[play.key];
    const out = hmm ? [order[Y - 1]] : kind === "recall" ? play.values.filter((value) => value !== right) : range(Y).filter((y) => exact[y] === 0);
    const chosen = about === "excluded" ? out : [about === "true" ? right : Math.min(+about, Y - 1)];
    const weights = Float64Array.from({ length: Y }, (_, y) => (chosen.includes(y) ? 1 / chosen.length : 0) - (chosen.length ? 1 / Y : 0));
    const one = hmm ? `state ${chosen[0]}` : `value ${chosen[0]}`;
    const words = about === "excluded" ? (hmm ? `the least likely state, ${chosen[0]}` : kind === "recall" ? "the other values stored" : "the values ruled out")
      : about === "true" ? (hmm ? `the likeliest state, ${chosen[0]}` : `the true value, ${chosen[0]}`) : one;
    return { chosen, weights, words, target: `the logit of ${words}` };
  }

  // Every token's vector (C numbers) plus a random one as long.
  function withNoise(head, C, random) {
    const result = Float64Array.from(head);
    for (let t = 0; t < head.length; t += C) {
      const noise = range(C).map(() => normal(random)), length = Math.hypot(...noise), size = Math.hypot(...head.subarray(t, t + C));
      noise.forEach((v, c) => { result[t + c] += (v / length) * size; });
    }
    return result;
  }

  // What heads hand on that are cut, as network.run takes it: nothing, their mean over episodes, or what they would, plus noise.
  function handing(network, off, way, seed) {
    const { n_outputs: V, width: D, n_heads: H } = network.config, { episode: drawn, tokensOf } = bwNetworkParts;
    if (way === "mean") return { means: (network.meansHere ||= network.means(range(N_MEAN).map((i) => tokensOf(drawn(V, 1000 + i))))) };
    if (way !== "noise") return {};
    let random = null;
    return { change(head, l, h) {
      if (l + h === 0) random = generator(seed); // every run has the same noise
      return off.has(`${l}.${h}`) ? withNoise(head, D / H, random) : head;
    } };
  }

  // All numbers of a state: the network taken apart, with its cuts and without, beside the truth.
  function measured(network, play, { off, about, how = {} }) {
    const { inputs } = play, exacts = play.exact(), exact = exacts[exacts.length - 1];
    const seen = bwAnatomy.look(network, inputs, off, how), whole = off.size ? bwAnatomy.look(network, inputs) : null;
    const asked = question(about, play, exact);
    const added = asked.chosen.length ? bwAnatomy.contributions(seen, asked.weights) : null;
    const measure = (p) => { const { network: entropy, divergence: kl } = measures(exact, p, play.gaussian); return { entropy, kl }; };
    return {
      seen, whole, exact, exacts, asked, added, now: measure(seen.probabilities), before: whole && measure(whole.probabilities), truth: entropyOf(play, exact),
      lens: seen.lens.map(({ probabilities: p }) => ({ p, kl: measure(p).kl })),
    };
  }

  const entropyOf = (play, p) => (play.gaussian ? gaussianEntropyBits(p[1]) : entropyBits(p));
  const skips = (off) => [...off].some((name) => name.startsWith("t"));

  // What a network with cuts answers at the end of some inputs, and at every question of an episode so far.
  const answerTo = (network, inputs, off) => (skips(off) ? bwAnatomy.look(network, inputs, off).probabilities : says(network, inputs, { off }).answers.at(-1));
  function answersOf(network, play, off, how = {}) {
    if (!skips(off)) return says(network, play.inputs, { off, ...how }).answers;
    const { inputs, questions } = play, stride = { hmm: 1, recall: 3 }[play.kind] || 2;
    return range(questions).map((k) => answerTo(network, inputs.slice(0, inputs.length - (questions - 1 - k) * stride), off));
  }

  // Entropy of the network's answer at every step so far.
  const courseOf = (network, play, off, how) => answersOf(network, play, off, how).map((p) => entropyOf(play, p));

  // Mean divergence over all questions of an episode, to its end.
  function costOf(network, play, off, how) {
    const all = play.copy();
    while (all.canNext) all.next();
    const truths = all.exact(), costs = answersOf(network, all, off, how).map((p, k) => measures(truths[k], p).divergence);
    return costs.reduce((a, b) => a + b) / costs.length;
  }

  // ---- one machine -------------------------------------------------------------------------------

  class Machine {
    constructor(root, id, network, own, host = null) {
      Object.assign(this, { root, id, network, own, host, state: { head: "", ...(root.machineState || cleaned(START)) }, strange: root.machineStrange || "", timer: 0, frame: 0, looked: null, cell: null });
      this.mapped = Boolean(host) || "map" in root.dataset;
      this.edited = !host && ("map" in root.dataset || "ways" in root.dataset);
      this.build();
      if (host) this.near();
      else {
        this.fit();
        this.update();
      }
      watchWidth(root, this.stage, () => this.again());
      const theme = new MutationObserver(() => this.again()); // states are pictures in the theme's colours
      theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      if (root.parentElement) theme.observe(root.parentElement, { attributeFilter: ["class"] });
    }

    get V() { return this.network.config.n_outputs; }
    get recurrent() { return this.network.architecture !== "transformer"; }
    get least() { return this.play.kind === "hmm" ? 1 : 0; }
    get most() { return this.play.limit - (this.play.kind === "hmm" ? 0 : 1); }

    // ---- in the playground -------------------------------------------------------------------------

    // What is played is drawn while the machine is in the window or near it, and as soon as it comes there.
    near() {
      new IntersectionObserver(([entry]) => {
        this.close = entry.isIntersecting;
        if (this.close && this.stale) this.soon();
      }, { rootMargin: "300px 0px" }).observe(this.root);
      this.soon();
    }

    // Another task has other heads, and perhaps no network of that kind.
    forget() { Object.assign(this.state, { head: "", focus: "", about: "true" }); }

    soon() {
      this.stale = true;
      this.frame ||= requestAnimationFrame(() => {
        this.frame = 0;
        if (this.stale && this.close && !this.host.covered) this.meet();
      });
    }

    // At another width, or in another theme.
    again() {
      if (!this.host) this.update();
      else if (this.play && this.stage.clientWidth) this.meet();
    }

    // Show what the playground shows.
    meet() {
      const { kind, play, drawn: { network, off } } = this.host;
      this.stale = false;
      if (this.network !== network && this.play) this.zoom.reset();
      Object.assign(this, { network, play });
      Object.assign(this.state, { task: kind, net: network.architecture, pairs: play.shown, seed: play.seed, off });
      this.fit();
      this.update();
    }

    // ---- controls --------------------------------------------------------------------------------

    build() {
      const { id, state } = this, select = (name, words, options, change) => {
        const input = element("select", { id: `${id}-${name}`, "data-control": name, onchange: () => change(input.value) },
          ...options.map((value) => element("option", { value }, NAMES[value])));
        return { field: element("span", { class: "bw-field" }, element("label", { for: `${id}-${name}` }, words), input), input };
      };
      this.task = select("task", "Task", Object.keys(FILES), (task) => this.choose({ task, pairs: task === "hmm" ? 6 : 5 }));
      this.net = select("net", this.host ? "Drawn" : "Network", Object.keys(FILES.bijection), (net) => this.choose({ net }));
      this.flows = radios(id, "flow", "Show", FLOWS.map(([value, words]) => [words, value]), state.flow, (flow) => this.set({ flow }));
      this.flows.classList.add("bw-segments");
      this.aboutBox = element("div", { class: "bw-about" });
      this.waysBox = radios(id, "way", "A head that is cut hands on", WAYS, state.way, (way) => this.set({ way }));
      this.hint = element("p", { class: "bw-m-hint" });
      this.status = this.host ? element("p", { class: "bw-status" }) : statusLine(); // what is played is spoken there
      this.key = element("ul", { class: "bw-m-key", "aria-hidden": "true" });
      this.answerBox = element("div", { class: "bw-chart" });
      this.courseBox = element("div", { class: "bw-chart" });
      this.card = element("div", { class: "bw-m-card", hidden: true });
      this.stage = element("div", { class: "bw-m-stage" });
      this.sticking = element("div", { class: "bw-m-answer" }, this.status, this.key, this.answerBox);
      this.steps = slider(id, "pairs", "Pairs", [0, 1, 1], state.pairs, (pairs) => { this.stop(); this.step(pairs); });
      scrubber(this.courseBox, (i) => { this.stop(); this.step(Math.min(i + this.least, this.most)); });
      this.buildButtons();
      this.buildMap();
      this.bar = element("div", { class: "bw-m-bar" }, element("div", { class: "bw-m-course" }, element("span", {}, "entropy"), this.courseBox, this.steps.field),
        element("div", { class: "bw-buttons" }, this.back, this.playing, this.next, this.restore));
      this.buildDrawing();
      this.root.replaceChildren(
        element("div", { class: "bw-m-head" }, ...(this.own ? [] : this.host ? [this.net.field] : [this.task.field, this.net.field]), this.flows, this.aboutBox), ...("ways" in this.root.dataset ? [this.waysBox] : []), this.hint,
        element("div", { class: "bw-m-both" }, element("div", { class: "bw-m-left" }, this.sticking, this.stage, this.bar,
          element("div", { class: "bw-buttons bw-m-more" }, this.closer, this.farther, this.all, ...(this.host ? [] : [this.fresh]), this.share, this.link)), ...(this.mapped ? [this.side] : [])),
        ...(this.edited ? [this.editing] : []));
    }

    // Where the head at hand looks, beside the drawing.
    buildMap() {
      this.editor = bwNetworkParts.pairEditor((this.pairing = { episode: null, question: 0 }), () => this.set({}));
      this.editing = element("details", { class: "bw-m-pairs" }, element("summary", {}, "Choose the pairs"), this.editor.field);
      this.heads = element("select", { id: `${this.id}-head`, "data-control": "head", onchange: () => this.mapOf(this.heads.value) });
      this.mapBox = element("div", { class: "bw-chart bw-m-map" });
      this.mapWords = element("p", { class: "bw-m-look", "aria-live": !this.host && "polite" });
      this.side = element("div", { class: "bw-m-side" }, element("div", { class: "bw-field" }, element("label", { for: this.heads.id }, "Where it looks: head"), this.heads), this.mapBox, this.mapWords);
    }

    // In the playground the buttons of its own episode have these names already.
    buildButtons() {
      const act = (name) => (this.host ? `machine-${name}` : name);
      this.back = button("Back", act("back"), () => { this.stop(); this.step(this.state.pairs - 1); });
      this.next = button("Next pair", act("next"), () => { this.stop(); this.step(this.state.pairs + 1, true); });
      this.playing = button("Play", act("play"), () => (this.timer ? this.stop() : this.start()));
      this.restore = button("Restore", act("restore"), () => this.set({ off: new Set() }));
      this.closer = button("Zoom in", "zoom-in", () => this.zoom.by(NEARER));
      this.farther = button("Zoom out", "zoom-out", () => this.zoom.by(FARTHER));
      this.all = button("Whole machine", "zoom-reset", () => this.zoom.reset());
      this.fresh = button("New episode", "new", () => this.set({ seed: this.state.seed + 1 }));
      this.share = button("Share this state", act("share"), () => this.hand());
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
      this.strange = strange;
      if (this.host) {
        const { off, pairs, ...mine } = change;
        Object.assign(this.state, mine);
        this.host.told({ off, pairs });
        this.meet();
        return;
      }
      Object.assign(this.state, change);
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
      if (this.host) return this.host.drawNet(change.net);
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
      if (this.host) {
        this.strange = strange(wanted, HOSTED);
        if (this.play) this.zoom.reset();
        this.host.open({ ...START, ...wanted });
        return;
      }
      const state = cleaned({ ...START, ...wanted });
      this.drawnAs = ""; // a link names an episode as it is drawn
      if (this.own || (state.task === this.state.task && state.net === this.state.net)) {
        this.zoom.reset();
        this.set(this.own ? { ...state, task: this.state.task, net: this.state.net } : state, strange(wanted));
      } else this.choose({ ...state, off: [...state.off].join(",") }, strange(wanted));
    }

    // Keep a state within what this network and task have.
    fit() {
      const { state, host, network } = this, heads = partsOf(network).filter((name) => /^\d+\.\d+$/.test(name));
      if (!host) this.play = this.episode();
      state.pairs = this.play.shown;
      state.off = fitted(state.off, network, this.play);
      for (const which of ["focus", "head"]) if (!heads.includes(state[which])) state[which] = "";
      this.cell = null;
      if (+state.about >= this.V) state.about = "true";
    }

    // The episode of a state, with the keys and values that a reader chose instead.
    episode() {
      const { state, pairing } = this, play = episode(state, this.V), drawn = `${state.task} ${state.seed} ${this.V}`;
      if (!this.edited || play.kind !== "bijection" || play.comesBack) return play;
      if (this.drawnAs !== drawn) pairing.episode = { keys: [...play.asked], values: play.asked.map((key) => play.map[key]) };
      const { keys, values } = pairing.episode;
      Object.assign(play, { asked: [...keys], map: range(this.V).map((key) => values[keys.indexOf(key)]) });
      Object.assign(this, { drawnAs: drawn });
      pairing.question = play.shown;
      this.editor.draw();
      return play;
    }

    start() {
      this.host?.pause();
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
      const hash = this.host ? bwState.hashOf(this.host, true) : toHash(this.root.id, this.state), address = `${location.href.split("#")[0]}${hash}`;
      const told = (words) => this.link.replaceChildren(element("a", { href: hash, class: "disabled" }, "A link to this state"), words);
      told(".");
      navigator.clipboard?.writeText(address).then(() => told(" is copied."), () => told(": copy its address."));
    }

    // Bring a head forward while it is pointed at or has the focus.
    look(name) {
      this.looked = name;
      this.drawing.light(name || this.state.focus);
      this.showCard(name);
      if (this.mapped && name && /^\d+\.\d+$/.test(name) && name !== this.head) this.mapOf(name);
    }

    // Show the look of a head beside the drawing, from the token that is asked.
    mapOf(name) {
      this.state.head = name;
      this.cell = null;
      this.drawMap();
      this.host?.speak();
    }

    // The head whose look stands beside the drawing: the one chosen, or the one that sees most of what was shown.
    get head() { return this.state.head || this.state.focus || bwMachineMap.headOnShown(this.found.seen.patterns, this.play.tokens); }

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
      const { state, network, play } = this, how = this.recurrent || this.host || state.task !== "bijection" ? {} : handing(network, state.off, state.way, state.seed);
      const found = (this.found = measured(network, play, { ...state, how }));
      this.side.hidden = this.recurrent;
      this.editing.hidden = play.kind !== "bijection" || play.comesBack;
      this.waysBox.hidden = this.recurrent || state.task !== "bijection";
      this.root.classList.toggle("bw-m-beside", this.mapped && this.root.clientWidth >= 740);
      const width = Math.max(this.stage.clientWidth, 260), narrow = width < 520;
      this.stage.drawnWidth = this.stage.clientWidth;
      const p = this.drawing.draw(this.model(width));
      const { svg } = this.drawing;
      svg.setAttribute("width", width);
      svg.setAttribute("height", p.height);
      this.zoom.show();
      (play.gaussian ? bwMachineAnswer.density : bwMachineAnswer.answer)(this.answerBox, {
        width, narrow, what: play.outcome, names: play.labels, exact: found.exact, now: found.seen.probabilities, whole: found.whole && found.whole.probabilities, from: p.xs,
        chosen: state.flow === "contribution" ? found.asked.chosen : [], pick: (y) => this.set({ flow: "contribution", about: String(y) }), title: play.title,
        scene: `${state.task} ${state.seed} ${network.architecture}`,
      });
      this.drawCourse(how);
      this.drawMap();
      this.say(how);
    }

    drawMap() {
      if (!this.mapped || this.recurrent) return;
      const { seen } = this.found, { tokens } = this.play, pin = (from, to) => { this.cell = [from, to]; this.drawMap(); };
      const name = this.head, [l, h] = name.split("."), [from, to] = this.cell || [tokens.length - 1, null], pattern = seen.patterns[l][h];
      const names = partsOf(this.network).filter((part) => !part.endsWith("m"));
      if (this.heads.options.length !== names.length) this.heads.replaceChildren(...names.map((one) => element("option", { value: one }, one)));
      this.heads.value = name;
      bwMachineMap.draw(this.mapBox, { tokens, pattern, name, from, to, pin });
      this.mapWords.textContent = bwMachineMap.sentence(tokens, pattern, name, from, to) + (this.state.off.has(name) ? " It is cut: what it sees, it does not hand on." : "");
      Object.assign(this.root.dataset, { head: name, from, looks: [...pattern[from]].map((p) => p.toFixed(6)).join(" ") });
    }

    drawCourse(how) {
      const { play, state } = this, box = this.courseBox, network = courseOf(this.network, play, state.off, how);
      const exact = play.kind !== "bijection" || play.comesBack ? this.found.exacts.map((p) => entropyOf(play, p)) : range(play.limit).map((k) => Math.log2(play.V - k));
      const high = play.gaussian ? 4 : Math.log2(this.V) * 1.08;
      bwMachineAnswer.course(box, { width: Math.max(this.steps.input.clientWidth, 120), steps: play.limit, first: this.least, step: play.kind === "hmm" ? "symbol" : "pair", exact, network, now: network.length - 1, high });
      const { input, output } = this.steps;
      this.steps.field.querySelector("label").textContent = STEPS[play.kind][0];
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
        width, layers, heads, recurrent: this.recurrent, single: network.architecture === "lstm", tokens: play.tokens, question: play.kind === "bijection" || play.kind === "regression", gaussian: play.gaussian, off: state.off, flow: state.flow, exact: found.exact,
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
      if (cut) lines.push(`cut: ${TOLD[name.endsWith("m") ? "zero" : state.way]}`);
      else if (value !== null && value !== undefined) lines.push(`adds ${number(value)} to ${found.asked.target}`);
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

    // Over all questions of the episode, where ways to cut are compared: two heads may cost little one by one and much together.
    costs(how) {
      const { state: { off }, play, network } = this, whole = costOf(network, play, new Set()), cost = off.size ? costOf(network, play, off, how) : whole;
      this.root.dataset.mean = cost;
      return ` Over all ${play.limit} questions of this episode: ${number(cost)}${off.size ? ` (uncut ${number(whole)})` : ""}.`;
    }

    say(how) {
      const { found, state, play, network } = this, { now, before, truth } = found;
      const place = play.kind === "hmm" ? `After ${count(play.shown, "symbol")}` : play.place;
      this.status.textContent = `${place}: entropy ${number(now.entropy)} bits, exact ${number(truth)}; KL ${number(now.kl)} bits${before ? ` (uncut ${number(before.kl)})` : ""}.${this.waysBox.isConnected && !this.waysBox.hidden ? this.costs(how) : ""}`;
      this.key.replaceChildren(element("li", {}, play.gaussian ? "density over y" : "probability"), ...[["bw-first", before ? "network, cut" : "network"], ...(before ? [["bw-ghost", "uncut"]] : []),
        ...(this.answerBox.querySelector(".bw-was-here") ? [["bw-was", "before"]] : []), ["bw-exact", "exact"]]
        .map(([kind, words]) => element("li", {}, element("span", { class: kind.replace("bw-", "bw-key-") }), words)));
      this.hint.textContent = this.strange + this.hintWords();
      this.aboutControl();
      this.back.disabled = state.pairs <= this.least;
      this.next.disabled = state.pairs >= this.most;
      this.next.textContent = STEPS[play.kind][1];
      this.restore.disabled = !state.off.size;
      for (const [from, to] of [[this.back, this.next], [this.next, this.back], [this.restore, this.playing]]) handOn(from, to);
      if (this.host) this.offerNets();
      else {
        for (const option of this.net.input.options) option.disabled = !(option.value in FILES[state.task]);
        for (const [{ input }, value] of [[this.task, state.task], [this.net, state.net]]) input.value = value;
      }
      for (const [box, value] of [[this.flows, state.flow], [this.waysBox, state.way]]) for (const input of box.querySelectorAll("input")) input.checked = input.value === value;
      this.flows.querySelector("label").lastChild.textContent = this.recurrent ? " state" : " attention";
      if (this.looked) this.showCard(this.looked);
      Object.assign(this.root.dataset, {
        task: state.task, net: network.architecture, pairs: state.pairs, off: [...state.off].sort().join(" "), flow: state.flow, about: state.about, entropy: now.entropy, kl: now.kl, whole: before ? before.kl : now.kl,
      });
    }

    // The networks of this task that can be drawn: the first, and those that may stand beside it.
    offerNets() {
      const { input } = this.net, nets = this.host.drawable, words = nets.map(({ name }) => name).join();
      if (this.offered !== words) input.replaceChildren(...nets.map(({ name }, i) => element("option", { value: i }, name)));
      this.offered = words;
      input.value = nets.findIndex(({ shown }) => shown);
    }

    hintWords() {
      const { state, found, play } = this, cut = this.recurrent ? "Press a layer, or a token, to cut it." : "Press a head or an MLP to cut its wire.";
      if (state.flow === "contribution") {
        return found.added ? `Contribution to ${found.asked.target}${play.gaussian ? "" : ", against the mean of all"}: blue raises it, orange lowers it. ${cut}` : `No value is ruled out yet. ${cut}`;
      }
      if (state.flow === "belief") {
        if (this.network.architecture === "lstm") return `An LSTM of one layer has one belief: the answer above. ${cut}`;
        return `Belief: what would be answered if the stream were read out where each layer begins. ${cut}`;
      }
      if (this.recurrent) return `The state after each token: a column a token, units sorted by what they hold in the end. ${cut}`;
      return `Arcs: what each head reads from ${ARCS[play.kind]}. ${cut}`;
    }

    aboutControl() {
      const { state, play } = this, wanted = state.flow === "contribution" && !play.gaussian ? `${play.kind} ${state.about}` : "";
      if (this.aboutShown === wanted) return;
      this.aboutShown = wanted;
      const words = play.kind === "hmm" ? ["likeliest state", "least likely state"] : ["true value", play.kind === "recall" ? "other values stored" : "values ruled out"];
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

  // The machine of a playground, in an element that stands in it; an address that names its state sets the playground.
  function within(root, id, host) {
    if (!machines.some((one) => one.id === "machine")) {
      document.getElementById("machine")?.removeAttribute("id"); // held the name, so that links lead somewhere before
      root.id = "machine";
    }
    machines.push(root);
    root.machine = new Machine(root, id, host.drawn.network, null, host);
    const linked = fromHash(location.hash);
    if (!linked || linked[0] !== root.id) return root.machine;
    root.machineSettle = land(gapTo(root));
    root.machine.go(linked[1]);
    return root.machine;
  }

  // A link to a state on this page sets it in place.
  function follow(hash) {
    const linked = fromHash(hash), root = linked && machines.find((one) => one.id === linked[0]);
    if (!root) return;
    root.machineSettle = arrive(gapTo(root));
    if (root.machine) root.machine.go(linked[1]);
    else root.machineNext = linked[1]; // as soon as its network is here
  }

  window.addEventListener("hashchange", () => follow(location.hash));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) follow(location.hash); // no change, so nobody else tells
  });

  bwNetworkParts.start("machine", "Machine explorer", fileFor, mount, { FILES, N_MEAN, answerTo, answersOf, cleaned, courseOf, fitted, fromHash, gapTo, handing, measured, toHash, withNoise, within });
})();
