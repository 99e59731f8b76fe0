"""A page that shows widgets as the front end of a notebook does; the kernel is this process."""

from __future__ import annotations

import base64
import contextlib

from bayeswind_lib.widgets import notebook

# A cell for each widget, with a model that keeps nothing: `ask` answers as the kernel does.
FRONT_END = """async cells => {
  document.body.innerHTML = '<main>' + '<div class="cell"></div>'.repeat(cells.length) + '</main>';
  window.sent = [];
  window.leave = [];
  for (const [i, el] of document.querySelectorAll('.cell').entries()) {
    const {_esm, ...state} = cells[i], heard = new Set();
    const url = URL.createObjectURL(new Blob([_esm], {type: 'text/javascript'}));
    const {default: widget} = await import(url);
    const model = {
      get: name => state[name], on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f),
      send: async message => {
        sent.push(message.file);
        const [answer, code] = await ask(message, i);
        const bytes = Uint8Array.from(atob(code), c => c.charCodeAt(0));
        heard.forEach(f => f(answer, code ? [new DataView(bytes.buffer)] : []));
      },
    };
    leave.push(widget.render({model, el}));
  }
}"""
STATE = ("_esm", "name", "data", "network", "poster")


def kernel(message: dict, widget=None) -> tuple[dict, str]:
    """What a kernel answers to a widget, with the bytes as text."""
    answer, buffers = notebook.answer_to(message, getattr(widget, "weights", None))
    return answer, "".join(base64.b64encode(buffer).decode() for buffer in buffers)


@contextlib.contextmanager
def front_end(browser, widgets, ask=kernel):
    """A page on which a notebook shows some widgets; any error on it fails the test."""
    context, errors = browser.new_context(offline=True), []
    page = context.new_page()
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.expose_function("ask", lambda message, cell: ask(message, widgets[cell]))
    for style in sorted({widget._css for widget in widgets}):
        page.add_style_tag(content=style)
    page.evaluate(FRONT_END, [{name: getattr(widget, name) for name in STATE} for widget in widgets])
    yield page
    context.close()
    assert not errors, errors
