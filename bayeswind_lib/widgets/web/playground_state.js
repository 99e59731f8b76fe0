// The playground's state as words of an address, and back: #playground?task=bijection&shown=5&... A link
// holds the whole episode, so that it opens the same one, also where chance or a seed would draw another.
(function () {
  "use strict";

  const { arrive, button, element, land } = bwExplorer;
  const { FILES, KINDS, LEAST, POINTS, REACH, STATES, STORED, SYMBOLS, TALL } = bwTasks;
  const HASH = /^#playground\?(.+)$/;
  const OPENS = 5; // pairs, symbols or points that a figure opens with
  const QUIET = 400; // milliseconds without a change before the address says it

  const listed = (row) => row.join(".");
  const matrix = (rows) => rows.map(listed).join("_");
  const whole = (words) => String(words).split(".").map(Number);

  // Whether a row holds n different numbers of 0 to most - 1.
  const differ = (row, n, most) => row.length === n && new Set(row).size === n && within(row, most);
  const within = (row, most) => row.every((v) => Number.isInteger(v) && v >= 0 && v < most);

  function must(holds) {
    if (!holds) throw new Error("the address names no state of the playground");
  }

  // ---- episodes ------------------------------------------------------------------------------

  // Of each task: write an episode as words; read words into an episode that is as it comes from a seed.
  const EPISODES = {
    bijection: {
      write: ({ asked, map, comesBack }) => ({ asked: listed(asked), map: listed(map), ...(comesBack ? { again: 1 } : {}) }),
      read(play, words) {
        const { V } = play, asked = whole(words.asked), map = whole(words.map), comesBack = words.again === "1";
        must(differ(map, V, V) && (comesBack ? asked.length === V && within(asked, V) : differ(asked, V, V)));
        Object.assign(play, { asked, map, comesBack, shown: 0 });
      },
    },
    hmm: {
      write: ({ transition, emission, symbols }) => ({ T: matrix(transition), E: matrix(emission), symbols: listed(symbols) }),
      read(play, words) {
        const [transition, emission] = [words.T, words.E].map((rows) => String(rows).split("_").map(whole));
        for (const row of [...transition, ...emission]) {
          must(row.length === STATES && row.every((cent) => Number.isInteger(cent) && cent >= LEAST) && row.reduce((a, b) => a + b) === 100);
        }
        const symbols = whole(words.symbols);
        must(transition.length === STATES && emission.length === STATES && symbols.length <= SYMBOLS && within(symbols, STATES));
        Object.assign(play, { transition, emission, symbols, later: [] });
      },
    },
    recall: {
      write: ({ keys, values, asked }) => ({ keys: listed(keys), values: listed(values), asked: listed(asked) }),
      read(play, words) {
        const [keys, values, asked] = [words.keys, words.values, words.asked].map(whole);
        must(differ(keys, STORED, KINDS) && differ(values, STORED, KINDS) && differ(asked, STORED, KINDS) && asked.every((key) => keys.includes(key)));
        Object.assign(play, { keys, values, asked, shown: 0 });
      },
    },
    regression: {
      write: ({ points }) => ({ points: points.map((point) => listed(point.map((v) => Math.round(10 * v)))).join("_") }), // tenths
      read(play, words) {
        const points = String(words.points).split("_").map((point) => whole(point).map((v) => v / 10));
        must(points.length === POINTS && points.every(([t, y, ...more]) => !more.length && Math.abs(t) <= REACH && Math.abs(y) <= TALL));
        Object.assign(play, { points, shown: 0 });
      },
    },
  };

  // ---- the whole state -------------------------------------------------------------------------

  // What a playground shows, as words.
  function said(host) {
    const { kind, size, play, off, cuts, run } = host, { flow, about, head, focus } = host.machine.state;
    return {
      task: kind, ...(size === "main" ? {} : { size }), seed: play.seed, ...(kind === "hmm" ? {} : { shown: play.shown }),
      ...EPISODES[kind].write(play), ...(off.size ? { off: [...off].sort().join("_") } : {}),
      ...(flow === "attention" ? {} : { flow }), ...(about === "true" ? {} : { about }), ...(head ? { head } : {}), ...(focus ? { focus } : {}),
      ...(host.beside ? { beside: host.rivals.indexOf(host.beside) } : {}), ...(host.drawsBeside ? { drawn: 1 } : {}), ...(cuts.size ? { cut: [...cuts].sort().join("_") } : {}), ...(run ? { moment: host.momentNow } : {}), ...(host.bet.on ? { bet: 1 } : {}),
    };
  }

  // at: whether it brings a reader to the machine.
  const hashOf = (host, at = false) => `#playground?${new URLSearchParams({ ...said(host), ...(at ? { at: "machine" } : {}) })}`;

  // The state that a link to the machine names, in the words of the playground; what it does not know is left out.
  function ofMachine(host, { task, net, pairs, seed, off, flow, about, focus }) {
    const again = task === "returning", kind = again || !Object.hasOwn(EPISODES, task) ? "bijection" : task;
    const rivals = [...FILES[kind].rivals, ...(again ? [FILES.bijection.returning] : [])];
    const beside = rivals.findIndex((entry) => (again ? entry === FILES.bijection.returning : net !== "transformer" && entry.file.includes(`-${net}-`)));
    const parts = String(off).replaceAll(",", "_"), other = beside >= 0;
    return {
      task: kind, shown: String(Math.max(0, Math.round(+pairs) || 0)), seed, ...(again ? { again: "1" } : {}), ...(other ? { beside: String(beside), drawn: "1", cut: parts } : { off: parts }), flow, about, focus,
    };
  }

  // The words of an address, or null where it names no state of the playground.
  function wordsOf(hash) {
    const found = hash.match(HASH);
    return found && Object.fromEntries(new URLSearchParams(found[1]));
  }

  // Bring a playground to the state that words name, and where they name only a part of it to its opening state; rejects
  // where there is no such state.
  async function apply(host, words) {
    const { task: kind = "bijection", size = "main", shown = OPENS } = words;
    must(Object.hasOwn(EPISODES, kind) && host.has(kind, size) && /^\d+$/.test(shown));
    const play = host.made(kind, size, Math.max(0, Math.round(+words.seed) || 0), words.again === "1");
    if (kind !== "hmm" || words.symbols || words.T || words.E) EPISODES[kind].read(play, { ...EPISODES[kind].write(play), ...words });
    while (!words.symbols && play.shown < +shown && play.canNext) play.next();
    host.bet.set(words.bet === "1"); // before anything of the answer is drawn
    await host.choose(kind, size);
    host.remember();
    const parts = (names) => new Set((names || "").split("_"));
    host.off = bwMachine.fitted(parts(words.off), host.network, play);
    const { flow, about } = bwMachine.cleaned(words);
    Object.assign(host.machine.state, { flow, about, head: words.head || "", focus: words.focus || "" });
    host.replace(play);
    await host.putBeside((/^\d+$/.test(words.beside) && host.rivals[+words.beside]) || null);
    host.drawBeside(words.drawn === "1", parts(words.cut));
    if (/^\d+$/.test(words.moment)) {
      await host.training.arrive();
      host.moment(+words.moment);
    }
  }

  // A figure whose state an address names comes to the top of the window, from the first moment on.
  function meet(root) {
    const gap = () => (root.machineRoot?.machine && wordsOf(location.hash)?.at === "machine" ? bwMachine.gapTo(root.machineRoot)() : top());
    const top = () => root.getBoundingClientRect().top - parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop || 0);
    const come = (how) => { if (wordsOf(location.hash)) how(gap); };
    window.addEventListener("hashchange", () => come(arrive));
    come(land);
  }

  // ---- the address, and the button that copies it ------------------------------------------------

  // Keep a playground's state in the page's address, once the reader has moved something; follow an
  // address that comes. In a notebook there is no page to come back to, so nothing is kept.
  function keeper(host) {
    let waiting = 0, last = null;

    function kept() {
      const hash = hashOf(host);
      if (last !== null && hash !== last) history.replaceState(null, "", hash);
      last = hash;
    }

    function keep() {
      clearTimeout(waiting);
      if (last === null) last = hashOf(host);
      else waiting = setTimeout(kept, QUIET);
    }

    function follow() {
      const words = wordsOf(location.hash);
      if (words && location.hash !== last) open(words);
    }

    function open(words) {
      return apply(host, words).then(() => { last = hashOf(host); }, (problem) => {
        host.waiting.replaceChildren(element("p", { class: "bw-error", role: "alert" }, `This link could not be opened: ${problem.message}.`));
      });
    }

    window.addEventListener("hashchange", follow);
    return { keep, follow, open };
  }

  // A button that copies the address of what is shown. Where a browser does not let it (a page from a
  // folder may not), the address stands selected in a field.
  function sharing(id, host) {
    const told = element("span", {}), place = element("input", { type: "text", readonly: true, id: `${id}-address`, "aria-label": "Address of this state", onfocus: () => place.select() });
    const field = element("div", { class: "bw-shared", "aria-live": "polite", hidden: true }, told, place);
    const opener = button("Share", "share", share);

    async function share() {
      const hash = hashOf(host);
      place.value = `${location.href.split("#")[0]}${hash}`;
      history.replaceState(null, "", hash);
      let copied = false;
      try {
        await navigator.clipboard.writeText(place.value);
        copied = true;
      } catch {
        // no clipboard here, or not for this page: the field below has it
      }
      told.textContent = copied ? "The address of this state is copied." : "Your browser does not let this page copy. The address of this state:";
      place.hidden = copied;
      field.hidden = false;
      field.dataset.copied = String(copied);
      if (!copied) place.focus();
    }

    // What was shared is no longer what is shown.
    function moved() {
      if (!field.hidden && place.value !== `${location.href.split("#")[0]}${hashOf(host)}`) field.hidden = true;
    }
    return { opener, field, moved };
  }

  window.bwState = { apply, hashOf, keeper, meet, ofMachine, said, sharing, wordsOf };
})();
