// The page of a profile: flame graphs that enlarge what is selected, and one table by operator, module, line or node.
"use strict";

const START = performance.now();
const HEIGHT = 26, LEAST = 0.0015, MOST = 4;
const CLASSES = { module: "plain", line: "standard", operator: "function", inserted: "warn", cpu: "bad" };
const spent = (value) => `${value.toFixed(3)} ms`;

// A flame graph. `whole` is the time that the full width stands for.
const flame = (place, root, whole, title) => {
  let chosen = root;
  const parents = new Map();
  const walk = (frame) => frame.c.forEach((each) => { parents.set(each, frame); walk(each); });
  walk(root);
  let frames = [];
  const draw = (focus) => {
    const shown = [];
    const above = [];
    for (let at = parents.get(chosen); at; at = parents.get(at)) above.unshift(at);
    const width = chosen === root ? whole : chosen.m;
    above.forEach((each, depth) => shown.push([each, depth, 0, 1, true]));
    const add = (frame, depth, left) => {
      const part = frame.m / (width || 1);
      if (part < LEAST) return;
      shown.push([frame, depth, left, part, false]);
      let at = left;
      for (const each of frame.c) {
        add(each, depth + 1, at);
        at += each.m / (width || 1);
      }
    };
    add(chosen, above.length, 0);
    const depth = Math.max(0, ...shown.map((each) => each[1])) + 1;
    place.style.height = `${depth * HEIGHT + 2}px`;
    place.replaceChildren(...shown.map(([frame, level, left, part, around]) => {
      const share = `${(100 * frame.m / (root.m || 1)).toFixed(1)} %`;
      const said = `${frame.n}: ${spent(frame.m)}, ${share}, ${page.counted(frame.q, "call")}`;
      const narrow = part < 0.02 ? " narrow" : "";
      return page.make("button", {
        type: "button", tabindex: frame === chosen ? "0" : "-1", title: said, "aria-label": said, class: `of-${CLASSES[frame.k]}${around ? " around" : ""}${narrow}`,
        style: `left:${100 * left}%;width:${100 * Math.min(part, 1 - left)}%;top:${level * HEIGHT + 1}px`,
        click: () => { chosen = frame === chosen && parents.get(frame) ? parents.get(frame) : frame; draw(true); page.say(said); },
      }, narrow ? null : frame.n);
    }));
    frames = shown.map((each) => each[0]);
    if (focus) place.children[Math.min(above.length, place.children.length - 1)]?.focus({ preventScroll: true });
  };
  // One frame is reached by Tab, the others from there by the arrows.
  place.addEventListener("keydown", (event) => {
    const at = [...place.children].indexOf(document.activeElement);
    if (at < 0 || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const around = parents.get(frames[at]);
    const beside = around ? around.c.filter((each) => frames.includes(each)) : [frames[at]];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step ? beside[beside.indexOf(frames[at]) + step]
      : event.key === "ArrowUp" ? around : frames[at].c.find((each) => frames.includes(each));
    place.children[frames.indexOf(next)]?.focus({ preventScroll: true });
  });
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", title);
  draw(false);
};

const profile = async () => {
  page.theme();
  const data = await page.data();
  const other = data.torch_flame ? data.torch_flame.m : data.flame.m;
  const whole = Math.max(data.flame.m, other);
  const same = whole <= MOST * Math.min(data.flame.m, other);
  flame(document.getElementById("flame-runtime"), data.flame, same ? whole : data.flame.m, `Flame graph of ${data.runtime}`);
  if (data.torch_flame) {
    document.getElementById("scale").textContent = same ? "at the same scale" : `at another scale: ${spent(other)} against ${spent(data.flame.m)}`;
    flame(document.getElementById("flame-torch"), data.torch_flame, same ? whole : other, "Flame graph of PyTorch");
  }
  const lost = (row) => (row.l === null ? "" : page.make("span", { class: row.l > 0 ? "slower" : "faster" }, `${row.l > 0 ? "+" : ""}${row.l.toFixed(3)}`));
  const show = (by) => {
    const rows = data.tables[by];
    const beside = data.torch && by !== "operator";
    const table = page.table(document.getElementById("rows"), {
      label: `Time by ${by}`, rows,
      columns: [
        { title: { line: "Source line", module: "Module", node: "Node", operator: "Operator" }[by], value: (row) => row.n, cell: (row) => page.make("code", { title: row.f }, row.n), width: "minmax(220px, 2fr)" },
        { title: "Calls", value: (row) => row.k, width: "minmax(72px, 0.4fr)", right: true },
        { title: "ms", value: (row) => row.m, cell: (row) => row.m.toFixed(3), width: "minmax(90px, 0.5fr)", right: true },
        { title: "Share", value: (row) => row.s, cell: (row) => `${(100 * row.s).toFixed(1)} %`, width: "minmax(84px, 0.4fr)", right: true },
        ...(beside ? [
          { title: "PyTorch", value: (row) => row.t, cell: (row) => (row.t === null ? "" : row.t.toFixed(3)), width: "minmax(100px, 0.5fr)", right: true },
          { title: "Lost", value: (row) => row.l, cell: lost, width: "minmax(90px, 0.5fr)", right: true },
        ] : []),
        ...(by === "operator" ? [] : [{ title: by === "node" ? "Operator" : "Operators", value: (row) => row.o, width: "minmax(150px, 1fr)" }]),
        ...(by === "line" ? [{ title: "Code", value: (row) => row.c, cell: (row) => page.make("code", { title: row.c }, row.c), width: "minmax(200px, 1.6fr)" }] : []),
      ],
    });
    page.filters(document.getElementById("tools"), { table, rows, what: "row", text: (row) => `${row.f} ${row.o} ${row.c}` });
    for (const each of document.querySelectorAll("#by button")) each.setAttribute("aria-pressed", String(each.dataset.by === by));
  };
  document.getElementById("by").replaceChildren(...["line", "module", "operator", "node"].map((by) =>
    page.make("button", { type: "button", "data-by": by, "aria-pressed": "false", click: () => show(by) }, `By ${by}`)));
  show(data.first);
  document.documentElement.dataset.ready = (performance.now() - START).toFixed(0);
};

profile();
