// What explorers of a network share on the page: an episode and its exact answer, the editor of its
// pairs, a button a head, bars, and a map of attention. Loaded after explorer.js and network.js.
(function () {
  "use strict";

  const { axes, element, frame, text } = bwExplorer;

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

  window.bwNetworkParts = {
    divergence, drawBars, drawMap, entropy, episode, headGrid, pairEditor, posterior, range, roundUp, tokensOf,
  };
})();
