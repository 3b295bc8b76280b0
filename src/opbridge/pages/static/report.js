// The report of one model: puts its data into the places of the page.
"use strict";

const START = performance.now();

// data: the document. gone: a signal that the view is left, as a page may have several.
const report = async (data, gone) => {
  const graph = data.graph;
  const rows = new Map((data.plan?.operators || []).map((row) => [row.operator, row]));
  const found = graph ? marked(data, graph) : null;
  let picture = null, panel = null;
  const place = document.getElementById("canvas");
  if (graph && place && typeof dagre !== "undefined") {
    picture = new Picture(place, graph, { choose: (box) => panel?.show(box), marks: found.marks, what: data.plan ? "call" : "node", gone });
    document.getElementById("frame").style.height = `${Math.max(460, Math.min(820, 0.86 * innerHeight, 1.1 * picture.extent.height + 60))}px`;
    picture.fit(); // into the height that it has now
    panel = new Panel(document.getElementById("panel"), picture, { graph, rows, findings: found.findings, difference: found.difference });
    const first = found.difference ? found.difference.op : [...found.marks.keys()][0];
    if (first !== undefined) picture.show(picture.model.leaves[first]);
    tools(picture, graph, gone);
  }
  const show = (number) => {
    if (!picture) return;
    document.getElementById("picture").scrollIntoView({ block: "start" });
    picture.show(picture.model.leaves[number]);
  };
  if (data.plan) operators(data, graph, show);
  if (graph) calls(graph, data, show);
  if (data.findings) findings(data, found, show);
  data.verifications.forEach((each, index) => {
    const errors = document.getElementById(`errors-${index}`);
    if (errors) plots.errors(errors, each);
    const spread = document.getElementById(`spread-${index}`);
    if (spread) plots.spread(spread, each);
  });
  const jump = document.getElementById("show-difference");
  if (jump) {
    if (found?.difference && picture) jump.addEventListener("click", () => show(found.difference.op));
    else jump.hidden = true;
  }
  document.documentElement.dataset.ready = (performance.now() - START).toFixed(0);
};

// What is marked in the picture: the first operator that differs, those that are missing, and nodes with findings.
const marked = (data, graph) => {
  const marks = new Map(), byNode = new Map(), findings = new Map();
  graph.ops.forEach((op, number) => {
    byNode.set(op.n, number);
    if (op.s === "missing") marks.set(number, "no route");
    for (const each of op.x || []) {
      const [, , name, , gives] = graph.nodes[each];
      if (name && !byNode.has(name)) byNode.set(name, number);
      for (const value of gives) if (!byNode.has(graph.values[value][0])) byNode.set(graph.values[value][0], number);
    }
  });
  for (const each of data.findings?.findings || []) {
    const number = byNode.get(each.node);
    if (number === undefined) continue;
    if (!findings.has(number)) findings.set(number, []);
    findings.get(number).push(each);
    if (each.severity === "error" || !marks.has(number)) marks.set(number, each.rule);
  }
  let difference = null;
  const first = data.verification?.first_difference;
  if (first) {
    const named = (first.onnx_node.match(/'(.*)'/) || [])[1];
    const op = byNode.get(first.node.split(":")[0]) ?? byNode.get(named);
    if (op !== undefined) {
      const what = first.is_beyond ? "The first operator that differs" : "The operator with the largest difference";
      difference = { op, title: what, text: `Given the same inputs, ${first.comparison.outside} of ${first.comparison.elements} elements differ; absolute ${page.error(first.comparison.absolute)}, relative ${page.error(first.comparison.relative)}.` };
      marks.clear();
      marks.set(op, first.is_beyond ? "differs first" : "differs most");
    }
  }
  return { marks, findings, difference, byNode };
};

