"use strict";
/* State: a history of item ids. Everything shown is derived from it and from the server's answers. */
const $ = (id) => document.getElementById(id);
const history_ = [];
let runs = [], maps = {}, lists = {}, asked = 0, searched = 0;

async function ask(path, body) {
  /* One request; a failure becomes words on the page and null here. */
  let answer;
  try {
    answer = await fetch(path, body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    return tell("The server does not answer. Is it still running?");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) return tell(value.error ? `The server says: ${value.error}` : `The server answered with error ${answer.status}.`);
  $("problem").hidden = true;
  return value;
}
function tell(words) { $("problem").textContent = words; $("problem").hidden = false; return null; }
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
function itemButton(item, label, onclick) {
  const button = make("button", { type: "button", textContent: item.title, onclick });
  button.setAttribute("aria-label", `${label}: ${item.title}`);
  return button;
}
function similarButton(item) {
  const button = make("button", { type: "button", className: "small", textContent: "similar", onclick: () => showSimilar(item) });
  button.setAttribute("aria-label", `Items similar to ${item.title}`);
  return button;
}

async function search() {
  const turn = ++searched;
  const value = await ask(`/items?n=25&query=${encodeURIComponent($("query").value)}`);
  if (!value || turn !== searched) return;
  $("found").replaceChildren(...value.items.map((item) => make("li", {}, itemButton(item, "Add to history", () => add(item)), similarButton(item))));
  if (!value.items.length) $("found").append(make("li", { className: "hint", textContent: "No title has these words." }));
}

function add(item) {
  if (history_.some((other) => other.id === item.id)) return;
  history_.push(item);
  showHistory(); recommend();
}
function remove(item) {
  history_.splice(history_.findIndex((other) => other.id === item.id), 1);
  showHistory(); recommend();
  ($("history").querySelector("button") || $("query")).focus();
}
function showHistory() {
  $("no-history").hidden = history_.length > 0;
  $("clear").hidden = history_.length === 0;
  $("history").replaceChildren(...history_.map((item) => make("li", {}, itemButton(item, "Remove", () => remove(item)), similarButton(item))));
  try { sessionStorage.setItem("history", JSON.stringify(history_)); } catch { /* storage may be off */ }
}

async function recommend() {
  const turn = ++asked;
  if (!history_.length) { lists = {}; $("status").textContent = "Add something to your history to get recommendations."; showLists(); return; }
  const body = { histories: [history_.map((item) => item.id)], n: 10, explain: true };
  const answers = await Promise.all(runs.map((run) => ask("/recommend", { ...body, run: run.name })));
  if (turn !== asked || answers.some((answer) => !answer)) return;
  runs.forEach((run, i) => { lists[run.name] = answers[i].results[0].items; });
  $("status").textContent = `For your ${history_.length} item${history_.length > 1 ? "s" : ""}.`;
  showLists();
}
function reason(item) {
  if (!item.because.length) return "none of your items is among its nearest neighbours";
  return "near " + item.because.map((b) => `${b.title} (${b.similarity.toFixed(2)})`).join(", ");
}
function showLists() {
  const shared = (item, name) => runs.every((run) => run.name === name || (lists[run.name] || []).some((other) => other.id === item.id));
  $("runs").replaceChildren(...(Object.keys(lists).length ? runs : []).map((run) => {
    const rows = lists[run.name].map((item) => {
      const row = make("li", {}, make("div", { className: "row" }, itemButton(item, "Add to history", () => add(item)), similarButton(item)), make("span", { className: "why", textContent: reason(item) }));
      if (!shared(item, run.name)) row.className = "only";
      return row;
    });
    return make("div", { className: "run" }, make("h3", { textContent: run.label }), make("ol", {}, ...rows));
  }));
  if (runs.length > 1 && Object.keys(lists).length) $("status").textContent += " A bar marks what only one of the two runs recommends.";
  marks();
}

async function showSimilar(item) {
  const value = await ask(`/similar/${encodeURIComponent(item.id)}?n=12`);
  if (!value) return;
  $("similar-hint").textContent = value.similar.length ? `Nearest to ${item.title} on the item graph:` : `${item.title} shares no user with another item.`;
  $("similar").replaceChildren(...value.similar.map((near) => make("li", {}, itemButton(near, "Add to history", () => add(near)), make("small", { textContent: near.similarity.toFixed(2) }))));
  $("h-similar").scrollIntoView({ block: "nearest" });
}

/* The map */
const map = new ItemMap($("map"), $("tip"), (i) => { const d = maps[$("map-run").value]; add({ id: d.ids[i], title: d.titles[i] }); });
async function showMap() {
  const name = $("map-run").value;
  if (!maps[name]) {
    const value = await ask(`/map?run=${name}`);
    if (!value) return;
    value.place = new Map(value.ids.map((id, i) => [id, i]));
    maps[name] = value;
  }
  map.setData(maps[name]);
  recolour(); marks();
}
function recolour() {
  const data = maps[$("map-run").value];
  if (!data) return;
  $("colour").options[0].disabled = data.genres.length === 0;
  if (!data.genres.length) $("colour").value = "cluster";
  const groups = data[$("colour").value];
  const names = $("colour").value === "genre" ? data.genres : [...new Set(groups)].sort((a, b) => a - b).map((g) => `cluster ${g + 1}`);
  map.setGroups(groups);
  $("legend").replaceChildren(...names.map((name, i) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of [["width", "100%"], ["height", "100%"], ["fill", ItemMap.colour(i)]]) dot.setAttribute(key, value);
    svg.append(dot); svg.setAttribute("aria-hidden", "true");
    return make("li", {}, svg, name);
  }));
}
function marks() {
  const name = $("map-run").value, data = maps[name];
  if (!data) return;
  const places = (items) => (items || []).map((item) => data.place.get(item.id)).filter((i) => i !== undefined);
  map.setMarks(places(history_), places(lists[name]));
}

