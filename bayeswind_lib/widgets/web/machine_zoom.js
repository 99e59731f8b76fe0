// Moving about in the machine: zoom by wheel with ctrl, by two fingers, by buttons; pan by drag where it
// is zoomed; and the pulses that run along its wires. Loaded before machine_explorer.js.
(function () {
  "use strict";

  const { element } = bwExplorer;
  const MOST = 6; // times
  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // ---- zoom ------------------------------------------------------------------------------------

  // Zoom of a drawing whose own size is size(): {width, height}; changed(k) is called after each move.
  function zooming(svg, size, changed) {
    const view = { k: 1, x: 0, y: 0 }, fingers = new Map();
    let moved = false;

    function show() {
      const { width, height } = size(), w = width / view.k, h = height / view.k;
      view.x = Math.min(Math.max(view.x, 0), width - w);
      view.y = Math.min(Math.max(view.y, 0), height - h);
      svg.setAttribute("viewBox", [view.x, view.y, w, h].map((v) => v.toFixed(2)).join(" "));
      svg.style.touchAction = view.k > 1 ? "none" : "pan-x pan-y";
      svg.classList.toggle("bw-zoomed", view.k > 1);
      changed(view.k);
    }

    // Where a point of the window is in the drawing.
    function at({ clientX, clientY }) {
      const room = svg.getBoundingClientRect(), { width, height } = size();
      return { x: view.x + ((clientX - room.left) / room.width) * (width / view.k), y: view.y + ((clientY - room.top) / room.height) * (height / view.k) };
    }

    // Zoom by a factor, so that a point of the drawing stays where it is.
    function by(factor, point) {
      const before = view.k, { width, height } = size(), fixed = point || { x: view.x + width / view.k / 2, y: view.y + height / view.k / 2 };
      view.k = Math.min(Math.max(view.k * factor, 1), MOST);
      view.x = fixed.x - ((fixed.x - view.x) * before) / view.k;
      view.y = fixed.y - ((fixed.y - view.y) * before) / view.k;
      show();
    }

    // Show a part of the drawing as large as it fits.
    function to({ x, y, width: w, height: h }) {
      const { width, height } = size();
      view.k = Math.min(Math.max(Math.min(width / w, height / h), 1), MOST);
      view.x = x + w / 2 - width / view.k / 2;
      view.y = y + h / 2 - height / view.k / 2;
      show();
    }

    const reset = () => { Object.assign(view, { k: 1, x: 0, y: 0 }); show(); };

    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
      event.preventDefault();
      by(Math.exp(-event.deltaY / 300), at(event));
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event); moved = false; });
    svg.addEventListener("pointermove", (event) => {
      const old = fingers.get(event.pointerId);
      if (!old) return;
      const others = [...fingers.values()].filter((one) => one.pointerId !== event.pointerId);
      if (others.length === 1) pinch(old, event, others[0]);
      else if (!others.length && view.k > 1) pan(old, event);
      else return;
      fingers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
    svg.addEventListener("click", (event) => { if (moved) event.stopPropagation(); moved = false; }, true); // a drag is no press
    // Two fingers are the drawing's; one scrolls the page as long as nothing is zoomed.
    svg.addEventListener("touchstart", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
    svg.addEventListener("touchmove", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });

    function pan(old, event) {
      const room = svg.getBoundingClientRect(), { width } = size(), scale = width / view.k / room.width;
      if (!moved && Math.hypot(event.clientX - old.clientX, event.clientY - old.clientY) < 4) return;
      if (!moved) svg.setPointerCapture(event.pointerId);
      moved = true;
      view.x -= (event.clientX - old.clientX) * scale;
      view.y -= (event.clientY - old.clientY) * scale;
      show();
    }

    function pinch(old, event, other) {
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      moved = true;
      by(apart(event) / Math.max(apart(old), 1), at({ clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 }));
    }

    return { by, reset, show, to, view };
  }

  // ---- pulses ----------------------------------------------------------------------------------

  const DURATION = 520; // milliseconds from a layer's tokens to its heads, and from there into the stream

  // Points of light that run along arcs and wires, layer by layer, from the tokens to the answer.
  function pulses(drawing) {
    let frame = 0;

    function stop() {
      cancelAnimationFrame(frame);
      drawing.groups.pulses.replaceChildren();
    }

    function start() {
      stop();
      if (calm()) return;
      const runs = [...arcRuns(), ...wireRuns(), streamRun()].map((run) => ({ ...run, length: run.path.getTotalLength(), dot: element("circle", { class: `bw-pulse ${run.kind}`, r: run.r, visibility: "hidden" }) }));
      drawing.groups.pulses.replaceChildren(...runs.map(({ dot }) => dot));
      const began = performance.now(), last = Math.max(...runs.map((run) => run.begin + run.time));
      const tick = (now) => {
        if (now - began > last) return stop();
        for (const run of runs) place(run, (now - began - run.begin) / run.time);
        frame = requestAnimationFrame(tick);
      };
      frame = requestAnimationFrame(tick);
    }

    function place({ path, length, dot }, share) {
      const on = share >= 0 && share <= 1, smooth = share * share * (3 - 2 * share);
      dot.setAttribute("visibility", on ? "visible" : "hidden");
      if (!on) return;
      const { x, y } = path.getPointAtLength(length * smooth);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
    }

    function arcRuns() {
      return [...drawing.groups.arcs.children].filter((arc) => +arc.dataset.size >= 0.05 && !arc.classList.contains("bw-cut"))
        .map((path) => ({ path, kind: "", begin: 2 * DURATION * path.dataset.layer, time: DURATION, r: 1.4 + 2.6 * Math.sqrt(path.dataset.size) }));
    }

    function wireRuns() {
      return [...drawing.groups.wires.querySelectorAll(".bw-wire:not(.bw-cut)")]
        .map((path) => ({ path, kind: "", begin: DURATION * (2 * parseInt(path.dataset.wire, 10) + 1), time: DURATION, r: 2.6 }));
    }

    // One along the whole stream, as long as all layers take.
    function streamRun() {
      const p = drawing.places(), L = p.base.length - 1, path = element("path", { d: `M${p.xs} ${p.base[0] + 14}V0` });
      return { path, kind: "bw-strong", begin: 0, time: DURATION * (2 * L + 1), r: 4.5 };
    }

    return { start, stop };
  }

  window.bwMachineZoom = { calm, pulses, zooming };
})();
