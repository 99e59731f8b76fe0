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

  // ---- episodes of the bijection tunnel, each key once ------------------------------------------

  const range = (n) => Array.from({ length: n }, (_, i) => i);

  function shuffled(n, random) {
    const deck = range(n);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [deck[i], deck[j]] = [deck[j], deck[i]];
    }
    return deck;
  }

  function episode(V, seed) {
    const random = bwExplorer.generator(seed);
    return { keys: shuffled(V, random), values: shuffled(V, random) };
  }

  // What the network reads: key, value, key, value, ..., key. Values come after the V keys.
  const tokensOf = ({ keys, values }) =>
    keys.flatMap((key, i) => (i < keys.length - 1 ? [key, keys.length + values[i]] : [key]));

  // Exact distribution of the value at question k: even over those not shown yet.
  function posterior({ keys, values }, k) {
    const V = keys.length, shown = new Set(values.slice(0, k));
    return range(V).map((value) => (shown.has(value) ? 0 : 1 / (V - k)));
  }

  const entropy = (row) => row.reduce((sum, p) => (p > 0 ? sum - p * Math.log2(p) : sum), 0);
  const divergence = (truth, guess) =>
    truth.reduce((sum, p, i) => (p > 0 ? sum + p * Math.log2(p / guess[i]) : sum), 0);

  // ---- what explorers of a network share --------------------------------------------------------

  const { axes, element, frame, text } = bwExplorer;

  // The pairs, each with a menu for its key and one for its value. What is chosen changes places
  // with the pair that had it, so that every key and value stays there once.
  function pairEditor(id, state, changed) {
    const list = element("ol", { class: "bw-episode", "aria-label": "The episode, pair by pair" });
    const menu = (kind, i) => {
      const row = state.episode[`${kind}s`];
      const choose = (event) => {
        const wanted = +event.target.value, other = row.indexOf(wanted);
        [row[i], row[other]] = [row[other], row[i]];
        changed();
        list.querySelector(`[data-place="${kind} ${i}"]`).focus();
      };
      return element("select", {
        "aria-label": `${kind} of pair ${i + 1}`, "data-place": `${kind} ${i}`, onchange: choose,
      }, ...range(row.length).map((n) => element("option", { value: n, selected: n === row[i] }, String(n))));
    };
    function draw() {
      list.replaceChildren(...state.episode.keys.map((_, i) => element("li", {
        class: i < state.question ? "bw-shown" : i === state.question ? "bw-asked-now" : "bw-later",
      }, "key ", menu("key", i), " \u2192 ", menu("value", i))));
    }
    return { field: list, draw };
  }

  // One button a head, a row a layer: words(l, h) says what stands on it, pressed(l, h) whether it is down.
  function headGrid(network, label, words, pressed, press) {
    const { n_layers: L, n_heads: H } = network.config;
    const buttons = range(L).map((l) => range(H).map((h) => element("button", {
      type: "button", class: "bw-head", "data-head": `${l}.${h}`, onclick: () => press(l, h),
    })));
    const field = element("div", { class: "bw-heads", role: "group", "aria-label": label },
      ...buttons.map((row, l) => element("div", { class: "bw-layer" }, element("span", {}, `layer ${l}`), ...row)));
    function draw() {
      buttons.forEach((row, l) => row.forEach((node, h) => {
        node.textContent = words(l, h);
        node.setAttribute("aria-pressed", String(pressed(l, h)));
        node.setAttribute("aria-label", `layer ${l}, head ${h}: ${words(l, h)}`);
      }));
    }
    return { field, draw };
  }

  // Bars of one distribution or two, the exact one dashed over them.
  function drawBars(box, rows, truth, title) {
    const names = Object.keys(rows), V = truth.length;
    const told = range(V).map((v) =>
      `${v}: ${names.map((name) => `${name} ${rows[name][v].toFixed(3)}`).join(", ")}, exact ${truth[v].toFixed(3)}`);
    const f = frame(box, 200, `${title}, by value. ${told.join("; ")}.`);
    const top = Math.max(...truth, ...names.flatMap((name) => rows[name])) > 0.5 ? 1 : 0.5;
    const toY = (p) => f.bottom - (p / top) * (f.bottom - f.top), step = (f.right - f.left) / V;
    axes(f, [0, top / 2, top], toY, `${title}; exact dashed`, "value");
    range(V).forEach((v) => {
      const left = f.left + v * step, width = (step * 0.76) / names.length;
      f.svg.append(text(left + step / 2, f.bottom + 17, String(v)));
      names.forEach((name, i) => f.svg.append(element("rect", {
        x: left + step * 0.12 + i * width, width, y: toY(rows[name][v]), height: f.bottom - toY(rows[name][v]),
        class: i ? "bw-second" : "bw-first",
      })));
      if (truth[v]) {
        f.svg.append(element("rect", {
          x: left + step * 0.12, width: step * 0.76, y: toY(truth[v]), height: f.bottom - toY(truth[v]), class: "bw-exact",
        }));
      }
    });
  }

  // A head's attention: a row a token that looks, a column a token that is looked at.
  function drawMap(box, pattern, { episode: played, question }, title) {
    const V = played.keys.length, T = pattern.length, now = 2 * question, row = pattern[now];
    const labels = tokensOf(played).map((token, t) => (t % 2 ? `v${token - V}` : `k${token}`));
    const most = range(now + 1).sort((a, b) => row[b] - row[a]).slice(0, 3);
    const told = most.map((t) => `${labels[t]} ${row[t].toFixed(2)}`).join(", ");
    const width = Math.max(box.clientWidth, 200), size = Math.min((width - 46) / T, 26), left = 40, top = 44;
    const f = frame(box, size * T + 66, `Attention of ${title}: a row a token that looks, a column a token that is ` +
      `looked at. Most from ${labels[now]}: ${told}.`);
    f.svg.append(text(4, 15, `${title}: from (row) at (column)`, "start", "bw-title"));
    pattern.forEach((weights, t) => {
      const y = top + t * size;
      f.svg.append(text(left - 5, y + size * 0.75, labels[t], "end", `bw-tick ${t === now ? "bw-row-now" : ""}`),
        text(left + (t + 0.5) * size, top - 6, labels[t], "middle", "bw-tick"));
      weights.forEach((p, s) => f.svg.append(element("rect", {
        x: left + s * size, y, width: size - 1, height: size - 1, class: "bw-cell", "fill-opacity": p.toFixed(3),
      })));
    });
    f.svg.append(element("rect", {
      x: left - 1, y: top + now * size - 1, width: (now + 1) * size + 1, height: size + 1, class: "bw-frame",
    }));
  }

  // The least of 1, 2, 5, 10, 20, ... (and 0.1, 0.2, ...) that is not below a number.
  function roundUp(height) {
    const power = 10 ** Math.floor(Math.log10(height));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= height);
  }

  window.bwNetwork = {
    Network, bytesOf, divergence, drawBars, drawMap, entropy, episode, erf, half, headGrid, load, loadSnapshots, pairEditor, parse, posterior,
    range, roundUp, tokensOf,
  };
})();