const tools = (picture, graph, gone) => {
  const button = (id, does) => document.getElementById(id).addEventListener("click", does);
  button("zoom-in", () => picture.zoom(1.3));
  button("zoom-out", () => picture.zoom(0.77));
  button("zoom-fit", () => picture.fit(0.05));
  button("fold", () => picture.foldAll());
  button("unfold", () => picture.unfoldMore());
  const whole = document.getElementById("whole");
  const frame = document.getElementById("picture");
  whole.addEventListener("click", () => {
    const is = frame.classList.toggle("whole");
    whole.setAttribute("aria-pressed", String(is));
    document.body.style.overflow = is ? "hidden" : "";
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && frame.classList.contains("whole")) whole.click(); }, { signal: gone });
  const states = [...new Set(graph.ops.map((op) => op.s || "plain"))];
  const order = ["standard", "function", "kernel", "aten", "fallthrough", "missing", "error", "warning", "none"];
  const hidden = new Set();
  if (states.length > 1) {
    document.getElementById("legend").replaceChildren(...order.filter((each) => states.includes(each)).map((state) =>
      page.make("button", { type: "button", class: `chip of-${state}`, "aria-pressed": "true", title: "Dims these calls", click: (event) => {
        const has = hidden.delete(state);
        if (!has) hidden.add(state);
        event.currentTarget.setAttribute("aria-pressed", String(has));
        picture.keep(hidden);
      } }, `${state === "none" ? "no node required" : state} ${graph.ops.filter((op) => (op.s || "plain") === state).length}`)));
  }
  const sizes = document.getElementById("sizes"); // also set by the picture, where a size is searched for
  sizes.hidden = !graph.values.some(([, type]) => type === "int");
  sizes.addEventListener("click", () => {
    picture.showSizes(!picture.sizes);
    sizes.setAttribute("aria-pressed", String(picture.sizes));
  });
  finder(picture, graph, gone);
};

