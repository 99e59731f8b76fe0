// How much code the page shows. A line in its head has set what was chosen before (see bayeswind_code.py):
// "shown" is the code that teaches, "folded" none of it until asked for, "all" the bookkeeping too.
const root = document.documentElement.dataset;
const cells = () => document.querySelectorAll(".bd-article div.cell");

function showCode(much) {
  root.code = much;
  try {
    localStorage.setItem("bw-code", much);
  } catch {} // a browser that keeps nothing
  applyCode();
}

function applyCode() {
  for (const fold of document.querySelectorAll(".bd-article details.bw-code")) fold.open = root.code === "all";
  for (const cell of cells()) {
    cell.classList.remove("bw-open");
    if (root.code === "folded") offerCode(cell);
  }
}

// The small word at the margin of a cell whose code is folded by the switch alone.
function offerCode(cell) {
  const code = cell.querySelector(":scope > .cell_input");
  if (!code || cell.querySelector(":scope > .bw-unfold")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "bw-unfold";
  button.innerHTML = '<span aria-hidden="true">&lt;/&gt;</span> code';
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    button.setAttribute("aria-expanded", String(cell.classList.toggle("bw-open")));
  });
  cell.prepend(button);
}

document.addEventListener("DOMContentLoaded", () => {
  const chosen = document.getElementById("bw-code");
  if (!chosen) return;
  chosen.value = root.code || "shown";
  chosen.addEventListener("change", () => showCode(chosen.value));
  if (chosen.value !== "shown") applyCode();
});

// A link to a place that is folded away opens what it lies in.
function reveal() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const cell = place?.closest("div.cell.bw-quiet");
  cell?.classList.add("bw-asked");
  if (cell || place?.closest("details")) place.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
document.addEventListener("DOMContentLoaded", reveal);

// What scrolls sideways can be reached and scrolled with the keyboard, and shows that it goes on:
// book.css draws .bw-wide, and .bw-end once its right edge is seen. Neither may change how wide the
// content is, or the mark would come and go for ever.
const WIDE = ".bd-article table, .bd-article .bw-table, .bd-article .bw-set, .bd-article pre";

function mark(box) {
  const beyond = box.scrollWidth - box.clientWidth;
  const wide = beyond > 3 && getComputedStyle(box).overflowX !== "visible";
  box.classList.toggle("bw-wide", wide);
  box.classList.toggle("bw-end", wide && box.scrollLeft >= beyond - 2);
  if (beyond > 0 && !box.hasAttribute("tabindex")) box.setAttribute("tabindex", "0");
}
// Its size changes with the window, and when what holds it opens; at first it is told as soon as the page is laid out.
const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => mark(target)));
function watch() {
  for (const box of document.querySelectorAll(WIDE)) sizes.observe(box);
}
document.addEventListener("scroll", ({ target }) => { if (target.matches?.(WIDE)) mark(target); }, true);
window.addEventListener("load", watch);

// A table that is wider than its column is told row by row, each cell beside the name of its column. One whose names or
// cells span several columns cannot be told so, and scrolls; so do the numbers of a figure, which are a file to look into.
const ROLES = { table: "table", thead: "rowgroup", tbody: "rowgroup", tr: "row", "thead th": "columnheader", "tbody th": "rowheader", td: "cell" };
const fits = (table) => [table, table.closest(".bw-table, div.bw-ledger")].every((box) => !box || box.scrollWidth <= box.clientWidth + 1);

function named(table, heads) {
  if (table.querySelector(".bw-cell-name")) return;
  for (const [part, role] of Object.entries(ROLES)) {
    for (const node of part === "table" ? [table] : table.querySelectorAll(part)) node.setAttribute("role", role);
  }
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, i) => {
      const name = document.createElement("span"), value = document.createElement("span");
      name.className = "bw-cell-name";
      name.setAttribute("aria-hidden", "true");
      name.append(...heads[i].cloneNode(true).childNodes);
      value.append(...cell.childNodes);
      cell.append(name, value);
    });
  }
}

function stack(table) {
  const heads = table.tHead?.rows.length === 1 ? [...table.tHead.rows[0].cells] : [], rows = [...table.querySelectorAll("tbody tr")];
  if (heads.length < 2 || !table.checkVisibility() || rows.some((row) => row.cells.length !== heads.length)) return;
  table.classList.remove("bw-stacked");
  if (fits(table)) return;
  named(table, heads);
  table.classList.add("bw-stacked");
}
const OWN_WAY = ".bw-data, .bw-explorer, .bw-heat, .bw-rows, .bw-compared, .bw-symbols";
function stackAll(within = document) {
  for (const table of within.querySelectorAll(".bd-article table")) if (!table.closest(OWN_WAY)) stack(table);
}
let wide = 0; // the window's width when tables were last looked at
function refit() {
  if (wide === innerWidth) return;
  wide = innerWidth;
  stackAll();
}
document.addEventListener("DOMContentLoaded", refit);
window.addEventListener("resize", refit);
document.fonts.ready.then(() => stackAll());
document.addEventListener("toggle", ({ target }) => { if (target.open) stackAll(target); }, true);

// A formula is copied as its TeX, between dollars.
document.addEventListener("copy", (event) => {
  const chosen = getSelection();
  if (!chosen.rangeCount) return;
  const part = document.createElement("div");
  part.append(chosen.getRangeAt(0).cloneContents());
  const formulas = part.querySelectorAll(".math[data-tex]");
  if (!formulas.length) return;
  const html = part.innerHTML;
  for (const formula of formulas) {
    const sign = formula.matches("div") ? "$$" : "$";
    formula.replaceChildren(sign + formula.dataset.tex + sign);
  }
  part.style.cssText = "position: absolute; left: -9999px; white-space: pre-wrap";
  document.body.append(part); // only what stands in the page has lines
  event.clipboardData.setData("text/plain", part.innerText);
  event.clipboardData.setData("text/html", html);
  part.remove();
  event.preventDefault();
});

// Paper is white: a page that is shown in dark colours is printed in light ones. What is folded only to save
// room on a screen is printed.
const colours = root;
let shown = "", unfolded = [];
window.addEventListener("beforeprint", () => {
  shown = colours.theme;
  colours.theme = "light";
  unfolded = [...document.querySelectorAll("details.bw-in-print:not([open])")];
  for (const fold of unfolded) fold.open = true;
});
window.addEventListener("afterprint", () => {
  colours.theme = shown;
  for (const fold of unfolded) fold.open = false;
});
