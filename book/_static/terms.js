// Cards on terms: a definition opens at a marked word by pointer, by keyboard focus and by tap.
// It can be dismissed (Escape), pointed at, and stays until it is left (WCAG 1.4.13). Without this
// script the words are plain links to the glossary. A classic script; `bwTerms`, which the build
// writes into each page, holds the definitions of that page's terms: anchor -> [name, HTML, unit].
// On the page of the glossary itself: the box that filters its entries.
(function () {
  "use strict";

  const OPEN_AFTER = 250, CLOSE_AFTER = 300, EDGE = 8; // milliseconds, and pixels to the window's edge

  function make(tag, attributes, ...inside) {
    const element = document.createElement(tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    element.append(...inside);
    return element;
  }

  // ---- cards -----------------------------------------------------------------------------------

  // What a card says, from the build's own file: the definition is HTML, the rest is text.
  function content(anchor, home) {
    const [name, definition, unit] = bwTerms[anchor];
    const words = make("span", { class: "bw-card-words" });
    words.innerHTML = definition;
    const parts = [make("strong", {}, name), words];
    if (unit) parts.push(make("span", { class: "bw-card-unit" }, "In " + unit + "."));
    return [...parts, make("a", { href: home }, "All notation")];
  }

  function cards(links) {
    let open = null; // { link, card }
    let timer = 0, touched = false;

    const later = (act, after) => { clearTimeout(timer); timer = setTimeout(act, after); };

    function close() {
      clearTimeout(timer);
      if (!open) return;
      open.card.remove();
      open = null;
    }

    // Below the word, or above it where there is no room; never beyond the window's edges.
    function place() {
      const box = open.link.getClientRects()[0], card = open.card;
      if (!box || box.bottom < 0 || box.top > innerHeight) { close(); return; }
      const wide = document.documentElement.clientWidth, { width, height } = card.getBoundingClientRect();
      const below = box.bottom + 4, above = box.top - height - 4;
      const fits = below + height <= innerHeight - EDGE || above < EDGE;
      card.style.left = Math.max(EDGE, Math.min(box.left, wide - width - EDGE)) + "px";
      card.style.top = (fits ? below : above) + "px";
    }

    function show(link) {
      clearTimeout(timer);
      if (open && open.link === link) return;
      close();
      const anchor = link.hash.slice(1);
      const name = "Term: " + bwTerms[anchor][0];
      const card = make("span", { class: "bw-card", role: "group", "aria-label": name }, ...content(anchor, link.href));
      card.addEventListener("pointerenter", () => clearTimeout(timer));
      card.addEventListener("pointerleave", leave);
      card.addEventListener("focusout", left);
      link.after(card); // the next stop of the Tab key is the card's link
      open = { link, card };
      place();
    }

    // The pointer may go from the word into the card; focus in either keeps it open.
    function leave(event) {
      if (event.pointerType === "touch") return;
      later(() => { if (open && !holdsFocus()) close(); }, CLOSE_AFTER);
    }

    function holdsFocus() {
      const at = document.activeElement;
      return open.card.contains(at) || (at === open.link && at.matches(":focus-visible"));
    }

    function left(event) {
      if (open && event.relatedTarget !== open.link && !open.card.contains(event.relatedTarget)) close();
    }

    for (const link of links) {
      link.addEventListener("pointerenter", (event) => {
        if (event.pointerType !== "touch") later(() => show(link), OPEN_AFTER);
      });
      link.addEventListener("pointerleave", leave);
      link.addEventListener("focus", () => { if (link.matches(":focus-visible")) show(link); });
      link.addEventListener("blur", left);
      link.addEventListener("click", (event) => {
        if (!touched) return; // a click of a mouse, or Enter, follows the link
        event.preventDefault();
        if (open && open.link === link) close(); else show(link);
      });
    }
    document.addEventListener("pointerdown", (event) => {
      touched = event.pointerType === "touch";
      if (open && !open.card.contains(event.target) && !open.link.contains(event.target)) close();
    }, true);
    document.addEventListener("keydown", (event) => {
      touched = false;
      if (event.key !== "Escape") return;
      clearTimeout(timer);
      if (!open) return;
      if (open.card.contains(document.activeElement)) open.link.focus();
      close();
    });
    for (const happening of ["scroll", "resize"]) {
      window.addEventListener(happening, () => { if (open) place(); }, { passive: true, capture: true });
    }
  }

  // Each word points at its definition, which is in the page but not drawn: a screen reader says it.
  function describe(links) {
    const all = make("div", { hidden: "" });
    for (const link of links) {
      const anchor = link.hash.slice(1), [, definition, unit] = bwTerms[anchor], id = "bw-" + anchor;
      const words = make("p", { id });
      words.innerHTML = definition;
      if (unit) words.append(" In " + unit + ".");
      all.append(words);
      link.setAttribute("aria-describedby", id);
    }
    document.body.append(all);
  }

  // ---- the filter of the glossary ----------------------------------------------------------------

  function entries() {
    const rows = [...document.querySelectorAll(".bw-symbols tbody tr")].map((row) => [row]);
    const terms = [...document.querySelectorAll(".bw-terms > dt")].map((name) => [name, name.nextElementSibling]);
    return [...rows, ...terms].map((parts) => ({
      parts,
      text: parts.map((part) => part.textContent).join(" ").toLowerCase().replace(/[\s¶#]+/g, " "),
    }));
  }

  function filter(before) {
    const all = entries();
    const box = make("input", { type: "search", id: "bw-filter", autocomplete: "off", spellcheck: "false" });
    const count = make("span", { role: "status" });
    function apply() {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const { parts, text } of all) {
        const fits = words.every((word) => text.includes(word));
        for (const part of parts) part.hidden = !fits;
        shown += fits;
      }
      count.textContent = words.length ? shown + " of " + all.length + " entries" : all.length + " entries";
    }
    box.addEventListener("input", apply);
    before.before(make("p", { class: "bw-filter" }, make("label", { for: "bw-filter" }, "Show entries with"), " ", box, " ", count));
    apply();
  }

  function start() {
    const links = [...document.querySelectorAll("a.bw-term")];
    if (links.length) { describe(links); cards(links); }
    const first = document.querySelector("#symbols");
    if (first && document.querySelector(".bw-symbols")) filter(first);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
