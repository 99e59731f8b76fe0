// A bet before the answer: a number, a choice, or a curve to sketch. What was bet is told in bits, as the
// book tells every prediction, and kept in this browser alone. What follows and would give the answer away
// can be covered until the bet. Without this script a page has the question and a <details> with the answer.
(function () {
  "use strict";

  const { element, number: written } = window.bwExplorer;
  const SURE = { "a guess": 0.2, "fairly sure": 0.08, "very sure": 0.025 }; // spread of a bet, as a share of the range
  const REST = 0.02; // of every bet is spread evenly, so that nothing costs infinitely much

  const round = (value, digits = 2) => Number(value.toFixed(digits)).toString().replace("-", "\u2212");
  const bits = (value) => `${written(value)} bits`;
  const numbers = (text) => (text.replace(/\u2212/g, "-").match(/-?\d[\d,]*\.?\d*(?:e-?\d+)?/g) || []).map((part) => +part.replace(/,/g, ""));

  // ---- what is kept --------------------------------------------------------------------------

  const place = (box) => `bw-predict:${location.pathname.split("/").pop()}#${box.id}`;
  function kept(box) {
    try { return JSON.parse(localStorage.getItem(place(box))); } catch { return null; }
  }
  function keep(box, bet) {
    try {
      if (bet === null) localStorage.removeItem(place(box));
      else localStorage.setItem(place(box), JSON.stringify(bet));
    } catch { /* a page may be without storage: the bet lasts as long as the page */ }
  }

  // ---- the worth of a bet --------------------------------------------------------------------

  // Bits that a bet pays: a bell around `at`, on the grid of the slider, and a little everywhere.
  function price(at, spread, truth, [low, high, step]) {
    const cells = Math.round((high - low) / step) + 1, bell = [];
    for (let i = 0; i < cells; i++) bell.push(Math.exp(-0.5 * ((low + i * step - at) / (spread * (high - low))) ** 2));
    const sum = bell.reduce((a, b) => a + b, 0);
    const cell = Math.min(Math.max(Math.round((truth - low) / step), 0), cells - 1);
    return { paid: -Math.log2((1 - REST) * bell[cell] / sum + REST / cells), blind: Math.log2(cells) };
  }
  const verdict = ({ paid, blind }) =>
    `Your bet cost ${bits(paid)}; spread evenly it would have cost ${bits(blind)}.`;

  // ---- a number ------------------------------------------------------------------------------

  function number(box, truthText) {
    const [low, high, step] = box.dataset.range.trim().split(/\s+/).map(Number), unit = box.dataset.unit || "";
    const truth = numbers(truthText)[0], id = `${box.id}-slider`;
    const said = element("output", { for: id });
    const slider = element("input", { type: "range", id, min: low, max: high, step, value: (low + high) / 2, oninput: show });
    const sure = choices(box, "sure", "How sure are you?", Object.keys(SURE), 1);
    const track = element("div", { class: "bw-predict-track" }, slider);
    function show() {
      said.textContent = `${round(+slider.value, 3)} ${unit}`.trim();
      slider.setAttribute("aria-valuetext", said.textContent);
    }
    show();
    return {
      controls: [element("div", { class: "bw-predict-slider" }, element("label", { for: id }, "Your bet"), track, said), sure.field],
      bet: () => ({ at: +slider.value, sure: sure.value() }),
      restore: (bet) => { slider.value = bet.at; sure.choose(bet.sure); show(); },
      reveal: (bet) => {
        const share = Math.min(Math.max((truth - low) / (high - low), 0), 1);
        track.replaceChildren(slider, element("span", { class: "bw-predict-mark", style: `--share: ${share}`, "aria-hidden": "true" }));
        return `You said ${round(bet.at, 3)}${unit ? ` ${unit}` : ""}; it is ${truthText.trim()}. ${verdict(price(bet.at, Object.values(SURE)[bet.sure], truth, [low, high, step]))}`;
      },
      forget: () => track.replaceChildren(slider),
    };
  }

  function choices(box, name, legend, options, chosen) {
    const inputs = options.map((words, i) => element("input", { type: "radio", name: `${box.id}-${name}`, value: i, checked: i === chosen && "" }));
    const field = element("fieldset", { class: "bw-predict-choice" }, element("legend", {}, legend),
      ...inputs.map((input, i) => element("label", {}, input, ` ${options[i]}`)));
    return { field, value: () => inputs.findIndex((input) => input.checked), choose: (i) => { inputs[i].checked = true; }, inputs };
  }

  // ---- one of a few --------------------------------------------------------------------------

  function choice(box) {
    const options = box.dataset.options.split("|").map((option) => option.trim()), correct = +box.dataset.correct - 1;
    const picked = choices(box, "pick", "Your bet", options, -1);
    const sure = choices(box, "sure", "How sure are you?", Object.keys(SURE), 1);
    const shares = [0.5, 0.75, 0.95].map((share) => Math.max(share, 1.2 / options.length));
    return {
      controls: [picked.field, sure.field],
      bet: () => picked.value() < 0 ? null : { at: picked.value(), sure: sure.value() },
      restore: (bet) => { picked.choose(bet.at); sure.choose(bet.sure); },
      reveal: (bet) => {
        picked.inputs.forEach((input, i) => input.parentElement.classList.toggle("bw-predict-right", i === correct));
        const share = bet.at === correct ? shares[bet.sure] : (1 - shares[bet.sure]) / (options.length - 1);
        return `${bet.at === correct ? "Right." : `No: ${options[correct]}.`} ${verdict({ paid: -Math.log2(share), blind: Math.log2(options.length) })}`;
      },
      forget: () => picked.inputs.forEach((input) => { input.parentElement.classList.remove("bw-predict-right"); input.checked = false; }),
    };
  }

  // ---- a curve to sketch ---------------------------------------------------------------------

  function curve(box, truthText) {
    const truth = numbers(truthText), [low, high] = box.dataset.range.trim().split(/\s+/).map(Number);
    const W = Math.min(Math.max(box.clientWidth - 40, 260), 560), H = 260, left = 52, right = 12, top = 12, bottom = 40, n = truth.length, first = +(box.dataset.first || 0);
    const toX = (i) => left + (W - left - right) * i / (n - 1), toY = (v) => top + (H - top - bottom) * (high - v) / (high - low);
    let heights = new Array(n).fill((low + high) / 2), touched = false, open = true;
    const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${toX(i)} ${toY(v)}`).join("");
    const own = element("path", { class: "bw-predict-own" }), real = element("path", { class: "bw-predict-real" });
    const points = heights.map((_, i) => element("circle", {
      r: 7, cx: toX(i), class: "bw-predict-point", tabindex: 0, role: "slider", "aria-label": `${box.dataset.across || "place"} ${i + first}`,
      "aria-valuemin": low, "aria-valuemax": high, onkeydown: (event) => press(event, i),
    }));
    const ticks = [low, (low + high) / 2, high].flatMap((v) => [
      element("line", { x1: left, x2: W - right, y1: toY(v), y2: toY(v), class: "bw-predict-grid" }),
      element("text", { x: left - 12, y: toY(v) + 5, "text-anchor": "end" }, round(v, 1))]);
    const below = [0, Math.round((n - 1) / 2), n - 1].map((i) => element("text", { x: toX(i), y: H - bottom + 18, "text-anchor": "middle" }, String(i + first)));
    const names = [element("text", { x: (left + W - right) / 2, y: H - 4, "text-anchor": "middle" }, box.dataset.across || ""),
      element("text", { x: left + 4, y: top + 6, "text-anchor": "start" }, box.dataset.up || "")];
    const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Sketch a curve: drag across the picture, or move a point with the arrow keys" },
      ...ticks, ...below, ...names, own, real, ...points);
    function show() {
      own.setAttribute("d", path(heights));
      points.forEach((point, i) => {
        point.setAttribute("cy", toY(heights[i]));
        point.setAttribute("aria-valuenow", round(heights[i]));
      });
    }
    const within = (v) => Math.min(Math.max(v, low), high);
    function press(event, i) {
      const move = { ArrowUp: 1, ArrowDown: -1, PageUp: 4, PageDown: -4 }[event.key];
      if (!move || !open) return;
      event.preventDefault();
      heights[i] = within(heights[i] + move * (high - low) / 40);
      touched = true;
      show();
    }
    // The pen: all points between its last place and this one follow.
    let last = null;
    function draw(event) {
      if (last === null || !open) return;
      const frame = svg.getBoundingClientRect(), scale = W / frame.width;
      const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
      const i = Math.min(Math.max(Math.round((x - left) / (W - left - right) * (n - 1)), 0), n - 1);
      const value = within(high - (y - top) / (H - top - bottom) * (high - low));
      const from = last.i === undefined ? { i, value } : last, steps = Math.max(Math.abs(i - from.i), 1);
      for (let s = 0; s <= steps; s++) heights[Math.round(from.i + (i - from.i) * s / steps)] = from.value + (value - from.value) * s / steps;
      last = { i, value };
      touched = true;
      show();
    }
    svg.addEventListener("pointerdown", (event) => { last = {}; svg.setPointerCapture(event.pointerId); draw(event); event.preventDefault(); });
    svg.addEventListener("pointermove", draw);
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { last = null; });
    svg.addEventListener("touchstart", (event) => { if (open) event.preventDefault(); }, { passive: false });
    show();
    return {
      controls: [element("p", { class: "bw-predict-hint" }, "Draw your curve with the mouse or a finger."), svg],
      bet: () => touched ? { at: heights.slice() } : null,
      restore: (bet) => { heights = bet.at.slice(0, n); touched = true; show(); },
      reveal: (bet) => {
        open = false;
        real.setAttribute("d", path(truth));
        const gap = truth.reduce((sum, v, i) => sum + Math.abs(v - bet.at[i]), 0) / n;
        const flat = truth.reduce((sum, v) => sum + Math.abs(v - (low + high) / 2), 0) / n;
        const unit = box.dataset.unit || "";
        return `Dashed: the truth. On average your curve is ${round(gap)} ${unit} off; a flat line through the middle would be ${round(flat)} ${unit} off.`;
      },
      forget: () => { open = true; touched = false; heights = heights.fill((low + high) / 2); real.removeAttribute("d"); show(); },
    };
  }

  // ---- what follows a question, covered until the bet ----------------------------------------

  const holders = new Map(); // a block -> the questions that cover it, as functions that end it
  function following(box) {
    const found = [];
    for (let next = box; found.length < +(box.dataset.covers || 0) && (next = next.nextElementSibling);) {
      if (next.matches("section")) break;
      if (!next.matches(".bw-predict, span, script")) found.push(next);
    }
    return found;
  }
  function cover(block, holder, on) {
    const by = holders.get(block) ?? new Set();
    by[on ? "add" : "delete"](holder);
    holders.set(block, by);
    block.inert = by.size > 0;
    block.classList.toggle("bw-covered", block.inert);
  }
  function uncover(blocks) {
    for (const block of blocks) for (const show of [...holders.get(block) ?? []]) show();
  }
  // Who follows a link to what is covered sees it.
  const uncoverTarget = () => uncover([document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".bw-covered")]);

  // ---- a question ----------------------------------------------------------------------------

  function mount(box) {
    const answer = box.querySelector(".bw-predict-answer"), truth = answer.querySelector("p");
    const part = { number, choice, curve }[box.dataset.kind](box, truth.textContent);
    const result = element("p", { class: "bw-predict-result", role: "status", "aria-live": "polite" });
    const place = element("button", { type: "button", class: "bw-predict-go", onclick: go }, "Place the bet");
    const again = element("button", { type: "button", hidden: "", onclick: reset }, "Bet again");
    const covered = following(box);
    const peek = element("button", { type: "button", class: "bw-predict-peek", hidden: "", onclick: () => { uncover(covered); place.focus({ preventScroll: true }); } }, "Show without a bet");
    truth.hidden = true; // the result says it, or it is drawn
    const controls = element("div", { class: "bw-predict-controls" }, ...part.controls);
    answer.before(controls, element("div", { class: "bw-predict-buttons" }, place, again, peek), result);
    box.classList.add("bw-predict-live");

    function veil(on) {
      for (const block of covered) cover(block, show, on);
      peek.hidden = !on || !covered.length;
    }
    function show() {
      keep(box, { shown: true });
      veil(false);
    }
    function settle(bet) {
      veil(false);
      result.textContent = part.reveal(bet);
      answer.open = true;
      place.hidden = true;
      again.hidden = false;
      for (const input of controls.querySelectorAll("input")) input.disabled = true;
    }
    function go() {
      const bet = part.bet();
      if (bet === null) {
        result.textContent = box.dataset.kind === "curve" ? "Draw a curve first." : "Choose one first.";
        return;
      }
      keep(box, bet);
      settle(bet);
      again.focus({ preventScroll: true });
    }
    function reset() {
      keep(box, null);
      for (const input of controls.querySelectorAll("input")) input.disabled = false;
      part.forget();
      veil(true);
      result.textContent = "";
      answer.open = false;
      place.hidden = false;
      again.hidden = true;
      place.focus({ preventScroll: true });
    }
    const before = kept(box);
    veil(!before);
    if (before && !before.shown) {
      part.restore(before);
      settle(before);
    }
  }
  document.querySelectorAll(".bw-predict").forEach(mount);
  uncoverTarget();
  window.addEventListener("hashchange", uncoverTarget);
})();
