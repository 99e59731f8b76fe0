// Exact answers in the page, in double precision: what bayeswind_lib/tunnels and scoring.py compute,
// for one episode at a time. No network here, and nothing of the page.
// Names as in the library: V values (or symbols), S states, K steps.
(function () {
  "use strict";

  const unit = (n, i) => Float64Array.from({ length: n }, (_, j) => +(i === j));

  // ---- the bijection tunnel ------------------------------------------------------------------

  // Distribution of the value at `key`, (n,), after the pairs keys[i] -> values[i]: certain for a key
  // that was shown, even over the unused values for a new one.
  // replacement: false where every key is asked once; then a second time is an error.
  function bijection(n, keys, values, key, { replacement = true } = {}) {
    const shown = new Map(), owner = new Map();
    keys.forEach((known, i) => {
      check(n, known, values[i], key);
      if (shown.has(known) ? shown.get(known) !== values[i] : owner.has(values[i])) {
        throw new Error(`no bijection agrees with these pairs: key ${known} or value ${values[i]} has two partners`);
      }
      if (!replacement && shown.has(known)) throw new Error(`key ${known} is shown twice: each key comes once`);
      shown.set(known, values[i]);
      owner.set(values[i], known);
    });
    if (!replacement && shown.has(key)) throw new Error(`key ${key} was shown: each key is asked once`);
    if (shown.has(key)) return unit(n, shown.get(key));
    return Float64Array.from({ length: n }, (_, value) => (owner.has(value) ? 0 : 1 / (n - owner.size)));
  }

  function check(n, ...numbers) {
    const wrong = numbers.find((number) => !(Number.isInteger(number) && number >= 0 && number < n));
    if (wrong !== undefined) throw new Error(`${wrong}: keys and values are 0 to ${n - 1}`);
  }

  // ---- the HMM tunnel ------------------------------------------------------------------------

  // Belief about the hidden state after each symbol, [k] (S,), from the transitions T[i][j] = P(j | i),
  // the emissions E[j][o] and the belief before anything is seen (null: even). The start state emits
  // the first symbol itself, unless transitionFirst, where the chain moves once before.
  function hmmFilter(T, E, initial, symbols, { transitionFirst = false } = {}) {
    const S = T.length;
    let belief = initial ? Float64Array.from(initial) : new Float64Array(S).fill(1 / S);
    return symbols.map((symbol, k) => {
      const arriving = k > 0 || transitionFirst ? moved(T, belief) : belief;
      belief = arriving.map((p, j) => p * E[j][symbol]);
      const total = belief.reduce((a, b) => a + b, 0);
      if (!(total > 0)) throw new Error(`symbol ${symbol} at step ${k + 1} has probability 0 under these matrices: no belief exists`);
      return (belief = belief.map((p) => p / total));
    });
  }

  // The belief one step later, before a symbol is seen.
  const moved = (T, belief) => belief.map((_, j) => belief.reduce((sum, p, i) => sum + p * T[i][j], 0));

  // What a network with `header="rows"` reads: a vector for every row of T, one for every row of E, one
  // for every symbol; each [row of T | row of E | one-hot of the state | one-hot of the symbol].
  function hmmInputs(T, E, symbols) {
    const S = T.length, V = E[0].length, width = 2 * (S + V);
    const vector = (...parts) => {
      const row = new Float64Array(width);
      for (const [at, numbers] of parts) row.set(numbers, at);
      return row;
    };
    return [
      ...T.map((row, i) => vector([0, row], [S + V, unit(S, i)])),
      ...E.map((row, i) => vector([S, row], [S + V, unit(S, i)])),
      ...symbols.map((symbol) => vector([2 * S + V, unit(V, symbol)])),
    ];
  }

  // ---- the recall tunnel ---------------------------------------------------------------------

  // Distribution of the value at `key`, (n,), of pairs keys[i] -> values[i] that were stored: all on one value.
  function recall(n, keys, values, key) {
    const place = keys.indexOf(key);
    if (place < 0) throw new Error(`key ${key} was not stored: only stored keys are asked`);
    return unit(n, values[place]);
  }

  // ---- the regression tunnel, with x = (1, t) --------------------------------------------------

  // Mean and variance of the y that will be seen at t, after some points [t, y]. What is read in single
  // precision is known in single precision.
  function regression(points, t, noise) {
    const read = points.map((point) => point.map(Math.fround));
    return bwExplorer.linePredict(bwExplorer.lineBelief(read, noise), Math.fround(t), noise);
  }

  // ---- scores, in bits -----------------------------------------------------------------------

  const { entropyBits, klBits } = bwExplorer;

  const totalVariation = (p, q) => p.reduce((sum, v, i) => sum + Math.abs(v - q[i]), 0) / 2;

  // The same of two Gaussians [mean, variance]: their densities cross where a quadratic vanishes.
  function gaussianTotalVariation([mean, variance], [other, wide]) {
    const normal = (x) => (1 + bwNetwork.erf(x / Math.SQRT2)) / 2;
    const m = (other - mean) / Math.sqrt(variance), s2 = wide / variance, scale = Math.sqrt(s2);
    if (Math.abs(s2 - 1) < 1e-9) return 2 * normal(Math.abs(m) / 2) - 1;
    const a = 1 - 1 / s2, b = m / s2, root = Math.sqrt(Math.max(0, b * b + a * ((m * m) / s2 + Math.log(s2))));
    const [low, high] = [(-b - root) / a, (-b + root) / a];
    return Math.abs(normal(high) - normal(low) - normal((high - m) / scale) + normal((low - m) / scale));
  }

  window.bwOracles = {
    bijection, entropyBits, gaussianTotalVariation, hmmFilter, hmmInputs, klBits, recall, regression, totalVariation,
  };
})();
