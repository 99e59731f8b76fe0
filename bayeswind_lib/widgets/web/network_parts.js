// What explorers of a network share on the page: how they wait for its weights, an episode and its
// exact answer, the editor of its pairs, a button a head, bars, and a map of attention.
// Loaded after explorer.js, network.js and oracles.js.
(function () {
  "use strict";

  const { axes, button, element, frame, number, range, readout, shuffled, slider, statusLine, text, trail } = bwExplorer;
  const NEAR = "600px 0px"; // so far outside the window an explorer begins to load

  // ---- start ---------------------------------------------------------------------------------

  // As bwExplorer.start, for an explorer of the network `file` (or of file(root)), which mount gets as its
  // third argument; what a notebook brings as its own stands in its place, and is the fourth.
  function start(name, title, file, mount, functions) {
    bwExplorer.start(name, title, (root, id, { network: own }) => {
      const wanted = typeof file === "function" ? file(root) : file;
      wait(root, own || ((more) => bring(wanted, more)), (network) => mount(root, id, network, own));
    }, functions);
  }

  const bring = (file, more) => bwNetwork.fetch(file, more);

  // Fetch a network when the reader comes near, by scrolling or by keyboard, and not before. Until it
  // is there the box says what it waits for, and offers another try after a failure.
  // root.dataset.state: waiting, loading, failed, ready.
  function wait(root, fetch, ready) {
    const status = statusLine(), bar = element("progress", { "aria-label": "Part of the network that is here", max: 1 });
    const load = button("Load the network", "load", ask);
    const show = (state, words, action) => {
      root.dataset.state = state;
      status.textContent = words;
      load.textContent = action;
      load.setAttribute("aria-disabled", String(state === "loading"));
      bar.hidden = state !== "loading";
    };
    const observer = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && ask(), { rootMargin: NEAR });

    function ask() {
      if (root.dataset.state === "loading") return;
      observer.disconnect();
      root.removeEventListener("focusin", ask);
      bar.removeAttribute("value");
      show("loading", "The network is on its way to your browser.", "Loading");
      const onProgress = (bytes, total) => total && bar.setAttribute("value", bytes / total);
      fetch({ onProgress }).then(begin, (problem) => show("failed", problem.message, "Try again"));
    }

    function begin(network) {
      const hadFocus = root.contains(document.activeElement);
      root.dataset.state = "ready";
      try {
        ready(network);
      } catch (problem) {
        root.textContent = `The explorer could not start: ${problem.message}`;
        throw problem;
      }
      if (bwNetwork.notice) root.append(element("p", { class: "bw-notice" }, bwNetwork.notice));
      if (hadFocus) root.querySelector("input, button, select").focus();
    }

    root.replaceChildren(status, bar, load);
    show("waiting", "A trained network runs in this box. It is loaded when you come here.", "Load the network");
    root.addEventListener("focusin", ask);
    observer.observe(root);
  }

  // ---- episodes of the bijection tunnel, each key once ------------------------------------------

  function episode(V, seed) {
    const random = bwExplorer.generator(seed);
    return { keys: shuffled(V, random), values: shuffled(V, random) };
  }

  // What the network reads: key, value, key, value, ..., key. Values come after the V keys.
  const tokensOf = ({ keys, values }) =>
    keys.flatMap((key, i) => (i < keys.length - 1 ? [key, keys.length + values[i]] : [key]));

  // Exact distribution of the value at question k: even over those not shown yet.
  const posterior = ({ keys, values }, k) => bwOracles.bijection(keys.length, keys.slice(0, k), values.slice(0, k), keys[k]);

  // ---- controls and drawings ---------------------------------------------------------------------

  // The pairs, each with a menu for its key and one for its value. What is chosen changes places
  // with the pair that had it, so that every key and value stays there once.
  function pairEditor(state, changed) {
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

  // What moves through state.episode: the question, another episode, and its pairs. After another
  // question update() is called, after another episode run().
  function episodeControls(id, state, update, run) {
    const V = state.episode.keys.length, pairs = pairEditor(state, run);
    const question = slider(id, "question", "Pairs shown", [0, V - 1], state.question, (k) => { state.question = k; update(); });
    const fresh = button("New episode", "new", () => {
      state.seed += 1;
      state.episode = episode(V, state.seed);
      run();
    });
    function draw() {
      question.input.value = state.question;
      question.output.textContent = state.question;
      pairs.draw();
    }
    return { question: question.field, fresh, pairs: pairs.field, draw };
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
  function drawBars(box, rows, truth, title, scene = "") {
    const names = Object.keys(rows), V = truth.length;
    const told = range(V).map((v) =>
      `${v}: ${names.map((name) => `${name} ${number(rows[name][v])}`).join(", ")}, exact ${number(truth[v])}`);
    const f = frame(box, 200, `${title}, by value. ${told.join("; ")}.`);
    const top = Math.max(...truth, ...names.flatMap((name) => [...rows[name]])) > 0.5 ? 1 : 0.5;
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
    readout(box, range(V).map((v) => ({
      x: f.left + (v + 0.5) * step, ys: [truth[v], ...names.map((name) => rows[name][v])].map(toY),
      lines: [`value ${v}`, ...names.map((name) => `${name} ${number(rows[name][v])}`), `exact ${number(truth[v])}`],
    })));
    if (names.length === 1) trail(box, f.svg, ".bw-first", scene, { scale: [top, f.bottom] });
  }

  // A head's attention: a row a token that looks, a column a token that is looked at.
  function drawMap(box, pattern, { episode: played, question }, title) {
    const V = played.keys.length, T = pattern.length, now = 2 * question, row = pattern[now];
    const labels = tokensOf(played).map((token, t) => (t % 2 ? `v${token - V}` : `k${token}`));
    const most = range(now + 1).sort((a, b) => row[b] - row[a]).slice(0, 3);
    const told = most.map((t) => `${labels[t]} ${number(row[t])}`).join(", ");
    const width = Math.max(box.clientWidth, 200), size = Math.min((width - 46) / T, 26), left = 40, top = 44;
    const f = frame(box, size * T + 66, `Attention of ${title}: a row a token that looks, a column a token that is ` +
      `looked at. Most from ${labels[now]}: ${told}.`);
    f.svg.append(text(4, 15, `${title}: from row to column`, "start", "bw-title"));
    const lines = Math.min(Math.ceil(19 / size), 2); // names that do not fit side by side stand on two lines
    pattern.forEach((weights, t) => {
      const y = top + t * size;
      f.svg.append(text(left - 5, y + size * 0.75, labels[t], "end", `bw-tick ${t === now ? "bw-row-now" : ""}`),
        text(left + (t + 0.5) * size, top - 6 - 10 * (t % lines), labels[t], "middle", "bw-tick"));
      weights.forEach((p, s) => f.svg.append(element("rect", {
        x: left + s * size, y, width: size - 1, height: size - 1, class: "bw-cell", "fill-opacity": p.toFixed(3),
      })));
    });
    f.svg.append(element("rect", {
      x: left - 1, y: top + now * size - 1, width: (now + 1) * size + 1, height: size + 1, class: "bw-frame",
    }));
    readout(box, pattern.flatMap((weights, t) => range(t + 1).map((s) => ({
      x: left + (s + 0.5) * size, ys: [top + (t + 0.5) * size], lines: [`${labels[t]} looks at ${labels[s]}`, number(weights[s])],
    }))), "xy");
  }

  window.bwNetworkParts = { bring, drawBars, drawMap, episode, episodeControls, headGrid, pairEditor, posterior, start, tokensOf };
})();
