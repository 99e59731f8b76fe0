// What book/tools/pdf.py does inside the browser: take the article out of a built page, and make all of
// them fit the paper. A classic script; its functions are shown as bwPdf.
(function () {
  "use strict";

  // Buttons that copy or open something, links to a heading's own address, scripts, what only a
  // dark page shows, and code that the page hides behind a click (its output stays).
  const UNWANTED = "script, noscript, template, .headerlink, .copybtn, .only-dark, .toctree-wrapper, " +
    ".toggle-button, .bw-unfold, details.hide";
  const POINTS_TO_IDS = ["for", "aria-labelledby", "aria-describedby", "aria-controls", "headers"];
  const HEADINGS = "h1, h2, h3, h4, h5, h6";

  // What stays on one page where it is short: the boxes, because an empty frame would stay behind.
  const SHORT = ".bw-explorer, .cell_input, .cell_output > .output, .highlight:not(.cell_input *, .output *), " +
    "table, div.proof, div.admonition";
  const PAGE = 960; // px, the height that a page has for its text

  const nameOf = (doc) => doc.replaceAll("/", "-");
  const idIn = (doc, id) => `${nameOf(doc)}--${id}`;

  const made = (name, kind, words = "") => {
    const node = document.createElement(name);
    node.className = kind;
    node.textContent = words;
    return node;
  };

  // ---- taking a page ---------------------------------------------------------------------------

  // innerHTML holds attributes, not what a reader chose: write the one into the other.
  function keepState(article) {
    for (const input of article.querySelectorAll("input")) {
      input.toggleAttribute("checked", input.checked);
      input.setAttribute("value", input.value);
    }
    for (const select of article.querySelectorAll("select")) {
      const shown = document.createElement("span");
      shown.className = "bw-chosen";
      shown.textContent = select.selectedOptions[0]?.textContent ?? "";
      select.replaceWith(shown);
    }
    for (const canvas of article.querySelectorAll("canvas")) {
      const image = document.createElement("img");
      image.src = canvas.toDataURL();
      image.alt = canvas.getAttribute("aria-label") ?? "";
      canvas.replaceWith(image);
    }
  }

  // Lead a link to a place in this file, to the published site, or elsewhere as before. Where it
  // leads on the site is kept: what it names may have stayed out.
  function redirect(link, { documents, home, site }) {
    const url = new URL(link.getAttribute("href"), location.href);
    if (!url.href.startsWith(home)) return;
    const path = decodeURIComponent(url.pathname.slice(1)), anchor = decodeURIComponent(url.hash.slice(1));
    const doc = path.replace(/\.html$/, "");
    link.dataset.published = site + path + url.search + url.hash;
    const inside = anchor ? `#${idIn(doc, anchor)}` : `#${nameOf(doc)}`;
    link.setAttribute("href", documents.includes(doc) ? inside : link.dataset.published);
  }

  // Words that a page folds away are shown, and what is marked so. Other folded data stay out, but for a line that names them
  // where other places link to it.
  function unfold(article) {
    for (const node of article.querySelectorAll(".toggle-hidden")) node.classList.remove("toggle-hidden");
    for (const fold of [...article.querySelectorAll("details")]) {
      fold.open = true;
      if (!fold.querySelector("pre, table")) continue;
      if (fold.matches(".bw-in-print")) {
        fold.replaceWith(...[...fold.childNodes].filter((node) => node.nodeName !== "SUMMARY"));
        continue;
      }
      if (!fold.id) {
        fold.remove();
        continue;
      }
      const line = made("p", "bw-folded");
      line.id = fold.id;
      line.append(...(fold.querySelector("summary")?.childNodes ?? []));
      fold.replaceWith(line);
    }
  }

  // Every id gets the name of its page before it, so that all pages can stand in one document.
  function rename(article, doc) {
    for (const node of article.querySelectorAll("[id]")) node.id = idIn(doc, node.id);
    for (const attribute of POINTS_TO_IDS) {
      for (const node of article.querySelectorAll(`[${attribute}]`)) {
        const ids = node.getAttribute(attribute).split(/\s+/).filter(Boolean);
        node.setAttribute(attribute, ids.map((id) => idIn(doc, id)).join(" "));
      }
    }
    for (const node of article.querySelectorAll("svg *")) {
      for (const { name, value } of [...node.attributes]) {
        if (/^url\(#/.test(value)) node.setAttribute(name, value.replace(/#([^)"']+)/, (_, id) => `#${idIn(doc, id)}`));
        else if (/href$/.test(name) && value.startsWith("#")) node.setAttribute(name, `#${idIn(doc, value.slice(1))}`);
      }
    }
    for (const input of article.querySelectorAll("input[name]")) input.name = idIn(doc, input.name);
  }

  // The name of a section moves to its heading: a heading that goes to the next page takes it along.
  function anchorHeadings(article) {
    for (const heading of article.querySelectorAll(HEADINGS)) {
      const section = heading.parentElement;
      if (section.tagName !== "SECTION") continue;
      if (section.firstElementChild !== heading) {
        for (const mark of [...section.children]) {
          if (mark === heading) break;
          if (mark.tagName === "SPAN" && !mark.textContent.trim()) heading.prepend(mark);
        }
      }
      if (section.id && !heading.id) {
        heading.id = section.id;
        section.removeAttribute("id");
      }
    }
  }

  // A page number that is known only after printing: book/tools/pdf.py finds it, fillNumbers writes it.
  function pageOf(id) {
    const link = made("a", "bw-page-of");
    link.href = `#${id}`;
    link.dataset.pageOf = id;
    return link;
  }

  // A section at the chapter's end, on pages of its own.
  function atTheEnd(article, doc, name, title) {
    const box = made("section", `bw-${name}`), heading = made("h2", "", title);
    heading.id = idIn(doc, name);
    box.append(heading);
    article.querySelector("section")?.append(box);
    return box;
  }
  function whereToLook(words, id) {
    const where = made("p", "bw-where", `${words}: page `);
    where.append(pageOf(id));
    return where;
  }

  // Solutions leave the text and stand together at the chapter's end, on pages of their own.
  function collectSolutions(article, doc) {
    const solutions = [...article.querySelectorAll("div.solution")];
    if (!solutions.length) return;
    const box = atTheEnd(article, doc, "solutions", "Solutions");
    for (const solution of solutions) {
      solution.classList.remove("dropdown", "toggle", "toggle-hidden");
      const title = solution.querySelector(".admonition-title a[href]");
      const exercise = title && article.querySelector(`[id="${CSS.escape(title.getAttribute("href").slice(1))}"]`);
      if (exercise) exercise.append(whereToLook("Solution", solution.id));
      box.append(solution);
    }
  }

  // The answers to predictions, which a page has at its end for paper, on pages of their own.
  function collectAnswers(article, doc) {
    const answers = article.querySelector(".bw-predict-answers");
    if (!answers) return;
    const box = atTheEnd(article, doc, "answers", answers.firstElementChild.textContent);
    box.append(...answers.querySelectorAll(".bw-answered"));
    answers.remove();
    for (const prediction of article.querySelectorAll(".bw-predict")) {
      for (const control of prediction.querySelectorAll(".bw-predict-controls, .bw-predict-buttons, .bw-predict-result, details")) control.remove();
      prediction.querySelector(".bw-predict-later").replaceWith(whereToLook("Answer", idIn(doc, "answers")));
    }
    for (const block of article.querySelectorAll(".bw-covered")) block.inert = false;
  }

  // An explorer cannot be moved on paper: say where it can be.
  function pointToExplorers(article, address) {
    for (const explorer of article.querySelectorAll(".bw-explorer")) {
      const line = made("p", "bw-live", "Move it on the page: "), link = made("a", "", address);
      link.href = address;
      line.append(link);
      explorer.append(line);
    }
  }

  // The article of this page, ready to stand among the others: its HTML and its styles.
  function take(settings) {
    const { doc, address } = settings;
    const article = document.querySelector("article.bd-article");
    if (!article) throw new Error("the page has no article");
    keepState(article);
    for (const node of article.querySelectorAll(UNWANTED)) node.remove();
    unfold(article);
    for (const image of article.querySelectorAll("img")) {
      const frame = image.closest("a"); // a link to the picture itself
      if (frame && frame.href === image.src) frame.replaceWith(image);
      image.setAttribute("src", image.src);
      image.setAttribute("loading", "eager");
    }
    for (const link of article.querySelectorAll("a[href]")) redirect(link, settings);
    rename(article, doc);
    anchorHeadings(article);
    collectAnswers(article, doc);
    collectSolutions(article, doc);
    pointToExplorers(article, address);
    return { html: article.innerHTML, styles: styles() };
  }

  // The style sheets that this page loads, for all media or for print.
  const styles = () => [...document.querySelectorAll('link[rel~="stylesheet"]')].map((l) => [l.href, l.media]);

  // Bring every explorer into sight and wait until it has drawn, at most some seconds: what has not
  // by then is printed as it stands.
  async function wake() {
    for (const explorer of document.querySelectorAll(".bw-explorer")) {
      explorer.scrollIntoView();
      for (let i = 0; i < 60 && !drawn(explorer); i++) await new Promise((go) => setTimeout(go, 100));
    }
  }
  const drawn = (explorer) => explorer.dataset.mounted && explorer.querySelector("svg, canvas, table") &&
    !explorer.querySelector("[aria-busy=true]");

  // ---- the whole book --------------------------------------------------------------------------

  // Words of a heading, with a formula as the characters that it shows.
  const words = (heading) => heading.textContent.replace(/[\u2060-\u2064]/g, "").replace(/\s+/g, " ").trim();

  // Chapter -> its heading and those of its sections, as [id, words, level].
  function headings() {
    const found = {};
    for (const chapter of document.querySelectorAll("[data-document]")) {
      found[chapter.dataset.document] = [...chapter.querySelectorAll("h1, h2")].filter((h) => h.id)
        .map((h) => [h.id, words(h), +h.tagName[1]]);
    }
    return found;
  }

  // Reduce the type of a box until its content fits, but not below the share `least`.
  function shrink(box, content, least) {
    const size = parseFloat(getComputedStyle(box).fontSize);
    for (let share = 0.95; share >= least - 1e-9 && content() > 1; share -= 0.05) {
      box.style.fontSize = `${size * share}px`;
    }
    return content() <= 1;
  }

  // How far a table, a formula or a line of code sticks out, in px.
  const sticksOut = (inner, outer) => inner.getBoundingClientRect().right - outer.getBoundingClientRect().right;

  // Make what is too wide fit: returns what still does not, in words.
  function fit() {
    const left = [];
    const say = (node, kind) => left.push(`${kind} of ${node.closest("[data-document]")?.dataset.document}: ` +
      node.textContent.replace(/\s+/g, " ").trim().slice(0, 60));
    for (const table of document.querySelectorAll(".bd-article table")) {
      const out = () => Math.max(table.scrollWidth - table.clientWidth, sticksOut(table, table.parentElement));
      if (out() <= 1 || shrink(table, out, 0.65)) continue;
      table.classList.add("bw-squeezed");
      if (out() > 1) say(table, "a table");
    }
    for (const rows of document.querySelectorAll("div.math .bw-set")) {
      const out = () => rows.scrollWidth - rows.clientWidth;
      if (out() > 1 && !shrink(rows, out, 0.6)) say(rows, "a formula");
    }
    for (const formula of document.querySelectorAll(":is(p, li) .math > math")) {
      const block = formula.closest("p, li");
      if (formula.getBoundingClientRect().width > block.clientWidth + 1) say(formula, "a formula");
    }
    for (const output of document.querySelectorAll(".cell_output pre")) {
      output.style.whiteSpace = "pre";
      shrink(output, () => output.scrollWidth - output.clientWidth, 0.7);
      output.style.whiteSpace = "";
    }
    for (const box of document.querySelectorAll(SHORT)) {
      const room = PAGE * (box.matches(".bw-explorer") ? 0.97 : box.matches("table") ? 0.5 : 0.25);
      box.classList.toggle("bw-short", box.getBoundingClientRect().height < room);
    }
    return left;
  }

  // Everything is drawn: fonts and pictures are there, every formula is set. Says what is not.
  async function ready() {
    await document.fonts.ready;
    const images = [...document.images];
    await Promise.all(images.map((image) => image.decode().catch(() => {})));
    const problems = images.filter((i) => !i.naturalWidth).map((i) => `no picture ${i.src.slice(0, 120)}`);
    const raw = [...document.querySelectorAll(".math")].filter((formula) => !formula.querySelector("math"));
    for (const node of raw) problems.push(`a formula is not set: ${node.textContent.slice(0, 80)}`);
    return problems;
  }

  // id -> page: write the numbers where they are asked for.
  function fillNumbers(pages) {
    for (const node of document.querySelectorAll("[data-page-of]")) {
      node.textContent = pages[node.dataset.pageOf] ?? "?";
    }
  }

  // The contents, whose page numbers are still missing, and the titles at the top of pages.
  function frontMatter(contents, heads) {
    document.querySelector(".bw-contents div").innerHTML = contents;
    document.getElementById("bw-running-heads").textContent = heads;
  }

  // Links to what stayed out lead to the published page. Returns those that lead nowhere.
  function mendLinks() {
    const lost = [...document.querySelectorAll('a[href^="#"]')]
      .filter((link) => !document.getElementById(decodeURIComponent(link.getAttribute("href").slice(1))));
    for (const link of lost) if (link.dataset.published) link.href = link.dataset.published;
    return lost.map((link) => link.getAttribute("href")).filter((href) => href.startsWith("#"));
  }

  window.bwPdf = { fillNumbers, fit, frontMatter, headings, mendLinks, ready, take, wake };
})();
