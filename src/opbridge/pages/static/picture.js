// Draws the tree of a model as boxes that unfold, with the values between them; dagre lays out one box at a time.
"use strict";

class Picture {
  // place: the canvas. told: {choose(box)}. marks: operators to mark, by number, with a word.
  // what: what an operator is counted as. gone: a signal that the picture is left.
  constructor(place, graph, { choose, marks = new Map(), what = "call", gone }) {
    this.gone = gone;
    this.what = what;
    this.place = place;
    this.graph = graph;
    this.model = tree.build(graph);
    this.told = choose;
    this.marks = marks;
    this.open = new Set([this.model.root]);
    this.chosen = null;
    this.hidden = new Set();
    this.view = { x: 0, y: 0, scale: 1 };
    this.layouts = new Map();
    this.measure = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(document.documentElement);
    this.sans = style.getPropertyValue("--sans");
    this.mono = style.getPropertyValue("--mono");
    this.sizes = false;
    this.layer = page.draw("g", {});
    this.svg = page.draw("svg", { class: "drawing", role: "tree", "aria-label": "The model: modules that expand into operators" },
      page.draw("defs", {}, this.arrow("arrow"), this.arrow("arrow-chosen")), this.layer);
    place.append(this.svg);
    this.unfoldAtFirst();
    this.listen();
    this.redraw();
    this.fit();
  }

