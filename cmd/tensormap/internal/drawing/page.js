
const input = document.querySelector("input");
const found = document.querySelector("output");
const tip = document.getElementById("tip");
const buttons = {previous: document.getElementById("previous"), next: document.getElementById("next")};
const narrow = document.querySelectorAll(".narrow .c");
const cells = JSON.parse(document.getElementById("lists").textContent).map(list => ({
  // A tensor has a name; all else is only shown.
  items: list.map(([shown, rest, name]) => ({
    shown, rest: rest || "", name: rest === undefined ? null : name === undefined ? shown : name,
    text: (shown + (rest || "")).toLowerCase(),
  })),
}));
const cellOf = new Map();
document.querySelectorAll(".wide .c").forEach((path, i) => {
  const title = path.querySelector("title");
  cells[i].about = title.textContent;
  title.remove(); // the page shows it at once, a browser after a while
  cells[i].paths = [path, narrow[i]];
  for (const path of cells[i].paths) cellOf.set(path, cells[i]);
});

let matches = []; // of the search, in the order of the file
let at = 0; // which of them is shown

// matcher returns what a query finds: by a glob tensors of that name, else what has all of the words.
function matcher(query) {
  if (/[*?[{\\]/.test(query)) {
    const glob = compileGlob(query);
    return item => item.name !== null && glob(item.name);
  }
  const words = query.toLowerCase().split(/\s+/);
  return item => words.every(word => item.text.includes(word));
}

// search lights up what matches, and goes to the first.
function search() {
  const query = input.value.trim();
  let match = () => false;
  let wrong = "";
  try {
    if (query !== "") match = matcher(query);
  } catch (err) {
    wrong = err.message;
  }
  matches = [];
  for (const cell of cells) {
    const hits = cell.items.filter(match);
    for (const path of cell.paths) path.classList.toggle("hit", hits.length > 0);
    for (const item of hits) matches.push({cell, item});
  }
  input.setAttribute("aria-invalid", wrong !== "");
  for (const map of document.querySelectorAll(".map")) map.classList.toggle("filtered", query !== "" && wrong === "");
  for (const button of Object.values(buttons)) button.disabled = matches.length === 0;
  mark(false);
  at = 0;
  if (matches.length > 0) show();
  else found.textContent = wrong || (query === "" ? "" : "no match");
}

function step(by) {
  if (matches.length === 0) return;
  mark(false);
  at = (at + by + matches.length) % matches.length;
  show();
}

function mark(on) {
  for (const path of document.querySelectorAll(".here")) path.classList.remove("here");
  if (on) for (const path of matches[at].cell.paths) path.classList.add("here");
}

// show says which match it is, and scrolls to it where it is out of sight.
function show() {
  const {cell, item} = matches[at];
  const name = document.createElement("bdi");
  name.textContent = item.shown;
  const count = matches.length === 1 ? "1 match: " : (at + 1).toLocaleString("en") + " of " + matches.length.toLocaleString("en") + " matches: ";
  found.replaceChildren(count, name, item.rest);
  mark(true);
  const path = cell.paths.find(path => path.getClientRects().length > 0);
  if (!path) return;
  const row = 40; // a cell may be of many rows, and begins in its first
  const {top} = path.getBoundingClientRect();
  const above = document.querySelector("header").getBoundingClientRect().bottom;
  if (top < above || top + row > innerHeight) scrollBy(0, top - above - (innerHeight - above) / 3);
}

// cellAt returns what lies there, be it below a label.
function cellAt(event) {
  const under = document.elementsFromPoint(event.clientX, event.clientY).find(element => cellOf.has(element));
  return cellOf.get(under);
}

let pinned = false; // the tip stays, for its text to be selected

function point(event) {
  const cell = cellAt(event);
  tip.hidden = !cell;
  if (!cell) return;
  tip.textContent = cell.about;
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 14 + box.width > innerWidth;
  const below = event.clientY + 18 + box.height > innerHeight;
  tip.style.left = Math.max(4, right ? event.clientX - box.width - 10 : event.clientX + 14) + "px";
  tip.style.top = Math.max(4, below ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}

function pin(on) {
  pinned = on;
  tip.classList.toggle("pinned", on);
  if (!on) tip.hidden = true;
}

input.addEventListener("input", search);
input.form.addEventListener("submit", event => event.preventDefault());
input.addEventListener("keydown", event => {
  const by = {Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!by || event.isComposing) return;
  event.preventDefault();
  step(by);
});
buttons.next.addEventListener("click", () => step(1));
buttons.previous.addEventListener("click", () => step(-1));
for (const map of document.querySelectorAll(".map")) {
  map.addEventListener("mousemove", event => { if (!pinned) point(event); });
  map.addEventListener("mouseleave", () => { if (!pinned) tip.hidden = true; });
}
document.addEventListener("click", event => {
  if (tip.contains(event.target) || !getSelection().isCollapsed) return;
  pin(false);
  if (!event.target.closest(".map")) return;
  point(event);
  pin(!tip.hidden);
});
document.addEventListener("keydown", event => {
  if (event.key === "Escape") pin(false);
  if (event.key !== "/" || event.target === input) return;
  event.preventDefault();
  input.focus();
});
addEventListener("scroll", () => pin(false));
if (location.hash.length > 1) {
  try {
    input.value = decodeURIComponent(location.hash.slice(1));
  } catch {
    input.value = location.hash.slice(1);
  }
}
search();
