// The tree of a model: modules, the operators that they call, and the ONNX nodes that these became.
//
// A box is {id, kind, title, under, parent, children, ops, state, ...}; its children stand in the order of the calls. A
// box with too many children has stretches of them in their place, so that none is laid out with hundreds of boxes.
"use strict";

const tree = { most: 48, stretch: 32 };

tree.build = (graph) => {
  const boxes = [];
  const box = (kind, title, parent, more) => {
    const made = { id: boxes.length, kind, title, under: "", parent, children: [], counts: {}, total: 0, ...more };
    boxes.push(made);
    if (parent) parent.children.push(made);
    return made;
  };
  const root = box("module", "", null, { path: "", under: graph.classes[""] || "" });
  const modules = new Map([["", root]]);
  const module = (path) => {
    if (modules.has(path)) return modules.get(path);
    const cut = path.lastIndexOf(".");
    const found = box("module", path.slice(cut + 1), module(cut < 0 ? "" : path.slice(0, cut)), { path, under: graph.classes[path] || "" });
    modules.set(path, found);
    return found;
  };
  const leaves = [];
  const bodies = new Map();
  graph.ops.forEach((op, number) => {
    let parent;
    if (op.p === undefined) parent = module(graph.modules[op.m]);
    else {
      const key = `${op.p} ${op.b || ""}`;
      if (!bodies.has(key)) bodies.set(key, box("body", op.b || "body", leaves[op.p], {}));
      parent = bodies.get(key);
    }
    leaves.push(box("op", op.o.replace(/^aten::/, ""), parent, { op: number, under: op.n, state: op.s || "plain" }));
  });
  graph.ops.forEach((op, number) => {
    const nodes = op.x || [];
    if (nodes.length > 1) nodes.forEach((node) => box("onnx", graph.nodes[node][0], leaves[number], { node, op: number, under: graph.nodes[node][2].split("/").pop() }));
  });

  // A module that calls a single operator is shown as that operator, under the module's name and class.
  for (const found of boxes) {
    found.children = found.children.map((child) => {
      let only = child;
      while (only.kind === "module" && only.children.length === 1) only = only.children[0];
      if (only === child || only.kind === "body") return child;
      only.parent = found;
      only.label = only.kind === "op" ? child.title : `${child.title}${only.title === child.title ? "" : `.${only.title}`}`;
      if (only.kind === "module") only.title = only.path.slice(found.path ? found.path.length + 1 : 0);
      return only;
    });
  }
  const order = (found) => {
    found.first = found.kind === "op" ? found.op : found.kind === "onnx" ? found.node : Math.min(...found.children.map(order), Infinity);
    if (found.kind === "op") found.children.forEach(order);
    found.children.sort((a, b) => a.first - b.first);
    return found.first;
  };
  order(root);
  const group = (found) => {
    while (found.children.length > tree.most) {
      const size = Math.max(tree.stretch, Math.ceil(found.children.length / tree.most));
      const parts = [], start = found.start || 0;
      for (let i = 0; i < found.children.length; i += size) {
        const children = found.children.slice(i, i + size);
        const made = { id: boxes.length, kind: "stretch", title: `${start + i + 1} to ${start + i + children.length}`, start: start + i, under: "", parent: found, children, counts: {}, total: 0, first: children[0].first };
        boxes.push(made);
        children.forEach((each) => { each.parent = made; });
        parts.push(made);
      }
      found.children = parts;
    }
    found.children.forEach(group);
  };
  group(root);
  const count = (found, depth) => {
    found.depth = depth;
    if (found.kind === "op") {
      found.total = 1;
      found.counts[found.state] = 1;
    }
    for (const child of found.children) {
      count(child, depth + 1);
      if (child.kind === "onnx") continue;
      found.total += child.total;
      for (const [state, number] of Object.entries(child.counts)) found.counts[state] = (found.counts[state] || 0) + number;
    }
  };
  count(root, 0);
  for (const found of boxes) {
    if (found.kind === "stretch") {
      const names = found.children.map((each) => each.label || each.title);
      found.under = `${names[0]} … ${names[names.length - 1]}`;
    }
  }

  const producer = new Map(), readers = new Map();
  graph.ops.forEach((op, number) => {
    for (const value of op.q || []) if (!producer.has(value)) producer.set(value, number);
    for (const value of op.i || []) {
      if (!readers.has(value)) readers.set(value, []);
      readers.get(value).push(number);
    }
  });
  const nodeProducer = new Map(), nodeReaders = new Map();
  graph.nodes.forEach((node, number) => {
    for (const value of node[4]) nodeProducer.set(value, number);
    for (const value of node[3]) {
      if (typeof value !== "number" || value < 0) continue;
      if (!nodeReaders.has(value)) nodeReaders.set(value, []);
      nodeReaders.get(value).push(number);
    }
  });
  // Sizes of tensors, as Python's numbers: where everything depends on the batch, they would be most of the lines.
  const isSize = (value) => graph.values[value][1] === "int";
  const numbers = (found) => {
    const own = found.kind === "op" ? graph.ops[found.op].q || [] : [];
    found.isSize = found.kind === "op" ? own.length > 0 && own.every(isSize) : found.kind !== "onnx" && found.children.length > 0 && found.children.map(numbers).every(Boolean);
    return found.isSize;
  };
  numbers(root);
  return { isSize, boxes, root, leaves, modules, producer, readers, nodeProducer, nodeReaders, graph, outputs: new Set(graph.outputs), inputs: new Set(graph.inputs) };
};