  arrow(id) {
    return page.draw("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      page.draw("path", { d: "M0,0.6 L8,4 L0,7.4 z" }));
  }

  // Unfolds the largest modules while the boxes in sight stay few, and then those that have something marked.
  unfoldAtFirst() {
    let visible = this.model.root.children.length;
    const queue = this.model.root.children.filter((each) => each.kind === "module");
    while (queue.length) {
      queue.sort((a, b) => b.total - a.total);
      const next = queue.shift();
      if (visible + next.children.length > 22) continue;
      if (next.total < 2 || next.depth > 3) continue;
      this.open.add(next);
      visible += next.children.length;
      queue.push(...next.children.filter((each) => each.kind === "module"));
    }
    for (const number of [...this.marks.keys()].slice(0, 3)) this.unfoldTo(this.model.leaves[number]);
  }

  unfoldTo(box) {
    for (let each = box.parent; each; each = each.parent) this.open.add(each);
  }

  isOpen(box) { return this.open.has(box) && box.children.length > 0; }

  nameOf(box) {
    if (box.kind === "op") {
      const nodes = this.graph.ops[box.op].x || [];
      return this.what === "node" && nodes.length === 1 ? this.graph.nodes[nodes[0]][0] : box.title;
    }
    if (box === this.model.root) return this.graph.classes[""] || "the model";
    return box.title;
  }

  // ------------------------------------------------------------------------------------------------ sizes and layout

  width(text, font) {
    this.measure.font = font;
    return this.measure.measureText(text).width;
  }

  short(text, most) { return text.length > most ? `${text.slice(0, most - 1)}…` : text; }

  texts(box) {
    const title = this.short(this.nameOf(box), 30);
    const calls = page.counted(box.total, this.what);
    let under;
    if (box.kind === "op") {
      const op = this.graph.ops[box.op];
      const nodes = (op.x || []).map((each) => this.graph.nodes[each][0]);
      const became = nodes.length === 0 ? "" : nodes.length === 1 ? (this.what === "node" ? box.title : nodes[0]) : `${nodes.length} ONNX nodes`;
      const where = box.label ? `${box.label}${this.graph.classes[this.graph.modules[op.m]] ? ` ${this.graph.classes[this.graph.modules[op.m]]}` : ""}` : "";
      under = [where, became !== title ? became : ""].filter(Boolean).join(" · ") || (this.what === "node" ? op.n : "");
    } else if (box.kind === "module") under = calls;
    else if (box.kind === "stretch") under = `${calls}: ${box.under}`;
    else if (box.kind === "body") under = calls;
    else under = box.under;
    return [title, this.short(under || "", 40), box.kind === "module" ? this.short(box.under, 34) : ""];
  }

  size(box) {
    const [title, under, tag] = this.texts(box);
    const mono = box.kind === "op" || box.kind === "onnx";
    const signs = box.children.length ? 26 : 0;
    const width = Math.max(96, this.width(title, mono ? `600 12.5px ${this.mono}` : `620 13px ${this.sans}`) + (tag ? this.width(tag, `12px ${this.sans}`) + 8 : 0) + 34 + signs, this.width(under, `11.5px ${this.sans}`) + 34);
    return { width: Math.min(width, 320), height: under ? 46 : 34 };
  }

  // Where the children of an open box stand, relative to its corner, and how large it is.
  layout(box) {
    if (!this.isOpen(box)) return this.size(box);
    const key = `${this.sizes} ${this.key(box)}`;
    const kept = this.layouts.get(box);
    if (kept && kept.key === key) return kept;
    const { edges, ins, outs } = tree.links(this.model, box, this.sizes);
    const many = box.children.length > 60;
    const made = new dagre.graphlib.Graph({ multigraph: true });
    made.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 34, edgesep: 14, ranker: many ? "longest-path" : "tight-tree", marginx: 4, marginy: 4 });
    made.setDefaultEdgeLabel(() => ({}));
    const children = box.children.filter((child) => this.sizes || !child.isSize);
    for (const child of children) {
      const { width, height } = this.layout(child);
      made.setNode(`b${child.id}`, { width, height, box: child });
    }
    const ports = [];
    const port = (kind, each, index, ends) => {
      if (!ends.size) return;
      const text = this.portText(kind, each);
      const id = `${kind}${index}`;
      const width = this.width(text, `11.5px ${this.mono}`) + 22;
      made.setNode(id, { width: Math.min(width, 300), height: 24 });
      const isOuter = [...each.values].some((value) => (kind === "in" ? this.model.inputs : this.model.outputs).has(value) || (kind === "in" && this.graph.inputs.includes(value)));
      ports.push({ id, kind, text, isOuter: isOuter && (kind === "out" || !each.from), values: each.values, box: kind === "in" ? each.from : each.to });
      for (const end of ends) edge(kind === "in" ? id : `b${end.id}`, kind === "in" ? `b${end.id}` : id, each.values, false);
    };
    const lines = [];
    const edge = (from, to, values, labelled) => {
      const text = labelled ? this.typeText(values) : "";
      const label = text ? { width: this.width(text, `11px ${this.mono}`) + 6, height: 13, labelpos: "r", labeloffset: 5 } : {};
      made.setEdge(from, to, label, `${lines.length}`);
      lines.push({ from, to, name: `${lines.length}`, values, text });
    };
    for (const each of edges) edge(`b${each.from.id}`, `b${each.to.id}`, each.values, true);
    ins.slice(0, 12).forEach((each, index) => port("in", each, index, each.targets));
    outs.slice(0, 12).forEach((each, index) => port("out", each, index, each.sources));
    dagre.layout(made);
    const [top, side] = [box === this.model.root ? 0 : 44, 14];
    const placed = {
      key,
      width: Math.max(made.graph().width, this.size(box).width + 40) + 2 * side,
      height: made.graph().height + top + side,
      children: new Map(), lines: [], ports: [],
    };
    const shift = side + Math.max(0, (placed.width - 2 * side - made.graph().width) / 2);
    for (const child of children) {
      const at = made.node(`b${child.id}`);
      placed.children.set(child, { x: at.x - at.width / 2 + shift, y: at.y - at.height / 2 + top, width: at.width, height: at.height });
    }
    for (const each of ports) {
      const at = made.node(each.id);
      placed.ports.push({ ...each, x: at.x - at.width / 2 + shift, y: at.y - at.height / 2 + top, width: at.width, height: at.height });
    }
    for (const each of lines) {
      const at = made.edge(each.from, each.to, each.name);
      placed.lines.push({ ...each, points: at.points.map((point) => [point.x + shift, point.y + top]), at: at.x === undefined ? null : [at.x + shift, at.y + top] });
    }
    this.layouts.set(box, placed);
    return placed;
  }

  // What a layout depends on: which boxes within it are unfolded.
  key(box) {
    return box.children.map((each) => (this.isOpen(each) ? `${each.id}(${this.key(each)})` : "")).join("");
  }

  typeText(values) {
    const types = [...values].map((each) => this.graph.values[each][1]).filter(Boolean);
    if (!types.length) return "";
    if (types.length === 1) return this.short(types[0], 34);
    return new Set(types).size === 1 ? `${types.length} × ${this.short(types[0], 30)}` : `${types.length} values`;
  }

  portText(kind, each) {
    const [value] = each.values;
    const [name, type] = this.graph.values[value];
    if (kind === "in" && !each.from) return this.short(`${name}: ${type}`, 42);
    if (kind === "out" && this.model.outputs.has(value)) return this.short(`output: ${type || name}`, 42);
    const other = kind === "in" ? each.from : each.to;
    if (!other) return this.short(`${kind === "in" ? "from" : "to"} ${name}`, 42);
    const where = this.graph.modules[this.graph.ops[other.op].m];
    const more = kind === "out" && each.count > 1 ? ` and ${each.count - 1} more` : "";
    return this.short(`${kind === "in" ? "from" : "to"} ${other.title}${where ? ` in ${where}` : ""}${more}`, 42);
  }

  // --------------------------------------------------------------------------------------------------------- drawing

  redraw() {
    this.drawn = new Map();
    this.lines = [];
    const root = this.layout(this.model.root);
    this.extent = { width: root.width, height: root.height };
    this.layer.replaceChildren();
    const edges = page.draw("g", { "aria-hidden": "true" }), words = page.draw("g", { "aria-hidden": "true" });
    const boxes = page.draw("g", { role: "presentation" });
    this.drawInside(this.model.root, 0, 0, boxes, edges, words);
    // Unfolded boxes are drawn first, so that edges lie above them and below the boxes within.
    const all = [...boxes.childNodes];
    const isUnder = (each) => each.classList.contains("open");
    this.layer.append(...all.filter(isUnder), edges, ...all.filter((each) => !isUnder(each)), words);
    this.highlight();
    if (!this.current || !this.drawn.has(this.current)) this.current = this.order()[0] || null;
    this.rove();
  }

  drawInside(box, x, y, boxes, edges, words) {
    const placed = this.layout(box);
    for (const [child, at] of placed.children) this.drawBox(child, x + at.x, y + at.y, at, boxes, edges, words);
    for (const port of placed.ports) this.drawPort(port, x, y, boxes);
    for (const line of placed.lines) {
      const points = line.points.map(([a, b]) => [a + x, b + y]);
      const path = page.draw("path", { class: "edge", d: this.curve(points), "marker-end": "url(#arrow)" },
        page.draw("title", {}, [...line.values].slice(0, 8).map((each) => this.graph.values[each].join(": ")).join("\n")));
      edges.append(path);
      let text = null;
      if (line.text && line.at) {
        text = page.draw("text", { class: "edge-text", x: line.at[0] + x, y: line.at[1] + y + 4, "text-anchor": "middle" }, line.text);
        words.append(text);
      }
      this.lines.push({ line, path, text, box });
    }
  }

  curve(points) {
    if (points.length < 3) return `M${points.map((each) => each.map((at) => at.toFixed(1)).join(",")).join("L")}`;
    let path = `M${points[0][0].toFixed(1)},${points[0][1].toFixed(1)}`;
    for (let i = 1; i < points.length - 1; i++) {
      const [a, b] = points[i], [c, d] = points[i + 1];
      const [e, f] = i === points.length - 2 ? [c, d] : [(a + c) / 2, (b + d) / 2];
      path += `Q${a.toFixed(1)},${b.toFixed(1)} ${e.toFixed(1)},${f.toFixed(1)}`;
    }
    return path;
  }

  drawPort(port, x, y, boxes) {
    boxes.append(page.draw("g", { class: port.isOuter ? "port outer" : "port", transform: `translate(${(x + port.x).toFixed(1)},${(y + port.y).toFixed(1)})`, "aria-hidden": "true",
      style: port.box ? "cursor:pointer" : null, "data-port": port.box ? port.box.id : null },
    page.draw("rect", { width: port.width.toFixed(1), height: 24, rx: 12 }),
    page.draw("text", { x: (port.width / 2).toFixed(1), y: 16, "text-anchor": "middle" }, this.short(port.text, Math.floor((port.width - 14) / 6.6)))));
  }

  drawBox(box, x, y, { width, height }, boxes, edges, words) {
    const isOpen = this.isOpen(box);
    const [title, under, tag] = this.texts(box);
    const mark = box.kind === "op" ? this.marks.get(box.op) : null;
    const inside = !mark && box.kind !== "op" ? [...this.marks.keys()].filter((each) => this.model.leaves[each] && this.within(this.model.leaves[each], box)).length : 0;
    const kind = box.kind === "op" ? `op of-${box.state}` : box.kind;
    const element = page.draw("g", {
      class: `box ${kind}${isOpen ? " open" : ""}${mark ? " differs" : ""}`, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
      role: "treeitem", tabindex: "-1", "data-box": box.id, "aria-level": Math.max(1, box.depth),
      "aria-expanded": box.children.length ? String(isOpen) : null, "aria-label": this.described(box, mark),
    });
    element.append(page.draw("rect", { class: "shape", width: width.toFixed(1), height: height.toFixed(1), rx: isOpen ? 12 : 8 }));
    if (box.kind === "op" && !isOpen) element.append(page.draw("rect", { class: "stripe", width: 5, height: height.toFixed(1), rx: 2.5 }));
    const left = 15, room = Math.floor((width - 30 - (box.children.length ? 24 : 0)) / (box.kind === "op" || box.kind === "onnx" ? 7.6 : 7.2));
    element.append(page.draw("text", { class: "title", x: left, y: under ? 19 : 22 }, this.short(title, Math.max(6, room)), tag ? page.draw("tspan", { class: "tag", dx: 7 }, tag) : null));
    if (under) element.append(page.draw("text", { class: "under", x: left, y: 36 }, isOpen ? this.short(under, Math.floor((width - 30) / 6)) : under));
    if (box.children.length) {
      element.append(page.draw("g", { "data-fold": "1" }, page.draw("rect", { x: width - 32, y: 2, width: 30, height: 30, fill: "transparent" }),
        page.draw("text", { class: "sign", x: width - 21, y: 22 }, isOpen ? "−" : "+")));
    }
    if (box.kind !== "op" && box.kind !== "onnx" && !isOpen) this.drawShare(element, box, width, height);
    if (mark || (inside && !isOpen)) element.append(page.draw("text", { class: "flag", x: width + 7, y: 15 }, mark || `${inside} marked within`));
    boxes.append(element);
    this.drawn.set(box, { element, x, y, width, height });
    if (isOpen) this.drawInside(box, x, y, boxes, edges, words);
  }

  // How many calls within take which route, as a line of colours at the foot of a box.
  drawShare(element, box, width, height) {
    const all = Object.entries(box.counts).filter(([state]) => state !== "none");
    const total = all.reduce((sum, [, count]) => sum + count, 0);
    let x = 12;
    for (const [state, count] of all) {
      const part = ((width - 24) * count) / total;
      element.append(page.draw("rect", { class: `share of-${state}`, x: x.toFixed(1), y: height - 4, width: Math.max(2, part).toFixed(1), height: 3, fill: "var(--state)" }));
      x += part;
    }
  }

  within(box, outer) {
    while (box && box !== outer) box = box.parent;
    return box === outer;
  }

  described(box, mark) {
    const [title, under, tag] = this.texts(box);
    const kinds = { op: "operator", onnx: "ONNX node", module: "module", stretch: "calls", body: "body" };
    const state = box.kind === "op" && box.state !== "plain" ? `, ${box.state === "none" ? "no node required" : box.state}` : "";
    return `${kinds[box.kind]} ${title}${tag ? ` ${tag}` : ""}${under ? `, ${under}` : ""}${state}${mark ? `, ${mark}` : ""}`;
  }

  highlight() {
    for (const [box, { element }] of this.drawn) {
      element.classList.toggle("chosen", box === this.chosen);
      element.setAttribute("aria-selected", String(box === this.chosen));
      element.classList.toggle("dimmed", box.kind === "op" && this.hidden.has(box.state));
    }
    const id = this.chosen ? `b${this.chosen.id}` : "";
    for (const { line, path, text } of this.lines) {
      const has = Boolean(id) && (line.from === id || line.to === id);
      path.classList.toggle("chosen", has);
      path.setAttribute("marker-end", has ? "url(#arrow-chosen)" : "url(#arrow)");
      if (text) text.classList.toggle("chosen", has);
    }
  }

  // ---------------------------------------------------------------------------------------------------- what one does

  // Folds or unfolds a box, which stays where it is on the screen.
  toggle(box, to = !this.isOpen(box)) {
    if (!box.children.length || box === this.model.root) return;
    const before = this.drawn.get(box);
    if (to) {
      this.open.add(box);
      // What has a single box in it unfolds with it.
      for (let only = box; only.children.length === 1 && only.children[0].children.length; only = only.children[0]) this.open.add(only.children[0]);
    } else this.open.delete(box);
    this.redraw();
    const after = this.drawn.get(box);
    if (before && after) {
      this.view.x += (before.x + before.width / 2 - after.x - after.width / 2) * this.view.scale;
      this.view.y += (before.y - after.y) * this.view.scale;
      this.place_();
    }
    page.say(`${this.nameOf(box)} ${to ? "unfolded" : "folded"}`);
  }

  choose(box, { center = false, focus = false } = {}) {
    this.chosen = box;
    this.current = box;
    this.highlight();
    this.rove();
    if (center) this.center(box);
    if (focus) this.drawn.get(box)?.element.focus({ preventScroll: true });
    this.told(box);
  }

  show(box) {
    this.unfoldTo(box);
    if (box.isSize) this.sizes = true;
    this.redraw();
    this.choose(box, { center: true });
  }

  foldAll() {
    this.open = new Set([this.model.root]);
    this.redraw();
    this.fit();
  }

  // Unfolds one level more, as far as that stays a picture.
  unfoldMore() {
    const folded = [...this.drawn.keys()].filter((each) => !this.isOpen(each) && each.children.length && each.kind !== "op");
    let count = this.drawn.size;
    for (const each of folded.sort((a, b) => a.depth - b.depth)) {
      if (count + each.children.length > 320) break;
      this.open.add(each);
      count += each.children.length;
    }
    this.redraw();
    this.fit();
  }

  showSizes(shown) {
    this.sizes = shown;
    this.redraw();
  }

  keep(hidden) {
    this.hidden = hidden;
    this.highlight();
  }

  order() { return [...this.drawn.keys()].sort((a, b) => a.first - b.first || a.depth - b.depth); }

  rove() {
    for (const [box, { element }] of this.drawn) element.setAttribute("tabindex", box === this.current ? "0" : "-1");
  }

  focus(box) {
    if (!box || !this.drawn.has(box)) return;
    this.current = box;
    this.rove();
    this.drawn.get(box).element.focus({ preventScroll: true });
    this.reveal(box);
  }

  // ------------------------------------------------------------------------------------------------- moving the paper

  place_() {
    this.layer.setAttribute("transform", `translate(${this.view.x.toFixed(2)},${this.view.y.toFixed(2)}) scale(${this.view.scale.toFixed(4)})`);
  }

  // Shows all of it, as far as it can then be read.
  fit(least = 0.8) {
    const { clientWidth: width, clientHeight: height } = this.place;
    const all = Math.min((width - 40) / this.extent.width, (height - 40) / this.extent.height);
    const scale = Math.min(1.1, Math.max(least, all));
    this.view.scale = scale;
    this.view.x = Math.max((width - this.extent.width * scale) / 2, this.extent.width * scale > width ? this.headX(width, scale) : 20);
    this.view.y = Math.max((height - this.extent.height * scale) / 2, 20);
    this.place_();
    const marked = [...this.marks.keys()].map((each) => this.model.leaves[each]).find((each) => this.drawn.has(each));
    if (marked) this.center(marked);
  }

  // Where a picture that is wider than the canvas begins: with the first box in the middle.
  headX(width, scale) {
    const first = this.order()[0];
    const at = first && this.drawn.get(first);
    return at ? width / 2 - (at.x + at.width / 2) * scale : 20;
  }

  center(box) {
    const at = this.drawn.get(box);
    if (!at) return;
    const { clientWidth: width, clientHeight: height } = this.place;
    if (this.view.scale < 0.7) this.view.scale = 0.9;
    this.view.x = width / 2 - (at.x + Math.min(at.width, width) / 2) * this.view.scale;
    this.view.y = height / 2 - (at.y + Math.min(at.height, height - 80) / 2) * this.view.scale;
    // No more bare ground than there has to be.
    const within = (at, length, room) => (length > room ? Math.min(20, Math.max(room - length - 20, at)) : (room - length) / 2);
    this.view.x = within(this.view.x, this.extent.width * this.view.scale, width);
    this.view.y = within(this.view.y, this.extent.height * this.view.scale, height);
    this.place_();
  }

  // Moves the paper as little as shows a box.
  reveal(box) {
    const at = this.drawn.get(box);
    const { clientWidth: width, clientHeight: height } = this.place;
    const [left, top] = [at.x * this.view.scale + this.view.x, at.y * this.view.scale + this.view.y];
    const [right, low] = [left + Math.min(at.width * this.view.scale, width - 60), top + Math.min(at.height, 60) * this.view.scale];
    if (left < 20) this.view.x += 20 - left;
    else if (right > width - 20) this.view.x -= right - width + 20;
    if (top < 20) this.view.y += 20 - top;
    else if (low > height - 20) this.view.y -= low - height + 20;
    this.place_();
  }

  zoom(factor, x = this.place.clientWidth / 2, y = this.place.clientHeight / 2) {
    const scale = Math.min(2.5, Math.max(0.06, this.view.scale * factor));
    this.view.x = x - ((x - this.view.x) * scale) / this.view.scale;
    this.view.y = y - ((y - this.view.y) * scale) / this.view.scale;
    this.view.scale = scale;
    this.place_();
  }

  listen() {
    const boxOf = (target) => {
      const element = target.closest?.("[data-box]");
      return element ? this.model.boxes[Number(element.dataset.box)] : null;
    };
    this.svg.addEventListener("click", (event) => {
      if (this.moved) return;
      const port = event.target.closest("[data-port]");
      if (port) return this.show(this.model.boxes[Number(port.dataset.port)]);
      const box = boxOf(event.target);
      if (!box) return;
      const folds = event.target.closest("[data-fold]");
      if (folds || (box.children.length && !this.isOpen(box) && box.kind !== "op")) this.toggle(box);
      this.choose(box, { focus: true });
    });
    this.svg.addEventListener("dblclick", (event) => {
      const box = boxOf(event.target);
      if (box && box.kind === "op") this.toggle(box);
    });
    const pointers = new Map();
    this.place.addEventListener("pointerdown", (event) => {
      if (event.target.closest("button, a")) return;
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.moved = false;
    });
    window.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      if (!this.moved && Math.hypot(dx, dy) < 4) return;
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const was = Math.hypot(before[0] - other[0], before[1] - other[1]), is = Math.hypot(event.clientX - other[0], event.clientY - other[1]);
        const corner = this.place.getBoundingClientRect();
        this.zoom(is / (was || 1), (event.clientX + other[0]) / 2 - corner.left, (event.clientY + other[1]) / 2 - corner.top);
      } else {
        this.view.x += dx;
        this.view.y += dy;
        this.place_();
      }
      this.moved = true;
      this.place.classList.add("drags");
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
    }, { signal: this.gone });
    for (const name of ["pointerup", "pointercancel"]) {
      window.addEventListener(name, (event) => { pointers.delete(event.pointerId); this.place.classList.remove("drags"); }, { signal: this.gone });
    }
    this.place.addEventListener("wheel", (event) => {
      const isWithin = this.place.contains(document.activeElement) || this.place.closest(".whole");
      if (!event.ctrlKey && !event.metaKey && !isWithin) return;
      event.preventDefault();
      const corner = this.place.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * 0.003), event.clientX - corner.left, event.clientY - corner.top);
      else {
        this.view.x -= event.deltaX;
        this.view.y -= event.deltaY;
        this.place_();
      }
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => {
      const box = boxOf(event.target);
      if (!box) return;
      const order = this.order(), at = order.indexOf(box);
      const does = {
        ArrowDown: () => this.focus(order[at + 1]),
        ArrowUp: () => this.focus(order[at - 1]),
        Home: () => this.focus(order[0]),
        End: () => this.focus(order[order.length - 1]),
        ArrowRight: () => { if (!box.children.length) return; if (this.isOpen(box)) this.focus(box.children.find((each) => this.drawn.has(each))); else { this.toggle(box, true); this.focus(box); } },
        ArrowLeft: () => { if (this.isOpen(box)) { this.toggle(box, false); this.focus(box); } else if (box.parent !== this.model.root) this.focus(box.parent); },
        Enter: () => { if (box.kind !== "op" && box.children.length) this.toggle(box); this.choose(box, { focus: true }); },
        " ": () => this.choose(box, { focus: true }),
        "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), "0": () => this.fit(),
      }[event.key];
      if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      does();
    });
    let size = "";
    new ResizeObserver(() => {
      const now = `${this.place.clientWidth} ${this.place.clientHeight}`;
      if (size && now !== size && this.place.clientWidth) this.fit();
      size = now;
    }).observe(this.place);
  }
}
