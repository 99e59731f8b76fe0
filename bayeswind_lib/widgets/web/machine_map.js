// Beside the machine: where one head looks, from every token to every token, and the same in words. Loaded
// before machine_explorer.js.
(function () {
  "use strict";

  const { count, element, entropyBits, frame, number, range, readout, text } = bwExplorer;
  const DEPTHS = 50; // shades of a cell
  const SHOWN = ["value", "symbol"]; // kinds of tokens that an answer is made of

  // ---- in words --------------------------------------------------------------------------------

  // The tokens that are looked at most.
  function mostSeen(tokens, row, n) {
    const order = range(row.length).sort((a, b) => row[b] - row[a]);
    return order.slice(0, n).filter((t, i) => i === 0 || row[t] >= 0.005).map((t) => `${tokens[t].short} ${number(row[t])}`).join(", ");
  }

  // How a look covers the values (or symbols) that it may see: the share of it that is on them, how evenly it is spread over
  // them (1 is even), its entropy in bits, the share of a look that is spread over every token, and how many of them there are.
  function coverage(tokens, row) {
    const on = range(row.length).filter((t) => SHOWN.includes(tokens[t].kind)), mass = on.reduce((sum, t) => sum + row[t], 0);
    const even = on.length > 1 && mass > 0 ? entropyBits(on.map((t) => row[t] / mass)) / Math.log2(on.length) : NaN;
    return { mass, even, bits: entropyBits(row), uniform: on.length / row.length, shown: on.length };
  }

  // The head whose look from the last token is nearest to an even one on all that was shown, "l.h".
  function headOnShown(patterns, tokens) {
    const from = tokens.length - 1, shown = range(tokens.length).filter((t) => SHOWN.includes(tokens[t].kind));
    const overlap = (row) => shown.reduce((sum, t) => sum + Math.min(row[t], 1 / shown.length), 0);
    const all = patterns.flatMap((row, l) => row.map((pattern, h) => ({ name: `${l}.${h}`, size: overlap(pattern[from]) })));
    return all.reduce((best, one) => (one.size > best.size ? one : best)).name;
  }

  const about = (v) => (v < 0.001 ? "under 0.001" : number(v)); // of a spread: less is none

  // What head `name` sees from a token, or how much of its look one of them gets.
  function sentence(tokens, pattern, name, from, to) {
    const row = pattern[from], who = `From ${tokens[from].long}, head ${name}`;
    if (to !== null) return `${who} gives ${number(row[to])} of its look to ${tokens[to].long}.`;
    const { mass, even, bits, uniform, shown } = coverage(tokens, row), kind = tokens.some((token) => token.kind === "symbol") ? "symbol" : "value";
    const spread = Number.isNaN(even) ? "" : ` It is spread over them with evenness ${about(even)} (1 is even).`;
    const covers = shown ? ` ${(100 * mass).toFixed(1)} % of its look is on the ${count(shown, kind)} that it may see; spread over every token it would be ${(100 * uniform).toFixed(1)} %.${spread}` : "";
    return `${who} looks most at ${mostSeen(tokens, row, 3)}.${covers} Entropy of the look: ${about(bits)} bits.`;
  }

  // ---- drawn -----------------------------------------------------------------------------------

  // The cells, those of one depth in one path: a step draws hundreds of them.
  function shares(pattern, left, top, size) {
    const paths = Array.from({ length: DEPTHS + 1 }, () => ""), side = (size - 0.6).toFixed(2);
    for (let t = 0; t < pattern.length; t++) {
      for (let s = 0; s <= t; s++) {
        const depth = Math.round(pattern[t][s] * DEPTHS);
        if (depth) paths[depth] += `M${(left + s * size).toFixed(2)} ${(top + t * size).toFixed(2)}h${side}v${side}h-${side}z`;
      }
    }
    return paths.flatMap((d, depth) => (d ? [element("path", { d, class: "bw-share", "fill-opacity": depth / DEPTHS })] : []));
  }

  // The whole look of one head: a row a token that looks, a column a token that is looked at. pin(from, to) is called with the
  // cell that was pressed.
  function draw(box, { tokens, pattern, name, from, to, pin }) {
    const T = tokens.length, longest = Math.max(...tokens.map((token) => token.short.length)), left = Math.max(34, 7 * longest + 8), top = 24;
    const size = Math.min((Math.max(box.clientWidth, 200) - left - 2) / T, 24), every = Math.ceil(12 / size), wide = Math.ceil((6.2 * longest + 5) / size);
    const f = frame(box, top + size * T + 4, `Head ${name}: a row a token that looks, a column a token that is looked at. Most from ${tokens[from].short}: ${mostSeen(tokens, pattern[from], 3)}.`);
    const label = (t) => t === from || (t % every === 0 && Math.abs(t - from) >= every);
    pattern.forEach((_, t) => {
      if (label(t)) f.svg.append(text(left - 5, top + (t + 0.5) * size + 4, tokens[t].short, "end", `bw-tick ${t === from ? "bw-row-now" : ""}`));
      if (t % wide === 0 && left + (t + 0.5) * size + 3.2 * longest <= f.width) f.svg.append(text(left + (t + 0.5) * size, top - 7, tokens[t].short, "middle", "bw-tick"));
    });
    f.svg.append(...shares(pattern, left, top, size));
    f.svg.append(element("path", { d: `M${left} ${top}${range(T).map((t) => `V${top + (t + 1) * size}H${left + (t + 1) * size}`).join("")}`, class: "bw-diagonal" }),
      element("rect", { x: left - 1, y: top + from * size - 1, width: (from + 1) * size + 1.4, height: size + 1.4, class: "bw-frame" }));
    if (to !== null) f.svg.append(element("rect", { x: left + to * size, y: top + from * size, width: size - 0.6, height: size - 0.6, class: "bw-frame bw-cell-now" }));
    f.svg.onclick = (event) => {
      const room = f.svg.getBoundingClientRect(), scale = f.width / room.width;
      const s = Math.floor(((event.clientX - room.left) * scale - left) / size), t = Math.floor(((event.clientY - room.top) * scale - top) / size);
      if (t >= 0 && t < T && s >= 0 && s <= t) pin(t, s);
    };
    readout(box, pattern.flatMap((row, t) => range(t + 1).map((s) => ({
      x: left + (s + 0.5) * size, ys: [top + (t + 0.5) * size], get lines() { return [`${tokens[t].short} looks at ${tokens[s].short}`, number(row[s])]; },
    }))), "xy");
  }

  window.bwMachineMap = { coverage, draw, headOnShown, mostSeen, sentence };
})();
