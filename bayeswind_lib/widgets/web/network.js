// A trained network in the browser: the forward passes of bayeswind_lib/models, without a kernel and
// without the page (nothing here draws). Products run in a small WebAssembly program (matmul.js,
// loaded before); where that cannot start, in plain JavaScript.
// A classic script, so that it also runs from a folder. Weights are .safetensors files, in half or
// single precision; see `fetch` below for where they come from.
// Names as in the library: B = 1, T tokens, D channels, H heads, C = D / H, M units, K questions,
// G heads of keys and values (H unless queries share them), E = G C,
// Y outcomes, n new tokens, p tokens that are known from the run before.
(function () {
  "use strict";

  const PANEL = 8; // outputs that the WebAssembly program computes side by side
  const PASSES = 6; // passes that a network remembers, so that a step costs one token
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  // ---- files ---------------------------------------------------------------------------------

  function bytesOf(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  // One half-precision number: sign, 5 bits of exponent, 10 of fraction.
  function half(bits) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  let halves = null; // all 65,536 of them: millions are read, and a table is faster

  function fromHalf(bits) {
    halves = halves || Float32Array.from({ length: 65536 }, (_, i) => half(i));
    return halves[bits];
  }

  // Bytes a number has, and how it is read, by the type's name in a .safetensors file.
  const READERS = {
    F32: [4, (view, at) => view.getFloat32(at, true)],
    F16: [2, (view, at) => fromHalf(view.getUint16(at, true))],
    I8: [1, (view, at) => view.getInt8(at)],
  };

  // The header of a .safetensors file, and where its numbers begin.
  function headerOf(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const length = bytes.length < 8 ? Infinity : Number(view.getBigUint64(0, true));
    if (8 + length > bytes.length) throw new Error("the file is damaged: it is no .safetensors file, or its end is missing");
    try {
      return [view, JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))), 8 + length];
    } catch {
      throw new Error("the file is damaged: its header cannot be read");
    }
  }

  // The tensors of a .safetensors file: {name: {shape, data: Float32Array}}, and its metadata.
  function parse(bytes) {
    const [view, header, begin] = headerOf(bytes), tensors = {};
    for (const [name, entry] of Object.entries(header)) {
      if (name === "__metadata__") continue;
      const [start, end] = entry.data_offsets.map((offset) => offset + begin);
      const [size, read] = READERS[entry.dtype] || [];
      if (!size) throw new Error(`${name} holds numbers of type ${entry.dtype}: F32, F16 or I8 are read`);
      if (end > bytes.length) throw new Error("the file is damaged: its end is missing");
      const data = new Float32Array((end - start) / size);
      for (let i = 0; i < data.length; i++) data[i] = read(view, start + size * i);
      tensors[name] = { shape: entry.shape, data };
    }
    return { tensors, metadata: header.__metadata__ || {} };
  }

  // Tensors of a file, and the note in its header: architecture, config, ...
  function read(bytes) {
    const { tensors, metadata } = parse(bytes);
    if (!metadata.note) throw new Error("the file holds no network of this book: its note is missing");
    return { tensors, note: JSON.parse(metadata.note) };
  }

  // ---- products ------------------------------------------------------------------------------

  const NOTICE = "This browser does not run WebAssembly with SIMD, so the network is computed in plain " +
    "JavaScript. Its numbers are the same; a step takes longer.";

  // The memory that the WebAssembly program sees. It begins with room for one input and one output,
  // and weights follow, each put there once.
  const kernel = { multiply: null, memory: null, top: 0, scratch: 0 };

  function startKernel() {
    try {
      const module = new WebAssembly.Module(bytesOf(window.bwMatmul));
      const { multiply, memory } = new WebAssembly.Instance(module).exports;
      Object.assign(kernel, { multiply, memory, scratch: 1 << 20 });
      kernel.top = kernel.scratch;
      makeRoom(0);
    } catch {
      kernel.multiply = null;
    }
  }

  // Let the memory hold `more` bytes beyond what is used.
  function makeRoom(more) {
    const missing = kernel.top + more - kernel.memory.buffer.byteLength;
    if (missing > 0) kernel.memory.grow(Math.ceil(missing / 65536));
  }

  // A linear map as PyTorch keeps it, (M, D), packed in panels: for 8 outputs at a time, (D, 8).
  class Matrix {
    constructor({ shape, data }) {
      const D = shape[shape.length - 1], M = data.length / D, panels = Math.ceil(M / PANEL);
      const packed = new Float32Array(panels * D * PANEL);
      for (let m = 0; m < M; m++) {
        const at = (m - (m % PANEL)) * D + (m % PANEL);
        for (let d = 0; d < D; d++) packed[at + d * PANEL] = data[m * D + d];
      }
      Object.assign(this, { D, M, panels, packed, at: null });
      if (kernel.multiply) this.moveIn();
    }

    // Put the weights where the program sees them; without room for that, go on in JavaScript.
    moveIn() {
      try {
        makeRoom(this.packed.byteLength);
      } catch {
        useJavaScript();
        return;
      }
      this.at = kernel.top;
      new Float32Array(kernel.memory.buffer, this.at, this.packed.length).set(this.packed);
      kernel.top += this.packed.byteLength;
      this.packed = null;
    }

    weights() {
      return this.packed || new Float32Array(kernel.memory.buffer, this.at, this.panels * this.D * PANEL);
    }

    // Rows times this map: (T, D) -> Float32Array (T, M), with a bias or without.
    times(x, bias) {
      const { D, M, panels } = this, T = x.length / D, width = panels * PANEL;
      const bytes = 4 * T * (D + width);
      const y = kernel.multiply && this.at !== null && bytes <= kernel.scratch
        ? inKernel(this, x, T) : inJavaScript(this.weights(), x, T, D, panels);
      if (width === M && !bias) return y;
      const result = new Float32Array(T * M);
      for (let t = 0; t < T; t++) {
        for (let m = 0; m < M; m++) result[t * M + m] = y[t * width + m] + (bias ? bias[m] : 0);
      }
      return result;
    }
  }

  function inKernel(matrix, x, T) {
    const { D, panels, at } = matrix, to = 4 * T * D;
    new Float32Array(kernel.memory.buffer, 0, T * D).set(x);
    kernel.multiply(0, at, to, T, D, panels);
    return new Float32Array(kernel.memory.buffer, to, T * panels * PANEL).slice();
  }

  // The same product in JavaScript: four rows by four outputs at a time, whose 16 sums stay in
  // registers; rows that are left over go one by one.
  function inJavaScript(w, x, T, D, panels) {
    const y = new Float32Array(T * panels * PANEL);
    for (let p = 0; p < panels; p++) {
      let t = 0;
      for (; t + 4 <= T; t += 4) {
        fourRows(w, x, y, p, t, D, panels, 0);
        fourRows(w, x, y, p, t, D, panels, 4);
      }
      for (; t < T; t++) oneRow(w, x, y, p, t, D, panels);
    }
    return y;
  }

  function fourRows(w, x, y, p, t, D, panels, half) {
    let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
    let c0 = 0, c1 = 0, c2 = 0, c3 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    const row = t * D;
    for (let d = 0, at = p * D * PANEL + half; d < D; d++, at += PANEL) {
      const w0 = w[at], w1 = w[at + 1], w2 = w[at + 2], w3 = w[at + 3];
      const xa = x[row + d], xb = x[row + D + d], xc = x[row + 2 * D + d], xd = x[row + 3 * D + d];
      a0 += xa * w0; a1 += xa * w1; a2 += xa * w2; a3 += xa * w3;
      b0 += xb * w0; b1 += xb * w1; b2 += xb * w2; b3 += xb * w3;
      c0 += xc * w0; c1 += xc * w1; c2 += xc * w2; c3 += xc * w3;
      d0 += xd * w0; d1 += xd * w1; d2 += xd * w2; d3 += xd * w3;
    }
    const width = panels * PANEL;
    let to = t * width + p * PANEL + half;
    y[to] = a0; y[to + 1] = a1; y[to + 2] = a2; y[to + 3] = a3;
    to += width;
    y[to] = b0; y[to + 1] = b1; y[to + 2] = b2; y[to + 3] = b3;
    to += width;
    y[to] = c0; y[to + 1] = c1; y[to + 2] = c2; y[to + 3] = c3;
    to += width;
    y[to] = d0; y[to + 1] = d1; y[to + 2] = d2; y[to + 3] = d3;
  }

  function oneRow(w, x, y, p, t, D, panels) {
    let s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    const row = t * D;
    for (let d = 0, at = p * D * PANEL; d < D; d++, at += PANEL) {
      const v = x[row + d];
      s0 += v * w[at]; s1 += v * w[at + 1]; s2 += v * w[at + 2]; s3 += v * w[at + 3];
      s4 += v * w[at + 4]; s5 += v * w[at + 5]; s6 += v * w[at + 6]; s7 += v * w[at + 7];
    }
    const to = (t * panels + p) * PANEL;
    y[to] = s0; y[to + 1] = s1; y[to + 2] = s2; y[to + 3] = s3;
    y[to + 4] = s4; y[to + 5] = s5; y[to + 6] = s6; y[to + 7] = s7;
  }

  // ---- arithmetic ----------------------------------------------------------------------------

  function rmsNorm(x, gain) {
    const D = gain.length, result = new Float32Array(x.length);
    for (let t = 0; t < x.length; t += D) {
      let square = 0;
      for (let d = 0; d < D; d++) square += x[t + d] * x[t + d];
      const scale = 1 / Math.sqrt(square / D + 1e-5);
      for (let d = 0; d < D; d++) result[t + d] = x[t + d] * scale * gain[d];
    }
    return result;
  }

  function layerNorm(x, weight, bias) {
    const D = weight.length, result = new Float32Array(x.length);
    for (let t = 0; t < x.length; t += D) {
      let sum = 0, square = 0;
      for (let d = 0; d < D; d++) sum += x[t + d];
      for (let d = 0; d < D; d++) square += (x[t + d] - sum / D) ** 2;
      const scale = 1 / Math.sqrt(square / D + 1e-5);
      for (let d = 0; d < D; d++) result[t + d] = (x[t + d] - sum / D) * scale * weight[d] + bias[d];
    }
    return result;
  }

  // The error function to 1.2e-7 (Press et al., Numerical Recipes, 6.2.2).
  function erf(x) {
    const t = 1 / (1 + Math.abs(x) / 2);
    const sum = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
      t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
    const tail = t * Math.exp(sum - x * x);
    return x >= 0 ? 1 - tail : tail - 1;
  }

  // Loops and no maps: these two see every number of a pass.
  function gelu(x) {
    const result = new Float32Array(x.length);
    for (let i = 0; i < x.length; i++) result[i] = 0.5 * x[i] * (1 + erf(x[i] / Math.SQRT2));
    return result;
  }

  function add(x, y) {
    const result = x.slice();
    for (let i = 0; i < x.length; i++) result[i] += y[i];
    return result;
  }

  const sigmoid = (v) => 1 / (1 + Math.exp(-v));
  const silu = (v) => v * sigmoid(v);
  const softplus = (v) => (v > 20 ? v : Math.log1p(Math.exp(v)));

  // Probabilities and their logarithms to base 2, in double precision.
  function softmax(logits) {
    const row = Float64Array.from(logits), most = Math.max(...row);
    const total = Math.log(row.reduce((sum, v) => sum + Math.exp(v - most), 0)) + most;
    return { probabilities: row.map((v) => Math.exp(v - total)), logs: row.map((v) => (v - total) / Math.LN2) };
  }

  // Every channel with its own few weights, over a token and those before it: (T, E) -> (T, E).
  function convolve(x, weight, bias) {
    const E = bias.length, taps = weight.length / E, result = new Float32Array(x.length);
    for (let i = 0; i < x.length; i++) {
      const e = i % E;
      let sum = bias[e];
      for (let j = 0; j < taps; j++) {
        const from = i - (taps - 1 - j) * E;
        if (from >= 0) sum += weight[e * taps + j] * x[from];
      }
      result[i] = sum;
    }
    return result;
  }

  // Sines and cosines of geometric wavelengths at one place, (D,), as models/positions.py has them.
  const sinusoid = (t, D) => Float64Array.from({ length: D }, (_, d) => {
    const angle = t * Math.exp((-Math.log(10000) * (d - (d % 2))) / D);
    return d % 2 ? Math.cos(angle) : Math.sin(angle);
  });

  // ---- what all architectures share ------------------------------------------------------------

  class Network {
    // note: architecture and config, as the library writes them into a file's header.
    constructor(tensors, note) {
      Object.assign(this, { tensors, record: note, config: note.config, architecture: note.architecture });
      Object.assign(this, { maps: new Map(), passes: [] });
      this.check([this.config.n_tokens ? "tokens.weight" : "features.weight"]);
      for (const [name, { data }] of Object.entries(tensors)) {
        if (!data.every(Number.isFinite)) throw new Error(`the file is damaged: ${name} holds what is no number`);
      }
    }

    check(names) {
      const missing = names.filter((name) => !this.tensors[name]);
      if (missing.length) throw new Error(`the file is damaged: ${missing.join(", ")} is missing`);
    }

    data(name) {
      this.check([name]);
      return this.tensors[name].data;
    }

    // Rows times the map of that name: (T, D) -> (T, M); a bias beside it is added. It is packed when
    // it is used first.
    linear(name, x) {
      if (!this.maps.has(name)) {
        this.check([`${name}.weight`]);
        this.maps.set(name, new Matrix(this.tensors[`${name}.weight`]));
      }
      const bias = this.tensors[`${name}.bias`];
      return this.maps.get(name).times(x, bias && bias.data);
    }

    // Inputs to channels: n tokens, or n vectors -> (n, D).
    embed(inputs) {
      const { n_tokens, n_features: F, width: D } = this.config;
      if (!n_tokens) {
        if (inputs.some((row) => row.length !== F)) throw new Error(`this network reads vectors of ${F} numbers`);
        return this.linear("features", Float32Array.from(inputs.flatMap((row) => [...row])));
      }
      const table = this.data("tokens.weight"), result = new Float32Array(inputs.length * D);
      inputs.forEach((token, t) => {
        if (!(token >= 0 && token < n_tokens)) throw new Error(`token ${token}: this network knows 0 to ${n_tokens - 1}`);
        result.set(table.subarray(token * D, (token + 1) * D), t * D);
      });
      return result;
    }

    // Where predictions are read out in an input of T tokens; beyond its training with the spacing
    // of the last two.
    scored(T) {
      const { scored } = this.config, last = scored[scored.length - 1];
      const step = scored.length > 1 ? last - scored[scored.length - 2] : T;
      const more = range(Math.max(0, Math.ceil((T - last - 1) / step))).map((i) => last + (i + 1) * step);
      return [...scored, ...more].filter((t) => t < T);
    }

    // The channels (D,) of one position to logits (Y,), in double precision.
    readOut(x) {
      const { width: D, n_outputs: Y, first_output_token: first } = this.config, tied = first !== null && first !== undefined;
      const rows = this.data(tied ? "tokens.weight" : "head.weight"), begin = tied ? first * D : 0;
      return Float64Array.from({ length: Y }, (_, y) => {
        let sum = tied ? 0 : this.data("head.bias")[y];
        for (let d = 0; d < D; d++) sum += x[d] * rows[begin + y * D + d];
        return sum * this.readOutScale(tied);
      });
    }

    readOutScale() {
      return 1;
    }

    // Whether it can do without a layer.
    get layersGo() {
      return false;
    }

    // What the network says: {logits[k], probabilities[k][y], logProbabilities[k][y] (base 2)} at the
    // scored positions so far, as Float64Arrays. Of a Gaussian outcome there are logits only (mean
    // and log variance). inputs: T token numbers, or T vectors; any beginning of an episode will do.
    // off: a Set of layers "l" that write nothing, where the architecture can do without one.
    run(inputs, { off = new Set() } = {}) {
      const wrong = [...off].find((name) => !(this.layersGo && /^\d+$/.test(name)));
      if (wrong) throw new Error(`${this.layersGo ? "heads" : "heads and layers"} are switched off in ${this.layersGo ? "transformers" : "other networks"} only, this is a ${this.architecture}`);
      const D = this.config.width, x = this.trunk(inputs, { off });
      return answer(this.config, this.scored(inputs.length).map((t) => this.readOut(x.subarray(t * D, (t + 1) * D))));
    }
  }

  function answer(config, logits) {
    if (config.outcome === "gaussian") return { logits };
    const rows = logits.map(softmax);
    return { logits, probabilities: rows.map((row) => row.probabilities), logProbabilities: rows.map((row) => row.logs) };
  }

  // ---- the transformer -------------------------------------------------------------------------

  const TABLES = ["learned", "random_offset", "random_subset"]; // those with a trained vector a position

  // G, H and C of a transformer.
  function headsOf({ n_heads: H, n_key_heads: G, width: D }) {
    return { H, G: G || H, C: D / H };
  }

  class Transformer extends Network {
    // As in Network, and patterns[l][h][query][key] and heads[l][h], (T, C), what each head hands on.
    // What may be changed on the way:
    // off: a Set of heads "l.h", which hand on zeros, of feed-forward parts "l.m", and of layers "l",
    //   whose attention and feed-forward write nothing into the stream; what they looked at is told all the same.
    // means: what `means` returned; then they hand on and write their mean in place of nothing.
    // change(head output, layer, head): (T, C) in, what the head hands on instead out.
    // A beginning that an earlier run has seen is not computed again (unless `change` is given).
    run(inputs, options = {}) {
      const settings = typeof options === "function" ? { change: options } : options;
      return this.passFor(settings).run(inputs);
    }

    passFor({ off = new Set(), means = null, change = null }) {
      const used = off.size ? means : null, key = [...off].sort().join(" ");
      const fresh = () => new Pass(this, new Set(off), used, change);
      if (change) return fresh();
      const pass = this.passes.find((old) => old.key === key && old.means === used) || Object.assign(fresh(), { key });
      this.passes = [pass, ...this.passes.filter((old) => old !== pass)].slice(0, PASSES);
      return pass;
    }

    // The position code of token t, (D,), or null; Attention.scores turns queries and keys if rotary.
    place(t) {
      const { positions = "learned", init = "small", width: D, n_positions } = this.config;
      if (positions === "sinusoidal") {
        return sinusoid(t, D).map((v) => v * (init === "small" ? 0.02 : 0.2) * Math.SQRT2);
      }
      if (!TABLES.includes(positions)) return null;
      const number = positions === "random_subset" ? 2 * t : t;
      if (number >= n_positions) throw new Error(`position ${t + 1}: this network has ${n_positions} positions; shorten the inputs`);
      return this.data("positions.weight").subarray(number * D, (number + 1) * D);
    }

    // Embedded and placed inputs p to T, (n, D).
    enter(inputs, p) {
      const { width: D, convolution = 0 } = this.config, seen = Math.max(0, p - Math.max(0, convolution - 1));
      let x = this.embed(inputs.slice(seen));
      if (convolution) x = add(x, convolve(x, this.data("convolution.weight"), this.data("convolution.bias")));
      x = x.slice((p - seen) * D);
      for (let t = p; t < inputs.length; t++) {
        const code = this.place(t);
        for (let d = 0; code && d < D; d++) x[(t - p) * D + d] += code[d];
      }
      return x;
    }

    // The mean over some inputs of one length of what every head hands on and every layer writes:
    // {heads[l][h] (T, C), layers[l] (T, D)}.
    means(sequences) {
      let sum = null;
      for (const inputs of sequences) {
        const pass = new Pass(this, new Set(), null, null), { heads } = pass.run(inputs);
        const layers = pass.layers.map((layer) => Float64Array.from(layer.written.all()));
        const seen = { heads: heads.map((row) => row.map((head) => Float64Array.from(head))), layers };
        sum = sum === null ? seen : {
          heads: sum.heads.map((row, l) => row.map((head, h) => add(head, seen.heads[l][h]))),
          layers: sum.layers.map((layer, l) => add(layer, layers[l])),
        };
      }
      const divided = (row) => row.map((v) => v / sequences.length);
      return { heads: sum.heads.map((row) => row.map(divided)), layers: sum.layers.map(divided) };
    }
  }

  // Rows that grow by and by: one after the other in a Float32Array that is made larger at need.
  class Rows {
    constructor(width) {
      Object.assign(this, { width, length: 0, data: new Float32Array(32 * width) });
    }

    cut(length) {
      this.length = Math.min(this.length, length);
    }

    push(rows) {
      const used = this.length * this.width;
      if (used + rows.length > this.data.length) {
        const larger = new Float32Array(2 * (used + rows.length));
        larger.set(this.data.subarray(0, used));
        this.data = larger;
      }
      this.data.set(rows, used);
      this.length += rows.length / this.width;
    }

    all(length = this.length) {
      return this.data.subarray(0, length * this.width);
    }
  }

  const same = (x, y) => (typeof x === "number" ? x === y : x.length === y.length && x.every((v, i) => v === y[i]));

  // One way to run a transformer, with what it has computed so far: keys and values of every token, so
  // that the next token costs itself alone. The mask is causal, so what is known stays true.
  class Pass {
    constructor(network, off, means, change) {
      const { n_layers: L, width: D } = network.config, { H, G, C } = headsOf(network.config);
      Object.assign(this, { network, off, means, change, inputs: [], logits: new Map() });
      this.layers = range(L).map(() => ({
        keys: new Rows(G * C), values: new Rows(G * C), given: new Rows(D), written: new Rows(D), patterns: range(H).map(() => []),
      }));
    }

    run(inputs) {
      let p = 0;
      while (p < inputs.length && p < this.inputs.length && same(inputs[p], this.inputs[p])) p++;
      if (p < inputs.length) this.extend(inputs, p);
      return this.told(inputs.length);
    }

    // Forget what came after the first p tokens, then compute the others.
    extend(inputs, p) {
      const { network } = this, D = network.config.width;
      this.inputs = inputs.slice(0, p); // if something goes wrong below, this much is known
      for (const layer of this.layers) {
        for (const rows of [layer.keys, layer.values, layer.given, layer.written]) rows.cut(p);
        for (const pattern of layer.patterns) pattern.length = Math.min(pattern.length, p);
      }
      let x = network.enter(inputs, p);
      this.layers.forEach((_, l) => { x = add(x, this.layer(x, l, p)); });
      x = rmsNorm(x, network.data("norm.gain"));
      for (const t of network.scored(inputs.length).filter((t) => t >= p)) {
        this.logits.set(t, network.readOut(x.subarray((t - p) * D, (t - p + 1) * D)));
      }
      this.inputs = [...inputs];
    }

    // What a layer writes into the stream: (n, D) -> (n, D).
    layer(x, l, p) {
      const { network } = this, { without_attention = [], width: D } = network.config, block = `blocks.${l}`;
      const whole = !this.off.has(String(l));
      let sum = new Float32Array(x.length);
      if (!without_attention.includes(l)) {
        sum = this.attend(rmsNorm(x, network.data(`${block}.norm1.gain`)), l, p);
      }
      if (whole && !this.off.has(`${l}.m`)) {
        const y = rmsNorm(add(x, sum), network.data(`${block}.norm2.gain`)), part = `${block}.feed_forward`;
        sum = add(sum, network.linear(`${part}.down`, gelu(network.linear(`${part}.up`, y))));
      } else if (whole) {
        // The feed-forward part alone is off: what attention wrote stays.
      } else if (this.means) {
        if (!this.means.layers) throw new Error("the means of layers are missing: take them from network.means");
        sum = Float32Array.from(this.means.layers[l].subarray(p * D, p * D + x.length));
      } else {
        sum = new Float32Array(x.length);
      }
      this.layers[l].written.push(sum);
      return sum;
    }

    attend(x, l, p) {
      const { network } = this, { width: D, attention = "softmax", positions } = network.config;
      const { H, G, C } = headsOf(network.config);
      const part = `blocks.${l}.attention`, layer = this.layers[l], n = x.length / D;
      const even = attention === "uniform";
      const turned = (rows, width) => (positions === "rotary" ? rotate(rows, C, width, p) : rows);
      const q = even ? null : turned(network.linear(`${part}.query`, x), D);
      if (!even) layer.keys.push(turned(network.linear(`${part}.key`, x), G * C));
      layer.values.push(network.linear(`${part}.value`, x));
      const mixed = new Float32Array(n * D);
      for (let h = 0; h < H; h++) this.mix(q, l, h, p, mixed);
      layer.given.push(mixed);
      return network.linear(`${part}.output`, mixed);
    }

    // One head at the new tokens: its patterns are noted, and what it hands on is put into `mixed`.
    mix(q, l, h, p, mixed) {
      const { width: D, window = 0 } = this.network.config, { H, G, C } = headsOf(this.network.config);
      const n = mixed.length / D, layer = this.layers[l], keys = layer.keys.data, values = layer.values.data;
      const E = G * C, offset = Math.floor((h * G) / H) * C; // where the keys that this head uses begin
      let head = new Float64Array(n * C);
      for (let i = 0; i < n; i++) {
        const count = p + i + 1, first = window ? Math.max(0, count - window) : 0;
        const weights = q ? looks(q, i * D + h * C, keys, offset, first, count, C, E)
          : new Array(count).fill(0).fill(1 / (count - first), first);
        layer.patterns[h].push(weights);
        for (let s = first; s < count; s++) {
          const weight = weights[s], at = s * E + offset;
          for (let c = 0; c < C; c++) head[i * C + c] += weight * values[at + c];
        }
      }
      head = this.handsOn(head, l, h, p, C);
      for (let i = 0; i < n; i++) for (let c = 0; c < C; c++) mixed[i * D + h * C + c] = head[i * C + c];
    }

    handsOn(head, l, h, p, C) {
      if (this.change) return this.change(head, l, h);
      if (!this.off.has(`${l}.${h}`)) return head;
      if (!this.means) return new Float64Array(head.length);
      return (this.means.heads || this.means)[l][h].subarray(p * C, p * C + head.length);
    }

    // What is known of the first T tokens.
    told(T) {
      const { config } = this.network, { n_heads: H, width: D } = config, C = D / H;
      const head = (layer, h) => {
        const result = new Float32Array(T * C);
        for (let t = 0; t < T; t++) result.set(layer.given.data.subarray(t * D + h * C, t * D + (h + 1) * C), t * C);
        return result;
      };
      const attends = this.layers.map((layer) => layer.given.length > 0);
      return {
        patterns: this.layers.map((layer) => layer.patterns.map((rows) => rows.slice(0, T))),
        heads: this.layers.map((layer, l) => range(attends[l] ? H : 0).map((h) => head(layer, h))),
        ...answer(config, this.network.scored(T).map((t) => this.logits.get(t))),
      };
    }
  }

  // Attention of one query on the keys from `first` on, up to `count`: softmax of its products with
  // them, and 0 on those before. C channels of a head, rows of E.
  function looks(q, at, keys, offset, first, count, C, E) {
    const weights = new Array(count).fill(0), root = Math.sqrt(C);
    let most = -Infinity, total = 0;
    for (let s = first; s < count; s++) {
      const from = s * E + offset;
      let sum = 0;
      for (let c = 0; c < C; c++) sum += q[at + c] * keys[from + c];
      weights[s] = sum / root;
      if (weights[s] > most) most = weights[s];
    }
    for (let s = first; s < count; s++) total += weights[s] = Math.exp(weights[s] - most);
    for (let s = first; s < count; s++) weights[s] /= total;
    return weights;
  }

  // Turn each pair of channels of every head by an angle proportional to the place: (n, D), same.
  function rotate(rows, C, D, p) {
    const result = new Float32Array(rows.length);
    for (let i = 0; i < rows.length; i += 2) {
      const t = p + Math.floor(i / D), c = (i % D) % C;
      const angle = t * Math.exp((-Math.log(10000) * c) / C), sin = Math.sin(angle), cos = Math.cos(angle);
      result[i] = rows[i] * cos - rows[i + 1] * sin;
      result[i + 1] = rows[i] * sin + rows[i + 1] * cos;
    }
    return result;
  }

  // ---- the rivals ------------------------------------------------------------------------------

  class MLP extends Network {
    trunk(inputs) {
      const { width: D, n_layers: L, n_positions, hidden } = this.config;
      if (inputs.length > n_positions) throw new Error(`this network has ${n_positions} positions; shorten the inputs`);
      let x = add(this.embed(inputs), this.data("positions.weight").subarray(0, inputs.length * D));
      x = this.context(x);
      for (let l = 0; l < L; l++) {
        const block = `blocks.${l}`, y = this.norm(`${block}.norm`, x);
        x = add(x, hidden ? this.linear(`${block}.down`, gelu(this.linear(`${block}.up`, y))) : gelu(this.linear(`${block}.down`, y)));
      }
      return this.norm("norm", x);
    }

    norm(name, x) {
      return layerNorm(x, this.data(`${name}.weight`), this.data(`${name}.bias`));
    }

    // What a position sees of the others: nothing, a running sum, or all laid side by side.
    context(x) {
      const kind = this.config.context;
      if (kind === "sum") return this.runningSum(x);
      return kind === "flattened" ? this.flattened(x) : x;
    }

    runningSum(x) {
      const { summed: S } = this.config, item = gelu(this.linear("context.item.1", rmsNorm(x, this.data("context.item.0.gain"))));
      const total = this.linear("context.to_sum", item), T = total.length / S, both = new Float32Array(2 * T * S);
      for (let i = S; i < total.length; i++) total[i] += total[i - S];
      const normed = this.norm("context.norm", total);
      for (let t = 0; t < T; t++) {
        both.set(normed.subarray(t * S, (t + 1) * S), 2 * t * S);
        both.set(total.subarray(t * S, (t + 1) * S).map((v) => v / 4), (2 * t + 1) * S);
      }
      return add(x, this.linear("context.from_sum", both));
    }

    flattened(x) {
      const { summed: I, width: D } = this.config, narrow = this.linear("context.narrow", x), maps = this.data("context.places");
      const result = Float32Array.from(x), sum = new Float64Array(D);
      for (let t = 0; t < x.length / D; t++) {
        for (let i = 0; i < I; i++) for (let d = 0; d < D; d++) sum[d] += narrow[t * I + i] * maps[(t * I + i) * D + d];
        for (let d = 0; d < D; d++) result[t * D + d] += sum[d];
      }
      return result;
    }
  }

  class LSTM extends Network {
    get layersGo() {
      return true;
    }

    // look(what, layer, rows): is told the "state" of each layer, (T, D).
    trunk(inputs, { off = new Set(), look = () => {} } = {}) {
      let x = this.embed(inputs);
      for (let l = 0; l < this.config.n_layers; l++) {
        x = off.has(String(l)) ? new Float32Array(x.length) : this.recur(x, l);
        look("state", l, x);
      }
      return layerNorm(x, this.data("norm.weight"), this.data("norm.bias"));
    }

    // One layer over all tokens; gates lie in the order input, forget, cell, output.
    recur(x, l) {
      const D = this.config.width, result = new Float32Array(x.length);
      const from = add(this.product(`layers.weight_ih_l${l}`, x), repeated(this.data(`layers.bias_ih_l${l}`), x.length / D));
      const bias = this.data(`layers.bias_hh_l${l}`);
      let h = new Float32Array(D);
      const cell = new Float64Array(D);
      for (let t = 0; t < x.length / D; t++) {
        const back = this.product(`layers.weight_hh_l${l}`, h), gate = (i, d) => {
          const at = i * D + d;
          return from[4 * t * D + at] + back[at] + bias[at];
        };
        h = h.map((_, d) => {
          cell[d] = sigmoid(gate(1, d)) * cell[d] + sigmoid(gate(0, d)) * Math.tanh(gate(2, d));
          return sigmoid(gate(3, d)) * Math.tanh(cell[d]);
        });
        result.set(h, t * D);
      }
      return result;
    }

    // Rows times a matrix that carries no ".weight" in its name.
    product(name, x) {
      if (!this.maps.has(name)) this.maps.set(name, new Matrix({ shape: this.tensors[name].shape, data: this.data(name) }));
      return this.maps.get(name).times(x);
    }

    readOutScale(tied) {
      return tied ? 1 / Math.sqrt(this.config.width) : 1;
    }
  }

  const repeated = (row, times) => Float32Array.from({ length: row.length * times }, (_, i) => row[i % row.length]);

  class Mamba extends Network {
    get layersGo() {
      return true;
    }

    // look(what, layer, rows): is told the "stream" that enters each layer and leaves the last, (T, D);
    // what a layer has "written" into it, (T, D); and of its E channels what is in the "state", as it
    // is read, and what the gate lets through of that and the input, "read", both (T, E).
    trunk(inputs, { off = new Set(), look = () => {} } = {}) {
      let x = this.embed(inputs);
      for (let l = 0; l < this.config.n_layers; l++) {
        look("stream", l, x);
        const tell = (what, rows) => look(what, l, off.has(String(l)) ? new Float32Array(rows.length) : rows);
        const mixed = this.mix(rmsNorm(x, this.data(`blocks.${l}.norm.gain`)), `blocks.${l}.mixer`, tell);
        tell("written", mixed);
        if (!off.has(String(l))) x = add(x, mixed);
      }
      look("stream", this.config.n_layers, x);
      return rmsNorm(x, this.data("norm.gain"));
    }

    // A short causal convolution, then the selective scan, then a gate: (T, D) -> (T, D).
    mix(rows, part, tell) {
      const { width: D, expand, dt_rank: R, n_states: N } = this.config, E = expand * D, T = rows.length / D;
      const both = this.linear(`${part}.in_proj`, rows); // (T, 2 E): what goes in, and the gate
      const columns = (x, width, from, count) => Float32Array.from({ length: T * count }, (_, i) =>
        x[Math.floor(i / count) * width + from + (i % count)]);
      const x = convolve(columns(both, 2 * E, 0, E), this.data(`${part}.conv.weight`), this.data(`${part}.conv.bias`)).map(silu);
      const chosen = this.linear(`${part}.x_proj`, x), width = R + 2 * N; // time steps, writes, reads
      const dt = this.linear(`${part}.dt_proj`, columns(chosen, width, 0, R)).map(softplus);
      const y = this.scan(part, x, dt, columns(chosen, width, R, N), columns(chosen, width, R + N, N));
      const skip = this.data(`${part}.D`), read = y.map((v, i) => v * silu(both[Math.floor(i / E) * 2 * E + E + (i % E)]));
      tell("state", y.map((v, i) => v - skip[i % E] * x[i]));
      tell("read", read);
      return this.linear(`${part}.out_proj`, read);
    }

    // The recurrence h <- exp(dt A) h + dt x B, y = C h + D x, token by token: (T, E) -> (T, E).
    scan(part, x, dt, B, C) {
      const rates = this.data(`${part}.A_log`).map((v) => -Math.exp(v)), skip = this.data(`${part}.D`);
      const E = skip.length, N = rates.length / E, h = new Float64Array(E * N), y = new Float32Array(x.length);
      for (let i = 0; i < x.length; i++) {
        const t = Math.floor(i / E), e = i % E;
        let sum = skip[e] * x[i];
        for (let s = 0; s < N; s++) {
          const at = e * N + s;
          h[at] = Math.exp(dt[i] * rates[at]) * h[at] + dt[i] * x[i] * B[t * N + s];
          sum += h[at] * C[t * N + s];
        }
        y[i] = sum;
      }
      return y;
    }
  }

  const ARCHITECTURES = { transformer: Transformer, mlp: MLP, lstm: LSTM, mamba: Mamba };

  function build(tensors, note) {
    const Kind = ARCHITECTURES[note.architecture];
    if (!Kind) throw new Error(`the page cannot run a network of the kind "${note.architecture}"`);
    return new Kind(scaled(tensors), note);
  }

  // Weights from what a file holds: large maps are whole numbers with a scale for each row.
  function scaled(tensors) {
    const result = {};
    for (const [name, tensor] of Object.entries(tensors)) {
      if (name.endsWith(".scale")) continue;
      const scale = tensors[`${name}.scale`], columns = tensor.shape[tensor.shape.length - 1];
      const data = scale ? tensor.data.map((v, i) => v * scale.data[Math.floor(i / columns)]) : tensor.data;
      result[name] = { shape: tensor.shape, data };
    }
    return result;
  }

  // A network from the bytes of a .safetensors file.
  function of(bytes) {
    const { tensors, note } = read(bytes);
    return build(tensors, note);
  }

  // ---- a run at many moments -------------------------------------------------------------------

  // {steps, networks, note} from the bytes of a file as bayeswind_lib/checkpoints/snapshots.py writes it.
  function snapshots(bytes) {
    const { tensors, note } = read(bytes), parts = new Map();
    for (const [name, tensor] of Object.entries(tensors)) {
      const [step, part] = [+name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
      if (!parts.has(step)) parts.set(step, {});
      parts.get(step)[part] = tensor;
    }
    const steps = [...parts.keys()].sort((a, b) => a - b);
    return { steps, networks: steps.map((step) => build(parts.get(step), note)), note };
  }

  // ---- fetching --------------------------------------------------------------------------------

  // The folder of static files: where this script lies. A notebook has none, and sets a provider.
  const here = document.currentScript && document.currentScript.src;
  const STATIC = here ? new URL(".", here).href : null;
  const files = (window.bwNetworkFiles = window.bwNetworkFiles || {});
  const wanted = new Map(); // file -> promise of what it holds
  const failed = new Set(); // files that were asked for in vain: a browser's own copy may be damaged

  // A network, or the snapshots of a run, by its path below checkpoints/weights without the suffix.
  // It comes from bwNetwork.provider, else from bwNetworkFiles[file] (bytes, or base64), else from the
  // site: over http a file, from a folder (where a browser fetches nothing) a script that holds it.
  // onProgress(bytes, of how many or 0) tells how far it is. Rejects with an Error for the reader;
  // the next call tries again.
  function fetchNetwork(file, { onProgress = () => {} } = {}) {
    if (!wanted.has(file)) {
      const promise = bytesFor(file, onProgress).then((bytes) => open(file, bytes));
      wanted.set(file, promise);
      promise.catch(() => {
        wanted.delete(file);
        failed.add(file);
      });
    }
    return wanted.get(file);
  }

  function open(file, bytes) {
    try {
      return file.startsWith("snapshots/") ? snapshots(bytes) : of(bytes);
    } catch (problem) {
      throw new Error(`The network ${file} arrived, but could not be opened: ${problem.message}. Try again; if ` +
        "that does not help, reload the page.");
    }
  }

  async function bytesFor(file, onProgress) {
    if (window.bwNetwork.provider) return window.bwNetwork.provider(file);
    if (files[file]) return typeof files[file] === "string" ? bytesOf(files[file]) : files[file];
    if (!STATIC) throw new Error(`The network ${file} cannot be fetched: nobody said where it lies.`);
    const place = `${STATIC}networks/${file.split("/").pop()}`;
    return STATIC.startsWith("file:") ? fromScript(file, `${place}.js`) : fromSite(file, `${place}.safetensors`, onProgress);
  }

  async function fromSite(file, url, onProgress) {
    let response, bytes;
    try {
      response = await window.fetch(url, failed.has(file) ? { cache: "reload" } : {});
      if (response.ok) bytes = await whole(response, onProgress);
    } catch {
      throw new Error(`The network ${file} could not be fetched: the connection failed. Check that you are online, then try again.`);
    }
    if (!bytes) throw new Error(`The network ${file} could not be fetched: the site answered ${response.status}. Try again later.`);
    return bytes;
  }

  // All bytes of a response, telling how many have come. A length that a server states is that of the
  // compressed file, so it counts only if nothing was compressed.
  async function whole(response, onProgress) {
    const total = response.headers.get("content-encoding") ? 0 : +response.headers.get("content-length");
    const reader = response.body.getReader(), parts = [];
    let length = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      length += part.value.length;
      onProgress(length, total);
    }
    const bytes = new Uint8Array(length);
    parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
    return bytes;
  }

  function fromScript(file, url) {
    const place = url.slice(STATIC.length), told = `The network ${file} could not be read: the file ${place} of the book is ` +
      "missing or damaged. Copy the folder of the book again, whole, then try again.";
    return new Promise((resolve, reject) => {
      const script = document.createElement("script"), fail = () => reject(new Error(told));
      script.onload = () => {
        const base64 = files[file];
        delete files[file]; // what it holds is kept once, not twice
        script.remove();
        if (base64) resolve(bytesOf(base64));
        else fail();
      };
      script.onerror = () => {
        script.remove();
        fail();
      };
      script.src = url;
      document.head.append(script);
    });
  }

  // ---- start -----------------------------------------------------------------------------------

  // Compute in JavaScript from now on; weights stay where they are.
  function useJavaScript() {
    kernel.multiply = null;
  }

  startKernel();

  window.bwNetwork = {
    Matrix, Network, bytesOf, erf, fetch: fetchNetwork, half, of, parse, provider: null, snapshots, useJavaScript,
    get backend() { return kernel.multiply ? "wasm" : "javascript"; },
    get notice() { return kernel.multiply ? "" : NOTICE; },
  };
})();
