// The report of a set of models: shows the whole, or one of its parts, which the address names after "#part=".
"use strict";

const set = () => {
  page.theme();
  const place = document.getElementById("view"), links = document.getElementById("links");
  const choices = [...document.querySelectorAll("#views button")];
  let left = null;
  const show = async (number) => {
    left?.abort();
    left = new AbortController();
    const copy = (kind) => document.querySelector(`template[data-${kind}="${number}"]`).content.cloneNode(true);
    document.body.style.overflow = "";
    place.replaceChildren(copy("sections"));
    links.replaceChildren(copy("links"));
    for (const each of choices) each.setAttribute("aria-pressed", String(Number(each.dataset.view) === number));
    for (const each of place.querySelectorAll("[data-view]")) each.addEventListener("click", () => choose(Number(each.dataset.view)));
    const data = await page.data(number ? `data-${number}` : "data");
    if (!left.signal.aborted) await report(data, left.signal);
  };
  const choose = async (number) => {
    const name = number ? `#part=${encodeURIComponent(choices[number].textContent)}` : "#";
    try { // a page within a notebook has no address of its own
      history.replaceState(null, "", name);
    } catch { /* then it is not kept */ }
    await show(number);
    scrollTo(0, 0);
    place.focus({ preventScroll: true });
    document.getElementById("said").textContent = `${choices[number].textContent} is shown.`;
  };
  for (const each of choices) each.addEventListener("click", () => choose(Number(each.dataset.view)));
  const asked = decodeURIComponent((location.hash.match(/^#part=(.*)$/) || [])[1] || "");
  show(Math.max(0, choices.findIndex((each, index) => index && each.textContent === asked)));
};

set();