/* Keyboard and controls */
let typing;
$("query").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(search, 120); });
$("query").addEventListener("keydown", (e) => {
  const first = $("found").querySelector("button");
  if (e.key === "Enter" && first) { clearTimeout(typing); search().then(() => $("found").querySelector("button")?.click()); }
  if (e.key === "ArrowDown" && first) { first.focus(); e.preventDefault(); }
});
$("found").addEventListener("keydown", (e) => {
  if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
  const all = [...$("found").querySelectorAll("li > button:first-child")], at = all.indexOf(e.target.closest("li").firstChild);
  (all[at + (e.key === "ArrowDown" ? 1 : -1)] || $("query")).focus();
  e.preventDefault();
});
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) { $("query").focus(); e.preventDefault(); }
});
$("clear").addEventListener("click", () => { history_.length = 0; showHistory(); recommend(); $("query").focus(); });
$("colour").addEventListener("change", recolour);
$("map-run").addEventListener("change", showMap);
$("zoom-in").addEventListener("click", () => map.zoom(1.5));
$("zoom-out").addEventListener("click", () => map.zoom(1 / 1.5));
$("zoom-all").addEventListener("click", () => map.all());

(async () => {
  const health = await ask("/health");
  if (!health) return;
  runs = health.runs;
  const measured = (run) => run.metrics["HR@10"] === undefined ? "" : ` (HR@10 ${run.metrics["HR@10"].toFixed(3)})`;
  $("about").textContent = `${runs.map((run) => run.label + measured(run)).join(" beside ")}; ${runs[0].items.toLocaleString("en")} items.`;
  $("map-run").replaceChildren(...runs.map((run) => make("option", { value: run.name, textContent: run.label })));
  try { history_.push(...JSON.parse(sessionStorage.getItem("history") || "[]")); } catch { /* none kept */ }
  showHistory();
  await Promise.all([search(), showMap(), recommend()]);
  document.body.dataset.ready = "yes";
})();
