// The coin explorer: eleven kinds of coins in a bag, one of them tossed. Prior, posterior, the exact prediction of the
// next toss, and beside it a predictor that is wrong. A classic script without dependencies, so that it also runs from a
// folder. It mounts on every element .bw-explorer[data-explorer="coin"]; the tests compare it with a sum over all coins.
(function () {
  "use strict";

  const {
    axes, button, chipInFocus, count, dragging, element, entropyBits, frame, generator, handOn, klBits, number, player, radios, range,
    readout, slider, statusLine, text, trail, watchWidth, within,
  } = bwExplorer;
  const COINS = range(11).map((i) => i / 10); // chance of heads
  const MOST = 12; // tosses

  // ---- the mathematics -----------------------------------------------------------------------

  const sum = (row) => row.reduce((total, x) => total + x, 0);

  // Probability of each coin after tosses (1: heads), or null where no coin of the prior can have shown them.
  function posterior(prior, tosses) {
    const weight = prior.map((p, i) => tosses.reduce((w, toss) => w * (toss ? COINS[i] : 1 - COINS[i]), p));
    const total = sum(weight);
    return total > 0 ? weight.map((w) => w / total) : null;
  }

  // Chance of heads, averaged over a belief about coins.
  const heads = (belief) => sum(belief.map((p, i) => p * COINS[i]));

  // What wrong predictors say of heads.
  const OTHERS = {
    mirror: ["the mirror: heads and tails exchanged", (belief) => 1 - heads(belief)],
    likeliest: ["the likeliest coin alone", (belief) => COINS[belief.indexOf(Math.max(...belief))]],
    prior: ["no memory: the prior", (belief, prior) => heads(prior)],
  };

  // The prior with another probability of one coin; the others share what is left as before.
  function raised(prior, coin, p) {
    const left = sum(prior) - prior[coin];
    return prior.map((q, i) => (i === coin ? p : left > 1e-12 ? (q * (1 - p)) / left : (1 - p) / (COINS.length - 1)));
  }

  // ---- the explorer --------------------------------------------------------------------------

  const even = () => COINS.map(() => 1 / COINS.length);
  const both = (p) => [p, 1 - p];
  const bits = (value) => (value === Infinity ? "infinitely many bits" : `${number(value)} bits`);

  function mount(root, id) {
    let prior = even(), tosses = [], coin = 7, other = "mirror", seed = 2, nature, spot = null, held = null, heightOf;

    const which = slider(id, "coin", "Coin, chance of heads", [0, 1, 0.1], coin / 10, (p) => { coin = Math.round(10 * p); update(); });
    const weight = slider(id, "prior", "Its prior", [0, 1, 0.01], 0, (p) => { prior = raised(prior, coin, p); update(); });
    const level = button("Even prior", "even", () => { prior = even(); update(); });
    const add = (toss) => { if (tosses.length < MOST) tosses.push(toss); update(); };
    const next = button("Nature tosses", "next", () => add(toss()));
    const head = button("Heads", "heads", () => add(1)), tail = button("Tails", "tails", () => add(0));
    const back = button("Remove last", "back", () => { tosses.pop(); update(); });
    const play = player(root, { more: () => tosses.length < MOST, step: () => add(toss()), again: () => start(seed, 0) });
    const fresh = button("New coin", "new", () => start(seed + 1, Math.max(tosses.length, 4)));
    const beside = radios(id, "other", "Beside the exact prediction", Object.entries(OTHERS).map(([name, [words]]) => [words, name]), other,
      (name) => { other = name; update(); });

    const chips = element("div", { class: "bw-chips", role: "group", "aria-label": "Tosses so far; press one to turn it over" });
    const status = statusLine();
    const coins = element("div", { class: "bw-chart" }), ahead = element("div", { class: "bw-chart" });
    root.replaceChildren(coins,
      element("div", { class: "bw-controls" }, element("div", { class: "bw-buttons" }, next, head, tail, back, play, fresh), chips),
      ahead, status,
      element("div", { class: "bw-controls" }, beside, which.field, weight.field, level));

    const toss = () => +(nature() < nature.heads);
    function start(another, shown) {
      seed = another;
      nature = generator(seed);
      nature.heads = COINS[1 + Math.floor(nature() * 9)];
      tosses = Array.from({ length: shown }, toss);
      update();
    }

    dragging(coins, (event) => {
      const bar = event.target.closest("[data-coin]");
      if (!bar) return null;
      coin = held = +bar.dataset.coin;
      update();
      return held;
    }, (event, taken) => {
      prior = raised(prior, taken, heightOf(event));
      update();
    });
    for (const end of ["pointerup", "pointercancel"]) coins.addEventListener(end, () => { if (held !== null) { held = null; update(); } });

    function update() {
      spot = chipInFocus(root);
      const belief = posterior(prior, tosses);
      which.input.value = coin / 10;
      which.output.textContent = number(coin / 10, 1);
      weight.input.value = prior[coin];
      weight.output.textContent = number(prior[coin]);
      for (const one of [next, head, tail]) one.disabled = tosses.length === MOST;
      back.disabled = !tosses.length;
      handOn(next, back);
      handOn(back, next);
      chips.replaceChildren(...tosses.map((one, i) => element("button", {
        type: "button", class: "bw-chip", "data-chip": `toss ${i}`, "aria-label": `toss ${i + 1}, ${one ? "heads" : "tails"}: turn it over`,
        onclick: () => { tosses[i] = 1 - tosses[i]; update(); },
      }, one ? "H" : "T")));
      if (spot) (chips.querySelector(`[data-chip="${spot}"]`) || back).focus();
      const p = belief ? heads(belief) : NaN, q = belief ? OTHERS[other][1](belief, prior) : NaN;
      heightOf = drawCoins(coins, { prior, belief, coin, held, seed });
      drawAhead(ahead, belief ? [["exact", p, "bw-bar"], [OTHERS[other][0], q, "bw-guess"]] : []);
      status.textContent = describe(belief, p, q);
      Object.assign(root.dataset, { tosses: tosses.join(""), prior: JSON.stringify(prior), heads: p, other: q,
        entropy: belief ? entropyBits(both(p)) : NaN, kl: belief ? klBits(both(p), both(q)) : NaN });
    }

    function describe(belief, p, q) {
      const seen = `After ${count(tosses.length, "toss").replace("tosss", "tosses")}`;
      const own = `The coin with chance ${number(coin / 10, 1)} had ${number(prior[coin])} of the prior`;
      if (!belief) return `${seen} there is no belief: no coin of this prior can have shown them. ${own}; give it more, or turn a toss over.`;
      const [said, off] = [entropyBits(both(q)), klBits(both(p), both(q))];
      return `${seen}, heads comes next with probability ${number(p)}: entropy ${number(entropyBits(both(p)))} bits. Another head would surprise by ` +
        `${bits(-Math.log2(p))}, a tail by ${bits(-Math.log2(1 - p))}. ${other === "mirror" ? "The mirror" : other === "prior" ? "Who forgets" : "The likeliest coin"} says ` +
        `${number(q)}: its entropy is off by ${number(Math.abs(said - entropyBits(both(p))))} bits, its KL divergence is ${bits(off)}. ${own} and has ${number(belief[coin])} now.`;
    }

    start(seed, +(root.dataset.opens ?? 5)); // so that there is something to see
    watchWidth(root, coins, update);
  }

  // ---- the drawings --------------------------------------------------------------------------

  // The prior as a step over each coin, to be dragged, and the posterior as bars. Returns how a place on the screen
  // becomes a probability.
  function drawCoins(box, { prior, belief, coin, held, seed }) {
    const told = COINS.map((c, i) => `${c}: ${number(prior[i])}${belief ? `, now ${number(belief[i])}` : ""}`).join("; ");
    const f = frame(box, 250, `Probability of each coin, by its chance of heads, before the tosses and now: ${told}.`);
    const most = Math.max(...prior, ...(belief || [0]));
    const before = +(box.dataset.top || 0); // a hand that drags needs a scale that stands, and one that turned at every toss would hide what changes
    const top = held !== null ? before : [0.3, 0.6, 1.05].find((t) => most * 1.02 < (t < before ? 0.7 * t : t));
    box.dataset.top = top;
    const toY = (p) => f.bottom - (Math.min(p, top) / top) * (f.bottom - f.top), step = (f.right - f.left) / COINS.length;
    axes(f, top > 1 ? [0, 0.5, 1] : top > 0.5 ? [0, 0.2, 0.4, 0.6] : [0, 0.1, 0.2, 0.3], toY, "Coins: prior (line, drag it), posterior (bar)", "chance of heads");
    COINS.forEach((c, i) => {
      const x = f.left + i * step, wide = step * 0.78, left = x + step * 0.11;
      f.svg.append(text(x + step / 2, f.bottom + 17, i % 2 && step < 34 ? "" : number(c, 1), "middle", i === coin ? "bw-row-now" : ""));
      if (belief?.[i]) f.svg.append(element("rect", { x: left, width: wide, y: toY(belief[i]), height: f.bottom - toY(belief[i]), class: "bw-posterior" }));
      f.svg.append(
        element("line", { x1: left - 2, x2: left + wide + 2, y1: toY(prior[i]), y2: toY(prior[i]), class: i === coin ? "bw-prior bw-prior-now" : "bw-prior" }),
        element("circle", { cx: x + step / 2, cy: toY(prior[i]), r: i === coin ? 6 : 4, class: "bw-knob" }),
        element("rect", { x, width: step, y: f.top - 6, height: f.bottom - f.top + 6, class: "bw-grip", "data-coin": i }));
    });
    trail(box, f.svg, ".bw-posterior", seed, { scale: [top, f.bottom] });
    readout(box, COINS.map((c, i) => ({
      x: f.left + (i + 0.5) * step, ys: [prior[i], ...(belief ? [belief[i]] : [])].map(toY),
      lines: [`coin ${number(c, 1)}`, `prior ${number(prior[i])}`, ...(belief ? [`posterior ${number(belief[i])}`] : [])],
    })));
    return (event) => {
      const place = f.svg.getBoundingClientRect();
      const down = ((event.clientY - place.top) / place.height) * 250;
      return within(Math.max(0, ((f.bottom - down) / (f.bottom - f.top)) * top), 1);
    };
  }

  // Each prediction as one bar, heads to the left of tails.
  function drawAhead(box, rows) {
    const told = rows.map(([words, p]) => `${words}: heads ${number(p)}, tails ${number(1 - p)}, entropy ${number(entropyBits(both(p)))} bits`).join("; ");
    const f = frame(box, 124, `The next toss. ${told || "No belief: 0 predictions."}`);
    f.svg.append(text(4, 15, "The next toss", "start", "bw-title"));
    const wide = f.width - 8;
    rows.forEach(([words, p, kind], i) => {
      const y = 42 + i * 52, cut = 4 + p * wide;
      f.svg.append(text(4, y - 6, words, "start"),
        element("rect", { x: 4, y, width: p * wide, height: 22, class: kind }),
        element("rect", { x: cut, y, width: wide - p * wide, height: 22, class: "bw-rest" }));
      if (p > 0.2) f.svg.append(text(10, y + 16, `heads ${number(p)}`, "start", `bw-on-${kind}`));
      if (p < 0.8) f.svg.append(text(f.width - 10, y + 16, `tails ${number(1 - p)}`, "end"));
    });
    readout(box, rows.map(([words, p], i) => ({ x: 4 + p * wide, ys: [53 + i * 52], lines: [words, `heads ${number(p)}`, `tails ${number(1 - p)}`] })), "y");
  }

  bwExplorer.start("coin", "Coin explorer", mount, { posterior, heads, raised, others: Object.fromEntries(Object.entries(OTHERS).map(([name, [, says]]) => [name, says])) });
})();
