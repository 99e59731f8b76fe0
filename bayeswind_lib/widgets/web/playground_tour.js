// The guided tour: some steps, each sets the figure to a state, says what is to be seen there, and
// puts a ring around it. Every number in its words is read from the figure.
(function () {
  "use strict";

  const { button, element, number } = bwExplorer;
  const { count, measures, range } = bwTasks;
  const { bits } = bwViews;
  const SEED = 0; // the tour's episode, that of the poster

  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Divergence at the question at hand, without one head.
  function without(host, name) {
    const now = host.play.questions - 1, { answers } = bwTasks.says(host.network, host.play.inputs, { off: new Set([name]) });
    return measures(host.seen.exact[now], answers[now]).divergence;
  }

  // The head without which the answer at hand is worst.
  function mostNeeded(host) {
    const { n_layers: L, n_heads: H } = host.network.config;
    const names = range(L).flatMap((l) => range(H).map((h) => `${l}.${h}`));
    const costs = names.map((name) => without(host, name));
    return names[costs.indexOf(Math.max(...costs))];
  }

  // The bijection of the tour with some pairs shown, every head on, the trained network.
  async function bijection(host, shown, comesBack = false) {
    host.closePanels();
    if (host.kind !== "bijection" || host.size !== "main") await host.choose("bijection", "main");
    Object.assign(host, { off: new Set(), drawsBeside: false });
    host.machine.forget();
    host.plays.bijection.comesBack = comesBack;
    host.fresh(SEED, shown);
  }

  // Bring a head forward in the machine, whose drawing follows at once.
  function focus(host, name) {
    host.machine.state.focus = name;
    host.machine.meet();
  }

  // The row of a network in the table that compares.
  const rowOf = (host, name) => host.root.querySelector(`[data-network="${name}"] [data-value=kl]`)?.textContent;

  // part: what the ring is around; about: what of it the words are about, in full view beside the card; set: brings the figure there; later: what has to be fetched first,
  // after which the words are said again; say: what is to be seen.
  const STEPS = [
    {
      title: "Nothing is known", part: "answer", about: ".bw-chart", set: (host) => bijection(host, 0),
      say: ({ play, now }) => `A hidden one-to-one map sends ${play.V} keys to ${play.V} values. No pair is shown, so every value is equally ` +
        `probable: ${bits(now.exact)}. Dashed: the exact answer. Blue: a trained transformer, which runs in this page. It says ${bits(now.network)}.`,
    },
    {
      title: "A pair rules a value out", part: "answer", about: ".bw-chart", set: (host) => bijection(host, 1),
      say: ({ play, now, seen }) => `Key ${play.pairs[0][0]} has value ${play.pairs[0][1]}. No other key can have it: its bar is gone from the exact ` +
        `answer, and the network gives it ${number(seen.answers[1][play.pairs[0][1]])}. Entropy falls to ${bits(now.exact)}; the network says ${bits(now.network)}.`,
    },
    {
      title: "The staircase", part: "curve", about: ".bw-chart", set: (host) => bijection(host, 7),
      say: ({ play, now }) => `After ${play.shown} pairs ${play.V - play.shown} values are left. The dashed stairs are the exact entropy; ` +
        `the dots are the network's. Here: ${bits(now.exact)} and ${bits(now.network)}.`,
    },
    {
      title: "Measured in bits", part: "answer", about: ".bw-measures", set: (host) => bijection(host, 7),
      say: ({ now }) => "Equal entropies do not make equal beliefs. KL divergence says how many bits the network's answer costs beyond the truth: " +
        `${bits(now.divergence)}. Total variation is the share of probability in the wrong place: ${number(now.variation)}.`,
    },
    {
      title: "Where it looks", part: "machine", about: ".bw-node.bw-lit",
      async set(host) {
        await bijection(host, 5);
        focus(host, bwMachineMap.headOnShown(host.seen.patterns, host.play.tokens));
      },
      say(host) {
        const { tokens, key, shown } = host.play, from = tokens.length - 1, heads = host.seen.patterns.flat();
        const seen = tokens.filter((token, t) => token.kind === "value" && heads.some((pattern) => pattern[from][t] > 0.5)).length;
        return `To rule values out, it has to see them. This is the network, drawn whole; an arc is what a head reads from key ${key}. Of the ${shown} values ` +
          `shown, ${seen} get more than half the look of some head. Head ${host.machine.head} is in front; point at another to see its part.`;
      },
    },
    {
      title: "Cut a head", part: "machine", about: ".bw-m-answer .bw-chart",
      async set(host) {
        await bijection(host, 7);
        host.off = new Set([mostNeeded(host)]);
        host.update();
        focus(host, [...host.off][0]);
      },
      say: (host) => `Of all heads, this answer needs ${[...host.off][0]} most. With its wire cut, KL rises from ` +
        `${bits(host.seen.whole.found[host.play.shown].divergence)} to ${bits(host.now.divergence)}. ` +
        "Grey: the uncut network. Press another head to cut it too; \u201cRestore\u201d mends all.",
    },
    {
      title: "Not every network can", part: "compare", about: ".bw-compared",
      set: (host) => bijection(host, 7),
      later: (host) => host.compare.arrive(),
      say: (host) => "The same episode, other networks. One that sees a single token cannot know what was shown. " + (rowOf(host, "LSTM")
        ? `Its KL is ${rowOf(host, "MLP that sees one token")} bits; the LSTM's ${rowOf(host, "LSTM")}; the transformer's ${number(host.now.divergence)}.`
        : "They are on their way."),
    },
    {
      title: "A surprise", part: "answer", about: ".bw-chart",
      async set(host) {
        await bijection(host, 3, true);
        host.act((play) => play.ask(play.asked[0]));
      },
      say: ({ play, now, seen }) => `Key ${play.key} was shown: its value is ${play.map[play.key]} for certain, ${bits(now.exact)}. In training no key ever ` +
        `came back. The network rules that value out, as it learned to, and gives it ${number(seen.answers[play.shown][play.map[play.key]])}: it is ` +
        `${bits(now.divergence)} from the truth. It learned what its episodes asked, no more.`,
    },
    {
      title: "How it was learned", part: "training", about: ".bw-slider",
      set: (host) => bijection(host, 7),
      async later(host) {
        await host.training.arrive();
        host.moment(Math.floor(host.run.steps.length / 3));
      },
      say: (host) => (host.run ? `A network of the same kind after ${count(host.run.steps[host.momentNow], "update")}: KL ${bits(host.now.divergence)}. Move the slider: ` +
        "the bars, the stairs and the machine all follow." : "The network was kept at many moments of its training; they are on their way."),
    },
    {
      title: "A belief that moves", part: "episode", about: "[data-matrix=T]",
      async set(host) {
        host.closePanels();
        await host.choose("hmm", "main");
        host.fresh(SEED, 6);
      },
      say: ({ play, now }) => `Another task: a hidden chain emits symbols, and the network says which state it is in. After ${play.shown} symbols its belief is ` +
        `${bits(now.divergence)} from the exact filter. Drag a border in T or E, and both answers move. Now it is yours: break it.`,
    },
  ];

  // The tour of one playground: a button that opens it, and its card.
  function tour(host) {
    let at = -1;
    const title = element("div", { class: "bw-tour-title" }), words = element("p", {}), counted = element("span", { class: "bw-tour-count" });
    const next = button("Next", "tour-next", () => (at === STEPS.length - 1 ? end() : go(at + 1)));
    const back = button("Back", "tour-back", () => go(at - 1));
    const stop = button("End the tour", "tour-end", end);
    const opener = button("Guided tour", "tour", () => go(0));
    const field = element("div", { class: "bw-tour", role: "region", "aria-label": "Guided tour", hidden: true },
      element("div", { "aria-live": "polite" }, element("div", { class: "bw-tour-head" }, title, counted), words),
      element("div", { class: "bw-buttons" }, next, back, stop));

    const light = (name) => host.root.querySelectorAll(".bw-part").forEach((one) => one.classList.toggle("bw-lit", one.dataset.part === name));

    // The frame of a notebook's output may have no edge to stick to: there the card stands in what is lit.
    const stand = (part) => (part.matches("details") ? part.before(field) : part.prepend(field));
    const partOf = (name) => host.root.querySelector(`[data-part=${name}]`);

    // Scroll so that what a step is about stands below the page's header and above the card, where that is a sheet.
    function bring({ part, about }) {
      const behavior = calm() ? "auto" : "smooth";
      if (window.bwNotebook) {
        field.scrollIntoView({ block: "start", behavior });
        return;
      }
      const whole = partOf(part), seen = whole.querySelector(about) || whole, { top, bottom } = seen.getBoundingClientRect();
      const docked = getComputedStyle(field.parentElement).display === "grid";
      const least = parseFloat(getComputedStyle(whole).scrollMarginTop), most = window.innerHeight - (docked ? 0 : field.offsetHeight);
      const above = Math.min(top - whole.getBoundingClientRect().top, Math.max(0, most - least - (bottom - top) - 8)); // the part's name too, if there is room
      window.scrollBy({ top: top - above - least, behavior });
    }

    async function go(to) {
      const first = at < 0, step = STEPS[to];
      if (first) host.bet.set(false); // the tour says what a bet covers
      at = to;
      field.hidden = false;
      host.root.classList.add("bw-touring");
      opener.setAttribute("aria-expanded", "true");
      await step.set(host);
      if (at !== to) return; // the reader went on meanwhile
      title.textContent = step.title;
      words.textContent = step.say(host);
      counted.textContent = `${to + 1} of ${STEPS.length}`;
      back.disabled = to === 0;
      next.textContent = to === STEPS.length - 1 ? "Finish" : "Next";
      light(step.part);
      if (window.bwNotebook) stand(partOf(step.part));
      if (first || document.activeElement === document.body) next.focus({ preventScroll: true });
      bring(step);
      Object.assign(host.root.dataset, { tour: to });
      step.later?.(host).then(() => {
        if (at !== to) return;
        words.textContent = step.say(host);
        bring(step); // it has grown
      });
    }

    function end() {
      at = -1;
      light("");
      field.hidden = true;
      host.root.classList.remove("bw-touring");
      opener.setAttribute("aria-expanded", "false");
      delete host.root.dataset.tour;
      opener.focus();
    }

    host.root.addEventListener("keydown", (event) => { if (event.key === "Escape" && at >= 0) end(); });
    return { field, opener, go, end, steps: STEPS };
  }

  window.bwTour = { tour, STEPS };
})();
