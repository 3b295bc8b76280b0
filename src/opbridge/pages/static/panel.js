// What is known of one box of the picture: route and reason, ONNX nodes, the lines of code, what goes in and out.
"use strict";

class Panel {
  // of: {graph, rows: operator -> row of the plan, findings: operator number -> findings, difference: {op, told}}
  constructor(place, picture, of) {
    Object.assign(this, { place, of });
    this.picture = picture;
    this.welcome();
  }

  welcome() {
    this.place.replaceChildren(
      page.make("h3", {}, "Select a box"),
      page.make("p", { class: "soft" }, "Click a module to expand it, or an operator to see its route, its ONNX nodes and its source lines."),
      page.make("dl", {}, ...[["Drag", "moves the graph"], ["Ctrl and wheel", "zooms, as does pinching"], ["Arrow keys", "move between the boxes; right expands, left collapses"], ["Enter", "opens a box"], ["0", "fits the graph to the view"]]
        .map(([key, does]) => [page.make("dt", {}, key), page.make("dd", {}, does)])));
  }

  show(box) {
    const pieces = box.kind === "op" || box.kind === "onnx" ? this.operator(box) : this.module(box);
    this.place.replaceChildren(...pieces.filter(Boolean));
    this.place.scrollTop = 0;
    page.say(this.place.querySelector("h3").textContent);
  }

  piece(title, ...inside) {
    const all = inside.flat().filter(Boolean);
    return all.length ? page.make("section", { class: "piece" }, page.make("h4", {}, title), all) : null;
  }

  link(box, text) {
    return page.make("button", { type: "button", class: "link mono", click: () => this.picture.show(box) }, text);
  }

  operator(box) {
    const { graph } = this.of;
    const op = graph.ops[box.op];
    const row = this.of.rows.get(op.o);
    const state = op.s || "plain";
    const isRoute = state !== "plain" && state !== "error" && state !== "warning";
    const path = graph.modules[op.m];
    const module = this.picture.model.modules.get(path);
    const facts = [];
    const fact = (name, value) => { if (value) facts.push(page.make("dt", {}, name), page.make("dd", {}, value)); };
    if (row) fact("Route", row.route ? row.how || row.route : row.reason);
    if (op.h && (!row || op.h !== row.reason)) fact("Here", op.h);
    if (row?.remedy) fact(row.route ? "Better" : "Remedy", row.remedy);
    fact("Module", path ? (module && module.parent ? this.link(module, path) : page.make("code", {}, path)) : null);
    fact("Class", graph.classes[path]);
    fact("Node", op.n ? page.make("code", {}, op.n) : null);
    if (row?.schema) fact("Schema", page.make("code", {}, row.schema));
    return [
      page.make("div", {}, page.make("h3", {}, page.make("code", {}, op.o)),
        page.make("div", { class: "chips" }, isRoute || state === "error" || state === "warning" ? page.chip(state, state === "none" ? "no node required" : state) : null)),
      this.difference(box.op),
      this.findings(box.op),
      facts.length ? page.make("dl", {}, facts) : null,
      this.code(op),
      this.piece(`ONNX nodes (${(op.x || []).length})`, this.nodes(op, box)),
      this.values("Reads", op.i, (value) => this.picture.model.producer.get(value)),
      this.values("Gives", op.q, null, op),
      op.w?.length ? this.piece(`Weights (${op.w.length})`, page.make("ul", {}, op.w.slice(0, 24).map(([name, type]) =>
        page.make("li", {}, page.make("code", {}, name), " ", page.make("span", { class: "soft" }, type))))) : null,
    ];
  }

  difference(number) {
    const found = this.of.difference;
    if (!found || found.op !== number) return null;
    return page.make("div", { class: "alert" }, page.make("b", {}, found.title), "\n", found.text);
  }

  findings(number) {
    const found = this.of.findings.get(number);
    if (!found?.length) return null;
    return this.piece(`Findings (${found.length})`, page.make("ul", { class: "notes" }, found.map((each) =>
      page.make("li", { class: `of-${each.severity}` }, page.make("b", {}, each.rule), each.target ? page.make("span", { class: "soft" }, ` ${each.target}`) : null, page.make("br"), each.message,
        each.remedy ? page.make("div", { class: "soft" }, each.remedy) : null))));
  }

