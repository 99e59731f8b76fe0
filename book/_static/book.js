// A page opened from a folder may not fetch other pages: search then lists titles without excerpts.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// What scrolls sideways on a narrow screen can also be reached and scrolled with the keyboard.
function reachable() {
  for (const box of document.querySelectorAll(".bd-article table, .bd-article div.math, .bd-article pre")) {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    if (scrolls && !box.hasAttribute("tabindex")) box.setAttribute("tabindex", "0");
  }
}
window.addEventListener("load", () => {
  reachable();
  if (window.MathJax && MathJax.startup) MathJax.startup.promise.then(reachable);
});
window.addEventListener("resize", reachable);

// Paper is white: a page that is shown in dark colours is printed in light ones.
const colours = document.documentElement.dataset;
let shown = "";
window.addEventListener("beforeprint", () => {
  shown = colours.theme;
  colours.theme = "light";
});
window.addEventListener("afterprint", () => { colours.theme = shown; });
