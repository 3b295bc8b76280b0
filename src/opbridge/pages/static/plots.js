// The plots of a verification: the error by output and run, and how the errors are distributed.
"use strict";

const plots = {};

const asNumber = (value) => (typeof value === "number" ? value : value === "inf" ? Infinity : NaN);
const power = (exponent) => {
  const raised = String(exponent).replace(/./g, (each) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(each)]);
  return exponent === 0 ? "1" : `10${raised}`;
};

plots.share = (ratio) => (ratio === 0 ? "equal" : !Number.isFinite(ratio) ? "infinite" : ratio >= 0.001 && ratio < 1 ? `${(ratio * 100).toPrecision(2)}% of the tolerance` : `${ratio.toPrecision(2)} × the tolerance`);

// One dot for each output and run, by its error as a share of the tolerance.
plots.errors = (place, verification) => {
  const runs = verification.runs.filter((run) => run.errors.length);
  const dots = runs.flatMap((run, x) => run.errors.filter((each) => !each.random && each.reason === null).map((each) => ({ ...each, x, run: run.label, ratio: asNumber(each.excess) })));
  if (!dots.length) return place.replaceChildren(page.make("p", { class: "soft" }, "No values were compared."));
  const finite = dots.map((each) => each.ratio).filter((each) => each > 0 && Number.isFinite(each));
  const low = Math.floor(Math.min(-3, ...finite.map(Math.log10))) - 0.5, high = Math.max(1, Math.ceil(Math.max(...finite.map(Math.log10), 0)) + 0.5);
  const [width, height, left, right, top, foot] = [640, 330, 64, 18, 16, 52];
  const y = (ratio) => top + (height - top - foot) * (1 - (Math.max(low, Math.min(high, ratio === 0 ? low : Math.log10(ratio))) - low) / (high - low));
  const step = (width - left - right) / runs.length;
  const svg = page.draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Errors of ${page.counted(new Set(dots.map((each) => each.name)).size, "output")} on ${page.counted(runs.length, "run")}, as a share of the tolerance; the largest is ${plots.share(Math.max(...dots.map((each) => each.ratio)))}` });
  for (let exponent = Math.ceil(low); exponent <= high; exponent += high - low > 12 ? 2 : 1) {
    svg.append(page.draw("line", { class: "axis", x1: left, x2: width - right, y1: y(10 ** exponent), y2: y(10 ** exponent) }),
      page.draw("text", { x: left - 10, y: y(10 ** exponent) + 4, "text-anchor": "end" }, power(exponent)));
  }
  svg.append(page.draw("text", { x: left - 10, y: y(0) + 4, "text-anchor": "end" }, "equal"),
    page.draw("line", { class: "allowed", x1: left, x2: width - right, y1: y(1), y2: y(1) }),
    page.draw("text", { class: "allowed-text", x: width - right, y: y(1) - 6, "text-anchor": "end" }, "allowed"));
  const every = Math.ceil(runs.length / Math.floor((width - left) / 84));
  runs.forEach((run, index) => {
    if (index % every) return;
    const label = run.label.length > 13 ? `${run.label.slice(0, 12)}…` : run.label;
    svg.append(page.draw("text", { x: left + step * (index + 0.5), y: height - foot + 22, "text-anchor": "middle" }, label, page.draw("title", {}, run.label)));
  });
  const seen = new Map();
  for (const each of dots) {
    const spot = `${each.x} ${Math.round(y(each.ratio) / 7)}`;
    const count = seen.get(spot) || 0;
    seen.set(spot, count + 1);
    if (count > 24) continue;
    const shift = (count % 2 ? 1 : -1) * Math.ceil(count / 2) * Math.min(9, step / 26);
    svg.append(page.draw("circle", { class: each.ok ? "dot" : "dot wrong", cx: left + step * (each.x + 0.5) + shift, cy: y(each.ratio), r: 5.5 },
      page.draw("title", {}, `${each.name}, ${each.run}: ${plots.share(each.ratio)}\nabsolute ${page.error(each.absolute)}, relative ${page.error(each.relative)}`)));
  }
  svg.append(page.draw("text", { x: left, y: height - 8 }, "error as a share of the tolerance, by run; one dot per output"));
  place.replaceChildren(svg);
};

// How many elements differ by how much: the bins of `Comparison.spread`, two to a power of ten, after those that are equal.
plots.spread = (place, verification) => {
  const all = verification.runs.flatMap((run) => run.errors).filter((each) => each.spread?.length);
  if (!all.length) return place.replaceChildren(page.make("p", { class: "soft" }, "No values were compared."));
  const bins = all[0].spread.map((_, index) => all.reduce((sum, each) => sum + each.spread[index], 0));
  const total = bins.reduce((sum, each) => sum + each, 0);
  const [width, height, left, right, top, foot] = [640, 330, 54, 18, 16, 52];
  const step = (width - left - right) / bins.length;
  const largest = Math.max(...bins.map((each) => each / total), 1e-9);
  const y = (share) => top + (height - top - foot) * (1 - share / largest);
  const outside = bins.slice(16).reduce((sum, each) => sum + each, 0);
  const svg = page.draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Distribution of ${total.toLocaleString("en")} elements: ${((bins[0] / total) * 100).toFixed(1)}% are equal, ${outside.toLocaleString("en")} exceed the tolerance` });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const share = largest * part;
    svg.append(page.draw("line", { class: "axis", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
      page.draw("text", { x: left - 8, y: y(share) + 4, "text-anchor": "end" }, `${(share * 100).toFixed(share && share < 0.02 ? 1 : 0)}%`));
  }
  bins.forEach((count, index) => {
    const kind = index === 0 ? "column equal" : index > 15 ? "column wrong" : "column";
    const tall = count ? Math.max(2, y(0) - y(count / total)) : 0;
    const range = index === 0 ? "equal" : index === 1 ? "under 10⁻⁷" : `from 10^${(index - 16) / 2} of the tolerance`;
    svg.append(page.draw("rect", { class: kind, x: left + step * index + 2, y: y(0) - tall, width: step - 4, height: tall, rx: 2 },
      page.draw("title", {}, `${range}: ${page.counted(count, "element")} (${((count / total) * 100).toPrecision(3)}%)`)));
  });
  // The bounds lie between the bins: the one of 10^-7 after the second, 1 after the sixteenth.
  const bound = (exponent) => left + step * (2 + (exponent + 7) * 2);
  for (const exponent of [-7, -6, -5, -4, -3, -2, -1, 1, 2]) svg.append(page.draw("text", { x: bound(exponent), y: height - foot + 20, "text-anchor": "middle" }, power(exponent)));
  svg.append(page.draw("text", { x: left + step / 2, y: height - foot + 20, "text-anchor": "middle" }, "equal"),
    page.draw("line", { class: "allowed", x1: bound(0), x2: bound(0), y1: top, y2: y(0) }),
    page.draw("text", { class: "allowed-text", x: bound(0), y: height - foot + 20, "text-anchor": "middle" }, "allowed"),
    page.draw("text", { x: left, y: height - 8 }, "error as a share of the tolerance; how many elements, over all outputs and runs"));
  place.replaceChildren(svg);
};
