// The playground's panels: the editors of an episode, other networks beside the first, and the way
// through training. Each is {field, draw}; `host` is the playground (playground.js): host.play is the
// episode, host.seen what the network said of it, host.act(change) changes the episode and redraws.
(function () {
  "use strict";

  const { button, element, number } = bwExplorer;
  const { FILES, KINDS, STATES, STORED, count, mean, measures, range, says } = bwTasks;
  const { bars, bits, curve } = bwViews;

  const megabytes = (entries) => `${(entries.reduce((sum, entry) => sum + entry.bytes, 0) / 1e6).toFixed(1)} MB`;

  // ---- steps and seeds, which both tasks have ---------------------------------------------------

  function stepButtons(host, words) {
    const next = button(words, "next", () => host.act((play) => play.next()));
    const back = button("Back", "back", () => host.act((play) => play.back()));
    const undo = button("Undo", "undo", () => host.undo());
    const play = button("Play", "play", () => host.playOn());
    function draw({ canNext, canBack }) {
      next.disabled = !canNext;
      back.disabled = !canBack;
      undo.disabled = !host.canUndo;
      play.textContent = host.pace ? "Pause" : "Play";
    }
    return { buttons: [next, play, back], undo, draw };
  }

  // A number that repeats an episode, and a button that draws another.
  function seedField(id, host, words) {
    const input = element("input", {
      type: "number", min: 0, max: 9999, id: `${id}-seed`, "data-control": "seed",
      onchange: () => host.fresh(Math.min(Math.max(Math.round(+input.value) || 0, 0), 9999)),
    });
    const random = button(words, "random", () => host.fresh(1 + Math.floor(Math.random() * 9999)));
    const field = element("div", { class: "bw-buttons" }, random,
      element("span", { class: "bw-field" }, element("label", { for: `${id}-seed` }, "its number"), input));
    return { field, draw: (play) => { input.value = play.seed; } };
  }

  // Chips 0..n-1 that stay the same nodes while an episode goes on, so that the focus stays too.
  function chipRow(kind, label, press, lines = "bw-ten") {
    const field = element("div", { class: `bw-chips ${lines}`, role: "group", "aria-label": label });
    function draw(n, dress) {
      if (field.children.length !== n) {
        field.replaceChildren(...range(n).map((i) => element("button", {
          type: "button", class: "bw-chip", "data-chip": `${kind} ${i}`, onclick: () => press(i),
        }, String(i))));
      }
      [...field.children].forEach((node, i) => dress(node, i));
    }
    return { field, draw };
  }

  // ---- the bijection's episode -------------------------------------------------------------------

  function bijectionEditor(id, host) {
    const keys = chipRow("key", "Keys: ask one", (key) => host.act((play) => play.ask(key)));
    const values = chipRow("value", "Values: say which one follows", (value) => host.act((play) => play.answer(value)));
    const steps = stepButtons(host, "Next pair");
    const over = button("Start over", "restart", () => host.act((play) => { play.shown = 0; }));
    const seed = seedField(id, host, "Random episode");
    const asked = element("div", { class: "bw-label" }), told = element("p", { class: "bw-pairs" });
    const again = element("input", { type: "checkbox", id: `${id}-again`, "data-control": "again", onchange: () => host.comeBack(again.checked) });
    const more = element("div", { class: "bw-buttons" }, ...steps.buttons, steps.undo, over);
    const surprise = element("label", { class: "bw-field", for: `${id}-again` }, again, " Surprises: a key may come back");
    const field = host.small ? element("div", {}, element("div", { class: "bw-buttons" }, ...steps.buttons.filter((node) => node.dataset.action !== "play")), told)
      : element("div", { class: "bw-editor" }, element("div", { class: "bw-label" }, "Ask a key"), keys.field, asked, values.field, more, told, seed.field, surprise);

    function draw() {
      const { play, seen } = host, at = play.shown, answer = seen.answers[at], truth = seen.exact[at];
      steps.draw(play);
      told.textContent = play.shown ? `Known: ${play.pairs.map(([key, value]) => `${key} \u2192 ${value}`).join(", ")}.`
        : `No pair is known yet${host.covered ? "" : ": every value is possible"}.`;
      if (host.small) return;
      over.disabled = !play.shown;
      seed.draw(play);
      again.checked = play.comesBack;
      asked.textContent = play.canNext ? `${host.covered ? "After the bet, say" : "Say"} which value key ${play.key} has` : `Key ${play.key} is the last question`;
      keys.draw(play.V, (node, key) => {
        const shown = play.wasShown(key);
        node.disabled = shown && !play.comesBack;
        node.classList.toggle("bw-asked", shown);
        node.setAttribute("aria-pressed", String(key === play.key));
        node.setAttribute("aria-label", `key ${key}${shown ? ", its value is known" : ""}`);
      });
      values.draw(play.V, (node, value) => {
        node.disabled = host.covered || !play.canNext || !truth[value];
        node.setAttribute("aria-label", `value ${value}${host.covered ? "" : `: exact ${number(truth[value])}, network ${number(answer[value])}`}`);
      });
    }
    return { field, draw };
  }

  // ---- the chain's episode -----------------------------------------------------------------------

  function chainEditor(id, host) {
    const drag = (which) => (row, border, place, atOnce) =>
      host.act((play) => play.move(which, row, border, place), { later: !atOnce, drag: true });
    const grab = () => { host.dragging = false; }; // what follows is undone by itself
    const moves = bwChain.matrixEditor("T", "T: where the chain goes next, percent", "state", grab, drag("transition"));
    const shows = bwChain.matrixEditor("E", "E: what it emits, percent", "symbol", grab, drag("emission"));
    const steps = stepButtons(host, "Next symbol, drawn");
    const seed = seedField(id, host, "Random chain");
    const over = button("Start over", "restart", () => host.act((play) => play.restart(play.symbols[0])));
    const emit = range(STATES).map((symbol) => element("button", {
      type: "button", class: "bw-chip", "data-chip": `symbol ${symbol}`, onclick: () => host.act((play) => play.next(symbol)),
    }));
    const told = element("p", { class: "bw-pairs" }), emitLabel = element("div", { class: "bw-label" });
    const field = element("div", { class: "bw-editor" },
      element("div", { class: "bw-pair-of-matrices" }, moves.field, shows.field),
      element("p", { class: "bw-hint" }, `Drag a border, or move it with the arrow keys. A row sums to one; nothing falls below ${bwTasks.LEAST} %, as in training.`),
      emitLabel,
      element("div", { class: "bw-chips bw-wide-chips", role: "group", "aria-label": "Emit a symbol" }, ...emit),
      element("div", { class: "bw-buttons" }, ...steps.buttons, steps.undo, over), told, seed.field);

    function draw() {
      const { play } = host, coming = play.coming;
      moves.draw(play.transition);
      shows.draw(play.emission);
      steps.draw(play);
      seed.draw(play);
      over.disabled = play.shown < 2;
      emitLabel.textContent = `Emit a symbol${host.covered ? "" : " (its probability, given those seen)"}`;
      emit.forEach((node, symbol) => { // what is likely to come tells what is believed now
        node.replaceChildren(`symbol ${symbol} `, ...(host.covered ? [] : [element("small", {}, number(coming[symbol], 2))]));
        node.disabled = !play.canNext;
      });
      told.textContent = `Seen: ${play.symbols.join(", ")}.`;
    }
    return { field, draw };
  }

  // ---- recall's episode, and regression's -----------------------------------------------------------

  function recallEditor(id, host) {
    const keys = chipRow("key", "Stored pairs: ask a key", (i) => host.act((play) => play.ask(play.keys[i])), "");
    const steps = stepButtons(host, "Next question");
    const over = button("Start over", "restart", () => host.act((play) => { play.shown = 0; }));
    const seed = seedField(id, host, "Random episode");
    const value = element("select", { id: `${id}-stored`, "data-control": "stored", onchange: () => host.act((play) => play.store(+value.value)) },
      ...range(KINDS).map((v) => element("option", { value: v }, String(v))));
    const label = element("label", { for: `${id}-stored` }), told = element("p", { class: "bw-pairs" });
    const storing = element("div", {}, element("div", { class: "bw-field" }, label, value), element("p", { class: "bw-hint" }, "A press on a value in the figure stores that one."));
    const field = element("div", { class: "bw-editor" }, element("div", { class: "bw-label" }, "Stored pairs: ask a key"), keys.field,
      storing, element("div", { class: "bw-buttons" }, ...steps.buttons, steps.undo, over), told, seed.field);

    function draw() {
      const { play } = host;
      steps.draw(play);
      seed.draw(play);
      over.disabled = !play.shown;
      storing.hidden = host.covered; // it names the value that is asked for
      label.textContent = `Value stored with key ${play.key}`;
      value.value = play.valueOf(play.key);
      told.textContent = play.shown ? `Asked so far: ${play.asked.slice(0, play.shown).join(", ")}. No answer is shown.` : "All pairs are stored before the first question.";
      keys.draw(STORED, (node, i) => {
        const key = play.keys[i], done = play.wasAsked(key);
        node.textContent = `${key} \u2192 ${play.values[i]}`;
        node.disabled = done;
        node.setAttribute("aria-pressed", String(key === play.key && !host.covered));
        node.setAttribute("aria-label", `${node.textContent}: key and value of pair ${i + 1}${done ? ", asked before" : ""}`);
      });
      keys.field.classList.add("bw-wide-chips");
    }
    return { field, draw };
  }

  function lineEditor(id, host) {
    const steps = stepButtons(host, "Next point, drawn");
    const over = button("Start over", "restart", () => host.act((play) => { play.shown = 0; }));
    const seed = seedField(id, host, "Random line");
    const asked = bwExplorer.slider(id, "asked", "Asked at t", [-bwTasks.REACH, bwTasks.REACH, 0.1], 0, (t) => host.act((play) => play.ask(t), { later: true, drag: true }));
    asked.input.addEventListener("pointerdown", () => { host.dragging = false; });
    const told = element("p", { class: "bw-pairs" });
    const field = element("div", { class: "bw-editor" },
      element("p", { class: "bw-hint" }, "Drag a point, or the line that is asked; a press elsewhere in the figure adds a point. By keyboard: arrow keys on a point."),
      asked.field, element("div", { class: "bw-buttons" }, ...steps.buttons, steps.undo, over), told, seed.field,
      element("p", { class: "bw-hint" }, "A hidden line, intercept and slope each drawn from N(0, 1), gives every y with a standard deviation of 0.5. In training a network read both numbers of x at random; here the first is always 1."));

    function draw() {
      const { play } = host;
      steps.draw(play);
      seed.draw(play);
      over.disabled = !play.shown;
      asked.input.value = play.asked;
      asked.output.textContent = number(play.asked, 1);
      told.textContent = play.shown ? `Known (t, y): ${play.known.map(([t, y]) => `(${number(t, 1)}, ${number(y, 1)})`).join(", ")}.` : "No point is known yet.";
    }
    return { field, draw };
  }

  // ---- panels that open ----------------------------------------------------------------------------

  // A part that opens, and loads what it needs when it does. needs(): entries of FILES, or a sentence
  // that says why there are none; shown(loaded) fills `body` and draws.
  function opening(host, name, title, needs, shown, closed = () => {}) {
    const words = element("span", {}), size = element("span", { class: "bw-size" });
    const trouble = element("div", {}), body = element("div", { class: "bw-more-body" });
    const details = element("details", { class: "bw-part bw-more", "data-part": name, ontoggle: () => (details.open ? draw() : shut()) },
      element("summary", {}, words, size), trouble, body);
    words.textContent = title;
    const waiters = [];
    let loaded = null, wanted = "";

    async function fetchAll(entries, key) {
      wanted = key;
      loaded = null;
      const found = await host.load(entries, trouble);
      if (wanted !== key) return;
      loaded = found;
      draw();
    }

    function shut() {
      body.replaceChildren(); // when it opens again, nothing old is to be seen first
      closed();
    }

    // Open it; fulfilled when it shows what it loaded.
    function arrive() {
      return new Promise((here) => {
        waiters.push(here);
        details.open = true;
        draw();
      });
    }

    function draw() {
      const found = needs(), none = typeof found === "string";
      size.textContent = none ? "" : ` ${megabytes(found)}`;
      if (!details.open) return;
      if (none) {
        wanted = "";
        trouble.replaceChildren();
        body.replaceChildren(element("p", { class: "bw-hint" }, found));
        return;
      }
      const key = found.map((entry) => entry.file).join();
      if (wanted !== key) {
        body.replaceChildren();
        fetchAll(found, key);
      } else if (loaded) {
        shown(loaded, body);
        waiters.splice(0).forEach((here) => here());
      }
    }
    return { field: details, draw, arrive };
  }

  const COLOURS = ["bw-line-0", "bw-line-1", "bw-line-2", "bw-line-3", "bw-line-4"], MARKS = ["circle", "square", "up", "cross", "down"];

  // Other networks on the same episode.
  function comparePanel(host) {
    const entropies = curve(240), table = element("table", { class: "bw-compared" });
    const charts = [];
    const multiples = element("div", { class: "bw-multiples" });
    const needs = () => (host.size === "published" ? "The other networks learned 10 keys: choose 10 keys to compare them." : host.rivals);

    function answersOf(networks) {
      const { play, seen } = host;
      const others = host.rivals.map(({ name }, i) => ({ name, answers: says(networks[i], play.inputs).answers }));
      return [{ name: host.networkName, answers: seen.answers }, ...others].map((one, i) => ({
        ...one, kind: COLOURS[i], mark: MARKS[i], found: seen.exact.map((truth, k) => measures(truth, one.answers[k], play.gaussian)),
      }));
    }

    function addChart() {
      const both = { true: bwLine.density(130, 36), false: bars(130, 36) }, words = element("div", { class: "bw-multiple-name" });
      const field = element("div", {}, words);
      charts.push({ field, words, draw(what) {
        const { field: box, draw } = both[Boolean(host.play.gaussian)];
        if (box.parentElement !== field) field.replaceChildren(words, box);
        draw(what);
      } });
      multiples.append(field);
    }

    function shown(networks, body) {
      const { play, seen } = host, compared = answersOf(networks), now = play.questions - 1;
      if (!body.contains(table)) body.replaceChildren(multiples, entropies.field, table);
      while (charts.length < compared.length) addChart();
      charts.forEach(({ field }, i) => { field.hidden = i >= compared.length; });
      compared.forEach(({ name, kind, answers }, i) => {
        charts[i].words.textContent = name;
        charts[i].draw({
          truth: seen.exact[now], rows: [{ p: answers[now], kind, name }], labels: play.labels, title: `${name}.`, heading: "", below: play.outcome,
        });
      });
      entropies.draw({
        title: "entropy (bits)", below: play.xTitle, truth: seen.found.map((one) => one.exact), now, limit: play.limit,
        lines: compared.map(({ name, kind, mark, found }) => ({ name, kind, mark, values: found.map((one) => one.network) })),
        top: host.top, words: host.stepWord,
      });
      tabulate(compared, now);
    }

    function tabulate(compared, now) {
      const head = (words) => element("th", { scope: "col" }, words);
      const cell = (value, name) => element("td", { "data-value": name }, number(value));
      table.replaceChildren(
        element("caption", {}, "Now, in bits (total variation: 0 to 1), and the mean divergence over this episode so far"),
        element("thead", {}, element("tr", {}, head("network"), head("entropy"), head("KL"), head("TV"), head("mean KL"))),
        element("tbody", {}, ...compared.map(({ name, kind, found }) => element("tr", { "data-network": name },
          element("th", { scope: "row" }, element("span", { class: `bw-key ${kind}`, "aria-hidden": "true" }), name),
          cell(found[now].network, "entropy"), cell(found[now].divergence, "kl"), cell(found[now].variation, "tv"),
          cell(mean(found.map((one) => one.divergence)), "mean")))));
    }
    return opening(host, "compare", "Compare networks on this episode", needs, shown);
  }

  // The network as it was at many moments of its training; the whole figure follows the slider.
  function trainingPanel(id, host) {
    const course = curve(210), told = element("p", { class: "bw-hint" });
    const slide = bwExplorer.slider(id, "moment", "Updates done", [0, 0], 0, (i) => go(i));
    const earlier = button("Earlier", "earlier", () => go(host.momentNow - 1));
    const later = button("Later", "later", () => go(host.momentNow + 1));
    const go = (i) => {
      stop();
      host.moment(i);
    };
    const play = button("Play", "play-training", () => (timer ? stop() : start()));
    let timer = 0;

    // From moment to moment to the end, at a pace that can be followed; a second press stops it.
    function start() {
      if (host.momentNow === host.run.steps.length - 1) host.moment(0);
      timer = setInterval(() => {
        if (!host.run || !play.isConnected) stop();
        else host.moment(host.momentNow + 1);
        if (timer && host.momentNow === host.run.steps.length - 1) stop();
      }, 700);
      play.textContent = "Pause";
    }

    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    }
    const needs = () => (host.size === "published" ? "The run that was kept learned 10 keys: choose 10 keys to step through it."
      : FILES[host.kind].run ? [FILES[host.kind].run] : "No run of this task was kept. Those of the bijection and of the hidden chain were.");
    let waiting = 0;

    function shown([run], body) {
      if (!body.contains(course.field)) {
        body.replaceChildren(element("div", { class: "bw-controls" }, slide.field, element("div", { class: "bw-buttons" }, play, earlier, later)), told, course.field);
      }
      if (host.run !== run) {
        host.follow(run);
        return;
      }
      const now = host.momentNow, last = run.steps.length - 1;
      slide.input.max = last;
      slide.input.value = now;
      slide.input.setAttribute("aria-valuetext", `${run.steps[now]} updates`);
      slide.output.textContent = run.steps[now];
      earlier.disabled = now === 0;
      later.disabled = now === last;
      clearTimeout(waiting); // 20 networks read the episode: not at every move of a hand
      waiting = setTimeout(() => drawCourse(run, now), 60);
    }

    function drawCourse(run, now) {
      const { play, seen } = host;
      if (!seen || host.run !== run) return;
      const cost = run.networks.map((network) => {
        const { answers } = says(network, play.inputs);
        return mean(seen.exact.map((truth, k) => measures(truth, answers[k]).divergence));
      });
      told.textContent = `A network of the same kind, kept at ${run.steps.length} moments of its training; the whole figure shows it. After ${count(run.steps[now], "update")} it is ${bits(cost[now])} from the truth, on average over this episode so far; ` +
        `at the start ${bits(cost[0])}, at the end ${bits(cost[cost.length - 1])}.`;
      course.draw({
        title: "mean KL (bits), this episode", below: "updates", lines: [{ name: "network", kind: "bw-line-0", values: cost }],
        now, limit: cost.length, top: Math.max(0.1, ...cost) * 1.05, words: (i) => String(run.steps[i]),
      });
      course.field.dataset.course = cost.map((h) => h.toFixed(6)).join(" ");
    }
    return opening(host, "training", "Step through its training", needs, shown, () => {
      stop();
      host.follow(null);
    });
  }

  window.bwPanels = { bijectionEditor, chainEditor, comparePanel, lineEditor, megabytes, recallEditor, trainingPanel };
})();