// The search over operators, modules, ONNX nodes and lines; results are the options of a list box.
const finder = (picture, graph, gone) => {
  const input = document.getElementById("find"), list = document.getElementById("found");
  const texts = graph.ops.map((op) => [op.o, op.n, graph.modules[op.m], (op.x || []).map((each) => `${graph.nodes[each][0]} ${graph.nodes[each][2]}`).join(" "), (op.f || []).slice(0, 1).map((each) => graph.frames[each].slice(0, 2).join(":")).join(" ")].join(" ").toLowerCase());
  let hits = [], at = -1;
  const mark = (index) => {
    at = index;
    [...list.children].forEach((each, i) => each.setAttribute("aria-selected", String(i === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", at >= 0 ? `hit-${at}` : "");
  };
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const go = (index) => {
    picture.show(picture.model.leaves[hits[index]]);
    close();
  };
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return close();
    hits = [];
    for (let i = 0; i < texts.length && hits.length < 60; i++) if (words.every((word) => texts[i].includes(word))) hits.push(i);
    list.replaceChildren(...(hits.length ? hits.map((number, index) => {
      const op = graph.ops[number];
      return page.make("button", { type: "button", role: "option", id: `hit-${index}`, tabindex: "-1", "aria-selected": "false", click: () => go(index) },
        page.make("code", {}, op.o), " ", page.make("span", { class: "soft" }, [graph.modules[op.m], op.n].filter(Boolean).join(" · ")));
    }) : [page.make("p", { class: "soft", style: "padding:6px 10px" }, "No matches.")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(hits.length ? 0 : -1);
  };
  input.addEventListener("input", search);
  input.addEventListener("focus", () => { if (input.value) search(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); mark(Math.min(at + 1, hits.length - 1)); }
    else if (event.key === "ArrowUp") { event.preventDefault(); mark(Math.max(at - 1, 0)); }
    else if (event.key === "Enter" && at >= 0) go(at);
    else if (event.key === "Escape") close();
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".finder")) close(); }, { signal: gone });
};

const became = (graph, op) => {
  const counts = new Map();
  for (const each of op.x || []) counts.set(graph.nodes[each][0], (counts.get(graph.nodes[each][0]) || 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ");
};

const operators = (data, graph, show) => {
  const first = new Map(), nodes = new Map();
  graph?.ops.forEach((op, number) => {
    if (!first.has(op.o)) first.set(op.o, number);
    if (!nodes.has(op.o)) nodes.set(op.o, new Set());
    for (const each of op.x || []) nodes.get(op.o).add(graph.nodes[each][0]);
  });
  const rows = data.plan.operators;
  const table = page.table(document.getElementById("operators-table"), {
    label: "Operators of the model", rows,
    open: graph ? (row) => { if (first.has(row.operator)) show(first.get(row.operator)); } : null,
    columns: [
      { title: "Operator", value: (row) => row.operator, cell: (row) => page.make("code", { title: row.operator }, row.operator), width: "minmax(200px, 1.3fr)" },
      { title: "Calls", value: (row) => row.count, width: "78px", right: true },
      { title: "Route", value: (row) => row.route || "missing", cell: (row) => page.chip(row.route || "missing"), width: "118px" },
      { title: "How", value: (row) => row.how || `${row.reason} ${row.remedy}`, width: "minmax(220px, 2fr)" },
      { title: "ONNX operators", value: (row) => [...(nodes.get(row.operator) || [])].join(", "), width: "minmax(150px, 1.3fr)" },
      { title: "First line", value: (row) => row.sources[0] || "", width: "minmax(170px, 1.2fr)" },
    ],
  });
  page.filters(document.getElementById("operators-tools"), {
    table, rows, what: "operator", text: (row) => [row.operator, row.how, row.reason, ...row.sources, ...(nodes.get(row.operator) || [])].join(" "),
    groups: [{ name: "route", of: (row) => row.route || "missing", order: ["standard", "function", "kernel", "aten", "fallthrough", "missing"] }],
  });
};

const calls = (graph, data, show) => {
  const place = document.getElementById("calls-table");
  if (!place) return;
  const rows = graph.ops.map((op, number) => ({ op, number, state: op.s || "plain", became: became(graph, op) }));
  const type = (row) => (row.op.q || []).map((each) => graph.values[each][1]).join("; ");
  const line = (row) => (row.op.f?.length ? graph.frames[row.op.f[0]].slice(0, 2).join(":") : "");
  const plain = rows.every((row) => row.state === "plain");
  const table = page.table(place, {
    label: data.plan ? "Every call of the model" : "Every node of the model", rows, open: (row) => show(row.number),
    columns: [
      { title: "#", value: (row) => row.number + 1, width: "70px", right: true },
      { title: data.plan ? "Operator" : "Node", value: (row) => row.op.o, cell: (row) => page.make("code", { title: row.op.o }, row.op.o), width: "minmax(180px, 1.2fr)" },
      ...(plain ? [] : [{ title: data.plan ? "Route" : "State", value: (row) => row.state, cell: (row) => page.chip(row.state, row.state === "none" ? "no node" : row.state), width: "118px" }]),
      { title: "Module", value: (row) => graph.modules[row.op.m], width: "minmax(150px, 1.2fr)" },
      { title: "Gives", value: type, width: "minmax(180px, 1.2fr)" },
      { title: "ONNX nodes", value: (row) => row.became, width: "minmax(150px, 1.1fr)" },
      { title: "Line", value: line, width: "minmax(170px, 1.2fr)" },
    ],
  });
  page.filters(document.getElementById("calls-tools"), {
    table, rows, what: data.plan ? "call" : "node", text: (row) => [row.op.o, row.op.n, graph.modules[row.op.m], row.became, type(row), line(row)].join(" "),
    groups: plain ? [] : [{ name: "route", of: (row) => (row.state === "none" ? "no node" : row.state), order: ["standard", "function", "kernel", "aten", "fallthrough", "missing", "error", "warning", "plain", "no node"] }],
  });
};

const findings = (data, found, show) => {
  const place = document.getElementById("findings-table");
  if (!place) return;
  const rows = data.findings.findings;
  const detail = document.getElementById("finding");
  const table = page.table(place, {
    label: "Findings", rows,
    open: (row) => {
      const number = found?.byNode.get(row.node);
      detail.hidden = false;
      detail.replaceChildren(page.make("h3", {}, row.rule, " ", page.chip(row.severity)), page.make("p", {}, row.message),
        row.remedy ? page.make("p", {}, page.make("b", {}, "What to do: "), row.remedy) : null,
        page.make("p", { class: "soft" }, [row.target, row.source, row.place, row.module, row.node].filter(Boolean).join(" · ")),
        ...(number === undefined ? [] : [page.make("p", {}, page.make("button", { type: "button", click: () => show(number) }, "Show it in the graph"))]));
    },
    columns: [
      { title: "Severity", value: (row) => row.severity, cell: (row) => page.chip(row.severity), width: "104px" },
      { title: "Rule", value: (row) => row.rule, width: "minmax(150px, 0.8fr)" },
      { title: "Operator", value: (row) => row.operator, cell: (row) => page.make("code", {}, row.operator), width: "130px" },
      { title: "Finding", value: (row) => row.message, width: "minmax(280px, 2.4fr)" },
      { title: "Target", value: (row) => row.target, width: "minmax(110px, 0.6fr)" },
      { title: "Place", value: (row) => row.place || row.node, width: "minmax(150px, 1fr)" },
    ],
  });
  page.filters(document.getElementById("findings-tools"), {
    table, rows, what: "finding", text: (row) => Object.values(row).join(" "),
    groups: [{ name: "severity", of: (row) => row.severity, order: ["error", "warning"] }, { name: "rule", of: (row) => row.rule }, { name: "target", of: (row) => row.target || "any" }],
  });
};
