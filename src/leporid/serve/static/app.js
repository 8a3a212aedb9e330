"use strict";
/* State: a history of items, or a user of the log whose items it shows. Everything else is derived from it
   and from the server's answers. */
const $ = (id) => document.getElementById(id);
const history_ = [];
let user = null, runs = [], maps = {}, lists = {}, asked = 0, searched = 0;

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
function smallButton(words, label, item, onclick) {
  const button = make("button", { type: "button", className: "small", textContent: words, onclick });
  button.setAttribute("aria-label", `${label} ${item.title}`);
  return button;
}
function similarButton(item) { return smallButton("similar", "Items similar to", item, () => showSimilar(item)); }

async function search() {
  const turn = ++searched;
  /* What is chosen already is not offered again, so that many more are asked for. */
  const most = Math.min(25 + history_.length, 200);
  const value = await ask(`/items?n=${most}&query=${encodeURIComponent($("query").value)}`);
  if (!value || turn !== searched) return;
  const fresh = value.items.filter((item) => !has(item)).slice(0, 25);
  $("found").replaceChildren(...fresh.map((item) => make("li", {}, itemButton(item, "Add to history", () => add(item)), similarButton(item))));
  if (!fresh.length) $("found").append(make("li", { className: "hint", textContent: value.items.length ? "You have chosen all that have these words." : "No title has these words." }));
}

function has(item) { return history_.some((other) => other.id === item.id); }
function add(item) {
  if (has(item)) return;
  history_.push(item);
  changed();
}
function remove(item) {
  history_.splice(history_.findIndex((other) => other.id === item.id), 1);
  changed();
  ($("history").querySelector("button") || $("query")).focus();
}
function changed(id = null) {
  /* A history that somebody has edited is nobody's in the log. */
  user = id;
  showHistory();
  return Promise.all([search(), recommend()]);
}
function showHistory() {
  $("no-history").hidden = history_.length > 0;
  $("clear").hidden = history_.length === 0;
  $("t-choose").textContent = history_.length ? `Choose (${history_.length})` : "Choose";
  $("history").replaceChildren(...history_.map((item) => make("li", {}, make("span", { textContent: item.title }), similarButton(item), smallButton("remove", "Remove", item, () => remove(item)))));
  try { sessionStorage.setItem("history", JSON.stringify(history_)); } catch { /* storage may be off */ }
}
async function showUser() {
  const value = $("user").value.trim() && await ask(`/users/${encodeURIComponent($("user").value.trim())}`);
  if (!value) return;
  history_.splice(0, Infinity, ...value.recent);
  await changed(value);
}

async function recommend() {
  const turn = ++asked;
  if (!history_.length) { lists = {}; $("status").textContent = "Add something to your history to get recommendations."; showLists(); return; }
  const who = user ? { users: [user.id] } : { histories: [history_.map((item) => item.id)] };
  const body = { ...who, n: 10, explain: true };
  const answers = await Promise.all(runs.map((run) => ask("/recommend", { ...body, run: run.name })));
  if (turn !== asked || answers.some((answer) => !answer)) return;
  runs.forEach((run, i) => { lists[run.name] = answers[i].results[0].items; });
  const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  $("status").textContent = user
    ? `For user ${user.id}, of whom ${count(user.interactions, "interaction")} and ${count(user.new_events, "new event")} are known.`
    : `For your ${count(history_.length, "item")}.`;
  const unknown = history_.filter((item) => answers[0].results[0].unknown.includes(item.id));
  if (unknown.length) $("status").textContent += ` The model does not know ${unknown.map((item) => item.title).join(", ")}.`;
  showLists();
}
function reason(item) {
  if (!item.because.length) return "none of your items is among its nearest neighbours";
  return "near " + item.because.map((b) => `${b.title} (${b.similarity.toFixed(2)})`).join(", ");
}
function explanation(run, i) {
  /* One sentence per list. The label is the model, and where it had them, its starting vectors. */
  const start = run.label.split(", ")[1];
  const who = run.model + (start ? `, which began its training with ${start.replace(" start", "")} vectors` : "");
  return (i ? `The same from ${who}.` : `The ten items with the highest scores from ${who}, without those in the history.`);
}
function showLists() {
  const shared = (item, name) => runs.every((run) => run.name === name || (lists[run.name] || []).some((other) => other.id === item.id));
  $("runs").replaceChildren(...(Object.keys(lists).length ? runs : []).map((run, i) => {
    const rows = lists[run.name].map((item) => {
      const row = make("li", {}, make("div", { className: "row" }, itemButton(item, "Add to history", () => add(item)), similarButton(item)), make("span", { className: "why", textContent: reason(item) }));
      if (!shared(item, run.name)) row.className = "only";
      return row;
    });
    return make("div", { className: "run" }, make("h3", { textContent: run.label }), make("p", { className: "hint", textContent: explanation(run, i) }), make("ol", {}, ...rows));
  }));
  if (runs.length > 1 && Object.keys(lists).length) $("status").textContent += " A bar marks what only one of the two runs recommends.";
  marks();
}

async function showSimilar(item) {
  const value = await ask(`/similar/${encodeURIComponent(item.id)}?n=12`);
  if (!value) return;
  $("similar-hint").textContent = value.similar.length ? `Nearest to ${item.title} on the item graph (the share of users who have both):` : `${item.title} shares no user with another item.`;
  $("similar").replaceChildren(...value.similar.map((near) => make("li", {}, itemButton(near, "Add to history", () => add(near)), make("small", { textContent: near.similarity.toFixed(2) }))));
  showTab($("t-near"));
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
  const by = $("colour").value, names = data[`${by}s`], used = new Set(data[by]);
  $("layout").textContent = data.layout;
  map.setGroups(data[by]);
  $("legend").replaceChildren(...names.map((name, i) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    dot.style.fill = `var(--group-${i % ItemMap.COLOURS})`;
    svg.append(dot); svg.setAttribute("aria-hidden", "true");
    const button = make("button", { type: "button", onclick: () => button.ariaPressed = String(map.toggle(i)) }, svg, name);
    button.ariaPressed = "false";
    return [i, make("li", {}, button)];
  }).filter(([i]) => used.has(i)).map(([, row]) => row));
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
$("clear").addEventListener("click", () => { history_.length = 0; changed(); $("query").focus(); });
$("user-form").addEventListener("submit", (e) => { e.preventDefault(); showUser(); });
const tabs = [...$("tabs").children];
function showTab(tab) {
  for (const other of tabs) {
    other.ariaSelected = String(other === tab);
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).classList.toggle("shown", other === tab);
  }
}
tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => showTab(tab));
  tab.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    showTab(next); next.focus(); e.preventDefault();
  });
});
showTab(tabs[0]);
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
