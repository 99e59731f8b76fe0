// The playground: a trained network beside the exact posterior, step by step. This file holds what is
// shown now (the episode, the network, what is switched off) and puts the views together; tasks,
// views, panels and the tour have files of their own. It mounts on every element
// .bw-explorer[data-explorer="playground"]; what stands there before (a poster) stays until the first
// answer can be drawn. data-small: one short figure; data-task: a task of FILES; data-home: the
// address of the page with the whole playground.
(function () {
  "use strict";

  const { button, element, number, radios } = bwExplorer;
  const { Bijection, Chain, FILES, KINDS, Line, Recall, STATES, count, measures, range, says } = bwTasks;
  const { bits, mostSeen, part } = bwViews;
  const { megabytes } = bwPanels;
  const SIZES = { main: 10, published: 20 }; // keys of the two networks of the bijection
  const QUIET = 450; // milliseconds without a change before the numbers are spoken
  const PACE = 900; // milliseconds of a step while it plays
  const MEMORY = 200; // changes that can be undone
  const SHOWN = ["value", "symbol"]; // kinds of tokens that an answer is made of
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

  // The head whose look, from the question at hand, is nearest to an even one on all that was shown
  // (values, or symbols): [layer, head]. The overlap is 1 if it is that, 0 if it sees none of them.
  function headOnShown(patterns, tokens) {
    const from = tokens.length - 1, shown = range(tokens.length).filter((t) => SHOWN.includes(tokens[t].kind));
    const overlap = (row) => shown.reduce((sum, t) => sum + Math.min(row[t], 1 / shown.length), 0);
    const all = patterns.map((row) => row.map((pattern) => overlap(pattern[from])));
    const most = Math.max(...all.flat()), layer = all.findIndex((row) => row.includes(most));
    return [layer, all[layer].indexOf(most)];
  }

  // ---- one playground ------------------------------------------------------------------------

  class Playground {
    constructor(root, id, { small = false, task = "bijection", home = "", seed = 0, shown = 5 } = {}) {
      Object.assign(this, { root, id, small, home, kind: task, size: "main", off: new Set(), layer: 0, head: 0 });
      Object.assign(this, { pinned: null, cell: null, hovered: null, together: false, run: null, momentNow: null, past: [], networks: {} });
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
    get from() { return Math.min(this.hovered ?? this.pinned ?? Infinity, this.play.tokens.length - 1); }
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
      const seen = new Set(), controls = ["episode", "look", "training"].map((name) => this.root.querySelector(`[data-part=${name}]`));
      let above = false;
      const observer = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting, boundingClientRect } of entries) {
          if (target === this.answerBox) above = !isIntersecting && boundingClientRect.bottom <= 100;
          else seen[isIntersecting ? "add" : "delete"](target);
        }
        this.mini.field.hidden = !(above && seen.size);
      }, { rootMargin: "-90px 0px 0px" });
      for (const part of [this.answerBox, ...controls]) observer.observe(part);
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
      this.pinned = this.cell = null;
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
      this.pinned = this.cell = null;
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
      Object.assign(this, { kind, size, run: null, momentNow: null, headChosen: false });
      this.off.clear();
      if (grown) {
        this.past = this.past.filter((one) => one.kind !== "bijection");
        this.plays.bijection = new Bijection(V, this.plays.bijection.seed, this.plays.bijection.comesBack);
      }
      this.pinned = this.cell = null;
      this.update();
    }

    // Put another network of the task beside the first, as soon as it is here; null takes it away.
    async putBeside(entry) {
      const { kind } = this;
      this.besides[kind] = entry;
      if (entry && !this.networks[entry.file]) [this.networks[entry.file]] = await load([entry], this.waiting);
      if (kind === this.kind) this.update();
    }

    // Switch a layer or a head, named "l" or "l.h". A head of a layer that is off comes back alone.
    flip(name) {
      const [layer, head] = name.split(".");
      if (head !== undefined && this.off.delete(layer)) {
        this.seen.patterns[layer].forEach((_, h) => this.off.add(`${layer}.${h}`));
      }
      if (!this.off.delete(name)) this.off.add(name);
      this.update();
    }

    allOn() { this.off.clear(); this.update(); }

    chooseHead(layer, head) {
      Object.assign(this, { layer, head, headChosen: true });
      this.showTogether(false);
      this.speak();
    }

    showTogether(yes) {
      this.together = this.union.checked = yes;
      this.drawLook();
    }

    look(t) { this.hovered = t; this.drawLook(); }

    // Keep what one token looks at, and perhaps a cell of it; a second time lets go.
    pin(t, cell = null) {
      this.pinned = this.pinned === t && cell === null ? null : t;
      this.cell = cell;
      this.hovered = null;
      this.drawLook();
      this.speak();
    }

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
      if (beside) {
        const i = this.rivals.indexOf(beside);
        this.seen.beside = { ...told(says(this.networks[beside.file], inputs).answers), name: beside.name, kind: `bw-line-${i + 1}`, mark: MARKS[i] };
      }
      if (!this.headChosen) {
        [this.layer, this.head] = headOnShown(ran.patterns, this.play.tokens);
        this.headChosen = this.play.shown > 0;
      }
      this.layer = Math.min(this.layer, ran.patterns.length - 1);
      this.head = Math.min(this.head, ran.patterns[0].length - 1);
    }

    get now() { return this.seen.found[this.play.questions - 1]; }

    update() {
      const start = performance.now(), before = document.activeElement;
      this.ask();
      this.draw();
      this.keepFocus(before);
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
      this.answer = bwViews.bars(this.small ? 200 : 240);
      this.measured = bwViews.measureList();
      this.entropies = bwViews.scrubbed(bwViews.curve(this.small ? 200 : 220), (i, grabbed) => {
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
      this.board = bwViews.headBoard({ choose: (l, h) => this.chooseHead(l, h), head: (l, h) => this.flip(`${l}.${h}`), layer: (l) => this.flip(`${l}`) });
      this.strip = bwViews.tokenStrip({ look: (t) => this.look(t), pin: (t) => this.pin(t) });
      this.map = bwViews.matrix((t, s) => this.pin(t, s));
      this.compare = bwPanels.comparePanel(this);
      this.training = bwPanels.trainingPanel(this.id, this);
      this.tour = bwTour.tour(this);
      if (!window.bwNotebook) {
        this.address = bwState.keeper(this);
        this.sharing = bwState.sharing(this.id, this);
      }
      this.editing = element("div", {});
      this.lookWords = element("p", { class: "bw-look" });
      this.union = element("input", { type: "checkbox", id: `${this.id}-union`, "data-control": "union", onchange: () => { this.showTogether(this.union.checked); this.speak(); } });
      this.lit = button("All on", "all-on", () => this.allOn());
      const notice = bwNetwork.notice ? [element("p", { class: "bw-notice" }, bwNetwork.notice)] : [];
      this.root.replaceChildren(this.header(), ...(this.sharing ? [this.sharing.field] : []), this.waiting, ...notice,
        element("div", { class: "bw-stage" }, element("div", { class: "bw-hold" }, this.mini.field, element("div", { class: "bw-columns" },
          part(this.id, "answer", this.question, this.answerLegend(), this.answerBox, this.bet.line, this.measured.field, this.status),
          part(this.id, "episode", "The episode", this.editing),
          part(this.id, "curve", "How unsure, step by step", this.entropies.field),
          part(this.id, "look", "Where it looks", this.strip.field,
            element("label", { class: "bw-field", for: `${this.id}-union` }, this.union, " the largest look of any head"), this.lookWords, element("div", { class: "bw-board-line" },
            element("span", { class: "bw-hint" }, "Every head, by layer: a filled cell is a look. Choose one, or switch it off."), this.lit), this.board.field, this.map.field),
          element("div", { class: "bw-panels" }, this.compare.field, this.training.field))), this.tour.field),
        this.live);
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
        const [network, off] = sources[kind] || [this.networks[this.beside.file]];
        return bwLine.PLACES.map((t) => says(network, play.inputsAt(t), off ? { off } : {}).answers[play.shown]);
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
      const { seen } = this, field = this.editors[this.kind].field;
      if (field.parentElement !== this.editing) this.editing.replaceChildren(field);
      this.markHeader();
      this.status.textContent = this.words(false);
      this.board.draw(seen.patterns, this.off);
      this.drawLook();
      this.compare.draw();
      this.training.draw();
      this.lit.disabled = this.off.size === 0;
    }

    markHeader() {
      this.sizes.hidden = this.kind !== "bijection";
      this.drawMenu();
      for (const input of this.root.querySelectorAll(".bw-header input[type=radio]")) {
        input.checked = input.value === this.kind || input.value === this.size;
      }
    }

    // What one token looks at: with the chosen head, or the largest look of any head that is on.
    lookFrom(from) {
      const { layer, head, off, seen } = this;
      if (!this.together) return seen.patterns[layer][head][from];
      const on = seen.patterns.flatMap((row, l) => row.filter((_, h) => !off.has(`${l}`) && !off.has(`${l}.${h}`)));
      return range(from + 1).map((t) => Math.max(0, ...on.map((pattern) => pattern[from][t])));
    }

    drawLook() {
      if (this.small || !this.seen) return;
      const { layer, head, from } = this, { tokens } = this.play, row = this.lookFrom(from);
      const cell = this.hovered === null && this.cell <= from ? this.cell : null;
      this.strip.draw(tokens, row, from, cell);
      this.board.mark(layer, head);
      this.map.draw({ tokens, pattern: this.seen.patterns[layer][head], from, to: cell, title: `head ${layer}.${head}` });
      this.lookWords.textContent = this.lookSentence(tokens, row, from, cell);
      Object.assign(this.root.dataset, { head: `${layer}.${head}`, from, looks: [...row].map((p) => p.toFixed(6)).join(" ") });
    }

    lookSentence(tokens, row, from, cell) {
      const { layer, head, off } = this, who = this.together ? "the head that looks most at each token" : `head ${layer}.${head}`;
      const most = cell === null ? `looks most at ${mostSeen(tokens, row, 3)}` : `gives ${number(row[cell])} of its look to ${tokens[cell].long}`;
      const silent = !this.together && (off.has(`${layer}.${head}`) || off.has(`${layer}`)) ? " It is switched off: what it sees, it does not hand on." : "";
      return `From ${tokens[from].long}, ${who} ${most}.${silent}`;
    }

    // ---- words ---------------------------------------------------------------------------------

    // One or two sentences that say all numbers, or only what does not stand in the list of measures.
    words(all = true) {
      const { now, play } = this;
      if (this.covered) return `${play.place}.${all ? " The answer is covered: place your bet." : ""}`;
      const names = [...this.off], heads = names.filter((name) => name.includes(".")).length, layers = names.length - heads;
      const parts = [...(heads ? [count(heads, "head")] : []), ...(layers ? [count(layers, "layer")] : [])].join(" and ");
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
        const words = this.small || !this.lookWords || this.covered ? this.words() : `${this.words()} ${this.lookWords.textContent}`;
        if (this.live.textContent !== words) this.live.textContent = words;
      }, QUIET);
    }

    // What is shown, for whoever reads the page by program.
    note() {
      const { now, play } = this;
      Object.assign(this.root.dataset, {
        task: this.kind, size: this.size, bet: this.covered ? "covered" : this.bet.playing ? "revealed" : "", shown: play.shown, exact: now.exact, network: now.network, kl: now.divergence,
        tv: now.variation, beside: this.seen.beside ? this.seen.beside.found[play.questions - 1].divergence : "", off: [...this.off].sort().join(" "), moment: this.run ? this.run.steps[this.momentNow] : "",
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

  bwExplorer.start("playground", "Playground", (root) => mount(root), { FILES, SIZES, headOnShown, mount });
})();
