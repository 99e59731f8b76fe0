// A page opened from a folder may not fetch other pages: search then lists titles without excerpts.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// An excerpt under a search result says a short formula in its letters and a long one as dots: not in TeX.
function readable(formula) {
  const letters = (formula.dataset.tex ?? "").trim();
  return /^[\w\s=+,.|<>()-]+$/.test(letters) ? letters : "\u2026";
}
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const formula of page.querySelectorAll(".math")) formula.textContent = readable(formula);
    return textOf(page.documentElement.outerHTML, anchor);
  };
});

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
// Its size changes with the window, and when what holds it opens.
const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => mark(target)));
function watch() {
  for (const box of document.querySelectorAll(WIDE)) {
    sizes.observe(box);
    mark(box);
  }
}
document.addEventListener("scroll", ({ target }) => { if (target.matches?.(WIDE)) mark(target); }, true);
window.addEventListener("load", watch);

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

// While an explorer is to be seen, no button lies over it.
const operated = new Set();
const views = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) operated[isIntersecting ? "add" : "delete"](target);
  document.documentElement.classList.toggle("bw-operating", operated.size > 0);
});
window.addEventListener("load", () => {
  for (const explorer of document.querySelectorAll(".bw-explorer")) views.observe(explorer);
});

// Paper is white: a page that is shown in dark colours is printed in light ones. What is folded only to save
// room on a screen is printed.
const colours = document.documentElement.dataset;
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
