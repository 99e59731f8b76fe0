// The threshold explorer: what was measured on several networks or kinds of prompts, one dot each, and a threshold to drag.
// Does it tell the two groups apart that it should? A classic script, so that it also runs from a folder. It mounts on every
// element .bw-explorer[data-explorer="threshold"]; the numbers are in threshold_records.js, which `python book/tools stored` makes
// from the records that the chapters read.
(function () {
  "use strict";

  const { axes, button, dragging, element, frame, number, radios, range, readout, scrubber, slider, steps, statusLine, text, watchWidth, within } = bwExplorer;

  // ---- the arithmetic ------------------------------------------------------------------------

  const passes = (one, threshold, value) => (one.above ? value > threshold : value < threshold);
  const passing = (one, threshold, dots) => dots.filter(([, value]) => passes(one, threshold, value)).length;
  const ofGroup = (one, group) => one.rows.filter((row) => row.group === group).flatMap((row) => row.dots);
  const share = (one, threshold, group) => passing(one, threshold, ofGroup(one, group)) / ofGroup(one, group).length;

  // The places of the slider, and the first of them at which the groups differ most, the first group passing more.
  const places = (one) => range(Math.round((one.high - one.low) / 0.01) + 1).map((i) => Math.round(100 * one.low + i) / 100);
  function best(one) {
    const apart = places(one).map((t) => share(one, t, 0) - share(one, t, 1));
    return places(one)[apart.indexOf(Math.max(...apart))];
  }

  // ---- the explorer --------------------------------------------------------------------------

  function mount(root, id) {
    const { groups, unit, choices } = window.bwThresholdRecords[root.dataset.record || "diagnostics"];
    let chosen = Object.keys(choices)[0], threshold = choices[chosen].published, toValue;
    const one = () => choices[chosen];

    const cut = slider(id, "threshold", "Threshold", [0, 1, 0.01], threshold, (t) => { threshold = t; update(); });
    const pick = radios(id, "choice", "Measured", Object.entries(choices).map(([key, { words }]) => [words, key]), chosen, (key) => {
      chosen = key;
      threshold = one().published;
      update();
    });
    const published = button("Back to where it was", "published", () => { threshold = one().published; update(); });
    const apart = button("Tell the groups apart", "best", () => { threshold = best(one()); update(); });
    const status = statusLine();
    const dots = element("div", { class: "bw-chart" }), shares = element("div", { class: "bw-chart" });
    root.replaceChildren(dots,
      element("div", { class: "bw-controls" }, cut.field, element("div", { class: "bw-buttons" }, apart, published)), status,
      element("p", { class: "bw-key" }, ...groups.flatMap((words, group) => [element("span", { class: `bw-mark bw-mark-${group}` }), ` ${words} `])), shares,
      ...(Object.keys(choices).length > 1 ? [element("div", { class: "bw-controls" }, pick)] : []));

    const move = (event) => { threshold = toValue(event); update(); };
    scrubber(shares, (i) => { threshold = places(one())[i]; update(); });
    dragging(dots, (event) => { if (!event.target.closest("svg")) return null; move(event); return true; }, move);

    function update() {
      const { low, high, above } = one();
      Object.assign(cut.input, { min: low, max: high, value: threshold });
      cut.output.textContent = number(threshold, 2);
      published.textContent = `${one().start} ${number(one().published, 2)}`;
      toValue = drawDots(dots, one(), groups, threshold);
      drawShares(shares, one(), groups, threshold);
      const told = groups.map((words, group) => `${passing(one(), threshold, ofGroup(one(), group))} of ${ofGroup(one(), group).length} ${unit} ${words}`);
      const fit = best(one());
      status.textContent = `${above ? "Above" : "Below"} ${number(threshold, 2)} are ${told.join(" and ")}. ` + (share(one(), fit, 0) > share(one(), fit, 1)
        ? `No threshold does better than ${number(fit, 2)}, where ${Math.round(100 * share(one(), fit, 0))} % of the first pass and ${Math.round(100 * share(one(), fit, 1))} % of the second.`
        : `No threshold lets a larger share of the first pass than of the second.`);
      Object.assign(root.dataset, { threshold, best: fit, first: share(one(), threshold, 0), second: share(one(), threshold, 1) });
    }

    update();
    watchWidth(root, dots, update);
  }

  // ---- the drawings --------------------------------------------------------------------------

  const TALL = 44;
  const ticksOf = ({ low, high }) => {
    const step = high - low > 1.2 ? 0.5 : high - low > 0.5 ? 0.25 : 0.1;
    return range(Math.floor((high - low) / step + 1e-9) + 1).map((i) => Math.round(100 * (low + i * step)) / 100);
  };

  // A line of dots for every row; what passes is filled. Returns how a place on the screen becomes a threshold.
  function drawDots(box, one, groups, threshold) {
    const told = one.rows.map(({ label, dots }) => `${label}: ${dots.map(([words, value]) => `${words ? `${words} ` : ""}${number(value)}`).join(", ")}`).join(". ");
    const height = 44 + TALL * one.rows.length + 24, f = frame(box, height, `${one.axis}, with the threshold at ${number(threshold, 2)}. ${told}.`);
    Object.assign(f, { left: 10, bottom: height - 24 });
    const toX = (value) => f.left + ((within(value - one.low, 99) - 0) / (one.high - one.low)) * (f.right - f.left);
    const inside = (value) => Math.min(one.high, Math.max(one.low, value)), cut = toX(inside(threshold));
    f.svg.append(text(4, 15, one.axis, "start", "bw-title"));
    for (const tick of ticksOf(one)) {
      f.svg.append(element("line", { x1: toX(tick), x2: toX(tick), y1: 40, y2: f.bottom, class: "bw-grid" }), text(toX(tick), f.bottom + 17, number(tick, 2).replace(/0$/, ""),
        tick === one.low ? "start" : tick >= one.high - 1e-9 ? "end" : "middle"));
    }
    f.svg.append(element("rect", { x: one.above ? cut : f.left, width: Math.max(0, one.above ? f.right - cut : cut - f.left), y: 40, height: f.bottom - 40, class: "bw-pass" }));
    one.rows.forEach(({ label, group, dots }, i) => {
      const y = 40 + TALL * (i + 0.5) + 8;
      const beyond = dots.filter(([, value]) => value < one.low).map(([, value]) => number(value, 1)); // left of the picture
      f.svg.append(text(f.left + 2, y - 14, beyond.length ? `${label}: ${beyond.join(", ")}` : label, "start"));
      for (const [words, value] of dots) {
        const x = toX(inside(value)), kind = `${passes(one, threshold, value) ? "bw-passed" : "bw-failed"} bw-group-${group}`;
        f.svg.append(group ? element("rect", { x: x - 4.5, y: y - 4.5, width: 9, height: 9, class: kind }) : element("circle", { cx: x, cy: y, r: 5, class: kind }));
      }
    });
    f.svg.append(element("line", { x1: cut, x2: cut, y1: 30, y2: f.bottom, class: "bw-cut" }), element("circle", { cx: cut, cy: 30, r: 7, class: "bw-handle" }));
    readout(box, one.rows.flatMap(({ label, dots }, i) => dots.map(([words, value]) => ({
      x: toX(inside(value)), ys: [48 + TALL * (i + 0.5)], lines: [label, `${words ? `${words} ` : ""}${number(value)}`],
    }))), "xy");
    return (event) => {
      const place = f.svg.getBoundingClientRect(), across = ((event.clientX - place.left) / place.width) * f.width;
      return Math.round(100 * inside(one.low + ((across - f.left) / (f.right - f.left)) * (one.high - one.low))) / 100;
    };
  }

  // The share of each group that passes, over the threshold.
  function drawShares(box, one, groups, threshold) {
    const at = places(one), f = frame(box, 190, `Share that passes, by threshold; at ${number(threshold, 2)}: ` +
      `${groups.map((words, group) => `${words} ${number(100 * share(one, threshold, group), 0)} %`).join(", ")}.`);
    const toX = (t) => f.left + ((t - one.low) / (one.high - one.low)) * (f.right - f.left), toY = (s) => f.bottom - s * (f.bottom - f.top);
    axes(f, [0, 0.5, 1], toY, "Share that passes (%)", "threshold", (s) => String(100 * s));
    for (const tick of ticksOf(one)) f.svg.append(text(toX(tick), f.bottom + 17, number(tick, 2).replace(/0$/, "")));
    groups.forEach((_, group) => {
      f.svg.append(element("path", { class: `bw-share bw-group-${group}`,
        d: at.map((t, i) => `${i ? `L${toX(t)} ${toY(share(one, at[i - 1], group))}L` : "M"}${toX(t)} ${toY(share(one, t, group))}`).join("") }));
      const [x, y] = [toX(Math.min(one.high, Math.max(one.low, threshold))), toY(share(one, threshold, group))];
      f.svg.append(group ? element("rect", { x: x - 4.5, y: y - 4.5, width: 9, height: 9, class: "bw-passed bw-group-1" })
        : element("circle", { cx: x, cy: y, r: 5, class: "bw-passed bw-group-0" }));
    });
    box.steps = { ...steps((i) => toX(at[i]), at.length, 0), now: toX(threshold) };
    readout(box, at.map((t) => ({
      x: toX(t), ys: groups.map((_, group) => toY(share(one, t, group))),
      lines: [`threshold ${number(t, 2)}`, ...groups.map((words, group) => `${words} ${Math.round(100 * share(one, t, group))} %`)],
    })));
  }

  bwExplorer.start("threshold", "Threshold explorer", mount, { passing, share, best });
})();
