// A page that compares: one row for each thing that was measured, one column for each file or target.
"use strict";

const START = performance.now();

const matrix = async () => {
  page.theme();
  const data = await page.data();
  const { columns, rows, what } = data;
  const classes = Object.fromEntries(data.states);
  const order = data.states.map(([state]) => state);
  const dtypes = [...new Set(rows.flatMap((row) => row.c.flatMap((cell) => Object.keys(cell?.d || {}))))].sort();
  const wanted = { words: "", group: "", route: "", dtype: "", state: "", differ: false };
  const stateOf = (cell) => (!cell ? "" : wanted.dtype ? cell.d?.[wanted.dtype] || "" : cell.s);
  const chip = (cell) => {
    const state = stateOf(cell);
    return state ? page.chip(classes[state] || "bad", state) : page.make("span", { class: "faint" }, "–");
  };
  const detail = document.getElementById("detail");
  const routes = ["standard", "function", "kernel", "aten", "fallthrough"].filter((each) => rows.some((row) => row.c.some((cell) => cell?.r === each)));
  const first = (row) => row.c.find(Boolean) || {};

  const open = (row) => {
    detail.hidden = false;
    detail.parentElement.classList.add("open");
    detail.replaceChildren(
      page.make("div", { class: "top" }, page.make("h3", {}, page.make("code", {}, row.n)),
        page.make("button", { type: "button", class: "icon", "aria-label": "Close", title: "Close", click: () => { detail.hidden = true; detail.parentElement.classList.remove("open"); } }, "✕")),
      ...columns.map((column, index) => piece(column, row.c[index])));
    detail.scrollTop = 0;
    page.say(row.n);
  };
  const piece = (column, cell) => page.make("section", {},
    page.make("h4", {}, `${column.name} ${data.kind === "targets" ? column.release : ""}`, chip(cell), cell?.r ? page.chip(cell.r) : null),
    !cell ? page.make("p", { class: "soft small" }, "Not measured.") : [
      cell.p ? page.make("p", { class: "soft small" }, cell.p) : null,
      cell.m && !(cell.t || []).some((each) => each.m === cell.m) ? page.make("pre", { class: "message" }, cell.m) : null,
      (cell.t || []).map((each) => page.make("div", {},
        page.make("p", { class: "small" }, page.make("b", {}, each.l), each.s ? [" ", page.chip(classes[each.s] || each.s, each.s)] : null),
        each.m ? page.make("pre", { class: "message" }, each.m) : null,
        each.o ? page.make("details", {}, page.make("summary", {}, "The exported ONNX nodes"), page.make("pre", { class: "message", tabindex: "0" }, each.o)) : null)),
    ]);

  const narrow = columns.length > 6;
  const table = page.table(document.getElementById("rows"), {
    label: `${what}s`, rows, open,
    columns: [
      { title: what[0].toUpperCase() + what.slice(1), value: (row) => row.n, cell: (row) => page.make("code", { title: row.n }, row.n), width: "minmax(160px, 1.6fr)" },
      ...(data.kind === "targets" ? [] : [{ title: data.groups[0].toUpperCase() + data.groups.slice(1), value: (row) => row.g, width: "minmax(108px, 0.8fr)" }]),
      ...(routes.length > 1 ? [{ title: "Route", value: (row) => first(row).r || "", cell: (row) => (first(row).r ? page.chip(first(row).r) : ""), width: "112px" }] : []),
      ...columns.map((column, index) => ({
        title: data.kind === "targets" ? `${column.name} ${column.release}` : column.name, width: `minmax(${narrow ? 104 : 114}px, 1fr)`,
        value: (row) => { const at = order.indexOf(stateOf(row.c[index])); return at < 0 ? null : at; }, cell: (row) => chip(row.c[index]),
      })),
      ...(columns.length === 1 ? [{ title: "Message", value: (row) => row.c[0]?.m || "", width: "minmax(200px, 2fr)" }] : []),
      ...(data.kind === "models" ? columns.map((column, index) => ({ title: columns.length > 1 ? `export, ${column.name}` : "export", right: true, width: "minmax(104px, 0.6fr)",
        value: (row) => row.c[index]?.x ?? null, cell: (row) => (row.c[index]?.x === undefined || row.c[index]?.x === null ? "" : `${row.c[index].x.toFixed(1)} s`) })) : []),
    ],
  });

  const tally = page.make("span", { class: "tally", role: "status" });
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, [row.n, row.g, ...row.c.flatMap((cell) => (cell ? [cell.m || "", cell.p || "", ...(cell.t || []).map((each) => each.m)] : []))].join(" ").toLowerCase());
    return texts.get(row);
  };
  const apply = () => {
    const words = wanted.words.toLowerCase().split(/\s+/).filter(Boolean);
    const named = (row) => words.every((word) => row.n.toLowerCase().includes(word));
    const anyNamed = words.length > 0 && rows.some(named);
    const count = table.keep((row) => {
      if (wanted.group && row.g !== wanted.group) return false;
      if (wanted.route && !row.c.some((cell) => cell?.r === wanted.route)) return false;
      if (wanted.dtype && !row.c.some((cell) => cell?.d?.[wanted.dtype])) return false;
      if (wanted.state && !row.c.some((cell, index) => (wanted.column === undefined || wanted.column === index) && stateOf(cell) === wanted.state)) return false;
      if (wanted.differ && new Set(row.c.map(stateOf).filter(Boolean)).size < 2) return false;
      return !words.length || (anyNamed ? named(row) : words.every((word) => text(row).includes(word)));
    });
    tally.textContent = count === rows.length ? page.counted(count, what) : `${count.toLocaleString("en")} of ${page.counted(rows.length, what)}`;
  };
  const choice = (name, label, options) => (options.length < 2 ? null : page.make("select", { "aria-label": label, change: (event) => { wanted[name] = event.target.value; apply(); } },
    page.make("option", { value: "" }, `${label}: all`), options.map((each) => page.make("option", { value: each }, each))));
  const groups = [...new Set(rows.map((row) => row.g))].sort();
  const states = order.filter((state) => rows.some((row) => row.c.some((cell) => cell?.s === state)));
  const where = columns.length < 2 ? null : page.make("select", { "aria-label": "In which column", change: (event) => { wanted.column = event.target.value === "" ? undefined : Number(event.target.value); apply(); } },
    page.make("option", { value: "" }, "in any column"), columns.map((column, index) => page.make("option", { value: index }, `in ${column.name}`)));
  document.getElementById("tools").replaceChildren(
    page.make("input", { type: "search", class: "grow", placeholder: `Search ${what}s and messages`, "aria-label": `Search ${what}s and messages`, input: (event) => { wanted.words = event.target.value; apply(); } }),
    ...[data.kind === "targets" ? null : choice("group", data.groups[0].toUpperCase() + data.groups.slice(1), groups), choice("route", "Route", routes), choice("dtype", "Dtype", dtypes), choice("state", "Outcome", states), where,
      columns.length < 2 ? null : page.make("button", { type: "button", "aria-pressed": "false", click: (event) => {
        wanted.differ = !wanted.differ;
        event.currentTarget.setAttribute("aria-pressed", String(wanted.differ));
        apply();
      } }, "Differences only")].filter(Boolean),
    tally);
  apply();
  document.documentElement.dataset.ready = (performance.now() - START).toFixed(0);
};

matrix();
