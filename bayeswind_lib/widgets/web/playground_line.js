// What the playground draws of a real-valued outcome: the points with the bands of all predictions, where
// points and the question are dragged, and a prediction as a density. Exact is dashed, as everywhere.
(function () {
  "use strict";

  const { axes, dragging, element, number, readout, text, trace, within } = bwExplorer;
  const { range, REACH, TALL } = bwTasks;
  const PLACES = range(41).map((i) => -REACH + (2 * REACH * i) / 40); // where bands are computed
  const GRIP = 16; // pixels around a point in which a hand takes it
  const WIDE = 2; // standard deviations to both sides
  const MOVES = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };

  const spread = ([mean, variance]) => `${number(mean)} \u00b1 ${number(Math.sqrt(variance))}`;

  // The points known, the bands, and the t that is asked. actions: {grab(), move(i, t, y, atOnce),
  // ask(t, atOnce), add(t, y)}. draw({points, asked, exact, rows, canAdd}): exact and every row's `band`
  // hold a [mean, variance] for each of PLACES.
  function lineFigure(height, actions) {
    const handles = [], layer = element("div", { class: "bw-handles" });
    let f = null, now = null, toX, toY, pressed = null;
    const view = bwViews.chart(paint), field = element("div", { class: "bw-line-figure" }, view.field, layer);

    function paint(box, what) {
      now = what;
      const told = `y over t, bands of ${WIDE} standard deviations. At t = ${number(what.asked, 1)}: exact ${spread(what.truth)}; ` +
        `${what.rows.map((row) => `${row.name} ${spread(row.p)}`).join("; ")}. ${what.points.length} points known.`;
      f = bwViews.frame(box, height, told);
      toX = (t) => f.left + ((t + REACH) / (2 * REACH)) * (f.right - f.left);
      toY = (y) => f.bottom - ((within(y, TALL + 1) + TALL) / (2 * TALL)) * (f.bottom - f.top);
      axes(f, [-4, -2, 0, 2, 4], toY, "y", "t");
      for (const t of [-3, -2, -1, 0, 1, 2, 3]) f.svg.append(text(toX(t), f.bottom + 17, number(t, 0)));
      const edge = (band, side) => band.map(([mean, variance], i) => [toX(PLACES[i]), clip(toY(mean + side * WIDE * Math.sqrt(variance)))]);
      for (const { band, kind } of what.rows) {
        f.svg.append(element("path", { d: `${trace([...edge(band, 1), ...edge(band, -1).reverse()])}Z`, class: `bw-band ${kind}` }),
          element("path", { d: trace(edge(band, 0)), class: `bw-mean ${kind}` }));
      }
      for (const side of [1, 0, -1]) f.svg.append(element("path", { d: trace(edge(what.exact, side)), class: `bw-truth ${side ? "bw-border-line" : ""}` }));
      f.svg.append(element("line", { x1: toX(what.asked), x2: toX(what.asked), y1: f.top, y2: f.bottom, class: "bw-asked-line" }));
      what.points.forEach(([t, y]) => f.svg.append(element("circle", { cx: toX(t), cy: toY(y), r: 5, class: "bw-point" })));
      readout(box, PLACES.map((t, i) => ({
        x: toX(t), ys: [...what.rows.map((row) => row.band[i]), what.exact[i]].map(([mean]) => toY(mean)),
        lines: [`t ${number(t, 2)}`, ...what.rows.map((row) => `${row.name} ${spread(row.band[i])}`), `exact ${spread(what.exact[i])}`],
      })));
      placeHandles(what);
    }

    const clip = (y) => Math.min(Math.max(y, f.top), f.bottom);

    function pointAt(event) {
      const { left, top } = f.svg.getBoundingClientRect();
      const t = ((event.clientX - left - f.left) / (f.right - f.left)) * 2 * REACH - REACH;
      const y = ((f.bottom - (event.clientY - top)) / (f.bottom - f.top)) * 2 * TALL - TALL;
      return [within(t, REACH), within(y, TALL)];
    }

    // Handles for the keyboard, in order, the question's last: their nodes stay, and so does the focus.
    function placeHandles({ points, asked }) {
      while (handles.length > points.length + 1) handles.pop().remove();
      while (handles.length < points.length + 1) {
        const i = handles.length;
        const node = element("span", { class: "bw-handle", role: "slider", tabindex: 0, onfocus: actions.grab, onkeydown: (event) => moved(event, i) });
        handles.push(node);
        layer.append(node);
      }
      handles.forEach((node, i) => {
        const isAsked = i === points.length, [t, y] = isAsked ? [asked, -TALL] : points[i];
        Object.assign(node.style, { left: `${toX(t)}px`, top: `${toY(y)}px` });
        node.classList.toggle("bw-of-question", isAsked);
        node.dataset.handle = isAsked ? "asked" : i;
        node.setAttribute("aria-label", isAsked ? "t that is asked" : `point ${i + 1}`);
        const reach = isAsked ? REACH : TALL;
        node.setAttribute("aria-valuemin", -reach);
        node.setAttribute("aria-valuemax", reach);
        node.setAttribute("aria-valuenow", isAsked ? t : y);
        node.setAttribute("aria-valuetext", isAsked ? `t ${number(t, 1)}` : `t ${number(t, 1)}, y ${number(y, 1)}`);
      });
    }

    function moved(event, i) {
      const by = MOVES[event.key];
      if (!by) return;
      event.preventDefault();
      const isAsked = i === now.points.length;
      if (isAsked) actions.ask(now.asked + by[0] + by[1], true);
      else actions.move(i, now.points[i][0] + by[0], now.points[i][1] + by[1], true);
    }

    // What a hand takes: the nearest point, else the question's line.
    function take(event) {
      pressed = null;
      const { left, top } = f.svg.getBoundingClientRect(), [x, y] = [event.clientX - left, event.clientY - top];
      const apart = now.points.map((point) => Math.hypot(toX(point[0]) - x, toY(point[1]) - y)), least = Math.min(...apart);
      if (least <= GRIP) {
        actions.grab();
        handles[apart.indexOf(least)].focus({ preventScroll: true });
        return apart.indexOf(least);
      }
      if (Math.abs(toX(now.asked) - x) <= GRIP / 2 || Math.hypot(toX(now.asked) - x, f.bottom - y) <= GRIP) {
        actions.grab();
        handles[now.points.length].focus({ preventScroll: true });
        return "asked";
      }
      if (x >= f.left && x <= f.right && y >= f.top && y <= f.bottom) pressed = [event.clientX, event.clientY];
      return null;
    }

    dragging(field, take, (event, held) => {
      const [t, y] = pointAt(event);
      if (held === "asked") actions.ask(t);
      else actions.move(held, t, y);
    });
    field.addEventListener("click", (event) => { // a press, and no way of scrolling
      if (pressed && now.canAdd && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 6) actions.add(...pointAt(event));
      pressed = null;
    });
    return { field, draw: view.draw };
  }

  // Predictions as densities over y: {truth, rows: [{p, kind, name}], title, heading, below}.
  function density(height, margin = 46) {
    function paint(box, { truth, rows, title, heading = title, below }) {
      const all = [truth, ...rows.map((row) => row.p)], far = ([mean, variance], side) => mean + side * 3 * Math.sqrt(variance);
      const low = Math.min(...all.map((p) => far(p, -1))), high = Math.max(...all.map((p) => far(p, 1)));
      const ys = range(81).map((i) => low + ((high - low) * i) / 80);
      const at = ([mean, variance]) => (y) => Math.exp(-((y - mean) ** 2) / (2 * variance)) / Math.sqrt(2 * Math.PI * variance);
      const top = 1.05 * Math.max(...all.map(([, variance]) => 1 / Math.sqrt(2 * Math.PI * variance)));
      const f = bwViews.frame(box, height, `${title} ${rows.map((row) => `${row.name} ${spread(row.p)}`).join(", ")}, exact ${spread(truth)}.`, margin);
      const toX = (y) => f.left + ((y - low) / (high - low)) * (f.right - f.left), toY = (p) => f.bottom - (p / top) * (f.bottom - f.top);
      const line = (p) => trace(ys.map((y) => [toX(y), toY(at(p)(y))]));
      axes(f, [0], toY, heading, below);
      for (const y of [low, (low + high) / 2, high]) f.svg.append(text(toX(y), f.bottom + 17, number(y, 1), y === low ? "start" : y === high ? "end" : "middle"));
      for (const { p, kind } of rows) f.svg.append(element("path", { d: `${line(p)}L${f.right} ${f.bottom}L${f.left} ${f.bottom}Z`, class: `bw-bar ${kind}` }));
      f.svg.append(element("path", { d: line(truth), class: "bw-truth" }));
      readout(box, ys.map((y) => ({
        x: toX(y), ys: all.map((p) => toY(at(p)(y))), lines: [`y ${number(y)}`, ...rows.map((row) => `${row.name} ${number(at(row.p)(y))}`), `exact ${number(at(truth)(y))}`],
      })));
    }
    return bwViews.chart(paint);
  }

  window.bwLine = { PLACES, density, lineFigure, spread };
})();