// The child of a box in which another box stands; null where it stands elsewhere.
tree.childIn = (found, inner) => {
  while (inner && inner.parent !== found) inner = inner.parent;
  return inner;
};

// The operators within a box.
tree.opsIn = (found, into = []) => {
  if (found.kind === "op") into.push(found.op);
  for (const child of found.children) if (child.kind !== "onnx") tree.opsIn(child, into);
  return into;
};

// The edges between the children of a box, and the values that come from outside and go there; sizes where asked for.
tree.links = (model, found, sizes) => {
  const edges = new Map(), ins = new Map(), outs = new Map();
  const add = (map, key, make) => { if (!map.has(key)) map.set(key, make()); return map.get(key); };
  const ofNodes = found.kind === "op" && found.children.some((each) => each.kind === "onnx");
  if (ofNodes) {
    const here = new Map(found.children.filter((each) => each.kind === "onnx").map((each) => [each.node, each]));
    for (const [number, child] of here) {
      for (const value of model.graph.nodes[number][3]) {
        if (typeof value !== "number" || value < 0) continue;
        const from = here.get(model.nodeProducer.get(value));
        if (from && from !== child) add(edges, `${from.id} ${child.id}`, () => ({ from, to: child, values: new Set() })).values.add(value);
        else if (!from) add(ins, `v${value}`, () => ({ values: new Set([value]), targets: new Set(), from: null })).targets.add(child);
      }
      for (const value of model.graph.nodes[number][4]) {
        const leaves = model.outputs.has(value) || (model.nodeReaders.get(value) || []).some((each) => !here.has(each));
        if (leaves) add(outs, `v${value}`, () => ({ values: new Set([value]), sources: new Set(), to: null })).sources.add(child);
      }
    }
    return { edges: [...edges.values()], ins: [...ins.values()], outs: [...outs.values()] };
  }
  const isAround = (leaf) => { for (let each = found; each; each = each.parent) if (each === leaf) return true; return false; };
  for (const number of tree.opsIn(found)) {
    const leaf = model.leaves[number];
    if (leaf === found || (!sizes && leaf.isSize)) continue;
    const child = tree.childIn(found, leaf);
    for (const value of model.graph.ops[number].i || []) {
      if (!sizes && model.isSize(value)) continue;
      const source = model.producer.get(value);
      const from = source === undefined ? null : model.leaves[source];
      const near = from && !isAround(from) ? tree.childIn(found, from) : null;
      if (near === child) continue;
      if (near) add(edges, `${near.id} ${child.id}`, () => ({ from: near, to: child, values: new Set() })).values.add(value);
      else if (!from || !isAround(from)) {
        const port = add(ins, from ? `o${from.id}` : `v${value}`, () => ({ values: new Set(), targets: new Set(), from }));
        port.values.add(value);
        port.targets.add(child);
      }
    }
    for (const value of model.graph.ops[number].q || []) {
      if (!sizes && model.isSize(value)) continue;
      const elsewhere = (model.readers.get(value) || []).map((each) => model.leaves[each]).filter((each) => !tree.childIn(found, each));
      if (elsewhere.length || model.outputs.has(value)) {
        const port = add(outs, `${child.id} ${value}`, () => ({ values: new Set([value]), sources: new Set([child]), to: null }));
        port.to = elsewhere[0] || null;
        port.count = elsewhere.length;
      }
    }
  }
  return { edges: [...edges.values()], ins: [...ins.values()], outs: [...outs.values()] };
};
