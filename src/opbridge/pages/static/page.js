// What every page has: its data, elements, the switch between light and dark, and tables of any length.
"use strict";

const page = {};

// A document that the page holds, by its name: JSON, deflated, in base64.
page.data = async (name = "data") => {
  const text = atob(document.getElementById(name).textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
};

// An element. `more` are attributes; those that are functions are listeners, and null ones are left out.
page.make = (name, more, ...inside) => page.fill(document.createElement(name), more, inside);
page.draw = (name, more, ...inside) => page.fill(document.createElementNS("http://www.w3.org/2000/svg", name), more, inside);
page.fill = (element, more, inside) => {
  for (const [key, value] of Object.entries(more || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...inside.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
};

page.counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
page.chip = (state, text) => page.make("span", { class: `chip of-${state.replace(/ /g, "-")}` }, text ?? state);
page.error = (value) => (typeof value !== "number" ? String(value) : value === 0 ? "0" : value.toExponential(1));
page.say = (text) => { document.getElementById("said").textContent = text; };

page.theme = () => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const stored = (value) => {
    try { // a page that is opened as a file, or within a notebook, may have no storage
      return value === undefined ? localStorage.getItem("opbridge-theme") : localStorage.setItem("opbridge-theme", value);
    } catch { return null; }
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  const kept = stored();
  if (kept) root.dataset.theme = kept;
  show();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
    show();
  });
};

// A table that holds only the rows in sight. columns: {title, value(row), cell(row)?, width, right?}; open(row)?.
// It scrolls sideways where there is less room than the columns need, which their widths say first.
page.table = (place, { columns, rows, open, label }) => {
  const height = 38;
  const least = columns.reduce((sum, each) => sum + Number(each.width.match(/(\d+)px/)[1]), 0);
  const template = columns.map((each) => each.width).join(" ");
  const body = page.make("div", { class: "body", role: "rowgroup" });
  const heads = columns.map((each, index) =>
    page.make("div", { role: "columnheader", class: each.right ? "right" : null, "aria-sort": "none" },
      page.make("button", { type: "button", click: () => sort(index) }, each.title, page.make("span", { "aria-hidden": "true" }))));
  const head = page.make("div", { class: "head", role: "row" }, heads);
  const nothing = page.make("div", { class: "nothing", hidden: true }, "No entries.");
  const box = page.make("div", { class: "rows", role: "table", "aria-label": label, tabindex: "0",
    style: `--columns:${template};--least:${least}px` }, page.make("div", { role: "rowgroup" }, head), body, nothing);
  place.replaceChildren(box);
  let shown = rows, sorted = -1, down = false, chosen = null, current = 0, drawn = "";

  const sort = (index) => {
    down = sorted === index ? !down : Boolean(columns[index].right);
    sorted = index;
    heads.forEach((each, i) => {
      each.setAttribute("aria-sort", i === index ? (down ? "descending" : "ascending") : "none");
      each.querySelector("span").textContent = i === index ? (down ? "▼" : "▲") : "";
    });
    arrange();
  };
  const arrange = () => {
    if (sorted >= 0) {
      const value = columns[sorted].value;
      const key = new Map(shown.map((row) => [row, value(row)]));
      const missing = (each) => each === null || each === undefined || each === "";
      shown = [...shown].sort((a, b) => {
        const [x, y] = [key.get(a), key.get(b)];
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
        return down ? -order : order;
      });
    }
    body.style.height = `${shown.length * height}px`;
    box.setAttribute("aria-rowcount", shown.length + 1);
    nothing.hidden = shown.length > 0;
    drawn = "";
    show();
  };
  const show = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / height) - 6);
    const last = Math.min(shown.length, Math.ceil((box.scrollTop + (box.clientHeight || 600)) / height) + 6);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const focused = body.contains(document.activeElement);
    body.replaceChildren(...shown.slice(first, last).map((row, offset) => line(row, first + offset)));
    if (focused) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
  };
  const line = (row, index) => {
    const cells = columns.map((each) => {
      const content = each.cell ? each.cell(row) : each.value(row);
      const title = typeof content === "string" || typeof content === "number" ? content : null;
      return page.make("div", { role: "cell", class: each.right ? "right" : null, title }, content ?? "");
    });
    return page.make("div", { class: open ? "row opens" : "row", role: "row", "aria-rowindex": index + 2, style: `top:${index * height}px`,
      "data-index": index, tabindex: open ? (index === current ? "0" : "-1") : null, "aria-selected": open ? String(row === chosen) : null,
      click: open ? () => choose(index) : null, focus: () => { current = index; } }, cells);
  };
  const choose = (index) => {
    chosen = shown[index];
    current = index;
    drawn = "";
    show();
    open(chosen);
  };
  const move = (to) => {
    current = Math.max(0, Math.min(shown.length - 1, to));
    const top = current * height, low = top + height * 2 - box.clientHeight;
    if (box.scrollTop > top) box.scrollTop = top;
    else if (box.scrollTop < low) box.scrollTop = low;
    drawn = "";
    show();
    body.querySelector(`[data-index="${current}"]`)?.focus({ preventScroll: true });
  };
  box.addEventListener("scroll", show, { passive: true });
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };
    if (!open || event.target.tagName === "BUTTON" || !shown.length) return;
    if (event.key in steps) {
      event.preventDefault();
      move(event.target === box ? current : current + steps[event.key]);
    } else if ((event.key === "Enter" || event.key === " ") && event.target !== box) {
      event.preventDefault();
      choose(Number(event.target.dataset.index));
    }
  });
  new ResizeObserver(() => { drawn = ""; show(); }).observe(box);
  arrange();
  return {
    keep: (accepts) => { shown = rows.filter(accepts); box.scrollTop = 0; current = 0; arrange(); return shown.length; },
    sort,
  };
};

