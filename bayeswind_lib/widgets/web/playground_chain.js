// Rows of probabilities that a reader drags: each row of a matrix is a bar of 100 cents, cut by
// borders. A border moves by pointer or by arrow keys; the row always sums to one.
(function () {
  "use strict";

  const { element } = bwExplorer;
  const { range, LEAST, STATES } = bwTasks;
  const KEYS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -100, End: 100 };

  const sum = (row) => row.reduce((a, b) => a + b, 0);

  // The rows of one matrix. name: "T" or "E"; title: words; column: what an entry leads to ("state" or
  // "symbol"). grab() is called when a border is taken; move(row, border, place, atOnce) with the
  // place in cents where it shall be, at once where a key asks for it.
  function matrixEditor(name, title, column, grab, move) {
    const rows = [];
    const body = element("div", { class: "bw-rows" });
    const field = element("div", { class: "bw-matrix", role: "group", "aria-label": title, "data-matrix": name },
      element("div", { class: "bw-label" }, title),
      bwViews.legend(range(STATES).map((j) => [`bw-piece-${j}`, `${column} ${j}`])), body);

    function rowOf(i, n) {
      const parts = range(n).map((j) => element("span", { class: `bw-piece bw-piece-${j}` }));
      const bar = element("div", { class: "bw-row-bar" }, ...parts);
      const borders = range(n - 1).map((j) => border(i, j, bar));
      bar.append(...borders);
      body.append(element("div", { class: "bw-row" }, element("span", { class: "bw-row-name" }, `state ${i}`), bar));
      return { parts, borders };
    }

    function border(i, j, bar) {
      const node = element("span", {
        class: "bw-border", role: "slider", tabindex: 0, "data-border": `${name} ${i} ${j}`, "aria-orientation": "horizontal",
        "aria-label": `${name}, state ${i}: border between ${column} ${j} and ${column} ${j + 1}`,
        onfocus: grab,
        onpointerdown: (event) => {
          grab();
          node.setPointerCapture(event.pointerId);
          node.focus();
          event.preventDefault();
        },
        onpointermove: (event) => {
          if (!node.hasPointerCapture(event.pointerId)) return;
          const box = bar.getBoundingClientRect();
          move(i, j, (100 * (event.clientX - box.left)) / box.width);
        },
        onkeydown: (event) => {
          if (!(event.key in KEYS)) return;
          event.preventDefault();
          move(i, j, +node.getAttribute("aria-valuenow") + KEYS[event.key], true);
        },
      });
      return node;
    }

    // matrix: rows of whole cents.
    function draw(matrix) {
      while (rows.length < matrix.length) rows.push(rowOf(rows.length, matrix[0].length));
      rows.forEach(({ parts, borders }, i) => {
        const row = matrix[i];
        parts.forEach((part, j) => {
          part.style.width = `${row[j]}%`;
          part.textContent = row[j];
        });
        borders.forEach((node, j) => {
          const left = sum(row.slice(0, j)), place = left + row[j];
          node.style.left = `${place}%`;
          node.setAttribute("aria-valuemin", left + LEAST);
          node.setAttribute("aria-valuemax", place + row[j + 1] - LEAST);
          node.setAttribute("aria-valuenow", place);
          node.setAttribute("aria-valuetext", `${column} ${j}: ${row[j]} percent, ${column} ${j + 1}: ${row[j + 1]} percent`);
        });
      });
    }
    return { field, draw };
  }

  window.bwChain = { matrixEditor };
})();
