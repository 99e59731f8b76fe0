// A trained network taken apart at the position that is asked: what each of its parts writes into the
// stream there, what that adds to the answer, and what would be answered if the stream were read out
// after each layer. Nothing is drawn here. Loaded after explorer.js and network.js.
// Contributions are to logits, with the last norm's scale frozen at that of the whole stream ("direct
// logit attribution"): then the parts' contributions add up to the logits.
// Names as in network.js: T tokens, D channels, H heads, C channels of a head, E channels of a Mamba's
// mixer, Y outcomes.
(function () {
  "use strict";

  const { range } = bwExplorer;

  function dot(x, y) {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
    return sum;
  }

  const plus = (x, y) => x.map((v, i) => v + y[i]);
  const rowOf = (rows, t, width) => Float64Array.from(rows.subarray(t * width, (t + 1) * width));

  // ---- the way out -----------------------------------------------------------------------------

  // The sum of logits with the given weights, (Y,), as a linear function of the stream: {vector (D,), constant},
  // with the norm's scale that `stream` has.
  function direction(network, stream, weights) {
    const { width: D, first_output_token: first } = network.config, tied = first !== null && first !== undefined;
    const rows = network.data(tied ? "tokens.weight" : "head.weight"), begin = tied ? first * D : 0, scale = network.readOutScale(tied);
    const out = Float64Array.from({ length: D }, (_, d) => weights.reduce((sum, a, y) => sum + a * rows[begin + y * D + d], 0) * scale);
    const constant = tied ? 0 : weights.reduce((sum, a, y) => sum + a * network.data("head.bias")[y], 0) * scale;
    return network.tensors["norm.gain"] ? throughRms(network, stream, out, constant) : throughLayerNorm(network, stream, out, constant);
  }

  function throughRms(network, stream, out, constant) {
    const gain = network.data("norm.gain"), scale = 1 / Math.sqrt(dot(stream, stream) / stream.length + 1e-5);
    return { vector: out.map((v, d) => v * gain[d] * scale), constant };
  }

  function throughLayerNorm(network, stream, out, constant) {
    const weight = network.data("norm.weight"), bias = network.data("norm.bias"), D = stream.length;
    const mean = stream.reduce((a, b) => a + b, 0) / D;
    const scale = 1 / Math.sqrt(stream.reduce((sum, v) => sum + (v - mean) ** 2, 0) / D + 1e-5);
    const scaled = out.map((v, d) => v * weight[d] * scale), middle = scaled.reduce((a, b) => a + b, 0) / D;
    return { vector: scaled.map((v) => v - middle), constant: constant + dot(out, bias) };
  }

  const one = (Y, y) => Float64Array.from({ length: Y }, (_, i) => +(i === y));

  // What would be answered if this stream were read out: {logits, probabilities}; of a Gaussian outcome mean and variance
  // stand in place of probabilities.
  function readOut(network, stream) {
    const Y = network.config.n_outputs, logits = range(Y).map((y) => {
      const { vector, constant } = direction(network, stream, one(Y, y));
      return dot(vector, stream) + constant;
    });
    if (network.config.outcome === "gaussian") return { logits, probabilities: [logits[0], Math.exp(logits[1])] };
    const most = Math.max(...logits), sizes = logits.map((v) => Math.exp(v - most)), total = sizes.reduce((a, b) => a + b, 0);
    return { logits, probabilities: sizes.map((v) => v / total) };
  }

  // ---- taken apart -----------------------------------------------------------------------------

  // The network at the last token of its inputs, with the parts in `off` cut. Of a transformer these
  // are heads "l.h" and feed-forward parts "l.m"; of an LSTM or a Mamba layers "l", and tokens "tN",
  // at which the state stays what it was.
  // parts: [{name, layer, kind, written (D,)}], which add up to the stream that is read out; lens: what
  // would be read out of the stream that enters each layer, and at the end; patterns as network.run has
  // them; states[l]: {units, rows[t] (units,), read[t]}, of tokens that are skipped null.
  // how: what heads of a transformer hand on when they are cut, as network.run takes it: {means} or {change}.
  function look(network, inputs, off = new Set(), how = {}) {
    const seen = (network.architecture === "transformer" ? ofTransformer : ofRecurrent)(network, inputs, off, how);
    const lens = seen.streams.map((stream) => readOut(network, stream));
    return { network, patterns: null, states: null, ...seen, lens, ...lens[lens.length - 1] };
  }

  function ofTransformer(network, inputs, off, how) {
    const { width: D, n_heads: H, n_layers: L } = network.config, t = inputs.length - 1;
    const pass = network.passFor({ off, ...how }), { patterns } = pass.run(inputs);
    let stream = Float64Array.from(network.enter(inputs, t));
    const parts = [{ name: "entry", layer: -1, kind: "entry", written: stream }], streams = [stream];
    for (let l = 0; l < L; l++) {
      const { given, written } = pass.layers[l], all = rowOf(written.data, t, D);
      const heads = range(given.length ? H : 0).map((h) => fromHead(network, l, h, given.data.subarray(t * D, (t + 1) * D)));
      const attention = heads.reduce(plus, new Float64Array(D));
      heads.forEach((head, h) => parts.push({ name: `${l}.${h}`, layer: l, kind: "head", written: head }));
      parts.push({ name: `${l}.m`, layer: l, kind: "mlp", written: off.has(`${l}.m`) ? new Float64Array(D) : all.map((v, d) => v - attention[d]) });
      stream = plus(stream, all);
      streams.push(stream);
    }
    return { parts, streams, patterns, pass };
  }

  // What head h writes into the stream, of the channels that all heads of its layer hand on.
  function fromHead(network, l, h, given) {
    const { width: D, n_heads: H } = network.config, C = D / H, map = network.data(`blocks.${l}.attention.output.weight`);
    return Float64Array.from({ length: D }, (_, d) => dot(given.subarray(h * C, (h + 1) * C), map.subarray(d * D + h * C, d * D + (h + 1) * C)));
  }

  function ofRecurrent(network, inputs, off) {
    const { width: D, n_layers: L } = network.config, last = inputs.length - 1;
    const kept = range(inputs.length).filter((t) => t === last || !off.has(`t${t}`)), end = kept.length - 1;
    const told = { state: [], read: [], written: [], stream: [] };
    network.trunk(kept.map((t) => inputs[t]), { off: new Set([...off].filter((name) => /^\d+$/.test(name))), look: (what, l, rows) => { told[what][l] = rows; } });
    const states = told.state.map((rows, l) => stateOf(rows, told.read[l] || rows, kept, inputs.length));
    if (network.architecture === "lstm") {
      const stream = rowOf(told.state[L - 1], end, D);
      return { parts: [{ name: String(L - 1), layer: L - 1, kind: "state", written: stream }], streams: [stream], states };
    }
    const streams = told.stream.map((rows) => rowOf(rows, end, D));
    const parts = told.written.map((rows, l) => ({ name: String(l), layer: l, kind: "state", written: rowOf(rows, end, D) }));
    return { parts: [{ name: "entry", layer: -1, kind: "entry", written: streams[0] }, ...parts], streams, states };
  }

  // The state after every token; where one is skipped, null.
  function stateOf(rows, read, kept, T) {
    const units = rows.length / kept.length, place = new Map(kept.map((t, i) => [t, i]));
    const at = (all) => range(T).map((t) => (place.has(t) ? rowOf(all, place.get(t), units) : null));
    return { units, rows: at(rows), read: at(read) };
  }

  // ---- contributions ---------------------------------------------------------------------------

  // What every part adds to the logits with the given weights, (Y,), beside one another:
  // {byPart: Map name -> number, constant, total, vector}.
  function contributions(seen, weights) {
    const stream = seen.streams[seen.streams.length - 1], { vector, constant } = direction(seen.network, stream, weights);
    const byPart = new Map(seen.parts.map(({ name, written }) => [name, dot(vector, written)]));
    return { byPart, constant, vector, total: dot(vector, stream) + constant };
  }

  // The share of every token in what a head adds: (T,), with the vector that `contributions` returned.
  function bySource(seen, l, h, vector) {
    const { network, pass, patterns } = seen, { width: D, n_heads: H, n_key_heads: G } = network.config, C = D / H;
    const map = network.data(`blocks.${l}.attention.output.weight`), values = pass.layers[l].values;
    const way = range(C).map((c) => range(D).reduce((sum, d) => sum + vector[d] * map[d * D + h * C + c], 0));
    const offset = Math.floor((h * (G || H)) / H) * C, row = patterns[l][h][patterns[l][h].length - 1], off = pass.off.has(`${l}.${h}`) && !pass.means && !pass.change;
    return row.map((weight, s) => (off ? 0 : weight * dot(way, values.data.subarray(s * values.width + offset, s * values.width + offset + C))));
  }

  // What every unit of layer l would add if the state were read out after each token: rows[t] (units,)
  // or null. Of an LSTM only the last layer is read out.
  function byUnit(seen, l, vector) {
    const { network, states } = seen, { width: D, n_layers: L } = network.config, { units, read } = states[l];
    if (network.architecture === "lstm") return read.map((row) => row && row.map((v, d) => (l === L - 1 ? v * vector[d] : 0)));
    const map = network.data(`blocks.${l}.mixer.out_proj.weight`);
    const way = range(units).map((e) => range(D).reduce((sum, d) => sum + vector[d] * map[d * units + e], 0));
    return read.map((row) => row && row.map((v, e) => v * way[e]));
  }

  window.bwAnatomy = { byUnit, bySource, contributions, look };
})();
