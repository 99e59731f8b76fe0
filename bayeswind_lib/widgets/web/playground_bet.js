// A bet before the answer. While the answer is covered, the reader's own bars stand alone in the figure, and nothing
// says what is exact or what the network answers; Reveal scores the bet in bits, as the game of the landing page does.
// A bet belongs to one question: another episode or another step is covered anew, and the bet is even again.
(function () {
  "use strict";

  const { button, dragging, element, number } = bwExplorer;
  const { FLOOR, MOVES, count, mean, moved, range, wasted } = bwTasks;
  const NEXT = { bijection: "Next pair", hmm: "Next symbol", recall: "Next question" };
  const HINT = "Drag the bars, or move them with the arrow keys: how likely is each? What the network says, and where it looks, comes after the bet.";

  // The bet of one playground: its `layer` lies over the figure of the answer, its `line` stands below.
  class Bet {
    constructor(id, host, on) {
      Object.assign(this, { host, on, question: "", mine: [], revealed: false, rounds: [] });
      this.input = element("input", { type: "checkbox", id: `${id}-bet`, "data-control": "bet", onchange: () => this.choose(this.input.checked) });
      this.columns = [];
      this.layer = element("div", { class: "bw-stakes", role: "group", "aria-label": "Your bet" });
      this.rove = bwViews.roving(this.layer, () => this.columns);
      this.go = button("Reveal", "reveal", () => this.press());
      this.told = element("p");
      this.line = element("div", { class: "bw-bet-line" }, element("label", { class: "bw-field", for: this.input.id }, this.input, " Bet first"), this.go, this.told);
      dragging(this.layer, (event) => this.take(event), (event, held) => this.drag(event, held));
    }

    get playing() { return this.on && !this.host.play.gaussian; }
    get covered() { return this.playing && !this.revealed; }
    get row() { return { p: this.mine, kind: "bw-you", name: "your bet" }; }

    // ---- what the reader does ------------------------------------------------------------------

    choose(yes) {
      this.set(yes);
      this.host.update();
      this.input.focus({ preventScroll: true });
    }

    // Switch it on, with a bet of its own also on a question that was answered, or off. The tour says every answer.
    set(yes) {
      Object.assign(this, { on: yes, question: "" });
      if (yes && !this.host.tour.field.hidden) this.host.tour.end();
    }

    // Another question is covered.
    meet() {
      const { kind, size, play, live } = this.host, question = this.playing ? JSON.stringify([kind, size, play.inputs]) : "";
      if (question === this.question) return;
      const n = play.labels.length;
      Object.assign(this, { question, revealed: false, mine: range(n).map(() => 1 / n) });
      if (this.covered) live.textContent = ""; // what was spoken last may be the answer
    }

    press() {
      const { host } = this, { canNext, seed } = host.play;
      if (this.covered) this.reveal();
      else if (canNext) host.act((play) => play.next());
      else host.fresh((seed + 1) % 10000);
    }

    reveal() {
      const { host, mine } = this, exact = host.seen.exact[host.play.questions - 1];
      this.revealed = true;
      this.floored = exact.some((p, y) => p > 0 && mine[y] < FLOOR);
      this.rounds.push({ you: wasted(exact, mine), network: host.now.divergence });
      host.update();
    }

    // ---- moving the bars -----------------------------------------------------------------------

    // A hand takes the column in which it is put down; the way to another column changes nothing.
    take(event) {
      const { left, width } = this.layer.getBoundingClientRect(), n = this.mine.length;
      const held = { y: Math.min(Math.max(Math.floor((n * (event.clientX - left)) / width), 0), n - 1), before: this.mine };
      this.columns[held.y].focus({ preventScroll: true });
      this.drag(event, held);
      return held;
    }

    drag(event, { y, before }) {
      const { bottom, height } = this.layer.getBoundingClientRect();
      this.put(before, y, (bottom - event.clientY) / height);
    }

    // Left and right go on to the roving of the group.
    key(event, y) {
      const { key } = event;
      if (!(key in MOVES) || key === "ArrowLeft" || key === "ArrowRight" || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.put(this.mine, y, this.mine[y] + MOVES[key] / 100);
    }

    put(before, y, p) {
      this.mine = moved(before, y, p);
      this.drawColumns();
      this.host.drawBet();
    }

    // ---- drawing -------------------------------------------------------------------------------

    draw() {
      const { host, playing, covered } = this;
      this.input.checked = this.on;
      this.line.hidden = Boolean(host.play.gaussian); // there the answer is a density
      this.layer.hidden = !covered;
      this.go.hidden = this.told.hidden = !playing;
      this.go.textContent = covered ? "Reveal" : host.play.canNext ? NEXT[host.kind] : "Next episode";
      this.told.className = covered ? "bw-hint" : "bw-verdict";
      this.told.textContent = covered ? HINT : this.words();
      if (covered) this.drawColumns();
    }

    drawColumns() {
      const { mine, host } = this, { labels, outcome } = host.play;
      if (this.columns.length !== mine.length) {
        this.columns = labels.map((_, y) => element("span", {
          role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100, "data-stake": y, onkeydown: (event) => this.key(event, y),
        }));
        this.layer.replaceChildren(...this.columns);
        this.rove(this.columns[0]);
      }
      this.columns.forEach((node, y) => {
        const share = Math.round(100 * mine[y]);
        node.style.setProperty("--p", mine[y]);
        for (const [name, now] of [["aria-label", `${outcome} ${labels[y]}`], ["aria-valuenow", share], ["aria-valuetext", `${share} percent`], ["data-share", `${labels[y]}: ${share}%`]]) node.setAttribute(name, now);
      });
    }

    // What the bet was worth, once it is revealed.
    words() {
      const { rounds, host } = this;
      if (!this.playing || this.covered) return "";
      const worth = (you, network) => `${number(you)} bits, the network${host.off.size ? " with parts off" : ""} ${number(network)}`;
      const floored = this.floored ? " You gave nothing to an outcome that was possible; it counts as 1 in 1,000." : "";
      const average = (who) => number(mean(rounds.map((round) => round[who])));
      const all = rounds.length > 1 ? ` Average of ${count(rounds.length, "round")}: you ${average("you")}, the network ${average("network")}.` : "";
      return `Your bet wasted ${worth(rounds.at(-1).you, host.now.divergence)}.${floored}${all}`;
    }
  }

  window.bwBet = { Bet };
})();
