// The training explorer: scrub through a run, and watch a head's attention and the network's answer settle.
// The network runs in the page (network.js), from the weights that the run kept on its way; they are
// fetched when the reader comes near. Its numbers are those of bayeswind_lib and are compared with
// them by the tests.
(function () {
  "use strict";

  const {
    axes, count, element, frame, klBits: divergence, number, player, range, readout, scrubber, slider, statusLine, steps: stepsOf, text, trace, watchWidth,
  } = bwExplorer;
  const { drawBars, drawMap, episode, episodeControls, headGrid, posterior, tokensOf } = bwNetworkParts;
  const FILE = "snapshots/bijection-transformer-classroom-snapshots-seed0";

  // Mean total variation between a head's attention now and at the end, over the questions from 1 on.
  function distance(now, end) {
    const rows = range((now.length + 1) / 2).slice(1).map((k) => 2 * k);
    const apart = (t) => now[t].reduce((sum, p, s) => sum + Math.abs(p - end[t][s]), 0) / 2;
    return rows.reduce((sum, t) => sum + apart(t), 0) / rows.length;
  }

  function mount(root, id, { steps, networks, note }) {
    const V = note.config.n_outputs, last = steps.length - 1;
    const state = { episode: episode(V, 1), question: 5, layer: 0, head: 1, seed: 1, moment: last };
    let seen = []; // the pass of every snapshot on this episode

    const moment = slider(id, "moment", "Updates", [0, last], last, (i) => go(i));
    const go = (i) => { state.moment = i; update(); };
    const play = player(root, { more: () => state.moment < last, step: () => go(state.moment + 1), again: () => go(0), pace: 450 });
    const controls = episodeControls(id, state, update, run);
    const far = (l, h) => distance(seen[state.moment].patterns[l][h], seen[last].patterns[l][h]);
    const grid = headGrid(networks[last], "Choose a head; on it, how far its attention is from where it ends",
      (l, h) => number(far(l, h)), (l, h) => l === state.layer && h === state.head,
      (l, h) => { Object.assign(state, { layer: l, head: h }); update(); });
    const status = statusLine();
    const map = element("div", { class: "bw-chart" }), bars = element("div", { class: "bw-chart" });
    const course = element("div", { class: "bw-chart" });

    root.replaceChildren(
      element("div", { class: "bw-controls" }, moment.field, play, controls.question, controls.fresh),
      element("p", { class: "bw-label" }, "Choose a head; on it: distance of its attention from where it ends"), grid.field,
      status, course, bars, map,
      element("p", { class: "bw-label" }, "The episode: choose any keys and values"), controls.pairs);

    function run() {
      seen = networks.map((network) => network.run(tokensOf(state.episode)));
      update();
    }

    const cost = (i) => range(V).reduce((sum, k) =>
      sum + divergence(posterior(state.episode, k), seen[i].probabilities[k]), 0) / V;

    function update() {
      const { moment: i, question: k, layer: l, head: h } = state;
      moment.input.value = i;
      moment.input.setAttribute("aria-valuetext", `${steps[i]} updates`);
      moment.output.textContent = steps[i];
      controls.draw();
      grid.draw();
      status.textContent = `After ${steps[i]} updates the network is ${number(cost(i))} bits from the exact posterior in this ` +
        `episode (at its end ${number(cost(last))}); at key ${state.episode.keys[k]}, after ${count(k, "pair")}, ` +
        `${number(divergence(posterior(state.episode, k), seen[i].probabilities[k]))}. The attention of layer ${l}, head ${h} is ${number(far(l, h))} from where it ` +
        `ends (total variation, 0 to 1; at the start ${number(distance(seen[0].patterns[l][h], seen[last].patterns[l][h]))}).`;
      drawCourse(course);
      drawBars(bars, { network: seen[i].probabilities[k] }, posterior(state.episode, k), `answer for key ${state.episode.keys[k]}`, `${state.seed} ${k}`);
      drawMap(map, seen[i].patterns[l][h], state, `head ${l}.${h}, update ${steps[i]}`);
      Object.assign(root.dataset, { step: steps[i], kl: cost(i), distance: far(l, h) });
    }

    // Both distances over the run, each as a share of its own start.
    function drawCourse(box) {
      const { layer: l, head: h, moment: now } = state;
      const share = (values) => values.map((v) => v / values[0]);
      const rows = {
        "bw-thick": share(steps.map((_, i) => cost(i))),
        "bw-thin": share(steps.map((_, i) => distance(seen[i].patterns[l][h], seen[last].patterns[l][h]))),
      };
      const told = (kind) => rows[kind].map((v) => number(v)).join(", ");
      const f = frame(box, 210, `Over ${steps[last]} updates, as shares of the start: divergence ${told("bw-thick")}; ` +
        `distance of the attention ${told("bw-thin")}.`);
      const top = Math.max(1, ...Object.values(rows).flat()), toY = (v) => f.bottom - (v / top) * (f.bottom - f.top);
      const toX = (i) => f.left + ((i + 0.5) / steps.length) * (f.right - f.left);
      axes(f, [0, 0.5, 1], toY, "divergence (thick) and attention (dashed)", "updates");
      steps.forEach((step, i) => {
        if (i % 5 === 0 || i === last) f.svg.append(text(toX(i), f.bottom + 17, String(step)));
      });
      for (const [kind, row] of Object.entries(rows)) {
        f.svg.append(element("path", { d: trace(row.map((v, i) => [toX(i), toY(v)])), class: kind }));
        f.svg.append(element("circle", { cx: toX(now), cy: toY(row[now]), r: 5, class: "bw-now" }));
      }
      box.steps = stepsOf(toX, steps.length, now);
      readout(box, steps.map((step, i) => ({
        x: toX(i), ys: Object.values(rows).map((row) => toY(row[i])),
        lines: [`after ${count(step, "update")}`, `divergence ${number(rows["bw-thick"][i])}`, `attention ${number(rows["bw-thin"][i])}`],
      })));
    }

    scrubber(course, go);
    run();
    watchWidth(root, map, update);
  }

  bwNetworkParts.start("training", "Training explorer", FILE, mount, { distance, FILE });
})();
