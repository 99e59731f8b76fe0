// The upper end of the machine: the network's answer as bars beside the exact posterior, and how the
// entropy has gone so far. Loaded before machine_explorer.js.
(function () {
  "use strict";

  const { count, element, number, range, readout, steps: stepsOf, text, trace, trail } = bwExplorer;

  const probability = (p) => (p >= 0.9995 ? "1" : p.toFixed(2).replace(/^0/, ""));
  // A Gaussian answer, [mean, variance], in words.
  const spread = ([mean, variance]) => `${number(mean)} \u00b1 ${number(Math.sqrt(variance))}`;
  const svgOf = (width, height, label) => element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });

  // ---- the answer ------------------------------------------------------------------------------

  // names, exact, now: of every outcome, what: one of them in a word; whole: the answer of the uncut network, or null; from: where
  // the stream comes up from below; chosen: outcomes that contributions are about; pick(y) is called
  // when one is pressed.
  function answer(box, { width, narrow, what, names, exact, now, whole, from, chosen, pick, title, scene }) {
    const height = narrow ? 142 : 158, base = height - 46, top = 20, left = 8, step = (width - 2 * left) / names.length;
    const most = [0.16, 0.28, 0.4, 0.56, 0.75, 1.001].find((v) => v >= Math.max(...exact, ...now, ...(whole || []))), toY = (p) => base - (Math.min(p, most) / most) * (base - top);
    const told = names.map((name, y) => `${name}: network ${number(now[y])}, exact ${number(exact[y])}${whole ? `, uncut ${number(whole[y])}` : ""}`);
    const svg = svgOf(width, height, `${title} ${told.join("; ")}.`);
    const wide = Math.min(step * 0.74, 62), centre = (y) => left + (y + 0.5) * step;
    const bar = (kind_, p, y, inset = 0) => element("rect", {
      class: `bw-bar ${kind_}`, x: centre(y) - wide / 2 + inset, width: wide - 2 * inset, y: toY(p), height: Math.max(base - toY(p), 0),
    });
    const skip = Math.ceil((7.5 * Math.max(...names.map((name) => name.length)) + 3) / step); // names that would meet
    range(names.length).forEach((y) => svg.append(element("path", {
      class: "bw-fan", d: `M${from} ${height}C${from} ${height - 15} ${centre(y)} ${height - 8} ${centre(y)} ${base + 19}`,
      "stroke-opacity": (0.12 + 0.8 * now[y]).toFixed(3), "stroke-width": (0.8 + 4 * now[y]).toFixed(2),
    })));
    svg.append(element("line", { class: "bw-floor", x1: left, x2: width - left, y1: base, y2: base }));
    names.forEach((name, y) => {
      if (whole) svg.append(bar("bw-ghost", whole[y], y));
      svg.append(bar("bw-first", now[y], y, whole ? wide * 0.14 : 0));
      if (exact[y] > 0) svg.append(bar("bw-exact", exact[y], y));
      const high = Math.min(toY(now[y]), toY(exact[y]), whole ? toY(whole[y]) : base);
      if (now[y] >= 0.005 && step > 24) svg.append(text(centre(y), high - 5, probability(now[y]), "middle", "bw-amount"));
      if (y % skip === 0) svg.append(text(centre(y), base + 14, name, "middle", `bw-outcome${chosen.includes(y) ? " bw-chosen" : ""}`));
      svg.append(element("rect", { class: "bw-area", x: centre(y) - step / 2, width: step, y: 0, height: base + 20, onclick: () => pick(y) }));
    });
    if (!whole) trail(box, svg, ".bw-first", scene, { scale: [most, base] });
    box.replaceChildren(svg);
    readout(box, names.map((name, y) => ({
      x: centre(y), ys: [now[y], exact[y], ...(whole ? [whole[y]] : [])].map(toY),
      lines: [`${what} ${name}`, `network ${number(now[y])}`, ...(whole ? [`uncut ${number(whole[y])}`] : []), `exact ${number(exact[y])}`],
    })));
  }

  // The same of a Gaussian outcome: densities over y, answers as [mean, variance].
  function density(box, { width, exact, now, whole, from, title }) {
    const height = 158, base = height - 46, top = 20, left = 8, right = width - left, { TALL } = bwTasks, ys = range(121).map((i) => -TALL + (i * TALL) / 60);
    const at = ([mean, variance]) => ys.map((y) => Math.exp(-((y - mean) ** 2) / (2 * variance)) / Math.sqrt(variance)), toX = (y) => left + ((y + TALL) / (2 * TALL)) * (right - left);
    const rows = [...(whole ? [["bw-ghost", whole]] : []), ["bw-first", now], ["bw-exact", exact]].map(([kind, p]) => [kind, at(p)]), most = Math.max(...rows.flatMap(([, row]) => row));
    const svg = svgOf(width, height, `${title} Mean and standard deviation: network ${spread(now)}, exact ${spread(exact)}${whole ? `, uncut ${spread(whole)}` : ""}.`);
    svg.append(element("path", { class: "bw-fan", d: `M${from} ${height}C${from} ${height - 15} ${toX(now[0])} ${height - 8} ${toX(now[0])} ${base + 19}`, "stroke-opacity": 0.7, "stroke-width": 3 }),
      element("line", { class: "bw-floor", x1: left, x2: right, y1: base, y2: base }),
      ...rows.map(([kind, row]) => element("path", { class: `bw-density ${kind}`, d: trace(row.map((v, i) => [toX(ys[i]).toFixed(1), (base - (v / most) * (base - top)).toFixed(1)])) })),
      ...[-4, -2, 0, 2, 4].map((y) => text(toX(y), base + 14, number(y, 0))));
    box.replaceChildren(svg);
    const named = ["network", ...(whole ? ["uncut"] : []), "exact"], told = [now, ...(whole ? [whole] : []), exact].map((answer, i) => `${named[i]} ${spread(answer)}`);
    readout(box, ys.map((y, i) => ({ x: toX(y), ys: rows.map(([, row]) => base - (row[i] / most) * (base - top)), lines: [`y ${number(y)}`, ...told] })));
  }

  // ---- how it went so far ------------------------------------------------------------------------

  // Entropy after every `step` (pair or symbol), from so many at `first`, in bits, of the truth (dashed) and of the network (dots), so far and, of
  // the truth, to come if that is known; a column a step, in line with the slider below.
  function course(box, { width, steps, first, step, exact, network, now, high }) {
    const height = width < 330 ? 38 : 52, left = 9, top = 6, base = height - 6, toX = (k) => left + (steps > 1 ? k / (steps - 1) : 0.5) * (width - 2 * left);
    const toY = (bits) => base - (Math.min(bits, high) / high) * (base - top);
    const told = network.map((bits, k) => `${number(bits)} (exact ${number(exact[k])})`);
    const svg = svgOf(width, height, `Entropy in bits of the network's answer, step by step: ${told.join(", ")}.`);
    svg.append(element("line", { class: "bw-floor", x1: left, x2: width - left, y1: base, y2: base }),
      element("path", { class: "bw-truth", d: trace(exact.map((bits, k) => [toX(k), toY(bits)])) }),
      ...network.map((bits, k) => element("circle", { class: `bw-dot${k === now ? " bw-now" : ""}`, cx: toX(k), cy: toY(bits), r: k === now ? 4.5 : 2.6 })));
    box.replaceChildren(svg);
    box.steps = stepsOf(toX, steps, now);
    readout(box, network.map((bits, k) => ({ x: toX(k), ys: [bits, exact[k]].map(toY), lines: [`${count(k + first, step)}: ${number(bits)}, exact ${number(exact[k])}`] })));
  }

  window.bwMachineAnswer = { answer, course, density, probability, spread };
})();
