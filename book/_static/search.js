// The search page: sections of the book that hold all words of the question, the best first.
(function () {
  "use strict";

  const SHOWN = 30, BEFORE = 70, EXCERPT = 210; // results; letters of an excerpt
  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "");
  const wordsIn = (text) => plain(text).match(/[\p{L}\p{N}]+/gu) ?? [];
  // "posteriors" finds "posterior", and the other way round.
  const stem = (word) => (word.length > 4 ? word.replace(/(?:ies|es|s|y)$/, "") : word);
  const made = (name, kind, words = "") => Object.assign(document.createElement(name), { className: kind, textContent: words });

  const pattern = (stems) => new RegExp(`(?<![\\p{L}\\p{N}])(?:${stems.join("|")})[\\p{L}\\p{N}]*`, "giu");
  const count = (text, pattern) => (text.match(pattern) ?? []).length;

  // How well a section answers; 0 if a word is missing from it.
  function score(title, text, stems, phrase) {
    let sum = 0;
    for (const word of stems) {
      const inTitle = count(title, pattern([word])), inText = count(text, pattern([word]));
      if (!inTitle && !inText) return 0;
      sum += 6 * Math.min(inTitle, 1) + Math.log2(1 + inText) / (1 + text.length / 8000);
    }
    if (stems.length > 1) sum += (title.includes(phrase) ? 10 : 0) + (text.includes(phrase) ? 4 : 0);
    return sum;
  }

  function find(question) {
    const stems = wordsIn(question).map(stem), phrase = wordsIn(question).join(" ");
    if (!stems.length) return { found: [], stems };
    const rated = bwSections.sections.map(([page, anchor, title, text]) => {
      const rating = score(plain(title), plain(text), stems, phrase);
      return { page, anchor, title, text, rating: rating && rating + (anchor ? 0 : 1) };
    });
    return { found: rated.filter((row) => row.rating).sort((a, b) => b.rating - a.rating), stems };
  }

  // The sentence in which most of the words stand close together.
  function excerpt(text, stems) {
    const places = [...plain(text).matchAll(pattern(stems))].map((match) => match.index);
    if (!places.length) return text.slice(0, EXCERPT) + (text.length > EXCERPT ? "\u2026" : "");
    const near = (place) => places.filter((other) => other >= place && other < place + EXCERPT - BEFORE).length;
    const best = places.reduce((one, other) => (near(other) > near(one) ? other : one));
    const sentence = text.lastIndexOf(". ", best);
    let start = best - sentence < BEFORE + 50 ? sentence + (sentence < 0 ? 1 : 2) : text.indexOf(" ", best - BEFORE) + 1;
    if (best < BEFORE) start = 0;
    const end = start + EXCERPT >= text.length ? text.length : text.lastIndexOf(" ", start + EXCERPT);
    return (start && text[start - 2] !== "." ? "\u2026" : "") + text.slice(start, end) + (end < text.length ? "\u2026" : "");
  }

  // Words with those marked that were asked for.
  function marked(name, kind, words, stems) {
    const node = made(name, kind);
    let from = 0;
    for (const match of plain(words).length === words.length ? plain(words).matchAll(pattern(stems)) : []) {
      node.append(words.slice(from, match.index), made("mark", "", words.slice(match.index, match.index + match[0].length)));
      from = match.index + match[0].length;
    }
    node.append(words.slice(from));
    return node;
  }

  function row({ page, anchor, title, text }, stems) {
    const home = bwSections.sections.find(([other]) => other === page)[2];
    const item = made("li", ""), link = marked("a", "", title, stems);
    link.href = `${bwSections.pages[page]}.html${anchor ? `#${anchor}` : ""}`;
    item.append(link);
    if (anchor) item.append(made("span", "bw-found-in", home));
    item.append(marked("p", "context", excerpt(text, stems), stems));
    return item;
  }

  function show(question) {
    const { found, stems } = find(question), box = document.getElementById("search-results");
    const many = found.length > SHOWN ? `, the best ${SHOWN} of which are shown` : "";
    const said = found.length
      ? `${found.length} section${found.length > 1 ? "s" : ""} with \u201c${question}\u201d${many}.`
      : `No section has ${stems.length > 1 ? "all of the words" : "the word"} \u201c${question}\u201d.`;
    const list = made("ul", "search");
    list.append(...found.slice(0, SHOWN).map((one) => row(one, stems)));
    box.replaceChildren(made("p", "search-summary", said), ...(found.length ? [list] : []));
  }

  const field = document.querySelector(".bd-search-container form input");
  const question = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  field.value = question;
  field.focus();
  if (question) show(question);
  // Results follow what is typed, and the address keeps it.
  field.addEventListener("input", () => {
    const asked = field.value.trim();
    if (asked) show(asked);
    else document.getElementById("search-results").replaceChildren();
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = field.value.trim();
    history.replaceState(null, "", `?q=${encodeURIComponent(asked)}`);
    if (asked) show(asked);
  });
})();
