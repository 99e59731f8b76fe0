// The playground: a trained network beside the exact posterior, step by step. This file holds what is
// shown now (the episode, the network, what is cut) and puts the views together, the machine among
// them; tasks, views, panels and the tour have files of their own. It mounts on every element
// .bw-explorer[data-explorer="playground"]; what stands there before (a poster) stays until the first
// answer can be drawn. data-small: one short figure; data-task: a task of FILES; data-home: the
// address of the page with the whole playground.
(function () {
  "use strict";

  const { button, element, number, radios } = bwExplorer;
  const { Bijection, Chain, FILES, KINDS, Line, Recall, STATES, count, measures, range, says } = bwTasks;
  const { bits, part } = bwViews;
  const { megabytes } = bwPanels;
  const SIZES = { main: 10, published: 20 }; // keys of the two networks of the bijection
  const QUIET = 450; // milliseconds without a change before the numbers are spoken
  const PACE = 900; // milliseconds of a step while it plays
  const MEMORY = 200; // changes that can be undone
  const MARKS = ["square", "up", "cross", "down"]; // of a network beside, by its place among its rivals
  const TASKS = [["bijection", "bijection"], ["hidden chain (HMM)", "hmm"], ["recall", "recall"], ["regression", "regression"]];
  const MOST = { hmm: STATES, recall: KINDS }; // outcomes
  let mounted = 0;

  // ---- fetching ------------------------------------------------------------------------------

  // Show a message and a button; fulfilled when the button is pressed.
  function askAgain(box, words) {
    return new Promise((again) => {
      box.replaceChildren(element("div", { class: "bw-error", role: "alert" }, element("p", {}, words),
        button("Try again", "retry", () => { box.replaceChildren(); again(); })));
    });
  }

  // What entries of FILES name, fetched; says in `box` how far it is, and offers another try.
  async function load(entries, box) {
    const total = entries.reduce((sum, entry) => sum + entry.bytes, 0), done = entries.map(() => 0);
    for (;;) {
      const progress = element("progress", { max: total, value: 0, "aria-label": "Fetching weights" });
      const words = element("span", {}, `Fetching ${megabytes(entries)} \u2026`);
      box.replaceChildren(element("div", { class: "bw-loading" }, words, progress));
      const report = (i) => (bytes) => {
        done[i] = Math.min(bytes, entries[i].bytes);
        progress.value = done.reduce((a, b) => a + b, 0);
        words.textContent = `Fetching: ${(progress.value / 1e6).toFixed(1)} of ${megabytes(entries)}`;
      };
      try {
        const found = await Promise.all(entries.map((entry, i) => bwNetwork.fetch(entry.file, { onProgress: report(i) })));
        box.replaceChildren();
        return found;
      } catch (problem) {
        await askAgain(box, problem.message);
      }
    }
  }

  // ---- one playground ------------------------------------------------------------------------

  class Playground {
    constructor(root, id, { small = false, task = "bijection", home = "", seed = 0, shown = 5 } = {}) {
      Object.assign(this, { root, id, small, home, kind: task, size: "main", off: new Set(), cuts: new Set(), drawsBeside: false });
      Object.assign(this, { run: null, momentNow: null, past: [], networks: {} });
      this.plays = Object.fromEntries(TASKS.map(([, kind]) => [kind, this.made(kind, "main", seed)]));
      this.besides = {}; // by task, the entry of FILES of the network beside the first
      for (const play of Object.values(this.plays)) while (play.shown < shown && play.canNext) play.next();
      this.waiting = element("div", { class: "bw-waiting" });
      this.live = element("div", { class: "bw-live", role: "status", "aria-live": "polite" });
      this.bet = new bwBet.Bet(id, this, !small && !window.bwNotebook && bwState.wordsOf(location.hash)?.bet === "1");
      if (this.bet.on) root.dataset.bet = "covered"; // the poster, too
      if (!small && !window.bwNotebook) bwState.meet(root);
      this.ready = this.begin();
    }

    get play() { return this.plays[this.kind]; }
    get covered() { return this.bet.covered; }
    get top() { return this.kind === "regression" ? 4 : Math.log2(MOST[this.kind] || this.play.V) * 1.06; }
    // Other networks of this task, as far as they ship for what is played.
    get rivals() { return this.size === "published" ? [] : [...FILES[this.kind].rivals, ...(this.play.comesBack ? [FILES.bijection.returning] : [])]; }
    get beside() { return this.rivals.find((entry) => entry === this.besides[this.kind] && this.networks[entry.file]); }
    get canUndo() { return this.past.some((one) => one.kind === this.kind); }
    get network() { return this.run ? this.run.networks[this.momentNow] : this.networks[this.source]; }
    get source() { return this.nameOf(this.kind, this.size); }
    get networkName() { return this.run ? `transformer, ${count(this.run.steps[this.momentNow], "update")}` : "transformer"; }
    // What the machine can draw: the first network, and others of the task; and what it draws now, with its cuts.
    get drawable() {
      const nets = [{ name: "transformer", entry: null }, ...this.rivals.filter(({ name }) => !name.startsWith("MLP")).map((entry) => ({ name: entry.name, entry }))];
      return nets.map((one) => ({ ...one, shown: one.entry === (this.drawsBeside ? this.beside : null) }));
    }
    get drawn() { return this.drawsBeside ? { network: this.networks[this.beside.file], off: this.cuts } : { network: this.network, off: this.off }; }
    nameOf(kind, size) { return kind === "bijection" ? size : kind; }
    has(kind, size) { return Boolean(FILES[kind]?.[size]?.file) && (kind !== "bijection" || size in SIZES); }
    // A fresh episode of a task.
    made(kind, size, seed, comesBack = false) {
      if (kind === "bijection") return new Bijection(SIZES[size], seed, comesBack);
      return new { hmm: Chain, recall: Recall, regression: Line }[kind](seed);
    }
    stepWord = (i) => String(this.kind === "hmm" ? i + 1 : i);

    // Fetch the first network, then put the whole figure in the poster's place.
    async begin() {
      this.root.append(this.waiting); // what stands there stays above it
      await this.need(this.kind, "main");
      this.root.style.minHeight = `${this.root.offsetHeight}px`;
      try {
        this.build();
        this.update();
        this.address?.follow();
      } catch (problem) {
        this.waiting.replaceChildren(element("p", { class: "bw-error", role: "alert" }, `The playground could not start: ${problem.message}`));
        throw problem;
      }
      if (this.mini) this.watchAnswer();
      const theme = new MutationObserver(() => this.draw()); // small pictures are drawn in the theme's colour
      theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      if (this.root.parentElement) theme.observe(this.root.parentElement, { attributeFilter: ["class"] });
      return this;
    }

    // The small answer stands while the large one is above the window and something that changes it is in it.
    watchAnswer() {
      const seen = new Set(), controls = ["episode", "training"].map((name) => this.root.querySelector(`[data-part=${name}]`)), other = this.machine.sticking;
      let above = false, twice = false;
      const observer = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting, boundingClientRect } of entries) {
          if (target === this.answerBox) above = !isIntersecting && boundingClientRect.bottom <= 100;
          else if (target === other) twice = isIntersecting; // the machine has an answer of its own
          else seen[isIntersecting ? "add" : "delete"](target);
        }
        this.mini.field.hidden = !above || !seen.size || (twice && !seen.has(controls[0]));
      }, { rootMargin: "-90px 0px 0px" });
      for (const part of [this.answerBox, other, ...controls]) observer.observe(part);
    }

    async need(kind, size) {
      const name = this.nameOf(kind, size);
      if (!this.networks[name]) [this.networks[name]] = await load([FILES[kind][size]], this.waiting);
    }

    load(entries, box) { return load(entries, box); }

    // ---- what the reader does ------------------------------------------------------------------

    // Change the episode and show it; later: at the next frame, as a hand drags faster than one can see.
    act(change, { later = false, drag = false, plays = false } = {}) {
      if (!plays) this.pause();
      if (!drag || !this.dragging) this.remember();
      this.dragging = drag;
      change(this.play);
      if (!later) this.update();
      else if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.update(); });
    }

    remember() {
      this.past.push({ kind: this.kind, play: this.play.copy() });
      if (this.past.length > MEMORY) this.past.shift();
    }

    // Step by step to the end, at a pace that can be followed; a second press stops it.
    playOn() {
      if (this.pace) {
        this.pause();
        return;
      }
      this.remember();
      this.dragging = true; // the whole of it is undone at once
      if (!this.play.canNext) this.goTo(0);
      const step = () => {
        if (!this.play.canNext || !this.root.isConnected) this.pause();
        else this.act((play) => play.next(), { drag: true, plays: true });
      };
      this.pace = setInterval(step, PACE);
      step();
    }

    pause() {
      this.machine?.stop();
      if (!this.pace) return;
      clearInterval(this.pace);
      this.pace = 0;
      this.dragging = false;
      if (this.seen) this.editors[this.kind].draw();
    }

    // To a step of the episode, back or on.
    goTo(i, options = { drag: true, plays: true }) {
      this.act((play) => {
        while (play.questions - 1 > i && play.canBack) play.back();
        while (play.questions - 1 < i && play.canNext) play.next();
      }, options);
    }

    undo() {
      this.pause();
      const at = this.past.map((one) => one.kind).lastIndexOf(this.kind);
      if (at < 0) return;
      const [{ play }] = this.past.splice(at, 1);
      this.replace(play);
    }

    // Another episode in the place of this one.
    replace(play) {
      this.plays[this.kind] = play;
      this.dragging = false;
      this.update();
    }

    fresh(seed, shown = 0) {
      this.pause();
      this.remember();
      const play = this.made(this.kind, this.size, seed, this.play.comesBack);
      while (play.shown < shown && play.canNext) play.next();
      this.replace(play);
    }

    comeBack(yes) {
      this.remember();
      this.replace(new Bijection(SIZES[this.size], this.play.seed, yes));
    }

    // Another task or size, as soon as its network is here.
    async choose(kind, size = "main") {
      this.pause();
      this.wanted = `${kind} ${size}`;
      if (this.networks[this.nameOf(kind, size)]) this.waiting.replaceChildren();
      await this.need(kind, size);
      if (this.wanted !== `${kind} ${size}`) return;
      // What stays open would fetch its files for the new task, and nobody asked for those yet.
      if (!this.small && (kind !== this.kind || size !== this.size)) this.closePanels();
      const V = SIZES[size], grown = kind === "bijection" && this.plays.bijection.V !== V;
      const otherwise = kind !== this.kind || size !== this.size;
      Object.assign(this, { kind, size, run: null, momentNow: null, off: new Set(), cuts: new Set(), drawsBeside: false });
      if (otherwise) this.machine?.forget();
      if (grown) {
        this.past = this.past.filter((one) => one.kind !== "bijection");
        this.plays.bijection = new Bijection(V, this.plays.bijection.seed, this.plays.bijection.comesBack);
      }
      this.update();
    }

    // Put another network of the task beside the first, as soon as it is here; null takes it away.
    async putBeside(entry) {
      const { kind } = this;
      this.besides[kind] = entry;
      Object.assign(this, { drawsBeside: false, cuts: new Set() });
      if (entry && !this.networks[entry.file]) [this.networks[entry.file]] = await load([entry], this.waiting);
      if (kind === this.kind) this.update();
    }

    // ---- in the machine ------------------------------------------------------------------------

    // Let the machine draw the first network, or another, which then stands beside it: the number of one in `drawable`.
    async drawNet(i) {
      const { entry } = this.drawable[i], { kind } = this;
      if (entry && entry !== this.beside) await this.putBeside(entry);
      if (kind === this.kind) this.drawBeside(Boolean(entry));
    }

    drawBeside(yes, off = this.cuts) {
      this.drawsBeside = Boolean(yes && this.beside && !this.beside.name.startsWith("MLP"));
      if (this.drawsBeside) this.cuts = bwMachine.fitted(off, this.drawn.network, this.play);
      this.update();
    }

    // What a reader changed there: cuts of the network that it draws, or how many pairs are shown.
    told({ off, pairs }) {
      if (!this.machine.timer) this.pause();
      if (pairs !== undefined) this.goTo(pairs - this.machine.least);
      else if (off) this.cut(off);
      else this.speak();
    }

    cut(off) {
      this[this.drawsBeside ? "cuts" : "off"] = bwMachine.fitted(off, this.drawn.network, this.play);
      this.update();
    }

    // A state of the machine that a link names.
    open(wanted) { return this.address ? this.address.open(bwState.ofMachine(this, wanted)) : bwState.apply(this, bwState.ofMachine(this, wanted)); }

    // Follow a kept run of training, or none.
    follow(run) {
      if (this.run === run) return;
      this.run = run;
      this.momentNow = run ? run.steps.length - 1 : null;
      this.update();
    }

    moment(i) {
      if (!this.run) return;
      this.momentNow = Math.min(Math.max(i, 0), this.run.steps.length - 1);
      this.update();
    }

    // Close both panels below, and leave the kept run of training.
    closePanels() {
      for (const panel of [this.compare, this.training]) panel.field.open = false;
      this.follow(null);
    }

    // ---- what the network says -----------------------------------------------------------------

    // Ask the network, and measure every answer so far against the truth.
    ask() {
      const { play, network, beside } = this, { inputs, gaussian } = play, exact = play.exact();
      const found = (answers) => exact.map((truth, i) => measures(truth, answers[i], gaussian));
      const told = (answers) => ({ answers, found: found(answers) });
      const ran = says(network, inputs, { off: this.off, patterns: true });
      this.seen = { exact, ...told(ran.answers), patterns: ran.patterns, whole: null, beside: null };
      if (this.off.size) this.seen.whole = told(says(network, inputs).answers);
      if (!beside) {
        this.drawsBeside = false;
        return;
      }
      const i = this.rivals.indexOf(beside), other = this.networks[beside.file];
      if (this.cuts.size) this.cuts = bwMachine.fitted(this.cuts, other, play); // an episode may have become shorter
      const { answers } = this.cuts.size ? { answers: bwMachine.answersOf(other, play, this.cuts) } : says(other, inputs);
      this.seen.beside = { ...told(answers), name: this.cuts.size ? `${beside.name} with parts off` : beside.name, kind: `bw-line-${i + 1}`, mark: MARKS[i] };
    }

    get now() { return this.seen.found[this.play.questions - 1]; }

    update() {
      const start = performance.now(), before = document.activeElement;
      this.ask();
      this.draw();
      this.keepFocus(before);
      this.machine?.soon();
      this.root.dataset.milliseconds = (performance.now() - start).toFixed(1);
      this.speak();
    }

    // A disabled button takes no keys: hand the focus on to one beside it.
    keepFocus(before) {
      if (!before || !this.root.contains(before) || !before.disabled) return;
      const open = [...before.parentElement.querySelectorAll("button:not(:disabled)")];
      const beside = open.find((node) => before.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING);
      (beside || open[open.length - 1] || this.root.querySelector("[data-action=back]:not(:disabled)") || this.root.querySelector("[data-action=random]"))?.focus();
    }

    // ---- putting it together -------------------------------------------------------------------

    build() {
      this.answer = bwViews.bars(this.small ? 200 : 276);
      this.measured = bwViews.measureList();
      this.entropies = bwViews.scrubbed(bwViews.curve(this.small ? 200 : 215), (i, grabbed) => {
        if (grabbed) this.dragging = false; // what follows is undone by itself
        if (i !== this.play.questions - 1) this.goTo(i, { drag: true, later: true });
      });
      this.status = element("p", { class: "bw-status" });
      this.question = element("span", {});
      this.editors = { bijection: bwPanels.bijectionEditor(this.id, this) };
      this.root.classList.add(this.small ? "bw-play-small" : "bw-play");
      if (this.small) this.buildSmall();
      else this.buildWhole();
    }

    buildSmall() {
      const link = element("a", { href: this.home, class: "bw-all" }, "Open the playground");
      this.editing = this.editors.bijection.field;
      this.root.replaceChildren(element("div", { class: "bw-columns" },
        part(this.id, "answer", this.question, this.answerLegend(), this.answer.field),
        part(this.id, "curve", "How unsure, step by step", this.entropies.field)),
      this.measured.field, this.editing, this.live, ...(this.home ? [link] : []));
    }

    answerLegend() {
      this.key = element("div", {});
      return this.key;
    }

    buildWhole() {
      Object.assign(this.editors, { hmm: bwPanels.chainEditor(this.id, this), recall: bwPanels.recallEditor(this.id, this), regression: bwPanels.lineEditor(this.id, this) });
      const change = (act, atOnce) => this.act(act, { later: !atOnce, drag: true });
      this.figure = bwLine.lineFigure(300, {
        grab: () => { this.dragging = false; }, add: (t, y) => this.act((play) => play.add(t, y)),
        move: (i, t, y, atOnce) => change((play) => play.move(i, t, y), atOnce), ask: (t, atOnce) => change((play) => play.ask(t), atOnce),
      });
      this.answerBox = element("div", {});
      this.bars = element("div", { class: "bw-betting" }, this.answer.field, this.bet.layer);
      this.mini = bwViews.miniature();
      this.compare = bwPanels.comparePanel(this);
      this.training = bwPanels.trainingPanel(this.id, this);
      this.tour = bwTour.tour(this);
      if (!window.bwNotebook) {
        this.address = bwState.keeper(this);
        this.sharing = bwState.sharing(this.id, this);
      }
      this.editing = element("div", {});
      const drawn = element("div", { class: "bw-explorer", "data-explorer": "machine", "data-mounted": "true", "data-state": "ready" });
      const notice = bwNetwork.notice ? [element("p", { class: "bw-notice" }, bwNetwork.notice)] : [];
      this.root.replaceChildren(this.header(), ...(this.sharing ? [this.sharing.field] : []), this.waiting, ...notice,
        element("div", { class: "bw-stage" }, element("div", { class: "bw-hold" }, this.mini.field, element("div", { class: "bw-columns" },
          part(this.id, "answer", this.question, this.answerLegend(), this.answerBox, this.bet.line, this.measured.field, this.status),
          part(this.id, "episode", "The episode", this.editing),
          part(this.id, "curve", "How unsure, step by step", this.entropies.field),
          part(this.id, "machine", "The machine: this network, this episode", drawn),
          element("div", { class: "bw-panels" }, this.compare.field, this.training.field))), this.tour.field),
        this.live);
      this.root.machineRoot = drawn;
      this.machine = bwMachine.within(drawn, `${this.id}-machine`, this);
    }

    header() {
      const tasks = radios(this.id, "task", "Task", TASKS, this.kind,
        (kind) => this.choose(kind, "main"));
      const words = `${SIZES.published} keys, as published (${megabytes([FILES.bijection.published])})`;
      this.sizes = radios(this.id, "size", "Network", [[`${SIZES.main} keys`, "main"], [words, "published"]], this.size,
        (size) => this.choose("bijection", size));
      return element("div", { class: "bw-controls bw-header" }, tasks, this.sizes, this.besideField(),
        element("div", { class: "bw-buttons" }, ...(this.sharing ? [this.sharing.opener] : []), this.tour.opener));
    }

    // A menu of the networks that may stand beside the first.
    besideField() {
      this.menu = element("select", { id: `${this.id}-beside`, "data-control": "beside", onchange: () => this.putBeside(this.menu.value === "" ? null : this.rivals[+this.menu.value]) });
      return (this.besideLine = element("div", { class: "bw-field" }, element("label", { for: this.menu.id }, "Beside it"), this.menu));
    }

    drawMenu() {
      const { rivals } = this, names = rivals.map(({ name }) => name).join();
      this.besideLine.hidden = !rivals.length;
      if (this.menuNames !== names) {
        this.menuNames = names;
        this.menu.replaceChildren(element("option", { value: "" }, "no other network"),
          ...rivals.map((entry, i) => element("option", { value: i }, `${entry.name} (${megabytes([entry])})`)));
      }
      this.menu.value = this.beside ? rivals.indexOf(this.beside) : "";
    }

    // ---- drawing -------------------------------------------------------------------------------

    draw() {
      if (!this.seen) return;
      const { play, seen, bet } = this, now = play.questions - 1;
      bet.meet();
      this.editors[this.kind].draw();
      const rows = [{ p: seen.answers[now], kind: "bw-first", name: this.off.size ? "network with parts off" : "network" }];
      if (seen.whole) rows.push({ p: seen.whole.answers[now], kind: "bw-second", name: "whole network" });
      if (seen.beside) rows.push({ p: seen.beside.answers[now], kind: seen.beside.kind, name: seen.beside.name });
      this.question.textContent = play.title;
      if (bet.playing) rows.unshift(bet.row);
      bet.draw();
      this.drawKey(this.covered ? [bet.row] : rows);
      if (this.covered) this.drawBet();
      else {
        this.drawAnswer(rows, seen.exact[now]);
        this.mini?.draw(play.gaussian, { truth: seen.exact[now], rows, labels: play.labels, title: "" }, this.now.divergence);
        this.measured.draw(this.now, seen.beside && { ...seen.beside, found: seen.beside.found[now] });
      }
      this.drawCurve();
      if (!this.small) this.drawWhole();
      this.note();
    }

    drawAnswer(rows, truth, more = { choose: this.chooser() }) {
      const { play, answer, figure, answerBox } = this, field = play.gaussian ? figure.field : this.bars;
      if (answerBox && field.parentElement !== answerBox) answerBox.replaceChildren(field);
      if (play.gaussian) this.drawLine(rows, truth);
      else answer.draw({ truth, rows, labels: play.labels, title: "probability", below: play.outcome, scene: this.bet.on || rows.length > 1 ? "" : `${this.kind} ${play.seed}`, ...more });
    }

    // The reader's bars alone.
    drawBet() {
      const rows = [this.bet.row], scale = 1;
      this.drawAnswer(rows, null, { scale });
      this.mini.draw(false, { truth: null, rows, labels: this.play.labels, title: "", scale }, null);
    }

    // What a press on an outcome does, or null.
    chooser() {
      if (this.kind === "recall") return { open: () => true, choose: (value) => this.act((play) => play.store(value)) };
      if (this.kind !== "bijection" || !this.play.canNext || this.small) return null;
      return { open: (value) => this.play.possible(value), choose: (value) => this.act((play) => play.answer(value)) };
    }

    // What every network says of every t, and the truth.
    drawLine(rows, truth) {
      const { play } = this, sources = { "bw-first": [this.network, this.off], "bw-second": [this.network, new Set()] };
      const band = ({ kind }) => {
        const [network, off] = sources[kind] || [this.networks[this.beside.file], this.cuts];
        return bwLine.PLACES.map((t) => (off.size ? bwMachine.answerTo(network, play.inputsAt(t), off) : says(network, play.inputsAt(t)).answers[play.shown]));
      };
      this.figure.draw({
        points: play.known, asked: play.asked, truth, canAdd: play.canNext,
        exact: bwLine.PLACES.map((t) => play.exactAt(t)), rows: rows.map((row) => ({ ...row, band: band(row) })),
      });
    }

    drawKey(rows) {
      const words = `${this.covered} ${rows.map((row) => row.name).join()}`;
      if (this.keyWords === words) return;
      this.keyWords = words;
      this.key.replaceChildren(bwViews.legend([...rows.map((row) => [row.kind, row.name]), ...(this.covered ? [] : [["bw-exact", "exact posterior"]])]));
    }

    // The entropies so far; while a bet covers the answer, those of the steps before.
    drawCurve() {
      const { play, seen } = this, told = ({ found }) => (this.covered ? found.slice(0, -1) : found);
      const values = (one) => told(one).map((at) => at.network), lines = [{ name: "network", kind: "bw-line-0", values: values(seen) }];
      if (seen.whole) lines.unshift({ name: "whole network", kind: "bw-line-whole", mark: "square", values: values(seen.whole) });
      if (seen.beside) lines.unshift({ ...seen.beside, values: values(seen.beside) });
      const ahead = this.kind === "bijection" && !play.comesBack && !this.covered ? range(play.V).map((k) => Math.log2(play.V - k)) : null;
      this.entropies.draw({
        title: "entropy (bits)", below: play.xTitle, truth: told(seen).map((one) => one.exact),
        ahead, lines, now: play.questions - 1, limit: play.limit, top: this.top, words: this.stepWord,
      });
    }

    drawWhole() {
      const { field } = this.editors[this.kind];
      if (field.parentElement !== this.editing) this.editing.replaceChildren(field);
      this.markHeader();
      this.status.textContent = this.words(false);
      this.compare.draw();
      this.training.draw();
    }

    markHeader() {
      this.sizes.hidden = this.kind !== "bijection";
      this.drawMenu();
      for (const input of this.root.querySelectorAll(".bw-header input[type=radio]")) {
        input.checked = input.value === this.kind || input.value === this.size;
      }
    }

    // ---- words ---------------------------------------------------------------------------------

    // One or two sentences that say all numbers, or only what does not stand in the list of measures.
    words(all = true) {
      const { now, play } = this;
      if (this.covered) return `${play.place}.${all ? " The answer is covered: place your bet." : ""}`;
      const blocks = [...this.off].filter((name) => name.endsWith("m")).length, heads = this.off.size - blocks;
      const parts = [...(heads ? [count(heads, "head")] : []), ...(blocks ? [count(blocks, "MLP")] : [])].join(" and ");
      const at = play.questions - 1, { beside } = this.seen, whole = this.seen.whole?.found[at].divergence;
      const off = parts ? ` Switched off: ${parts}; the whole network's KL is ${bits(whole)}.` : "";
      const moment = this.run ? ` This is the network after ${count(this.run.steps[this.momentNow], "update")}.` : "";
      const other = beside && all ? ` Beside it, ${beside.name}: entropy ${bits(beside.found[at].network)}, KL ${bits(beside.found[at].divergence)}.` : "";
      const again = play.again ? " This key was shown, so the answer is certain; in training no key ever came back." : "";
      const numbers = `: entropy ${bits(now.exact)} exact, ${bits(now.network)} network; KL ${bits(now.divergence)}, total variation ${number(now.variation)}`;
      const worth = all && this.bet.playing ? ` ${this.bet.words()}` : "";
      return `${play.place}${all ? numbers : ""}.${worth}${other}${again}${off}${moment}`;
    }

    // Say the numbers once nothing has moved for a while.
    speak() {
      this.address?.keep();
      this.sharing?.moved();
      clearTimeout(this.speaking);
      this.speaking = setTimeout(() => {
        if (this.frame) return; // what moves is told when it is drawn
        const words = this.machine?.close && !this.covered ? `${this.words()} ${this.machine.mapWords.textContent}` : this.words();
        if (this.live.textContent !== words) this.live.textContent = words;
      }, QUIET);
    }

    // What is shown, for whoever reads the page by program.
    note() {
      const { now, play } = this;
      Object.assign(this.root.dataset, {
        task: this.kind, size: this.size, bet: this.covered ? "covered" : this.bet.playing ? "revealed" : "", shown: play.shown, exact: now.exact, network: now.network, kl: now.divergence,
        tv: now.variation, beside: this.seen.beside ? this.seen.beside.found[play.questions - 1].divergence : "", off: [...this.off].sort().join(" "), cuts: [...this.cuts].sort().join(" "), moment: this.run ? this.run.steps[this.momentNow] : "",
      });
    }

  }

  // Start a playground on an element; its promise `ready` is fulfilled when the first answer is drawn.
  function mount(root, options = {}) {
    const { task = "bijection", home = "", seed = 0, shown = 5 } = root.dataset;
    const given = { small: "small" in root.dataset, task, home, seed: +seed, shown: +shown };
    root.dataset.mounted = "true";
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Playground");
    root.playground = new Playground(root, `bw-playground-${++mounted}`, { ...given, ...options });
    return root.playground;
  }

  bwExplorer.start("playground", "Playground", (root) => mount(root), { FILES, SIZES, mount });
})();
