// The claim ledger as a grid: a square for every row, coloured and marked by its status. Filters drop squares,
// the grouping arranges them, and a square shows its row, taken from the tables of the page below,
// which are all there is without this script. On a page without the tables, a square leads to its row in the ledger.
// Squares that stand in a table (the page of architectures) stay in its rows and columns, and its rows are put in order.
(function () {
  "use strict";
  const { button, element, range } = window.bwExplorer;

  const FACTS = { kind: "whose number", status: "status", tunnel: "tunnel", architecture: "architecture", chapter: "chapter" };
  const LISTED = 40; // matches that are listed by name

  function mount(root, id) {
    const grid = root.querySelector(".bw-squares"), squares = [...grid.querySelectorAll("a.bw-square")];
    const words = JSON.parse(root.dataset.words), order = new Map(squares.map((square, i) => [square, i]));
    const table = grid.querySelector("table"), listed = table && [...table.tBodies[0].rows];
    const unit = table ? "networks" : "rows";
    const keys = ["kind", "tunnel", "architecture", "chapter"].filter((key) => key in squares[0].dataset);
    const state = { text: "", status: new Set(), by: table ? "" : "kind" };
    let chosen = null;

    // ---- what there is to choose ---------------------------------------------------------------

    const valuesOf = (square, key) => key === "chapter" ? square.dataset.chapter.split(" ").filter(Boolean) : [square.dataset[key]];
    const named = (key, value) => (words[key] && words[key][value]) || (key === "chapter" ? `chapter ${value}` : value) || "none";
    const all = (key) => [...new Set(squares.flatMap((square) => valuesOf(square, key)))];
    function sorted(key) {
      const values = all(key), known = Object.keys(words[key] || {});
      return key === "chapter" ? values.sort() : values.sort((a, b) => known.indexOf(a) - known.indexOf(b) || a.localeCompare(b));
    }
    const search = element("input", { type: "search", id: `${id}-text`, placeholder: table ? "lstm, solved" : "words of a claim, an id", oninput: () => { state.text = search.value.toLowerCase().trim(); show(); } });
    const chips = Object.keys(words.status).map((status) => {
      const chip = element("button", { type: "button", class: `bw-status bw-status-${status.replaceAll(" ", "-")}`, "aria-pressed": "false", onclick: () => {
        state.status[state.status.has(status) ? "delete" : "add"](status);
        chip.setAttribute("aria-pressed", String(state.status.has(status)));
        show();
      } });
      chip.dataset.status = status;
      return chip;
    });
    const select = (key, label, options, change) => element("label", { class: "bw-choose" }, `${label} `,
      element("select", { "data-control": key, onchange: (event) => change(event.target.value) }, ...options.map(([value, text]) => element("option", { value }, text))));
    const picks = keys.map((key) =>
      select(key, FACTS[key], [["", "all"], ...sorted(key).filter(Boolean).map((value) => [value, named(key, value)])], (value) => { state[key] = value; show(); }));
    const orders = table ? [["", "kind of network"], ["name", "name"], ...sorted("tunnel").map((value) => [value, `error: ${named("tunnel", value)}`])] : Object.entries(FACTS);
    const by = select("by", table ? "in order of" : "arranged by", orders, (value) => { state.by = value; show(); });
    const clear = button("Clear", "clear", () => {
      for (const key of ["text", ...keys]) state[key] = "";
      state.status.clear();
      search.value = "";
      for (const chip of chips) chip.setAttribute("aria-pressed", "false");
      for (const label of picks) label.querySelector("select").value = "";
      show();
    });
    const told = element("p", { class: "bw-told", role: "status", "aria-live": "polite" });
    const list = element("ul", { class: "bw-matches" }), detail = element("div", { class: "bw-detail", tabindex: -1, "aria-live": "polite" });
    const bar = element("div", { class: "bw-bar" }, element("label", { class: "bw-choose bw-search", for: search.id }, "find ", search), ...picks, by, clear);
    root.prepend(bar, element("div", { class: "bw-chips" }, ...chips, told));
    if (table) root.setAttribute("aria-label", "Architectures against tunnels");
    const beside = element("div", { class: "bw-beside" }, list, detail), board = element("div", { class: "bw-board" }, grid, beside);
    root.append(board);

    // ---- filter and arrange --------------------------------------------------------------------

    const says = (square) => `${square.getAttribute("aria-label")} ${square.hash}`.toLowerCase();
    const fits = (square, but = "") =>
      (!state.text || state.text.split(/\s+/).every((word) => says(square).includes(word))) &&
      (but === "status" || !state.status.size || state.status.has(square.dataset.status)) &&
      keys.every((key) => !state[key] || valuesOf(square, key).includes(state[key]));

    function group(left) {
      const groups = sorted(state.by).map((value) => [value, left.filter((square) => valuesOf(square, state.by)[0] === value)]).filter(([, found]) => found.length);
      grid.replaceChildren(...groups.map(([value, found]) => element("section", { class: "bw-group" },
        element("p", {}, named(state.by, value), element("small", {}, ` ${found.length}`)),
        element("div", { class: "bw-run" }, ...arranged(found)))));
    }
    // Rows and columns without a square that fits are left out; a network without a score comes last.
    const ranks = {
      "": (row) => listed.indexOf(row),
      name: (row) => row.cells[0].textContent.toLowerCase(),
    };
    const score = (row) => Number(row.querySelector(`[data-tunnel="${state.by}"]`)?.dataset.score ?? Infinity);
    function tabulate(left) {
      const rank = ranks[state.by] || score, at = (square) => square.closest("td").cellIndex, columns = new Set([0, ...left.map(at)]);
      for (const square of squares) square.hidden = !left.includes(square);
      for (const row of table.rows) [...row.cells].forEach((cell, i) => { cell.hidden = !columns.has(i); });
      for (const row of listed) row.hidden = !row.querySelector("a:not([hidden])");
      table.tBodies[0].append(...[...listed].sort((a, b) => (rank(a) > rank(b)) - (rank(a) < rank(b))));
    }
    function show() {
      const left = squares.filter((square) => fits(square));
      (table ? tabulate : group)(left);
      for (const chip of chips) {
        const count = squares.filter((square) => square.dataset.status === chip.dataset.status && fits(square, "status")).length;
        chip.textContent = `${words.status[chip.dataset.status]} ${chip.dataset.status} ${count}`;
      }
      const filtered = left.length < squares.length;
      told.textContent = filtered ? `${left.length} of ${squares.length} ${unit}` : `${squares.length} ${unit}: each square is one.`;
      list.replaceChildren(...(filtered ? left.slice(0, LISTED).map(match) : []),
        ...(filtered && left.length > LISTED ? [element("li", {}, `and ${left.length - LISTED} more`)] : []));
      reachable(left.includes(chosen) ? chosen : left[0]);
    }
    // Rows of one tunnel stand together, with a small gap before the next.
    function arranged(found) {
      const inside = [...found].sort((a, b) => a.dataset.tunnel.localeCompare(b.dataset.tunnel) || order.get(a) - order.get(b));
      return inside.flatMap((square, i) => i && square.dataset.tunnel !== inside[i - 1].dataset.tunnel && state.by !== "tunnel"
        ? [element("span", { class: "bw-gap", "aria-hidden": "true" }), square] : [square]);
    }
    const match = (square) => element("li", {}, element("a", { href: square.hash, class: `bw-dot bw-status-${square.dataset.status.replaceAll(" ", "-")}`, onclick: (event) => { event.preventDefault(); choose(square); } },
      square.getAttribute("aria-label")));

    // ---- one row -------------------------------------------------------------------------------

    // One square is a stop of the tab key; the arrows lead on.
    function reachable(square) {
      for (const other of squares) other.tabIndex = other === square ? 0 : -1;
    }
    function choose(square, record = true) {
      board.classList.toggle("bw-opening", !chosen); // nobody has asked for a row yet
      chosen?.removeAttribute("aria-current");
      chosen = square;
      square.setAttribute("aria-current", "true");
      reachable(square);
      const row = document.getElementById(square.hash.slice(1));
      if (!row) {
        const where = element("p", {}, element("a", { href: square.href }, "Its row in the ledger"));
        return detail.replaceChildren(element("p", { class: "bw-claim" }, square.getAttribute("aria-label")), where);
      }
      const head = row.querySelector("th").cloneNode(true), facts = element("dl");
      for (const cell of row.querySelectorAll("td")) {
        const value = element("dd");
        value.append(...cell.cloneNode(true).childNodes);
        facts.append(element("dt", {}, cell.dataset.label), value);
      }
      const claim = element("div", { class: "bw-claim" });
      claim.append(...head.childNodes);
      detail.replaceChildren(claim, facts);
      if (!record) return;
      history.replaceState(null, "", square.hash);
      const covered = () => square.getBoundingClientRect().bottom > beside.getBoundingClientRect().top;
      if (getComputedStyle(beside).position === "sticky" && covered()) square.scrollIntoView({ block: "center", behavior: "instant" });
    }
    grid.addEventListener("click", (event) => {
      const square = event.target.closest("a.bw-square");
      if (!square) return;
      event.preventDefault();
      choose(square);
    });
    grid.addEventListener("keydown", (event) => {
      const shown = [...grid.querySelectorAll("a.bw-square:not([hidden])")], at = shown.indexOf(event.target);
      if (at < 0) return;
      const place = shown.map((other) => other.getBoundingClientRect()), here = place[at];
      // Of the next line, down (1) or up (-1), the square that is least to the side.
      function beyond(sign) {
        const there = range(shown.length).filter((i) => sign * (place[i].top - here.top) > here.height / 2);
        const far = (i) => Math.round(sign * (place[i].top - here.top)) * 1e4 + Math.abs(place[i].left - here.left);
        return there.reduce((best, i) => (far(i) < far(best) ? i : best), there[0] ?? at);
      }
      const go = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, ArrowDown: () => beyond(1), ArrowUp: () => beyond(-1), Home: () => 0, End: () => shown.length - 1 }[event.key];
      if (!go) return;
      const to = go();
      event.preventDefault();
      const next = shown[Math.min(Math.max(to, 0), shown.length - 1)];
      choose(next);
      next.focus();
    });
    // A link to a row shows it in the grid. The browser goes to the row itself, and opens the folded table that
    // it stands in: that is undone.
    function follow() {
      const wanted = location.hash.replaceAll(".", "-"); // as some names were written once
      const square = squares.find((other) => other.hash === wanted);
      if (!square || !document.getElementById(square.hash.slice(1))) return;
      choose(square, false);
      document.getElementById(square.hash.slice(1)).closest("details")?.removeAttribute("open");
      board.scrollIntoView({ block: "start" }); // on a phone the filters alone fill a screen
    }
    document.addEventListener("click", (event) => {
      const link = event.target.closest?.('a[href^="#"]');
      const square = link && !grid.contains(link) && squares.find((other) => other.hash === link.hash);
      if (!square) return;
      event.preventDefault();
      choose(square);
      board.scrollIntoView({ block: "start" });
    });
    for (const event of ["hashchange", "load"]) window.addEventListener(event, () => requestAnimationFrame(follow));
    show();
    choose(squares.find((square) => square.dataset.opens !== undefined) || squares[0], false);
    follow();
  }
  window.bwExplorer.start("ledger", "The claim ledger as a grid", mount, {});
})();
