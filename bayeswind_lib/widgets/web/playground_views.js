// What the playground draws: bars of an answer beside the truth, curves over steps, and measures in bits.
// The exact answer is dashed and dark, the network's is a colour. Each function makes a view {field, draw}.
(function () {
  "use strict";

  const { axes, element, number, readout, text, trace, trail } = bwExplorer;
  const { range } = bwTasks;

  const bits = (h) => `${number(h)} bits`;

  // ---- drawings that know their width ------------------------------------------------------------

  // A step draws several pictures; asking each box for its width would lay the page out as often. So
  // an observer tells the width, and has a drawing made again when it changes.
  const observer = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
    const width = Math.floor(contentRect.width), before = target.knownWidth;
    target.knownWidth = width;
    if (width > 0 && width !== before) target.redraw();
  }));

  // A view that paints into a box: paint(box, what) is called with what `draw` was given.
  function chart(paint) {
    const box = element("div", { class: "bw-chart" });
    let last = null;
    box.redraw = () => { if (last) paint(box, last); };
    observer.observe(box);
    return { field: box, draw: (what) => { last = what; paint(box, what); } };
  }

  // As bwExplorer.frame, without asking the page for the width.
  function frame(box, height, label, left = 46) {
    const width = Math.max(box.knownWidth ?? box.clientWidth, 100);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    box.replaceChildren(svg);
    return { svg, width, left, right: width - 12, top: 28, bottom: height - 40 };
  }

  // ---- parts of the page ---------------------------------------------------------------------

  // A part of the figure with a name of its own.
  function part(id, name, title, ...children) {
    const head = element("div", { class: "bw-part-title", id: `${id}-${name}-title` }, title);
    return element("section", { class: "bw-part", "data-part": name, "aria-labelledby": head.id }, head, ...children);
  }

  // The nearest of some nodes beyond one of them in the direction of an arrow key: in its row, or
  // above or below.
  function beyond(nodes, from, key) {
    const side = key === "ArrowLeft" || key === "ArrowRight", back = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
    const middle = (node) => {
      const { left, top, width, height } = node.getBoundingClientRect();
      return { x: left + width / 2, y: top + height / 2, tall: height };
    };
    const here = middle(from);
    const found = nodes.map((node) => ({ node, at: middle(node) })).map(({ node, at }) => {
      const across = back * (at.x - here.x), down = back * (at.y - here.y), inRow = Math.abs(at.y - here.y) < Math.min(at.tall, here.tall) / 2;
      return side ? { node, open: inRow && across > 1, far: across } : { node, open: !inRow && down > 1, far: down + 3 * Math.abs(at.x - here.x) };
    }).filter((one) => one.open);
    return found.reduce((best, one) => (one.far < best.far ? one : best), { node: null, far: Infinity }).node;
  }

  // One stop of the tab key for a group of buttons; arrows move as the buttons stand, and at a row's end
  // on to the next button; Home and End go to the first and the last.
  function roving(group, find = () => [...group.querySelectorAll("button")]) {
    const set = (now) => find().forEach((node) => { node.tabIndex = node === now ? 0 : -1; });
    group.addEventListener("focusin", (event) => { if (find().includes(event.target)) set(event.target); });
    group.addEventListener("keydown", (event) => {
      const nodes = find(), at = nodes.indexOf(document.activeElement), { key } = event;
      if (at < 0 || !(key.startsWith("Arrow") || key === "Home" || key === "End")) return;
      event.preventDefault();
      const next = { ArrowRight: nodes[at + 1], ArrowLeft: nodes[at - 1], Home: nodes[0], End: nodes[nodes.length - 1] }[key];
      (key.startsWith("Arrow") && beyond(nodes, nodes[at], key) || next || nodes[at]).focus();
    });
    return set;
  }

  // ---- the answer ----------------------------------------------------------------------------

  const SCALES = [0.25, 0.5, 1];

  // Bars of one answer or two over the outcomes, the exact one dashed, if there is a `truth`. rows: [{p, kind, name}].
  // choose, if given: {open(y), choose(y)}, which outcomes can be pressed and what that does. title is told, heading is drawn.
  // scale, if given: the probability at the top of the axis.
  function bars(height = 230, margin = 46) {
    let kept = {};

    function paint(box, { truth, rows, labels, title, heading = title, below, choose, scale, scene }) {
      const most = Math.max(...(truth || []), ...rows.flatMap((row) => [...row.p]));
      const top = scale || SCALES.find((one) => most <= one * 0.98) || 1;
      const signature = [labels.join(), rows.map((row) => row.kind).join(), top, box.knownWidth, heading, below].join("|");
      if (kept.signature !== signature) kept = { signature, ...build(box, top, rows, labels, heading, below) };
      const { f, toX, toY, rects, dashes, areas } = kept;
      const place = (rect, p) => {
        rect.style.y = `${toY(p)}px`;
        rect.style.height = `${Math.max(f.bottom - toY(p), 0)}px`;
        rect.style.visibility = p > 0 ? "visible" : "hidden";
      };
      rows.forEach((row, r) => rects[r].forEach((rect, y) => place(rect, row.p[y])));
      dashes.forEach((rect, y) => place(rect, truth ? truth[y] : 0));
      areas.forEach((area, y) => {
        area.classList.toggle("bw-open", Boolean(choose) && choose.open(y));
        area.onclick = choose ? () => choose.choose(y) : null;
      });
      f.svg.setAttribute("aria-label", tell(truth, rows, labels, title));
      trail(box, f.svg, scene ? ".bw-first" : ".bw-none", scene, { scale: [top, f.bottom] });
      readout(box, labels.map((word, y) => ({
        x: toX(y), ys: [...rows.map((row) => row.p[y]), ...(truth ? [truth[y]] : [])].map(toY),
        lines: [word, ...rows.map((row) => `${row.name} ${number(row.p[y])}`), ...(truth ? [`exact ${number(truth[y])}`] : [])],
      })));
    }

    function build(box, top, rows, labels, heading, below) {
      const f = frame(box, height, heading, margin), step = (f.right - f.left) / labels.length;
      const toY = (p) => f.bottom - (p / top) * (f.bottom - f.top), wide = Math.min(step * 0.76, 64);
      axes(f, heading ? [0, top / 2, top] : [0, top], toY, heading, below); // a small drawing has no room for more
      const skip = Math.ceil(Math.max(...labels.map((word) => word.length)) * 8 / step);
      const toX = (y) => f.left + (y + 0.5) * step, left = (y) => toX(y) - wide / 2;
      const rect = (kind, x, width) => element("rect", { x, width, class: kind });
      labels.forEach((word, y) => {
        if (y % skip === 0) f.svg.append(text(toX(y), f.bottom + 17, word));
      });
      const rects = rows.map((row, r) => labels.map((_, y) =>
        rect(`bw-bar ${row.kind}`, left(y) + (r * wide) / rows.length, wide / rows.length)));
      const dashes = labels.map((_, y) => rect("bw-bar bw-exact", left(y), wide));
      const areas = labels.map((_, y) => element("rect", {
        x: f.left + y * step, width: step, y: f.top, height: f.bottom - f.top, class: "bw-area",
      }));
      f.svg.append(...rects.flat(), ...dashes, ...areas);
      return { f, toX, toY, rects, dashes, areas };
    }

    function tell(truth, rows, labels, title) {
      const told = labels.map((word, y) =>
        `${word}: ${rows.map((row) => `${row.name} ${number(row.p[y])}`).join(", ")}${truth ? `, exact ${number(truth[y])}` : ""}`);
      return `${title} Probabilities: ${told.join("; ")}.`;
    }

    return chart(paint);
  }

  // What a narrow screen has no room for.
  const unit = (words) => element("span", { class: "bw-unit" }, words);

  // Entropy of both, divergence and total variation, as terms and numbers.
  function measureList() {
    const cell = (name, words, kind = "", more = "") => {
      const value = element("dd", { "data-measure": name });
      return [element("div", { class: `bw-measure ${kind}` }, element("dt", {}, words, unit(more)), value), value];
    };
    const cells = {
      exact: cell("exact", "entropy, exact", "bw-of-truth"), network: cell("network", "entropy, network", "bw-of-network"),
      divergence: cell("divergence", "KL divergence"), variation: cell("variation", "total variation", "", ", 0 to 1"),
    };
    const field = element("dl", { class: "bw-measures" }, ...Object.values(cells).map(([box]) => box));
    const more = ["entropy", "KL"].map((what) => {
      const name = element("dt"), value = element("dd", { "data-measure": `beside-${what}` });
      return { what, name, value, box: element("div", { class: "bw-measure bw-of-beside" }, name, value) };
    });

    // found: measures of the network; beside: {name, kind, found} of one beside it, or undefined.
    function draw(found, beside) {
      for (const { what, name, value, box } of more) {
        if (!beside) {
          box.remove();
          continue;
        }
        name.textContent = `${what}, ${beside.name}`;
        value.replaceChildren(number(what === "KL" ? beside.found.divergence : beside.found.network), unit(" bits"));
        box.className = `bw-measure bw-of-beside ${beside.kind}`;
        field.append(box);
      }
      for (const [name, [, value]] of Object.entries(cells)) {
        value.replaceChildren(number(found[name]), ...(name === "variation" ? [] : [unit(" bits")]));
      }
    }
    return { field, draw };
  }

  // The answer once more, small, with its KL: for where the large one is not to be seen. draw(gaussian, what, kl), kl
  // null where a bet covers it.
  function miniature() {
    const small = bars(118, 30), curve = bwLine.density(118, 30), drawing = element("div", { class: "bw-mini-drawing" });
    const words = element("div", { class: "bw-mini-words" });
    const field = element("div", { class: "bw-mini", "aria-hidden": "true", hidden: true }, element("div", { class: "bw-mini-card" }, drawing, words));
    function draw(gaussian, what, kl) {
      const view = gaussian ? curve : small;
      if (view.field.parentElement !== drawing) drawing.replaceChildren(view.field);
      view.draw({ ...what, heading: "", below: "" });
      words.replaceChildren(...(kl === null ? [element("strong", {}, "your bet")] : [element("strong", {}, bits(kl)), element("span", {}, "KL, network from exact")]));
    }
    return { field, draw };
  }

  // ---- curves --------------------------------------------------------------------------------

  // Steps for an axis from 0 to top: at most five.
  function ticksTo(top) {
    const power = 10 ** Math.floor(Math.log10(top / 2));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => top / n <= 4.5);
    return range(Math.floor(top / step + 1e-9) + 1).map((i) => +(i * step).toPrecision(6));
  }

  const MARKS = { circle: "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0", square: "M-3 -3h6v6h-6z", up: "M0 -4l4 7h-8z", down: "M0 4l4 -7h-8z", cross: "M0 -4l4 4l-4 4l-4 -4z" };

  // A curve whose steps are chosen: by a press, or a hand that moves along. go(i, grabbed) is called with a step.
  function scrubbed(view, go) {
    const stepAt = (event) => view.field.stepAt?.(event) ?? null;
    bwExplorer.dragging(view.field, (event) => {
      const i = stepAt(event);
      if (i !== null) go(i, true);
      return i;
    }, (event) => { const i = stepAt(event); if (i !== null) go(i, false); });
    view.field.classList.add("bw-scrubber");
    return view;
  }

  // Numbers over steps. truth: a dashed staircase; ahead: how it will go on; lines: [{values, kind,
  // mark, name}], a value a step; now: the step at hand; words(i): what stands below step i.
  function curve(height = 230) {
    function paint(box, { title, below, truth, ahead, lines, now, limit, top, words = String }) {
      const f = frame(box, height, tell(title, truth, lines));
      const toY = (h) => f.bottom - (Math.min(h, top) / top) * (f.bottom - f.top);
      const edge = (i) => f.left + (i / limit) * (f.right - f.left), toX = (i) => edge(i + 0.5);
      axes(f, ticksTo(top), toY, title, below);
      const stride = Math.ceil(limit / Math.max(2, (f.right - f.left) / 34));
      for (let i = 0; i < limit; i += stride) f.svg.append(text(toX(i), f.bottom + 17, words(i)));
      const stair = (heights) => heights.map((h, i) => `${i ? "L" : "M"}${edge(i)} ${toY(h)}H${edge(i + 1)}`).join("");
      if (now !== undefined && now >= 0) {
        f.svg.append(element("rect", { x: edge(now), width: edge(1) - edge(0), y: f.top, height: f.bottom - f.top, class: "bw-here" }));
      }
      if (ahead) f.svg.append(element("path", { d: stair(ahead), class: "bw-ahead" }));
      for (const line of lines) f.svg.append(...drawn(line, toX, toY, now));
      if (truth) f.svg.append(element("path", { d: stair(truth), class: "bw-truth" }));
      box.stepAt = (event) => {
        const { left, width } = f.svg.getBoundingClientRect(), x = ((event.clientX - left) * f.width) / width;
        const i = Math.floor(((x - f.left) / (f.right - f.left)) * limit);
        return x >= f.left && x < f.right ? Math.min(i, limit - 1) : null;
      };
      const all = [...lines, ...(truth ? [{ name: "exact", values: truth }] : [])], shown = Math.max(0, ...lines.map((line) => line.values.length));
      readout(box, range(shown).map((i) => ({ x: toX(i), ys: all.map(({ values }) => toY(values[i])), lines: [`${below} ${words(i)}`, ...all.map(({ name, values }) => `${name} ${number(values[i])}`)] })));
    }

    function drawn({ values, kind, mark = "circle" }, toX, toY, now) {
      const points = values.map((h, i) => [toX(i), toY(h)]);
      return [element("path", { d: trace(points), class: `bw-line ${kind}` }), ...points.map(([x, y], i) => element("path", {
        d: MARKS[mark], transform: `translate(${x} ${y}) scale(${i === now ? 1.7 : 1})`, class: `bw-mark ${kind}`,
      }))];
    }

    function tell(title, truth, lines) {
      const row = (name, values) => `${name} ${[...values].map((h) => number(h)).join(", ")}`;
      const rows = [...(truth ? [row("exact", truth)] : []), ...lines.map((line) => row(line.name, line.values))];
      return `${title}, step by step: ${truth && !truth.length ? "nothing to show yet" : rows.join("; ")}.`;
    }

    return chart(paint);
  }

  // What stands for what, in a drawing.
  function legend(entries) {
    return element("ul", { class: "bw-legend" }, ...entries.map(([kind, words]) => element("li", {},
      element("span", { class: `bw-key ${kind}`, "aria-hidden": "true" }), words)));
  }

  window.bwViews = { bars, bits, chart, curve, frame, legend, measureList, miniature, part, roving, scrubbed };
})();
