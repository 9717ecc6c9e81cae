
"use strict";
const svg = document.querySelector("main svg");
const input = document.querySelector("input");
const found = document.querySelector("output");
const tip = document.getElementById("tip");
const lists = JSON.parse(document.getElementById("lists").textContent);
const cells = Array.from(svg.querySelectorAll(".c"), (path, i) => {
  const title = path.querySelector("title");
  const about = title.textContent;
  title.remove(); // the page shows it at once, a browser after a while
  return {path, about, items: (lists[i] || [about]).map(s => s.toLowerCase())};
});
const byPath = new Map(cells.map(cell => [cell.path, cell]));
svg.querySelector("title").remove();

// filter lights up what has all of the words.
function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  svg.classList.toggle("filtered", words.length > 0);
  let sum = 0;
  for (const cell of cells) {
    const hits = words.length && cell.items.filter(item => words.every(word => item.includes(word))).length;
    cell.path.classList.toggle("hit", hits > 0);
    sum += hits;
  }
  found.textContent = words.length ? sum.toLocaleString("en") + (sum === 1 ? " match" : " matches") : "";
}

function point(event) {
  const cell = byPath.get(event.target);
  tip.hidden = !cell;
  if (!cell) return;
  tip.textContent = cell.about;
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 14 + box.width > innerWidth;
  const below = event.clientY + 18 + box.height > innerHeight;
  tip.style.left = Math.max(4, right ? event.clientX - box.width - 10 : event.clientX + 14) + "px";
  tip.style.top = Math.max(4, below ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}

input.addEventListener("input", filter);
svg.addEventListener("mousemove", point);
svg.addEventListener("mouseleave", () => { tip.hidden = true; });
filter();
