// The machine, drawn: a trained network at the token that is asked. Tokens stand below, the stream of
// the asked one goes up at the right, layer by layer; heads read from the other tokens by arcs and write
// into the stream, and so does the feed-forward part of each layer. Of an LSTM or a Mamba a layer is its
// state, a column a token. This file draws; what is shown is chosen in machine_explorer.js.
(function () {
  "use strict";

  const { element, number, range, text } = bwExplorer;
  const { probability, spread } = bwMachineAnswer;
  const LEAST = 0.008; // attention below this is not drawn

  // ---- where things stand ----------------------------------------------------------------------

  // Places of everything in a drawing of that width: base[l] is where layer l begins, base[L] the top.
  // longest: letters of the longest token.
  function places(width, L, H, T, recurrent, longest = 2) {
    const narrow = width < 520, left = narrow ? 12 : 20, right = narrow ? 94 : 158, xs = width - right;
    const arcs = narrow ? 50 : 62, tall = 34, room = 66, top = 12;
    const pitch = recurrent ? Math.max(arcs + tall + room + 30, 300 / L) : arcs + tall + room;
    const base = range(L + 1).map((l) => top + (L - l) * pitch), below = base[0];
    const step = Math.min(narrow ? 30 : 42, recurrent ? (xs - left - 28) / T : (xs - left - 14) / Math.max(1, T - 1)), rows = Math.max(step < 7.8 ? 3 : step < 27 ? 2 : 1, Math.ceil((6.3 * longest + 2) / step)); // rows of tokens that would meet in one
    const column = (xs - left - 28) / T; // of a state
    const x = range(T).map((t) => (recurrent && t < T - 1 ? left - 2 + (t + 0.5) * column : xs - (T - 1 - t) * step)), cell = (xs - left - (narrow ? 14 : 26)) / Math.max(H, 1);
    return {
      width, narrow, left, xs, arcs, tall, room, pitch, base, step, rows, x, wide: Math.min(cell - (narrow ? 5 : 12), 96),
      headX: (h) => left + (h + 0.5) * cell, height: below + 26 + 20 * rows, tokensY: below + 26, block: xs + (narrow ? 24 : 34),
      blockWide: narrow ? 66 : 86, column, roomy: Math.max(26, 6.3 * longest + 6),
    };
  }

  const headTop = (p, l) => p.base[l] - p.arcs - p.tall;

  // ---- colours and widths ----------------------------------------------------------------------

  const signOf = (value) => (value >= 0 ? "bw-up" : "bw-down");
  function signed(value, digits) {
    const words = number(value, Math.abs(value) >= 9.95 ? 0 : digits);
    const short = digits > 1 ? words.replace(/0(?=\.\d*[1-9])/, "") : words; // narrow heads have little room
    return value > 0 && Number(words) ? `+${short}` : short;
  }

  // ---- still parts -----------------------------------------------------------------------------

  // Bands of the layers, the streams of the other tokens, and that of the asked one.
  function ground(p, what) {
    const { base, xs } = p, L = what.layers;
    return [
      ...range(L).map((l) => element("rect", { class: "bw-band", "data-band": l, x: 1, width: p.width - 2, y: base[l + 1] + 1, height: p.pitch - 4, rx: 9 })),
      ...(what.recurrent ? [] : p.x.slice(0, -1).map((x, t) => element("line", { class: "bw-other", "data-from": t, x1: x, x2: x, y1: base[0] + 12, y2: base[L - 1] }))),
      element("line", { class: "bw-stream", x1: xs, x2: xs, y1: base[0] + 14, y2: 2 }),
      element("path", { class: "bw-tip", d: `M${xs - 8} 9L${xs} 0L${xs + 8} 9z` }),
    ];
  }

  function tokenMarks(p, what) {
    return what.tokens.flatMap((token, t) => {
      const asked = t === what.tokens.length - 1, lower = (what.tokens.length - 1 - t) % p.rows, x = p.x[t], y = p.tokensY + 20 * lower;
      const wide = asked ? (p.step < 10 ? 20 : 30) : Math.max(Math.min(p.roomy, p.step * p.rows - 2), 13), cut = what.off.has(`t${t}`);
      const kind = `bw-tok bw-of-${token.kind}${asked ? " bw-asked-now" : ""}${cut ? " bw-cut" : ""}`;
      const name = token.sign ?? token.short, shown = asked && what.question ? `${name}?` : name;
      const mark = element("g", { class: kind, "data-token": t },
        ...(lower ? [element("line", { class: "bw-stalk", x1: x, x2: x, y1: p.tokensY - 8, y2: y - 10 })] : []),
        element("rect", { x: x - wide / 2, y: y - 10, width: wide, height: 20, rx: 5 }),
        text(x, y + 4, shown, "middle", "bw-token-name"));
      return [mark];
    });
  }

  // What the asked token adds by itself, beside it.
  function itself(p, what) {
    const value = what.flow === "contribution" && what.amounts ? what.amounts.get("entry") : undefined;
    return value === undefined ? [] : [text(p.xs + 22, p.tokensY + 4, `itself ${signed(value, what.digits)}`, "start", "bw-small")];
  }

  // ---- a transformer ---------------------------------------------------------------------------

  // Arcs from the tokens to the heads that read them.
  function arcs(p, what) {
    const found = [];
    for (const l of range(what.layers)) {
      range(what.heads).forEach((h) => {
        const row = what.looks(l, h), shares = what.flow === "contribution" ? what.shares(l, h) : null;
        const foot = p.base[l], end = foot - p.arcs, hx = p.headX(h), cut = what.off.has(`${l}.${h}`);
        const spread = row.length > 1 ? p.wide * 0.5 : 0;
        row.forEach((weight, t) => {
          const size = shares ? Math.min(1, Math.abs(shares[t]) / what.shareScale) : weight;
          if (size < LEAST) return;
          const into = hx + (row.length > 1 ? (t / (row.length - 1) - 0.5) * spread : 0), bend = p.arcs * 0.55;
          const kind = shares ? signOf(shares[t]) : what.tokens[t].kind === "key" || what.tokens[t].kind === "header" ? "bw-of-key" : "bw-of-evidence";
          found.push(element("path", {
            class: `bw-arc ${kind}${cut ? " bw-cut" : ""}`, "data-head": `${l}.${h}`, "data-from": t, "data-layer": l, "data-size": size.toFixed(3),
            d: `M${p.x[t].toFixed(1)} ${foot}C${p.x[t].toFixed(1)} ${foot - bend} ${into.toFixed(1)} ${end + bend} ${into.toFixed(1)} ${end}`,
            "stroke-width": (0.7 + 5.6 * size).toFixed(2), "stroke-opacity": (0.1 + 0.75 * Math.sqrt(size)).toFixed(3),
          }));
        });
      });
    }
    return found;
  }

  const dots = (p, what) => range(what.layers).flatMap((l) => p.x.map((x, t) => element("circle", {
    class: "bw-station", "data-from": t, cx: x, cy: p.base[l], r: t === p.x.length - 1 ? 4.2 : Math.min(2.4, p.step / 4),
  })));

  // The way from a head into the stream: up, over the others, and in from the left.
  function headWire(p, l, h, H) {
    const x = p.headX(h), top = headTop(p, l), y = top - 7 - 5 * (H - 1 - h);
    return `M${x} ${top}V${y + 5}Q${x} ${y} ${x + 5} ${y}H${p.xs}`;
  }

  function blockWires(p, l) {
    const y = p.base[l + 1] + 31, x = p.block, { xs } = p;
    return [`M${xs} ${y + 15}C${xs + 12} ${y + 15} ${x - 12} ${y + 5} ${x} ${y + 5}`, `M${x} ${y - 5}C${x - 12} ${y - 5} ${xs + 12} ${y - 15} ${xs} ${y - 15}`];
  }

  // One part that writes into the stream, as a button with its wire.
  function partNode(p, name, at, actions) {
    const { x, y, wide, tall } = at, wires = element("g", { class: "bw-wires" }), face = element("rect", { class: "bw-face", x, y, width: wide, height: tall, rx: 6 });
    const label = text(x + 7, y + 14, at.words, "start", "bw-name"), amount = text(x + wide - 6, y + 14, "", "end", "bw-value");
    const spark = element("path", { class: "bw-spark" }), spread = Math.max(0, (44 - tall) / 2);
    const node = element("g", {
      class: "bw-node", role: "button", tabindex: -1, "data-part": name, "data-action": `cut ${name}`, onclick: () => actions.flip(name),
      onpointerenter: (event) => { if (event.pointerType === "mouse") actions.look(name); },
      onpointerleave: (event) => { if (event.pointerType === "mouse") actions.look(null); },
      onfocus: () => actions.look(name), onblur: () => actions.look(null), onkeydown: (event) => actions.key(event, name),
    }, element("rect", { class: "bw-touch", x: x - 1, y: y - spread, width: wide + 2, height: tall + 2 * spread }), face, spark, label, amount);
    return { name, node, wires, face, label, amount, spark, at };
  }

  function transformerNodes(p, what, actions) {
    return range(what.layers).flatMap((l) => [
      ...range(what.heads).map((h) => partNode(p, `${l}.${h}`, {
        x: p.headX(h) - p.wide / 2, y: headTop(p, l), wide: p.wide, tall: p.tall, words: `${l}.${h}`, paths: [headWire(p, l, h, what.heads)], kind: "head", layer: l, head: h,
      }, actions)),
      partNode(p, `${l}.m`, { x: p.block, y: p.base[l + 1] + 20, wide: p.blockWide, tall: 23, words: "MLP", paths: blockWires(p, l), kind: "mlp", layer: l }, actions),
    ]);
  }

  // The weights of a head as a row of small bars along its lower edge.
  function sparkOf(p, at, row) {
    const inner = at.wide - 10, step = inner / row.length, foot = at.y + at.tall - 4;
    return row.map((w, t) => (w < LEAST ? "" : `M${(at.x + 5 + (t + 0.5) * step).toFixed(1)} ${foot}v${(-1 - 11 * w).toFixed(1)}`)).join("");
  }

  function dressNode(p, what, part) {
    const { name, node, wires, at, amount, spark } = part, cut = what.off.has(name), value = what.flow === "contribution" && what.amounts ? what.amounts.get(name) : null;
    const size = value === null ? what.sizes.get(name) : Math.min(1, Math.abs(value) / what.scale);
    const kind = cut ? "bw-cut" : value === null ? "bw-plain" : signOf(value);
    node.setAttribute("class", `bw-node ${kind}`);
    node.setAttribute("aria-pressed", String(cut));
    node.setAttribute("aria-label", what.describe(name));
    node.style.setProperty("--bw-share", value === null || cut ? 0 : (0.1 + 0.6 * size).toFixed(3));
    wires.replaceChildren(...at.paths.map((d, i) => element("path", {
      class: `bw-wire ${kind}`, d, "data-wire": name, "stroke-width": (cut ? 1.4 : i === 0 && at.kind === "mlp" ? 1.6 : 1.4 + 5 * size).toFixed(2),
    })), ...(cut ? [cutMark(p, { ...at, name })] : []));
    amount.textContent = value === null || cut ? "" : signed(value, what.digits);
    if (at.kind === "head") {
      const tight = at.wide < 70 && amount.textContent; // then the number has the second line for itself
      amount.setAttribute("y", at.y + (tight ? 28 : 14));
      spark.setAttribute("d", tight ? "" : sparkOf(p, at, what.looks(at.layer, at.head)));
      spark.setAttribute("stroke-width", Math.max(1, Math.min(4, ((at.wide - 10) / what.tokens.length) * 0.7)).toFixed(1));
    }
  }

  function cutMark(p, at) {
    const [x, y] = at.kind === "head" ? [at.x + at.wide / 2 + 14, at.y - 7 - 5 * (p.heads - 1 - at.head)] : at.kind === "mlp" ? [at.x - 9, at.y + 5] : [at.x + at.wide + 6, at.mark];
    return element("path", { class: "bw-scissors", "data-cut": at.name, d: `M${x - 4} ${y - 5}l8 10M${x + 4} ${y - 5}l-8 10` });
  }

  // ---- states of an LSTM or a Mamba --------------------------------------------------------------

  function stateNodes(p, what, actions) {
    return range(what.layers).map((l) => {
      const y = p.base[l + 1] + 26, tall = p.pitch - 50, x = p.left - 8, wide = p.column * what.tokens.length + 12;
      const middle = y + tall / 2, entry = [`M${p.xs} ${y + tall + 8}C${p.xs - 4} ${y + tall + 8} ${x + wide + 6} ${y + tall} ${x + wide} ${y + tall - 8}`];
      return partNode(p, String(l), {
        x, y, wide, tall, words: what.unitWords(l), paths: [...entry, `M${x + wide} ${middle}C${x + wide + 10} ${middle} ${p.xs - 8} ${y} ${p.xs} ${y - 8}`], kind: "state", layer: l, mark: middle - 3,
      }, actions);
    });
  }

  // Cells of a state: a column a token, a row a group of units, in the order that the last token has.
  function stateImage(p, what, l) {
    const { rows, most, order } = what.cells(l), T = rows.length, n = order.length, canvas = document.createElement("canvas");
    canvas.width = T;
    canvas.height = n;
    const context = canvas.getContext("2d"), image = context.createImageData(T, n), [up, down, quiet] = what.inks;
    range(T).forEach((t) => order.forEach((unit, i) => {
      const value = rows[t] ? rows[t][unit] / most : 0, ink = what.flow === "contribution" ? (value >= 0 ? up : down) : value >= 0 ? up : quiet;
      image.data.set([...ink, Math.round(255 * Math.min(1, Math.abs(value)) ** 0.7)], 4 * (i * T + t));
    }));
    context.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  function dressState(p, what, part) {
    const { name, node, wires, at, amount, label } = part, l = at.layer, cut = what.off.has(name), T = what.tokens.length;
    const value = what.flow === "contribution" && what.amounts ? what.amounts.get(name) ?? null : null;
    const kind = cut ? "bw-cut" : value === null ? "bw-plain" : signOf(value);
    node.setAttribute("class", `bw-node bw-state ${kind}`);
    node.setAttribute("aria-pressed", String(cut));
    node.setAttribute("aria-label", what.describe(name));
    label.setAttribute("y", at.y - 8);
    label.setAttribute("x", at.x + 2);
    amount.setAttribute("y", at.y - 8);
    amount.setAttribute("x", at.x + at.wide - 2);
    amount.textContent = value === null || cut ? "" : signed(value, what.digits);
    wires.replaceChildren(...at.paths.map((d) => element("path", { class: `bw-wire ${kind}`, d, "data-wire": name, "stroke-width": cut ? 1.4 : 3.4 })), ...(cut ? [cutMark(p, { ...at, name })] : []));
    const wide = p.column;
    node.querySelector(".bw-cells")?.remove();
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "image"), columns = element("g", { class: "bw-cells" }, picture);
    for (const [key, v] of Object.entries({ href: stateImage(p, what, l), x: at.x + 6, y: at.y + 5, width: at.wide - 12, height: at.tall - 10, preserveAspectRatio: "none" })) picture.setAttribute(key, v);
    range(T).forEach((t) => {
      const x = at.x + 6 + t * wide;
      if (what.off.has(`t${t}`)) columns.append(element("path", { class: "bw-passes", d: `M${x} ${at.y + at.tall / 2}h${wide}` }));
      else if (t) columns.append(element("line", { class: "bw-seam", x1: x, x2: x, y1: at.y + 5, y2: at.y + at.tall - 5 }));
    });
    node.append(columns);
  }

  // From each token up into its column of the lowest state, and from state to state.
  function feeders(p, what) {
    return range(what.layers).flatMap((l) => p.x.slice(0, -1).map((x, t) => {
      const cut = what.off.has(`t${t}`), foot = l ? p.base[l] + 25 : p.base[0] + 14, end = p.base[l + 1] + 26 + p.pitch - 50;
      return element("path", { class: `bw-feeder${cut ? " bw-cut" : ""}`, "data-from": t, "data-layer": l, "data-size": 0.3, d: `M${x} ${foot}V${end}` });
    }));
  }

  // ---- what would be answered here -----------------------------------------------------------------

  // Small bars beside the column: the answer if the stream were read out where a layer begins.
  function lenses(p, what) {
    const lead = (x, foot, l) => element("path", { class: "bw-lead", d: `M${p.xs} ${p.base[l] - 6}L${x - 4} ${foot}` });
    const kl = (one, x, foot) => text(x, foot + 13, `KL ${number(one.kl)}`, "middle", "bw-small");
    return what.lens.slice(0, -1).flatMap((one, i) => {
      const l = i, foot = p.base[l] - 19, tall = p.arcs - 25, x = p.xs + (p.narrow ? 16 : 30), wide = p.width - 8 - x;
      if (what.gaussian) return [lead(x, foot, l), text(x + wide / 2, foot - 8, spread(one.p), "middle", "bw-small"), kl(one, x + wide / 2, foot)];
      const step = wide / one.p.length, most = [0.28, 0.54, 1.001].find((v) => v >= Math.max(...one.p, ...what.exact));
      const high = (v) => (v / most) * tall;
      return [
        lead(x, foot, l),
        element("line", { class: "bw-floor", x1: x, x2: x + wide, y1: foot, y2: foot }),
        ...one.p.flatMap((v, y) => [
          element("rect", { class: "bw-first", x: x + y * step + step * 0.12, width: step * 0.76, y: foot - high(v), height: high(v) }),
          ...(what.exact[y] > 0 ? [element("rect", { class: "bw-exact bw-thin", x: x + y * step + step * 0.12, width: step * 0.76, y: foot - high(what.exact[y]), height: high(what.exact[y]) })] : []),
        ]),
        kl(one, x + wide / 2, foot),
      ];
    });
  }

  // ---- the head at hand ----------------------------------------------------------------------------

  // Weights in numbers at the tokens a head reads: the largest first, none over another.
  function weightsAt(p, what, name) {
    const [l, h] = name.split(".").map(Number), row = what.looks(l, h), taken = [], y = p.base[l] + 12;
    const shown = range(row.length).filter((t) => row[t] >= 0.02).sort((a, b) => row[b] - row[a]);
    return shown.flatMap((t) => {
      if (taken.some((x) => Math.abs(x - p.x[t]) < 17)) return [];
      taken.push(p.x[t]);
      return [text(p.x[t], y, probability(row[t]), "middle", "bw-weight")];
    });
  }

  // ---- together ------------------------------------------------------------------------------------

  // actions: {flip(name), layer(l), token(t), look(name or null), key(event, name)}.
  function drawing(actions) {
    const layer = (kind) => element("g", { class: kind });
    const groups = { ground: layer("bw-ground"), arcs: layer("bw-arcs"), wires: layer("bw-all-wires"), dots: layer("bw-dots"), lens: layer("bw-lens"), tokens: layer("bw-tokens"), nodes: layer("bw-nodes"), names: layer("bw-names"), weights: layer("bw-weights"), pulses: layer("bw-pulses") };
    const svg = element("svg", { class: "bw-machine-svg", role: "group" }, ...Object.values(groups));
    let p = null, nodes = [], built = "", drawn = null;

    function build(what) {
      const before = svg.contains(document.activeElement) ? document.activeElement.dataset.part || document.activeElement.dataset.layer : null;
      nodes = (what.recurrent ? stateNodes : transformerNodes)(p, what, actions);
      groups.nodes.replaceChildren(...nodes.map(({ node }) => node));
      groups.wires.replaceChildren(...nodes.map(({ wires }) => wires));
      groups.names.replaceChildren(...range(what.layers).map((l) => layerName(what, l)));
      for (const at of [`[data-part="${before}"]`, `[data-layer="${before}"]`]) if (before !== null) svg.querySelector(`[role=button]${at}`)?.focus();
    }

    function layerName(what, l) {
      const y = p.base[l + 1], words = `layer ${l}`;
      return element("g", {
        class: "bw-layer-name", role: "button", tabindex: -1, "data-layer": l, "data-action": `cut layer ${l}`, "aria-label": `${words}: cut or restore all of it`,
        onclick: () => actions.layer(l), onkeydown: (event) => actions.key(event, null, l),
      }, element("rect", { class: "bw-touch", x: p.width - 74, y: y - 12, width: 72, height: 31 }), text(p.width - 9, y + 15, words, "end", "bw-layer-words"));
    }

    function draw(what) {
      p = { ...places(what.width, what.layers, what.heads, what.tokens.length, what.recurrent, Math.max(...what.tokens.map((token) => (token.sign ?? token.short).length))), heads: what.heads };
      drawn = what;
      svg.setAttribute("aria-label", what.title);
      svg.classList.toggle("bw-belief", what.flow === "belief");
      svg.classList.toggle("bw-narrow", p.narrow);
      const key = [what.width, what.layers, what.heads, what.recurrent, what.recurrent && what.tokens.length].join();
      groups.ground.replaceChildren(...ground(p, what));
      groups.arcs.replaceChildren(...(what.recurrent ? feeders(p, what) : arcs(p, what)));
      groups.dots.replaceChildren(...(what.recurrent ? [] : dots(p, what)));
      groups.tokens.replaceChildren(...tokenMarks(p, what), ...itself(p, what));
      groups.lens.replaceChildren(...(what.flow === "belief" ? lenses(p, what) : []));
      if (key !== built) build(what);
      built = key;
      nodes.forEach((part) => (what.recurrent ? dressState : dressNode)(p, what, part));
      groups.names.querySelectorAll(".bw-layer-name").forEach((node) => {
        const cut = what.layerCut(+node.dataset.layer);
        node.setAttribute("aria-pressed", String(cut));
      });
      hearTokens(what);
      rove(svg.querySelector("[role=button][tabindex='0']") || svg.querySelector("[role=button]"));
      light(what.focus);
      return p;
    }

    // Tokens answer to the pointer: who reads them; of a recurrent network they are switches.
    function hearTokens(what) {
      groups.tokens.querySelectorAll("[data-token]").forEach((mark) => {
        const t = +mark.dataset.token, last = t === what.tokens.length - 1;
        mark.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") lightToken(t); });
        mark.addEventListener("pointerleave", () => light(drawn.focus));
        if (!what.recurrent || last) return;
        const cut = what.off.has(`t${t}`);
        for (const [name, value] of Object.entries({ role: "button", tabindex: -1, "data-action": `skip ${t}`, "aria-pressed": cut, "aria-label": `${what.tokens[t].long}${cut ? ", skipped" : ""}: let the state skip it` })) mark.setAttribute(name, value);
        mark.addEventListener("click", () => actions.token(t));
        mark.addEventListener("keydown", (event) => actions.key(event, `t${t}`));
      });
    }

    // Bring one head forward, or all of them.
    function light(name) {
      const head = name && /^\d+\.\d+$/.test(name) && !drawn.recurrent;
      svg.classList.toggle("bw-one", Boolean(head));
      for (const arc of groups.arcs.children) arc.classList.toggle("bw-lit", Boolean(head) && arc.dataset.head === name);
      for (const { name: other, node } of nodes) node.classList.toggle("bw-lit", other === name);
      groups.weights.replaceChildren(...(head ? weightsAt(p, drawn, name) : []));
    }

    function lightToken(t) {
      svg.classList.add("bw-one");
      for (const arc of groups.arcs.children) arc.classList.toggle("bw-lit", arc.dataset.from === String(t));
    }

    // One stop of the tab key, from which arrow keys go on.
    function rove(to) {
      for (const node of svg.querySelectorAll("[role=button]")) node.setAttribute("tabindex", node === to ? 0 : -1);
    }

    return { svg, draw, groups, light, rove, node: (name) => svg.querySelector(`.bw-node[data-part="${name}"]`), cross: (name) => svg.querySelector(`.bw-scissors[data-cut="${name}"]`), places: () => p };
  }

  window.bwMachineDrawing = { drawing, places };
})();
