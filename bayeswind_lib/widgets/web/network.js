// A trained transformer in the browser: the forward pass of bayeswind_lib/models/transformer.py.
// A classic script, so that it also runs from a folder. The weights come with scripts of their
// own, networks/FILE.js, each a .safetensors file as base64: bwNetworkFiles["FILE"] = "...".
// Names as in the library: B = 1, T tokens, D channels, H heads, C = D / H, K questions, Y outcomes.
(function () {
  "use strict";

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

  // Bytes a number has, and how it is read, by the type's name in a .safetensors file.
  const READERS = {
    F32: [4, (view, at) => view.getFloat32(at, true)],
    F16: [2, (view, at) => half(view.getUint16(at, true))],
    I8: [1, (view, at) => view.getInt8(at)],
  };

  // The tensors of a .safetensors file: {name: {shape, data: Float32Array}}, and its metadata.
  function parse(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const length = Number(view.getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
    const tensors = {};
    for (const [name, entry] of Object.entries(header)) {
      if (name === "__metadata__") continue;
      const [start, end] = entry.data_offsets.map((offset) => offset + 8 + length);
      const [size, read] = READERS[entry.dtype] || [];
      if (!size) throw new Error(`${name} holds numbers of type ${entry.dtype}: F32, F16 or I8 are read`);
      const data = new Float32Array((end - start) / size);
      for (let i = 0; i < data.length; i++) data[i] = read(view, start + size * i);
      tensors[name] = { shape: entry.shape, data };
    }
    return { tensors, metadata: header.__metadata__ || {} };
  }

  // ---- arithmetic ----------------------------------------------------------------------------

  // Rows times a map as PyTorch keeps it: (T, D), (M, D) -> (T, M), with a bias or without.
  function linear(x, weight, bias) {
    const [M, D] = weight.shape, T = x.length / D, result = new Float64Array(T * M);
    for (let t = 0; t < T; t++) {
      for (let m = 0; m < M; m++) {
        let sum = bias ? bias.data[m] : 0;
        for (let d = 0; d < D; d++) sum += x[t * D + d] * weight.data[m * D + d];
        result[t * M + m] = sum;
      }
    }
    return result;
  }

  function rmsNorm(x, gain) {
    const D = gain.data.length, result = new Float64Array(x.length);
    for (let t = 0; t < x.length; t += D) {
      let square = 0;
      for (let d = 0; d < D; d++) square += x[t + d] ** 2;
      const scale = 1 / Math.sqrt(square / D + 1e-5);
      for (let d = 0; d < D; d++) result[t + d] = x[t + d] * scale * gain.data[d];
    }
    return result;
  }

  // The error function to 1.2e-7 (Press et al., Numerical Recipes, 6.2.2).
  function erf(x) {
    const t = 1 / (1 + Math.abs(x) / 2);
    const series = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807,
      -1.13520398, 1.48851587, -0.82215223, 0.17087277];
    const sum = series.reduceRight((total, c) => total * t + c, 0);
    const tail = t * Math.exp(-x * x + sum);
    return x >= 0 ? 1 - tail : tail - 1;
  }

  const gelu = (x) => x.map((v) => 0.5 * v * (1 + erf(v / Math.SQRT2)));

  function softmax(row) {
    const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
    const powers = row.map((v) => Math.exp(v - most)), sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((v) => v / sum);
  }

  const add = (x, y) => x.map((v, i) => v + y[i]);

  // ---- the network ---------------------------------------------------------------------------

  class Network {
    // config: n_layers, n_heads, width, n_outputs, first_output_token, scored, as in its record.
    constructor(tensors, config) {
      Object.assign(this, { tensors, config });
      if (config.positions && config.positions !== "learned") {
        throw new Error(`positions are ${config.positions}: only learned ones are computed here`);
      }
    }

    // Attention patterns, what the heads give, and probabilities, in one pass.
    // tokens: T numbers. change(head output, layer, head) gives what a head hands on instead:
    // (T, C) in, (T, C) out. Returns {patterns[l][h][query][key], heads[l][h], probabilities[k][y]}.
    run(tokens, change = (head) => head) {
      const { n_layers: L, width: D } = this.config, T = tokens.length;
      const at = (name) => this.tensors[name];
      let x = new Float64Array(T * D);
      for (let t = 0; t < T; t++) {
        for (let d = 0; d < D; d++) {
          x[t * D + d] = at("tokens.weight").data[tokens[t] * D + d] + at("positions.weight").data[t * D + d];
        }
      }
      const patterns = [], heads = [];
      for (let layer = 0; layer < L; layer++) {
        const block = `blocks.${layer}`;
        const seen = this.attend(rmsNorm(x, at(`${block}.norm1.gain`)), layer, change);
        patterns.push(seen.patterns);
        heads.push(seen.heads);
        x = add(x, seen.output);
        const y = rmsNorm(x, at(`${block}.norm2.gain`)), part = `${block}.feed_forward`;
        const hidden = gelu(linear(y, at(`${part}.up.weight`), at(`${part}.up.bias`)));
        x = add(x, linear(hidden, at(`${part}.down.weight`), at(`${part}.down.bias`)));
      }
      return { patterns, heads, probabilities: this.readOut(rmsNorm(x, at("norm.gain")), T) };
    }

    attend(x, layer, change) {
      const { n_heads: H, width: D } = this.config, C = D / H, T = x.length / D;
      const part = (name) => this.tensors[`blocks.${layer}.attention.${name}.weight`];
      const [q, k, v] = ["query", "key", "value"].map((name) => linear(x, part(name)));
      const patterns = [], heads = [], mixed = new Float64Array(T * D);
      for (let h = 0; h < H; h++) {
        const pattern = [];
        let head = new Float64Array(T * C);
        for (let t = 0; t < T; t++) {
          const scores = [];
          for (let s = 0; s <= t; s++) {
            let sum = 0;
            for (let c = h * C; c < (h + 1) * C; c++) sum += q[t * D + c] * k[s * D + c];
            scores.push(sum / Math.sqrt(C));
          }
          const weights = softmax(scores);
          pattern.push(weights);
          for (let s = 0; s <= t; s++) {
            for (let c = 0; c < C; c++) head[t * C + c] += weights[s] * v[s * D + h * C + c];
          }
        }
        head = change(head, layer, h);
        for (let t = 0; t < T; t++) for (let c = 0; c < C; c++) mixed[t * D + h * C + c] = head[t * C + c];
        patterns.push(pattern);
        heads.push(head);
      }
      return { patterns, heads, output: linear(mixed, part("output")) };
    }

    readOut(x, T) {
      const { width: D, n_outputs: Y, first_output_token: first, scored } = this.config;
      const tokens = this.tensors["tokens.weight"].data;
      return scored.filter((t) => t < T).map((t) => {
        const logits = Array.from({ length: Y }, (_, y) => {
          let sum = 0;
          for (let d = 0; d < D; d++) sum += x[t * D + d] * tokens[(first + y) * D + d];
          return sum;
        });
        return softmax(logits);
      });
    }

    // The mean of every head's output over some token sequences of one length: means[l][h], (T, C).
    headMeans(sequences) {
      let means = null;
      for (const tokens of sequences) {
        const { heads } = this.run(tokens);
        means = means ? means.map((row, l) => row.map((mean, h) => add(mean, heads[l][h]))) : heads;
      }
      return means.map((row) => row.map((mean) => mean.map((v) => v / sequences.length)));
    }
  }

  // Tensors and note of a file, from the script networks/FILE.js that the page has loaded.
  function read(file) {
    const base64 = (window.bwNetworkFiles || {})[file];
    if (!base64) throw new Error(`the page has no weights of ${file}`);
    const { tensors, metadata } = parse(bytesOf(base64));
    return { tensors, note: JSON.parse(metadata.note) };
  }

  function load(file) {
    const { tensors, note } = read(file);
    return new Network(tensors, note.config);
  }

  // A run at many moments: {steps, networks, note}. Maps are whole numbers with a scale for each
  // row, as bayeswind_lib/checkpoints/snapshots.py writes them.
  function loadSnapshots(file) {
    const { tensors, note } = read(file), parts = new Map();
    for (const [name, tensor] of Object.entries(tensors)) {
      const [step, part] = [+name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
      if (!parts.has(step)) parts.set(step, {});
      parts.get(step)[part] = tensor;
    }
    const steps = [...parts.keys()].sort((a, b) => a - b);
    return { steps, networks: steps.map((step) => new Network(scaled(parts.get(step)), note.config)), note };
  }

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

  window.bwNetwork = { Network, bytesOf, erf, half, load, loadSnapshots, parse };
})();
