// What is played with in the playground: the networks it may fetch, and the two tasks, each an
// episode that the reader builds step by step. Nothing is drawn here. The exact answers are those of
// oracles.js; an episode says what a network reads (`inputs`), what was asked, and what is known.
(function () {
  "use strict";

  const { count, generator, klBits, normal, number, range, shuffled, tenth, within } = bwExplorer;

  // Every file that the playground may ask for, with its size in bytes, so that a reader knows it
  // before the download. Strict JSON: Python reads it too, and writes these files into the site.
  const FILES = {
    "bijection": {
      "main": {"file": "bijection-transformer-classroom-seed0", "bytes": 174992},
      "game": {"file": "bijection-transformer-classroom-small-seed0", "bytes": 37496},
      "published": {"file": "bijection-transformer-seed0", "bytes": 2752360},
      "run": {"file": "snapshots/bijection-transformer-classroom-snapshots-seed0", "bytes": 3303680},
      "returning": {"name": "transformer, learned with surprises", "file": "bijection-transformer-classroom-replacement-convolution-seed0", "bytes": 168144},
      "rivals": [
        {"name": "MLP that sees one token", "file": "bijection-mlp-classroom-seed0", "bytes": 148264},
        {"name": "LSTM", "file": "bijection-lstm-classroom-seed0", "bytes": 161512},
        {"name": "Mamba", "file": "bijection-mamba-classroom-seed0", "bytes": 77264}
      ]
    },
    "hmm": {
      "main": {"file": "hmm-transformer-classroom-seed0", "bytes": 171790},
      "run": {"file": "snapshots/hmm-transformer-classroom-snapshots-seed0", "bytes": 3360720},
      "rivals": [
        {"name": "MLP that sees one token", "file": "hmm-mlp-classroom-seed0", "bytes": 148918},
        {"name": "LSTM", "file": "hmm-lstm-classroom-seed0", "bytes": 160694},
        {"name": "Mamba", "file": "hmm-mamba-classroom-seed0", "bytes": 77022}
      ]
    },
    "recall": {
      "main": {"file": "recall-transformer-classroom-curriculum-rotary-seed1", "bytes": 184080},
      "rivals": [
        {"name": "transformer without a curriculum", "file": "recall-transformer-classroom-seed0", "bytes": 178944},
        {"name": "LSTM", "file": "recall-lstm-classroom-seed0", "bytes": 176200},
        {"name": "Mamba", "file": "recall-mamba-classroom-seed0", "bytes": 84176}
      ]
    },
    "regression": {
      "main": {"file": "regression-transformer-classroom-seed0", "bytes": 165980},
      "rivals": [
        {"name": "MLP that sees one token", "file": "regression-mlp-classroom-seed0", "bytes": 146940},
        {"name": "LSTM", "file": "regression-lstm-classroom-seed0", "bytes": 158460},
        {"name": "Mamba", "file": "regression-mamba-classroom-seed0", "bytes": 75948}
      ]
    }
  };

  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

  // How far a network's answer is from the truth: bits, and probability for `variation`. Answers are
  // distributions, or of a gaussian outcome [mean, variance].
  function measures(truth, answer, gaussian = false) {
    if (gaussian) {
      return {
        exact: bwExplorer.gaussianEntropyBits(truth[1]), network: bwExplorer.gaussianEntropyBits(answer[1]),
        divergence: bwExplorer.gaussianKlBits(truth, answer), variation: bwOracles.gaussianTotalVariation(truth, answer),
      };
    }
    return {
      exact: bwOracles.entropyBits(truth), network: bwOracles.entropyBits(answer),
      divergence: bwOracles.klBits(truth, answer), variation: bwOracles.totalVariation(truth, answer),
    };
  }

  // What a network says at every question of some inputs: {answers, patterns}, answers as in `measures`.
  function says(network, inputs, options) {
    const { probabilities, logits, patterns } = network.run(inputs, options);
    return { answers: probabilities || logits.map(([mean, log]) => [mean, Math.exp(log)]), patterns };
  }

  // ---- bets ----------------------------------------------------------------------------------

  const FLOOR = 0.001; // what a bet of nothing on what is still possible counts as, as in widgets/landing.py
  const MOVES = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -100, End: 100 }; // cents

  // A bet with one value moved to p, in whole cents: the others keep their proportions, or share alike if they had nothing.
  function moved(bet, value, p) {
    const now = clamp(Math.round(100 * p), 0, 100) / 100, rest = bet.reduce((sum, q, v) => (v === value ? sum : sum + q), 0);
    return bet.map((q, v) => (v === value ? now : rest > 1e-9 ? (q / rest) * (1 - now) : (1 - now) / (bet.length - 1)));
  }

  // How many bits worse a bet is than the exact posterior: the divergence. A bet of nothing on what is still possible
  // counts as `floor`, or one careless bar would cost infinitely much.
  const wasted = (exact, bet, floor = FLOOR) => klBits(exact, bet.map((q, v) => (exact[v] > 0 ? Math.max(q, floor) : q)));

  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

  // ---- bijection -----------------------------------------------------------------------------

  // A hidden one-to-one map of V keys to V values, shown pair by pair. `asked` is the order in which
  // its keys are asked, `map` the value of each; `shown` pairs are known, and key asked[shown] is
  // asked now. If keys come back, one may be asked again.
  class Bijection {
    constructor(V, seed, comesBack = false) {
      const random = generator(seed);
      Object.assign(this, { kind: "bijection", V, seed, comesBack, shown: 0, map: shuffled(V, random) });
      this.asked = comesBack ? range(V).map(() => Math.floor(random() * V)) : shuffled(V, random);
    }

    get labels() { return range(this.V).map(String); }
    get last() { return this.V - 1; }
    get limit() { return this.V; } // questions in a whole episode
    get questions() { return this.shown + 1; }
    get key() { return this.asked[this.shown]; }
    get pairs() { return this.asked.slice(0, this.shown).map((key) => [key, this.map[key]]); }
    get again() { return this.wasShown(this.key); }
    get canNext() { return this.shown < this.last; }
    get canBack() { return this.shown > 0; }

    wasShown(key) { return this.asked.slice(0, this.shown).includes(key); }
    next() { if (this.canNext) this.shown += 1; }
    back() { if (this.canBack) this.shown -= 1; }

    // Ask another key now; with distinct keys it changes places with the one planned.
    ask(key) {
      if (!this.comesBack) {
        if (this.wasShown(key)) return;
        this.asked[this.asked.indexOf(key)] = this.key;
      }
      this.asked[this.shown] = key;
    }

    // Whether a value can follow the key asked now.
    possible(value) { return this.exactAt(this.shown)[value] > 0; }

    // Let this value follow: it changes places with the value that nature had meant.
    answer(value) {
      if (!this.canNext || !this.possible(value)) return;
      const other = this.map.indexOf(value);
      [this.map[this.key], this.map[other]] = [value, this.map[this.key]];
      this.next();
    }

    // Exact distribution of the value at question i.
    exactAt(i) {
      const keys = this.asked.slice(0, i);
      return [...bwOracles.bijection(this.V, keys, keys.map((key) => this.map[key]), this.asked[i],
        { replacement: this.comesBack })];
    }

    exact() { return range(this.questions).map((i) => this.exactAt(i)); }

    // What the network reads: key, value, ..., key. Values come after the V keys.
    get inputs() { return [...this.pairs.flatMap(([key, value]) => [key, this.V + value]), this.key]; }

    // A name for each input: short on a button, long for the ear.
    get tokens() {
      return [...this.pairs.flatMap(([key, value], i) => [
        { short: `k${key}`, long: `key ${key} of pair ${i + 1}`, kind: "key" },
        { short: `v${value}`, long: `value ${value} of pair ${i + 1}`, kind: "value" },
      ]), { short: `k${this.key}`, long: `key ${this.key}, asked now`, kind: "key" }];
    }

    get title() { return `Which value follows key ${this.key}?`; }
    get place() { return `Key ${this.key}, after ${count(this.shown, "pair")}`; }
    get xTitle() { return "pairs shown before the question"; }
    get outcome() { return "value"; }

    copy() {
      return Object.assign(Object.create(Bijection.prototype), this, { map: [...this.map], asked: [...this.asked] });
    }
  }

  // ---- hidden chain --------------------------------------------------------------------------

  const STATES = 3, SYMBOLS = 20, LEAST = 5; // LEAST: cents, the smallest probability in training
  const START = range(STATES).map(() => 1 / STATES);

  // A distribution in whole cents, none below LEAST, drawn evenly and put on that grid.
  function drawRow(random) {
    const cuts = [0, ...[random(), random()].sort((a, b) => a - b), 1];
    const room = 100 - STATES * LEAST;
    const first = Math.round((cuts[1] - cuts[0]) * room), second = Math.round((cuts[2] - cuts[1]) * room);
    const cents = [first, Math.min(second, room - first)].map((c) => c + LEAST);
    return [...cents, 100 - cents[0] - cents[1]];
  }

  // Move the border after entry `at` of a row so that it stands at `place` cents; others stay.
  function moveBorder(row, at, place) {
    const left = row.slice(0, at).reduce((a, b) => a + b, 0), both = row[at] + row[at + 1];
    const first = clamp(Math.round(place) - left, LEAST, both - LEAST);
    const moved = [...row];
    [moved[at], moved[at + 1]] = [first, both - first];
    return moved;
  }

  // A hidden chain: `transition` and `emission` in whole cents, the symbols seen so far, and numbers
  // that say which symbol comes next when the reader does not choose it.
  class Chain {
    constructor(seed) {
      const random = generator(seed);
      Object.assign(this, { kind: "hmm", seed, transition: range(STATES).map(() => drawRow(random)) });
      this.emission = range(STATES).map(() => drawRow(random));
      this.chance = range(SYMBOLS).map(() => random());
      this.symbols = [];
      this.later = []; // symbols that were taken back, the next one last
      this.next();
    }

    get labels() { return range(STATES).map(String); }
    get limit() { return SYMBOLS; }
    get shown() { return this.symbols.length; }
    get questions() { return this.shown; }
    get canNext() { return this.shown < SYMBOLS; }
    get canBack() { return this.shown > 1; }
    get T() { return this.transition.map((row) => row.map((cent) => cent / 100)); }
    get E() { return this.emission.map((row) => row.map((cent) => cent / 100)); }

    exact() { return bwOracles.hmmFilter(this.T, this.E, START, this.symbols).map((row) => [...row]); }

    // How probable each symbol is to come next, given those seen.
    get coming() {
      const beliefs = this.shown ? this.exact() : [], now = beliefs[this.shown - 1];
      const moved = now ? range(STATES).map((j) => now.reduce((sum, p, i) => sum + p * this.T[i][j], 0)) : START;
      return range(STATES).map((o) => moved.reduce((sum, p, s) => sum + p * this.E[s][o], 0));
    }

    // One more symbol: the one given, the one taken back, or one drawn with the chances that `coming` says.
    next(symbol) {
      if (!this.canNext) return;
      if (symbol !== undefined) this.later = [];
      this.symbols.push(symbol ?? this.later.pop() ?? this.drawn);
    }

    back() { if (this.canBack) this.later.push(this.symbols.pop()); }

    get drawn() {
      const [first, second] = this.coming, place = this.chance[this.shown];
      return (place >= first) + (place >= first + second);
    }

    // Begin again with this chain, at a symbol of the reader's.
    restart(symbol) { Object.assign(this, { symbols: [symbol], later: [] }); }

    move(which, row, at, place) {
      this[which][row] = moveBorder(this[which][row], at, place);
      this.later = [];
    }

    get inputs() { return bwOracles.hmmInputs(this.T, this.E, this.symbols); }

    get tokens() {
      const header = (letter, words) => range(STATES).map((s) =>
        ({ short: `${letter}${s}`, long: `${words} of state ${s}`, kind: "header" }));
      return [...header("T", "row of T"), ...header("E", "row of E"), ...this.symbols.map((symbol, i) =>
        ({ short: `o${symbol}`, long: `symbol ${symbol}, step ${i + 1}${i === this.shown - 1 ? ", the last one" : ""}`, kind: "symbol" }))];
    }

    get title() { return "Which state is the chain in now?"; }
    get place() { return `After ${count(this.shown, "symbol")}, the last one ${this.symbols[this.shown - 1]}`; }
    get xTitle() { return "symbols seen"; }
    get outcome() { return "state"; }

    copy() {
      return Object.assign(Object.create(Chain.prototype), this, {
        symbols: [...this.symbols], later: [...this.later], chance: [...this.chance],
        transition: this.transition.map((row) => [...row]), emission: this.emission.map((row) => [...row]),
      });
    }
  }

  // ---- recall --------------------------------------------------------------------------------

  const STORED = 8, KINDS = 32; // pairs stored, and how many keys, and values, there are
  const STORE = 1, QUERY = 3, SEP = 4, FIRST_KEY = 10, FIRST_VALUE = FIRST_KEY + KINDS; // tokens; PAD is 0

  // Pairs that are stored all at once, then asked one after another, each key once. `asked` is their order;
  // key asked[shown] is asked now.
  class Recall {
    constructor(seed) {
      const random = generator(seed);
      const [keys, values] = [0, 0].map(() => shuffled(KINDS, random).slice(0, STORED));
      Object.assign(this, { kind: "recall", seed, keys, values, shown: 0, asked: shuffled(STORED, random).map((i) => keys[i]) });
    }

    get labels() { return range(KINDS).map(String); }
    get limit() { return STORED; }
    get questions() { return this.shown + 1; }
    get key() { return this.asked[this.shown]; }
    get canNext() { return this.shown < STORED - 1; }
    get canBack() { return this.shown > 0; }

    valueOf(key) { return this.values[this.keys.indexOf(key)]; }
    wasAsked(key) { return this.asked.slice(0, this.shown).includes(key); }
    next() { if (this.canNext) this.shown += 1; }
    back() { if (this.canBack) this.shown -= 1; }

    // Ask another key now; it changes places with the one planned.
    ask(key) {
      if (this.wasAsked(key)) return;
      this.asked[this.asked.indexOf(key)] = this.key;
      this.asked[this.shown] = key;
    }

    // Let this value be the one stored with the key asked now; a pair that had it gets the other.
    store(value) {
      const place = this.keys.indexOf(this.key), other = this.values.indexOf(value);
      if (other >= 0) this.values[other] = this.values[place];
      this.values[place] = value;
    }

    exactAt(i) { return [...bwOracles.recall(KINDS, this.keys, this.values, this.asked[i])]; }
    exact() { return range(this.questions).map((i) => this.exactAt(i)); }

    get inputs() {
      return [...this.keys.flatMap((key, i) => [STORE, FIRST_KEY + key, SEP, FIRST_VALUE + this.values[i]]),
        ...this.asked.slice(0, this.questions).flatMap((key) => [QUERY, FIRST_KEY + key, 0])];
    }

    get tokens() {
      const mark = (short, long) => ({ short, long, kind: "header" });
      return [...this.keys.flatMap((key, i) => [mark("S", `mark before pair ${i + 1}`), { short: `k${key}`, long: `key ${key} of pair ${i + 1}`, kind: "key" },
        mark(":", `mark within pair ${i + 1}`), { short: `v${this.values[i]}`, long: `value ${this.values[i]} of pair ${i + 1}`, kind: "value" }]),
      ...this.asked.slice(0, this.questions).flatMap((key, i) => [mark("Q", `mark before question ${i + 1}`),
        { short: `k${key}`, long: `key ${key}, asked ${i < this.shown ? "before" : "now"}`, kind: "key" }, mark("?", `where question ${i + 1} is answered`)])];
    }

    get title() { return `Which value was stored with key ${this.key}?`; }
    get place() { return `Key ${this.key}, question ${this.questions} of ${STORED}`; }
    get xTitle() { return "questions asked before"; }
    get outcome() { return "value"; }

    copy() {
      return Object.assign(Object.create(Recall.prototype), this, { keys: [...this.keys], values: [...this.values], asked: [...this.asked] });
    }
  }

  // ---- regression ----------------------------------------------------------------------------

  const POINTS = 10, NOISE = 0.5, REACH = 3, TALL = 5; // the figure shows t from -REACH to REACH, y from -TALL to TALL

  // Points [t, y] around a hidden line y = w0 + w1 t: the regression tunnel with x = (1, t). `shown` of them are
  // known, and the y at the next one's t is asked. All numbers are tenths.
  class Line {
    constructor(seed) {
      const random = generator(seed), [level, slope] = [normal(random), normal(random)];
      Object.assign(this, { kind: "regression", gaussian: true, seed, shown: 0, line: [level, slope] });
      this.points = range(POINTS).map(() => this.drawn(tenth(within(normal(random), REACH)), normal(random)));
    }

    drawn(t, noise) { return [t, tenth(within(this.line[0] + this.line[1] * t + NOISE * noise, TALL))]; }

    get limit() { return POINTS; }
    get questions() { return this.shown + 1; }
    get known() { return this.points.slice(0, this.shown); }
    get asked() { return this.points[this.shown][0]; }
    get canNext() { return this.shown < POINTS - 1; }
    get canBack() { return this.shown > 0; }

    next() { if (this.canNext) this.shown += 1; }
    back() { if (this.canBack) this.shown -= 1; }

    // Put point i there; ask at another t, where y is as far from the line as it was; add a point.
    move(i, t, y) { this.points[i] = [tenth(within(t, REACH)), tenth(within(y, TALL))]; }
    ask(t) {
      const [before, y] = this.points[this.shown];
      this.move(this.shown, t, y + this.line[1] * (tenth(within(t, REACH)) - before));
    }
    add(t, y) {
      if (!this.canNext) return;
      this.move(this.shown, t, y);
      this.next();
    }

    // Exact [mean, variance] of y at any t, given the points known.
    exactAt(t, known = this.known) { return bwOracles.regression(known, t, NOISE); }
    exact() { return range(this.questions).map((i) => this.exactAt(this.points[i][0], this.points.slice(0, i))); }

    // What a network reads if t is asked: x, y, ..., x, where x is [1, t, 0, 1, 0] and y is [0, 0, y, 0, 1].
    inputsAt(t) { return [...this.known.flatMap(([at, y]) => [[1, at, 0, 1, 0], [0, 0, y, 0, 1]]), [1, t, 0, 1, 0]]; }
    get inputs() { return this.inputsAt(this.asked); }

    get tokens() {
      return [...this.known.flatMap(([t, y], i) => [
        { short: `t ${number(t, 1)}`, sign: number(t, 1), long: `t ${number(t, 1)} of point ${i + 1}`, kind: "key" },
        { short: `y ${number(y, 1)}`, sign: number(y, 1), long: `y ${number(y, 1)} of point ${i + 1}`, kind: "value" },
      ]), { short: `t ${number(this.asked, 1)}`, sign: number(this.asked, 1), long: `t ${number(this.asked, 1)}, asked now`, kind: "key" }];
    }

    get labels() { return []; }
    get title() { return `Which y follows at t = ${number(this.asked, 1)}?`; }
    get place() { return `At t = ${number(this.asked, 1)}, after ${count(this.shown, "point")}`; }
    get xTitle() { return "points shown before the question"; }
    get outcome() { return "y"; }

    copy() { return Object.assign(Object.create(Line.prototype), this, { points: this.points.map((point) => [...point]) }); }
  }

  window.bwTasks = {
    FILES, FLOOR, KINDS, MOVES, STATES, STORED, SYMBOLS, LEAST, POINTS, REACH, TALL, Bijection, Chain, Line, Recall, count, mean, measures, moveBorder, moved, range,
    says, wasted,
  };
})();
