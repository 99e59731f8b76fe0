// Exported episodes of any tunnel: what the network read, the exact posterior beside its forecast, and
// the network itself, run again in this page. Loaded after explorer.js, matmul.js, network.js and
// oracles.js. What is shown lies in two elements of the page: #bw-data (JSON, as
// widgets/page.py writes it) and #bw-weights (a .safetensors file in base64, or nothing).
// Names as in the library: K scored positions, Y outcomes.
(function () {
  "use strict";

  const {
    axes, button, element, entropyBits, frame, gaussianEntropyBits, gaussianKlBits, klBits, range, roundUp, slider,
    statusLine, text, trace, watchWidth,
  } = bwExplorer;
  const MOST = 40; // bars side by side; of more outcomes the likeliest are drawn

  // ---- numbers ---------------------------------------------------------------------------------

  // A forecast and its measures, of both kinds of outcome; all in bits.
  const MEASURES = {
    categorical: { entropy: entropyBits, divergence: klBits },
    gaussian: { entropy: ([, variance]) => gaussianEntropyBits(variance), divergence: gaussianKlBits },
  };

  // What the network in the page says at the scored positions, as the library exports it.
  function forecast(network, inputs, off) {
    const said = network.run(inputs, off.size ? { off } : {});
    return said.probabilities || said.logits.map(([mean, logVariance]) => [mean, Math.exp(logVariance)]);
  }

  const difference = (a, b) => Math.max(...a.map((row, k) => Math.max(...[...row].map((v, y) => Math.abs(v - b[k][y])))));

  // ---- the page --------------------------------------------------------------------------------

  function mount(root, id) {
    const data = JSON.parse(document.getElementById("bw-data").textContent);
    const { outcome, scored, first_output_token: first } = data.interface, K = scored.length;
    const measures = MEASURES[outcome], state = { episode: 0, position: Math.min(K - 1, Math.floor(K / 2)), off: new Set() };
    const { network, told } = alive();
    const known = new Map(); // episode -> what the page's network says of it

    const move = { episode: (n) => set({ episode: n }), position: (n) => set({ position: n }) };
    const episode = slider(id, "episode", "episode", [1, data.episodes.length, 1], 1, (n) => move.episode(n - 1));
    const position = slider(id, "position", "position", [1, K, 1], state.position + 1, (n) => move.position(n - 1));
    const previous = button("Back", "previous", () => move.position(state.position - 1));
    const next = button("Next position", "next", () => move.position(state.position + 1));
    const tape = element("ol", { class: "bw-episode", "aria-label": "What the network reads, position by position" });
    const status = statusLine(), bars = element("div", { class: "bw-chart" }), curve = element("div", { class: "bw-chart" });
    const gap = element("div", { class: "bw-chart" }), table = element("div", { class: "bw-scroll", tabindex: 0, role: "region", "aria-label": "The numbers at this position" });
    const notice = element("p", { class: "bw-hint", "data-part": "live" });
    const heads = network && network.architecture === "transformer" ? headSwitches() : "";
    root.replaceChildren(
      element("div", { class: "bw-controls" }, episode.field, position.field, element("div", { class: "bw-buttons" }, previous, next)),
      element("p", { class: "bw-label" }, first === null ? "Read so far" : "Read so far, and what came next"),
      tape, status, bars, table, curve, gap, heads, notice);

    function headSwitches() {
      const { n_layers: L, n_heads: H } = network.config;
      const box = element("fieldset", { class: "bw-field bw-heads" }, element("legend", {}, "Heads off (they hand on nothing)"));
      for (const name of range(L).flatMap((l) => range(H).map((h) => `${l}.${h}`))) {
        const input = element("input", { type: "checkbox", "data-head": name, onchange: () => {
          const off = new Set(state.off);
          if (input.checked) off.add(name);
          else off.delete(name);
          known.clear();
          set({ off });
        } });
        box.append(element("label", {}, input, ` ${name}`));
      }
      return box;
    }

    function set(change) {
      Object.assign(state, change);
      state.episode = Math.min(data.episodes.length - 1, Math.max(0, state.episode));
      state.position = Math.min(K - 1, Math.max(0, state.position));
      draw();
    }

    function said(e) {
      if (!network) return data.episodes[e].network;
      if (!known.has(e)) known.set(e, forecast(network, data.episodes[e].inputs, state.off));
      return known.get(e);
    }

    // The numbers that are shown now, also for whoever tests this page.
    function now() {
      const { exact, network: exported, inputs, targets } = data.episodes[state.episode], rows = said(state.episode);
      const k = state.position;
      return {
        ...state, off: [...state.off], inputs, target: targets[k], exact: [...exact[k]], forecast: [...rows[k]],
        entropyExact: exact.map(measures.entropy), entropy: [...rows].map((row) => measures.entropy(row)),
        divergence: exact.map((row, i) => measures.divergence(row, rows[i])),
        difference: network && exported && !state.off.size ? difference([...rows], exported) : null, live: Boolean(network),
      };
    }

    function draw() {
      const n = now(), k = state.position, upTo = scored[k];
      for (const [control, value] of [[episode, state.episode + 1], [position, k + 1]]) {
        control.input.value = value;
        control.output.textContent = String(value);
      }
      previous.disabled = k === 0;
      next.disabled = k === K - 1;
      tape.replaceChildren(...n.inputs.map((token, t) => element("li", {
        class: t < upTo ? "bw-shown" : t === upTo ? "bw-asked-now" : "bw-later",
        ...(t === upTo ? { "aria-current": "true" } : {}),
      }, spelt(token))));
      const wrong = n.divergence[k];
      status.textContent = `Episode ${state.episode + 1}, scored position ${k + 1} of ${K}. ${sentence(n, k)} The entropy of the exact posterior ` +
        `is ${n.entropyExact[k].toFixed(3)} bits, that of the forecast ${n.entropy[k].toFixed(3)}; the forecast is ${wrong.toFixed(4)} bits of KL divergence from exact.`;
      drawNow(n);
      drawLines(curve, "Entropy (bits): network, and exact dashed", [n.entropy, n.entropyExact]);
      drawLines(gap, "KL divergence from exact (bits)", [n.divergence]);
      drawTable(n);
      notice.textContent = told + (n.difference === null ? "" : ` Its numbers for this episode differ from the exported ones by ${n.difference.toExponential(1)} at most.`) +
        (network && bwNetwork.notice ? ` ${bwNetwork.notice}` : "");
      root.dataset.state = "ready";
    }

    const spelt = (token) => (Array.isArray(token) ? `(${token.map((v) => +v.toFixed(2)).join(", ")})` : String(token));

    function sentence(n, k) {
      if (outcome === "gaussian") {
        const [a, b] = [n.exact, n.forecast].map(([m, v]) => `${m.toFixed(3)} with deviation ${Math.sqrt(v).toFixed(3)}`);
        return `The exact posterior has mean ${a}, the network ${b}; the outcome was ${n.target.toFixed(3)}.`;
      }
      const best = n.exact.indexOf(Math.max(...n.exact));
      return `The likeliest outcome is ${best}, with probability ${n.exact[best].toFixed(3)}; the network gives it ${n.forecast[best].toFixed(3)}. The outcome was ${n.target}.`;
    }

    // ---- drawings ------------------------------------------------------------------------------

    function drawNow(n) {
      if (outcome === "gaussian") drawDensities(n);
      else drawBars(n);
    }

    // Numbers of the outcomes that are drawn: all, or the likeliest.
    function chosen(n) {
      const all = range(n.exact.length);
      if (all.length <= MOST) return all;
      return all.sort((a, b) => n.exact[b] + n.forecast[b] - n.exact[a] - n.forecast[a]).slice(0, MOST).sort((a, b) => a - b);
    }

    function drawBars(n) {
      const outcomes = chosen(n), most = Math.max(...outcomes.map((y) => Math.max(n.exact[y], n.forecast[y])));
      const label = outcomes.map((y) => `${y}: exact ${n.exact[y].toFixed(3)}, network ${n.forecast[y].toFixed(3)}`).join("; ");
      const f = frame(bars, 200, `What comes next, exact and by the network. ${label}.`);
      const top = [0.1, 0.25, 0.5, 1].find((v) => v >= most - 1e-9) || 1, toY = (p) => f.bottom - (p / top) * (f.bottom - f.top);
      const step = (f.right - f.left) / outcomes.length;
      axes(f, [0, top / 2, top], toY, "Probability: network, and exact dashed", "outcome");
      outcomes.forEach((y, i) => {
        const x = f.left + i * step + step * 0.14, width = step * 0.72;
        f.svg.append(
          element("rect", { x, width, y: toY(n.forecast[y]), height: f.bottom - toY(n.forecast[y]), class: "bw-first" }),
          element("rect", { x, width, y: toY(n.exact[y]), height: f.bottom - toY(n.exact[y]), class: "bw-exact" }));
        if (outcomes.length <= 12 || i % Math.ceil(outcomes.length / 10) === 0) f.svg.append(text(x + width / 2, f.bottom + 16, String(y)));
      });
    }

    function drawDensities(n) {
      const both = [n.forecast, n.exact], far = both.map(([, v]) => 4 * Math.sqrt(v));
      const low = Math.min(...both.map(([m], i) => m - far[i])), high = Math.max(...both.map(([m], i) => m + far[i]));
      const density = ([m, v], x) => Math.exp(-((x - m) ** 2) / (2 * v)) / Math.sqrt(2 * Math.PI * v);
      const rows = both.map((one) => range(121).map((i) => density(one, low + ((high - low) * i) / 120)));
      const top = Math.max(...rows.flat()), f = frame(bars, 200, `Densities of what comes next. ${sentence(n, state.position)}`);
      const toY = (p) => f.bottom - (p / top) * (f.bottom - f.top), toX = (x) => f.left + ((x - low) / (high - low)) * (f.right - f.left);
      axes(f, [0, top], toY, "Density: network, and exact dashed", "value", (v) => v.toPrecision(2));
      rows.forEach((row, i) => f.svg.append(element("path", {
        d: trace(row.map((p, j) => [toX(low + ((high - low) * j) / 120), toY(p)])), class: i ? "bw-truth" : "bw-line",
      })));
      for (const at of [0, 0.5, 1]) f.svg.append(text(f.left + at * (f.right - f.left), f.bottom + 16, (low + at * (high - low)).toFixed(2)));
      if (n.target >= low && n.target <= high) f.svg.append(element("line", { x1: toX(n.target), x2: toX(n.target), y1: f.top, y2: f.bottom, class: "bw-now" }));
    }

    // A tick's number in few letters.
    function short(v) {
      const rounded = Number(v.toPrecision(2));
      return [String(rounded), rounded.toExponential()].sort((a, b) => a.length - b.length)[0];
    }

    function drawLines(box, title, rows) {
      const flat = rows.flatMap((row) => [...row]).filter(Number.isFinite), high = roundUp(Math.max(...flat, 1e-9)), least = Math.min(0, ...flat);
      const low = least < 0 ? -roundUp(-least) : 0;
      const f = frame(box, 180, `${title}, at ${K} positions. ${rows.map((row, i) => `${i ? "Exact" : "Network"}: ` +
        `${[...row].map((v) => v.toFixed(3)).join(", ")}`).join(". ")}.`);
      const toX = (k) => (K === 1 ? (f.left + f.right) / 2 : f.left + (k / (K - 1)) * (f.right - f.left));
      const toY = (v) => f.bottom - ((v - low) / (high - low)) * (f.bottom - f.top);
      axes(f, [low, (low + high) / 2, high].filter((v) => short(v).length <= 5), toY, title, "scored position", short);
      f.svg.append(element("line", { x1: toX(state.position), x2: toX(state.position), y1: f.top, y2: f.bottom, class: "bw-now" }));
      rows.forEach((row, i) => f.svg.append(element("path", {
        d: trace([...row].map((v, k) => [toX(k), toY(Number.isFinite(v) ? v : high)])), class: i ? "bw-truth" : "bw-line",
      })));
      range(K).filter((k) => k % Math.ceil(K / 8) === 0).forEach((k) => f.svg.append(text(toX(k), f.bottom + 16, String(k + 1))));
    }

    function drawTable(n) {
      const names = outcome === "gaussian" ? ["mean", "variance"] : null;
      const shown = names ? [0, 1] : chosen(n), cell = (v) => element("td", {}, v.toFixed(4));
      const head = element("tr", {}, ...[names ? "of what comes next" : "outcome", "exact", "network"].map((words) => element("th", { scope: "col" }, words)));
      const rows = shown.map((y) => element("tr", {}, element("th", { scope: "row" }, names ? names[y] : String(y)), cell(n.exact[y]), cell(n.forecast[y])));
      table.replaceChildren(element("table", {}, element("caption", {}, "The same numbers"), element("thead", {}, head), element("tbody", {}, ...rows)));
    }

    watchWidth(root, bars, draw);
    draw();
    window.bwPageNow = now;
    window.bwPageSet = set;
  }

  // The network of the page, and a sentence on it; null where the file brings none, or it cannot run.
  function alive() {
    const given = document.getElementById("bw-weights").textContent.trim();
    if (!given) return { network: null, told: "This page shows what was exported; the network itself is not in it." };
    try {
      return { network: bwNetwork.of(bwNetwork.bytesOf(given)), told: "The network runs in this page; nothing is fetched." };
    } catch (problem) {
      return { network: null, told: `The network cannot run here (${problem.message}), so its exported numbers are shown.` };
    }
  }

  function theme() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
    dark.addEventListener("change", follow);
    follow();
  }

  theme();
  bwExplorer.start("page", "Exported episodes, the exact posterior and the network", mount, { forecast });
})();
