"use strict";
/* State: a history of items, or a user of the log whose items it shows. Everything else is derived from it
   and from the server's answers. */
const $ = (id) => document.getElementById(id);
const history_ = [];
let user = null, runs = [], lists = {}, popular = {}, asked = 0, searched = 0;

async function ask(path, body = null, ifRefused = null) {
  /* One request; a failure becomes words on the page and null here, what the server refuses `ifRefused`. */
  let answer;
  try {
    answer = await fetch(path, body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    return tell("The server does not answer. Is it still running?");
  }
  const value = await answer.json().catch(() => ({}));
  const isRefused = answer.status === 422 && ifRefused !== null;
  if (!answer.ok && !isRefused) return tell(value.error ? `The server says: ${value.error}` : `The server answered with error ${answer.status}.`);
  $("problem").hidden = true;
  return isRefused ? ifRefused : value;
}
function tell(words) { $("problem").textContent = words; $("problem").hidden = false; return null; }
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
function titleButton(item, onclick = () => add(item), label = "Add to history") {
  const button = make("button", { type: "button", className: "title", textContent: item.title, onclick });
  button.setAttribute("aria-label", `${label}: ${item.title}`);
  return button;
}
function smallButton(words, label, item, onclick) {
  const button = make("button", { type: "button", className: "small", textContent: words, onclick });
  button.setAttribute("aria-label", `${label} ${item.title}`);
  return button;
}
function similarButton(item) { return smallButton("similar", "Items similar to", item, () => showSimilar(item)); }
function picture(item) { return item.picture ? [make("img", { src: item.picture, alt: "", loading: "lazy", referrerPolicy: "no-referrer" })] : []; }
function row(item, ...more) { return make("li", {}, ...picture(item), ...more); }
function count(n, what) { return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`; }
function listed(words) { return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join(""); }

async function search() {
  const turn = ++searched;
  /* What is chosen already is not offered again, so that many more are asked for. */
  const most = Math.min(25 + history_.length, 200);
  const value = await ask(`/items?n=${most}&query=${encodeURIComponent($("query").value)}`);
  if (!value || turn !== searched) return;
  const fresh = value.items.filter((item) => !has(item)).slice(0, 25);
  $("found").replaceChildren(...fresh.map((item) => row(item, titleButton(item), similarButton(item))));
  if (!fresh.length) $("found").append(make("li", { className: "hint", textContent: value.items.length ? "The history has all that have these words." : "No title has these words." }));
  endAtRow($("found"));
  if (!$("query").value) $("no-titles").hidden = value.items.some((item) => item.title !== String(item.id));
}

function endAtRow(list) {
  /* The box ends where a row ends, so that none is cut in half. */
  list.style.maxHeight = "";
  const ends = [...list.children].map((entry) => entry.offsetTop + entry.offsetHeight - list.offsetTop);
  const whole = ends.filter((end) => end <= list.clientHeight + 1);
  if (whole.length && whole.length < ends.length) list.style.maxHeight = `${whole.at(-1) + 1}px`;
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
function changed(who = null) {
  /* A history that somebody has edited is nobody's in the log. */
  user = who;
  showHistory();
  return Promise.all([search(), recommend()]);
}
function showHistory() {
  $("h-history").textContent = user ? `Items of user ${user.id}` : "Your history";
  $("user").value = user ? user.id : "";
  $("no-history").hidden = history_.length > 0;
  $("clear").hidden = !history_.length && !user;
  $("history").replaceChildren(...[...history_].reverse().map((item) => row(item, make("span", { textContent: item.title }), similarButton(item), smallButton("remove", "Remove", item, () => remove(item)))));
  $("history").scrollTop = 0;
  endAtRow($("history"));
  try { sessionStorage.setItem("shown", JSON.stringify({ user: user && user.id, history: history_ })); } catch { /* storage may be off */ }
}
async function showUser(path, ifRefused) {
  const value = await ask(path, null, ifRefused);
  if (!value) return;
  history_.splice(0, Infinity, ...value.recent);
  await changed(value);
}
function userNamed(id) { return [`/users/${encodeURIComponent(id)}`, { id, interactions: 0, new_events: 0, recent: [] }]; }
async function leadToList(path, ifRefused) {
  await showUser(path, ifRefused);
  if (!$("tabs").offsetHeight) return;
  /* On a phone the list is another part of the page. */
  showTab($("t-recs"));
  scrollTo(0, 0);
  $("h-recs").focus();
}

async function recommend() {
  const turn = ++asked;
  const who = user ? { users: [user.id], exclude_seen_by_other: runs.length > 1 } : { histories: [history_.map((item) => item.id)] };
  const body = { ...who, n: 10, explain: true, unknown: "popular" };
  const answers = await Promise.all(runs.map((run) => ask("/recommend", { ...body, run: run.name })));
  if (turn !== asked || answers.some((answer) => !answer)) return;
  runs.forEach((run, i) => {
    lists[run.name] = answers[i].results[0].items;
    popular[run.name] = answers[i].results[0].fallback === "popular";
  });
  $("status").textContent = runs.every((run) => popular[run.name]) ? whyPopular() : user
    ? `For user ${user.id}, who has ${count(user.interactions, "item")}${user.new_events ? `, and ${user.new_events.toLocaleString("en")} more since the training` : ""}.`
    : `For your ${count(history_.length, "item")}.`;
  const unknown = history_.filter((item) => answers[0].results[0].unknown.includes(item.id));
  if (unknown.length) $("status").textContent += ` The model does not know ${listed(unknown.map((item) => item.title))}.`;
  showLists();
}
function whyPopular() {
  if (user) return `The model does not know user ${user.id}, so these are the most popular items.`;
  return history_.length ? "The model knows no item of your history, so these are the most popular items."
    : "Your history is empty, so these are the most popular items. Add something, or press “Surprise me”.";
}
function reason(item, isPopular) {
  if (isPopular) return `${count(item.score, "interaction")}.`;
  if (!item.because.length) return "Shares few users with what is in the history.";
  if (item.because[0].contribution) return `Because of ${listed(item.because.map((b) => b.title))}, by the model's own weights.`;
  const most = item.because[0].similarity;
  const often = most >= 0.25 ? "Very often" : most >= 0.1 ? "Often" : "Sometimes";
  return `${often} together with ${listed(item.because.map((b) => b.title))}.`;
}
function isFinal(run) { return run.fitted.startsWith("final"); }
function tellApart([one, other]) {
  /* Two runs of the same model and initialisation need names of their own. */
  if (one.label !== other?.label) return;
  const names = isFinal(one) === isFinal(other) ? ["first", "second"] : isFinal(one) ? ["final", "validated"] : ["validated", "final"];
  [one, other].forEach((run, i) => { run.label += ` (${names[i]})`; });
}
function about(run) {
  if (popular[run.name]) return "Most popular items: this model has nothing to go by.";
  const fitted = isFinal(run) ? "Final model: fitted on everything, to be deployed." : "Validated model: fitted without the test part.";
  const hits = run.metrics["HR@10"];
  return hits === undefined ? fitted : `${fitted} In the test ${Math.round(100 * hits)}% of users have a hit in their top 10.`;
}
function showDifference(shared) {
  /* The sentence above two lists: what is only in one, and what the two models had to learn from. */
  $("differ").hidden = runs.length < 2 || runs.some((run) => popular[run.name] || !lists[run.name]);
  if ($("differ").hidden) return;
  const only = runs.map((run) => [run, lists[run.name].filter((item) => !shared(item)).map((item) => item.title)]);
  const both = lists.main.length - only[0][1].length;
  const names = only.map(([run, titles]) => titles.length ? ` Only in ${run.label}: ${listed(titles)}.` : "");
  const unequal = new Set(runs.map(isFinal)).size > 1 ? " The final model has learnt from more of the log, so its list may be the better one for that alone." : "";
  const hidden = user ? " What either model knows this user to have is in neither list." : "";
  $("difference").textContent = `${both} of ${lists.main.length} are in both lists.${names.join("")}${unequal}${hidden}`;
}
function showLists() {
  const shared = (item) => runs.every((run) => (lists[run.name] || []).some((other) => other.id === item.id));
  showDifference(shared);
  $("runs").replaceChildren(...(Object.keys(lists).length ? runs : []).map((run) => {
    const rows = lists[run.name].map((item) => {
      const entry = row(item, make("div", {}, titleButton(item), make("p", { className: "why", textContent: reason(item, popular[run.name]) })), similarButton(item));
      if (!shared(item)) entry.className = "only";
      return entry;
    });
    return make("div", { className: "run" }, make("h3", { textContent: run.label }), make("p", { className: "hint", textContent: about(run) }), make("ol", {}, ...rows));
  }));
  $("log-reasons").hidden = !Object.values(lists).flat().some((item) => item.because.some((b) => !b.contribution));
  $("runs").classList.toggle("different", !$("differ").hidden && $("only-different").checked);
}

async function showSimilar(item) {
  const value = await ask(`/similar/${encodeURIComponent(item.id)}?n=12`);
  if (!value) return;
  $("similar-hint").textContent = value.similar.length ? `Items with the same users as ${item.title}. Of those who have one of the two, so many have both:` : `${item.title} shares no user with another item.`;
  $("similar").replaceChildren(...value.similar.map((near) => row(near, titleButton(near), make("small", { textContent: `${Math.round(100 * near.similarity)}%` }))));
  showTab($("t-near"));
  $("h-similar").focus();
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
  const all = [...$("found").querySelectorAll(".title")], at = all.indexOf(e.target.closest("li").querySelector(".title"));
  (all[at + (e.key === "ArrowDown" ? 1 : -1)] || $("query")).focus();
  e.preventDefault();
});
document.addEventListener("keydown", (e) => {
  /* In the empty search box as well: the hint beside it promises a search, and none begins with a slash. */
  const at = document.activeElement, typed = at === $("query") ? at.value !== "" : /INPUT|SELECT/.test(at.tagName);
  if (e.key === "/" && !typed) { $("query").focus(); e.preventDefault(); }
});
$("clear").addEventListener("click", () => { history_.length = 0; changed(); $("query").focus(); });
$("user-form").addEventListener("submit", (e) => { e.preventDefault(); if ($("user").value.trim()) leadToList(...userNamed($("user").value.trim())); });
$("surprise").addEventListener("click", () => leadToList(`/users?draw=${Math.floor(Math.random() * 2 ** 32)}`));
$("only-different").addEventListener("change", showLists);
const tabs = [...$("tabs").children];
function endRows() { endAtRow($("history")); endAtRow($("found")); }
addEventListener("resize", endRows);
function showTab(tab) {
  for (const other of tabs) {
    other.ariaSelected = String(other === tab);
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).classList.toggle("shown", other === tab);
  }
  endRows();
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
showTab($("t-recs"));

(async () => {
  const health = await ask("/health");
  if (!health) return;
  runs = health.runs;
  tellApart(runs);
  $("about").textContent = `${listed(runs.map((run) => run.label))}; ${count(runs[0].users, "user")}, ${count(runs[0].items, "item")}.`;
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem("shown") || "{}"); } catch { /* nothing kept */ }
  if (kept.user != null) await showUser(...userNamed(kept.user));
  else if (kept.history?.length) { history_.push(...kept.history); await changed(); }
  else await showUser("/users?draw=0");
  document.body.dataset.ready = "yes";
})();
