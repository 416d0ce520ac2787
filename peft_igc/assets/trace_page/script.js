"use strict";
// The page is complete without this script. It shows where an opened step has read, and the numbers of a token.
const bar = document.getElementById("bar");
let shown = null; // the step whose tokens are lit

function show(step) {
  for (const token of document.querySelectorAll(".lit")) token.classList.remove("lit");
  shown = step;
  if (step !== null) {
    for (const token of document.querySelectorAll(`[data-steps~="${step.id}"]`)) token.classList.add("lit");
  }
}

document.addEventListener("toggle", (event) => {
  const step = event.target;
  if (!step.open) {
    if (step === shown) show(null);
    return;
  }
  if (shown !== null && shown !== step) shown.open = false;
  show(step);
}, true);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.step");
  if (link !== null) {
    document.getElementById(link.hash.slice(1)).open = true; // the link itself scrolls there
    return;
  }
  const token = event.target.closest("[data-facts]");
  bar.textContent = token === null ? "" : token.dataset.facts;
});
