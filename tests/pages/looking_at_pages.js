// What is wrong with a page for people who do not see it, or not well: names of what can be used, and contrast.
() => {
  const wrong = [];
  const text = (element) => element.outerHTML.slice(0, 120);
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  const ids = new Map();
  for (const each of document.querySelectorAll("[id]")) ids.set(each.id, (ids.get(each.id) || 0) + 1);
  for (const [id, count] of ids) if (count > 1) wrong.push(`id ${id} is there ${count} times`);
  for (const name of ["aria-labelledby", "aria-controls", "aria-describedby"]) {
    for (const each of document.querySelectorAll(`[${name}]`)) {
      for (const id of each.getAttribute(name).split(" ")) if (!document.getElementById(id)) wrong.push(`${name} names no element: ${text(each)}`);
    }
  }
  const named = (element) => (element.getAttribute("aria-label") || element.textContent || "").trim() || element.getAttribute("aria-labelledby");
  for (const each of document.querySelectorAll("button, a[href], select, input, [role=img], [role=table], [role=tree], [role=treeitem], [role=region], summary, iframe")) {
    const isField = each.matches("input, select, [role=img], [role=table], [role=tree], [role=region]");
    const name = isField ? each.getAttribute("aria-label") || each.getAttribute("aria-labelledby") : named(each) || each.title;
    if (!name) wrong.push(`no name: ${text(each)}`);
  }
  for (const each of document.querySelectorAll("svg:not([role])")) {
    if (!each.closest("[aria-hidden=true]")) wrong.push(`a drawing that is neither named nor hidden: ${text(each)}`);
  }
  for (const each of document.querySelectorAll("[role=row]")) {
    if (!each.closest("[role=table]")) wrong.push(`a row outside of a table: ${text(each)}`);
  }
  let level = 0;
  for (const each of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const now = Number(each.tagName[1]);
    if (now > level + 1) wrong.push(`heading ${now} after ${level}: ${text(each)}`);
    level = now;
  }
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  if (!document.documentElement.lang) wrong.push("no language");

  // Contrast, as WCAG 2 computes it: 4.5, or 3 for large text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(color, [r, g, b, a / 255]);
    }
    return known.get(color);
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255).map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)).reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || seen.has(element) || element.closest("script, style, svg, .hidden-text, .skip, option") || !isShown(element)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const below = ground(element);
    const [a, b] = [light(over(rgba(style.color), below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) wrong.push(`contrast ${ratio.toFixed(2)}: ${text(element)}`);
  }
  return wrong;
}