  nodes(op, box) {
    const { graph } = this.of;
    if (!(op.x || []).length) return page.make("p", { class: "soft" }, op.s === "missing" ? "None: it has no route." : op.p !== undefined ? "They are among the nodes of the operator that contains this body." : "None.");
    const name = (value) => (value === -1 ? "" : typeof value === "number" ? graph.values[value][0] : value);
    return page.make("ul", { class: "nodes" }, op.x.slice(0, 60).map((number) => {
      const [type, domain, , reads, gives, attributes] = graph.nodes[number];
      return page.make("li", box.kind === "onnx" && box.node === number ? { style: "border-color:var(--accent)" } : {},
        page.make("b", { class: "mono" }, domain ? `${domain}::${type}` : type), page.make("br"),
        page.make("span", { class: "soft mono" }, `(${reads.map(name).join(", ")}) → ${gives.map((each) => graph.values[each].join(" ")).join(", ")}`),
        attributes ? [page.make("br"), page.make("span", { class: "faint mono" }, attributes)] : null);
    }), op.x.length > 60 ? page.make("li", { class: "soft" }, `and ${op.x.length - 60} more`) : null);
  }

  values(title, numbers, source) {
    if (!numbers?.length) return null;
    const { graph } = this.of;
    return this.piece(title, page.make("ul", {}, numbers.slice(0, 16).map((value) => {
      const [name, type] = graph.values[value];
      const from = source?.(value);
      return page.make("li", {}, from === undefined || from === null ? page.make("code", {}, name) : this.link(this.picture.model.leaves[from], name),
        " ", page.make("span", { class: "soft" }, type));
    })));
  }

  code(op) {
    const { graph } = this.of;
    const frames = (op.f || []).map((each) => graph.frames[each]);
    if (!frames.length) return null;
    const first = Panel.excerpt(graph, frames[0]);
    const more = frames.slice(1);
    return this.piece("Code", page.make("p", { class: "soft", style: "font-size:13px;margin-bottom:6px" }, page.make("code", {}, `${frames[0][0]}:${frames[0][1]}`), frames[0][2] ? ` in ${frames[0][2]}` : ""), first,
      more.length ? page.make("details", {}, page.make("summary", {}, `Called from (${more.length})`),
        more.map((frame) => page.make("div", { style: "margin-top:8px" }, page.make("p", { class: "soft", style: "font-size:13px" }, page.make("code", {}, `${frame[0]}:${frame[1]}`), frame[2] ? ` in ${frame[2]}` : ""), Panel.excerpt(graph, frame, 2)))) : null);
  }

  // The lines around a frame, with its own marked.
  static excerpt(graph, [file, line, , text], around = 5) {
    const stretch = (graph.code[file] || []).find(([start, lines]) => start <= line && line < start + lines.length);
    const lines = stretch ? stretch[1].map((each, index) => [stretch[0] + index, each]).filter(([number]) => Math.abs(number - line) <= around) : text ? [[line, text]] : [];
    if (!lines.length) return null;
    const indent = Math.min(...lines.filter(([, each]) => each.trim()).map(([, each]) => each.match(/^\s*/)[0].length));
    return page.make("div", { class: "code", tabindex: "0", role: "region", "aria-label": `${file}, line ${line}` }, lines.map(([number, each]) =>
      page.make("div", { class: number === line ? "here" : null }, page.make("span", { class: "number", "aria-hidden": "true" }, number), page.make("span", { class: "text" }, each.slice(indent) || " "))));
  }

  module(box) {
    const { graph } = this.of;
    const counts = new Map();
    for (const number of tree.opsIn(box)) counts.set(graph.ops[number].o, (counts.get(graph.ops[number].o) || 0) + 1);
    const kinds = { module: "Module", stretch: "Calls", body: "Body" };
    return [
      page.make("div", {}, page.make("h3", {}, box.kind === "module" ? page.make("code", {}, box.path || "the model") : `${kinds[box.kind]} ${box.title}`),
        page.make("div", { class: "chips" }, Object.entries(box.counts).map(([state, count]) => page.chip(state, state === "plain" ? page.counted(count, "node") : `${count} ${state === "none" ? "without a node" : state}`)))),
      page.make("dl", {}, box.kind === "module" && graph.classes[box.path] ? [page.make("dt", {}, "Class"), page.make("dd", {}, graph.classes[box.path])] : [],
        page.make("dt", {}, "Calls"), page.make("dd", {}, box.total.toLocaleString("en"))),
      this.piece("Operators", page.make("table", { class: "plain-table" }, page.make("thead", { class: "hidden-text" }, page.make("tr", {}, page.make("th", {}, "operator"), page.make("th", {}, "calls"))), page.make("tbody", {},
        [...counts].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([name, count]) => page.make("tr", {}, page.make("td", {}, page.make("code", {}, name)), page.make("td", { class: "right" }, count)))))),
    ];
  }
}
