// Explorers and the playground in a running notebook: the last part of the module that
// widgets/notebook.py puts together for anywidget. Before it stand VERSION and SCRIPTS: by name,
// functions that run what a page would load. No page of the book loads this file.
//
// Weights come from the kernel: a message {kind: "weights", file, request}, answered by the same
// message with the file's bytes as its buffer, or with a problem in words. A reader's own network
// belongs to one widget, and only that widget is asked for it.

const PATIENCE = 60000; // milliseconds until a kernel that says nothing counts as gone
let requests = 0;

// Run each script once a page, however many widgets a notebook shows; again where a kernel
// brings other scripts than the page has.
function start() {
  if (window.bwNotebook?.version !== VERSION) window.bwNotebook = { version: VERSION, models: [], ran: new Set() };
  const { ran } = window.bwNotebook;
  for (const [name, run] of Object.entries(SCRIPTS)) {
    if (ran.has(name)) continue;
    ran.add(name);
    run();
    if (name === "network.js") window.bwNetwork.provider = (file) => weights(file);
  }
}

// The bytes of a network, from the widget that was drawn last unless one is named: its kernel runs.
function weights(file, model = window.bwNotebook.models.at(-1)) {
  if (!model) return Promise.reject(new Error(`${file}: no kernel to ask. Run its cell again.`));
  const request = `${Date.now()}-${++requests}`;
  return new Promise((resolve, reject) => {
    const finish = (act, value) => {
      clearTimeout(timer);
      model.off("msg:custom", hear);
      act(value);
    };
    const hear = (message, buffers) => {
      if (message.kind !== "weights" || message.request !== request) return;
      if (message.problem) finish(reject, new Error(message.problem));
      else finish(resolve, bytesOf(buffers[0]));
    };
    const silent = `${file}: the kernel did not answer. Start it, and run the cell again.`;
    const timer = setTimeout(() => finish(reject, new Error(silent)), PATIENCE);
    model.on("msg:custom", hear);
    model.send({ kind: "weights", file, request });
  });
}

// A buffer as front ends hand it over: a DataView, an ArrayBuffer, or an array of bytes.
function bytesOf(buffer) {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

// Whether the notebook is dark: every front end has its own sign of it, light letters are common to all.
function isDark(el) {
  const [red, green, blue] = getComputedStyle(el).color.match(/[\d.]+/g).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 128;
}

// What only this widget shows: a network's answers as one more predictor, or a network that the reader made.
function ownOf(model, mount) {
  const { label, table, says, file } = model.get("network");
  const own = { predictors: table ? [mount.tablePredictor("network", label, table, says)] : [] };
  return file ? { ...own, network: () => weights(file, model).then(window.bwNetwork.of) } : own;
}

function render({ model, el }) {
  start();
  const root = document.createElement("div"), name = model.get("name");
  root.className = "bw-explorer";
  Object.assign(root.dataset, { explorer: name, ...model.get("data") });
  root.innerHTML = model.get("poster");
  el.append(root);

  const colour = () => el.classList.toggle("bw-dark", isDark(el.parentElement || document.body));
  const watch = new MutationObserver(colour);
  for (const node of [document.documentElement, document.body]) watch.observe(node, { attributes: true });
  requestAnimationFrame(colour); // now it has a place in the page, and a colour

  window.bwNotebook.models.push(model);
  const mount = window[`bw${name[0].toUpperCase()}${name.slice(1)}`];
  mount.mountOn(root, ownOf(model, mount));
  return () => {
    watch.disconnect();
    const { models } = window.bwNotebook;
    if (models.includes(model)) models.splice(models.indexOf(model), 1);
  };
}

export default { render };