// A search field and chips that switch groups off, above a table. groups: {name, of(row), order?}, one row of chips each.
page.filters = (place, { table, rows, text, groups = [], what }) => {
  const tally = page.make("span", { class: "tally", role: "status" });
  const words = page.make("input", { type: "search", class: "grow", placeholder: `Search ${what}s`, "aria-label": `Search ${what}s` });
  const off = groups.map(() => new Set());
  const texts = new Map();
  const apply = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const count = table.keep((row) => {
      if (groups.some((group, i) => off[i].has(group.of(row)))) return false;
      if (!wanted.length) return true;
      if (!texts.has(row)) texts.set(row, text(row).toLowerCase());
      return wanted.every((each) => texts.get(row).includes(each));
    });
    tally.textContent = count === rows.length ? page.counted(count, what) : `${count.toLocaleString("en")} of ${page.counted(rows.length, what)}`;
  };
  const chips = groups.map((group, i) => {
    const counts = new Map();
    for (const row of rows) counts.set(group.of(row), (counts.get(group.of(row)) || 0) + 1);
    const names = [...counts.keys()].sort((a, b) => (group.order ? group.order.indexOf(a) - group.order.indexOf(b) : String(a).localeCompare(String(b))));
    if (names.length < 2) return [];
    if (names.length > 8) {
      const select = page.make("select", { "aria-label": group.name, change: () => {
        off[i] = new Set(select.value === "" ? [] : names.filter((each) => String(each) !== select.value));
        apply();
      } }, page.make("option", { value: "" }, `${group.name}: all`), names.map((each) => page.make("option", { value: each }, `${each} (${counts.get(each)})`)));
      return [select];
    }
    return names.map((each) => page.make("button", { type: "button", class: `chip of-${String(each).replace(/ /g, "-")}`, "aria-pressed": "true",
      title: `${group.name}: ${each}`, click: (event) => {
        const has = off[i].delete(each);
        if (!has) off[i].add(each);
        event.currentTarget.setAttribute("aria-pressed", String(has));
        apply();
      } }, `${each} ${counts.get(each).toLocaleString("en")}`));
  });
  words.addEventListener("input", apply);
  place.replaceChildren(words, ...chips.flat(), tally);
  apply();
};
