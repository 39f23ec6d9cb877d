// The page: lists in, ranked hypotheses out. The service scores a list once; whatever a slider does is computed here.

import { align, countErrors, wordsOf } from "./align.js";
import { compared } from "./compare.js";
import { el, errorColumns, plain, signed, stackedBar, termClasses, termKey } from "./draw.js";
import { behindBest, orderOf, scoresOf, settingsOf, withShare } from "./rank.js";
import { ask, useToken } from "./server.js";

const SHOWN = 10; // hypotheses, until all are asked for: what is told of two of them then stands below without much scrolling
const $ = (id) => document.getElementById(id);
const state = { weights: null, loaded: null, settings: null, lists: [], number: 0, list: null, reference: null, chosen: null, all: false };
const explained = new Map(); // text -> what each word adds, by model
let asked = 0; // the latest request for a list: an answer to an earlier one is dropped

// ---- from the service

async function start() {
  await attempt(async () => {
    const [about, { examples }] = await Promise.all([ask("v1/rescorer"), ask("v1/examples")]);
    state.weights = about.weights;
    state.loaded = state.settings = settingsOf(about.weights);
    const models = Object.keys(about.weights.lms).join(", ");
    $("about").textContent = `${models} · mapping ${about.mapping} · trflm ${about.version}` + (about.sha256 ? ` · ${about.sha256.slice(0, 12)}` : "");
    drawWeights();
    $("example").replaceChildren(el("option", { value: "", text: "choose one …" }),
      ...examples.map((example, i) => el("option", { value: i, text: example.title })));
    $("example").onchange = () => {
      const example = examples[Number($("example").value)];
      if ($("example").value !== "" && example) {
        $("text").value = example.lists.map((list) => JSON.stringify(asRecord(list))).join("\n");
        $("acoustic").value = $("references").value = $("format").textContent = "";
        showLists(example.lists);
      }
    };
  });
}

/** A list as the JSON Lines of `trf nbest` have it, to be read and edited. */
function asRecord(list) {
  const columns = { ...(list.acoustic ? { acoustic: list.acoustic } : {}), ...(list.scores || {}) };
  return {
    utterance: list.id, ...(list.reference === undefined ? {} : { reference: list.reference }),
    hypotheses: list.hypotheses.map((text, k) => ({ text, scores: Object.fromEntries(Object.entries(columns).map(([name, of]) => [name, of[k]])) })),
  };
}

async function attempt(work) {
  $("problem").textContent = "";
  document.body.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    $("problem").textContent = error.message;
    if (error.status === 401) $("access").hidden = false;
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

function read(name = undefined) {
  return attempt(async () => {
    if (!state.weights) await start();
    const more = {
      ...(name ? { name } : {}), ...($("acoustic").value.trim() ? { acoustic: $("acoustic").value, acoustic_is_cost: $("cost").checked } : {}),
      ...($("references").value.trim() ? { references: $("references").value } : {}),
    };
    const found = await ask("v1/parse", { text: $("text").value, ...more });
    const count = found.lists.length;
    $("format").textContent = [`read as ${found.format}: ${count} ${count === 1 ? "list" : "lists"}`, ...found.notes].join(" · ");
    await showLists(found.lists);
  });
}

async function showLists(lists) {
  state.lists = lists;
  $("lists").hidden = lists.length < 2;
  $("list").replaceChildren(...lists.map((list, i) => el("option", { value: i, text: `${i + 1} of ${lists.length}: ${list.id || "(no name)"}` })));
  await showList(0);
}

function showList(number) {
  return attempt(async () => {
    const mine = ++asked;
    const given = { ...state.lists[number] };
    const names = given.acoustic ? [] : Object.keys(given.scores || {});
    $("unnamed").hidden = !names.length;
    if (names.length) {
      const which = names.includes($("which").value) ? $("which").value : names[0];
      $("which").replaceChildren(...names.map((name) => el("option", { value: name, text: name, selected: name === which })));
      given.acoustic = given.scores[which];
    }
    const answer = await ask("v1/rescore", {
      hypotheses: given.hypotheses, ...(given.id ? { id: given.id } : {}), ...(given.acoustic ? { acoustic: given.acoustic } : {}),
      ...(given.scores && Object.keys(given.scores).length ? { scores: given.scores } : {}),
      ...(given.reference === undefined ? {} : { reference: given.reference }),
    });
    if (mine !== asked) return;
    Object.assign(state, { number, list: answer, reference: given.reference ?? null, chosen: null, all: false });
    $("list").value = number;
    $("previous").disabled = number === 0;
    $("next").disabled = number === state.lists.length - 1;
    $("result").hidden = false;
    draw();
  });
}

async function explain(texts) {
  const missing = [...new Set(texts)].filter((text) => text && !explained.has(text));
  if (missing.length) {
    const { words } = await ask("v1/explain", { hypotheses: missing });
    missing.forEach((text, i) => explained.set(text, words[i]));
  }
  return texts.map((text) => explained.get(text));
}

// ---- sliders

/** [name, least, most, step, value, change of the settings] */
function sliders() {
  const { loaded, settings } = state;
  const names = Object.keys(settings.share);
  const wide = (value, least) => Math.max(least, 3 * Math.abs(value));
  const several = names.length > 1;
  return [
    ["scale", "Scale of the language models", 0, wide(loaded.scale, 1), settings.scale, (value) => ({ ...settings, scale: value })],
    ...(several ? names.slice(0, names.length > 2 ? undefined : 1) : []).map((name, i) =>
      [`share${i}`, `Share of ${name}`, 0, 1, settings.share[name], (value) => withShare(settings, name, value)]),
    ["word", "Word penalty, nats a word", -wide(loaded.word, 3), wide(loaded.word, 3), settings.word, (value) => ({ ...settings, word: value })],
    ...names.map((name, i) => [`oov${i}`, several ? `OOV penalty of ${name}` : "OOV penalty, nats", 0, wide(loaded.oov[name], 5), settings.oov[name],
      (value) => ({ ...settings, oov: { ...settings.oov, [name]: value } })]),
  ];
}

function drawWeights() {
  const rows = sliders().map(([id, label, least, most, value], number) => {
    const input = el("input", { type: "range", id, min: least, max: most, step: "any" });
    input.value = value;
    input.addEventListener("input", () => {
      state.settings = sliders()[number][5](Number(input.value));
      showWeights();
      if (state.list) draw();
    });
    // a range without steps moves by too little with the keys: a hundredth of its width instead, a tenth by page keys
    input.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (!steps) return;
      event.preventDefault();
      input.value = Number(input.value) + (steps * (most - least)) / 100;
      input.dispatchEvent(new Event("input"));
    });
    return el("div", { class: "slider" }, el("label", { for: id }, el("span", { text: label }), el("output", { for: id, text: plain(value) })), input);
  });
  $("weights").replaceChildren(el("legend", { text: "Weights" }), el("div", { class: "sliders" }, ...rows),
    el("button", { type: "button", id: "reset", text: "As the service has them", onclick: reset }));
  showWeights(); // as text too: a screen reader would read every digit of a number
}

function showWeights() {
  for (const [id, , , , value] of sliders()) {
    $(id).value = value;
    $("weights").querySelector(`output[for="${id}"]`).textContent = plain(value);
    $(id).setAttribute("aria-valuetext", plain(value));
  }
}

function reset() {
  state.settings = state.loaded;
  showWeights();
  if (state.list) draw();
}

// ---- the result

function draw() {
  const { list, settings } = state;
  const scores = scoresOf(list, settings);
  const order = orderOf(scores);
  const classes = termClasses(Object.keys(list.lms));
  drawTable(order, scores, classes);
  say(order, scores);
  const other = state.chosen ?? (order[0] === 0 ? order[1] ?? 0 : 0);
  drawDetail(order, other, classes);
  drawErrors(order);
}

function say(order, scores) {
  const { list } = state;
  const lead = order.length > 1 ? scores[order[0]] - scores[order[1]] : 0;
  const where = order[0] === 0 ? "first before too" : `was ${ordinal(order[0] + 1)} in the list`;
  const text = `Best: “${list.hypotheses[order[0]] || "(no words)"}”, ${where}` + (order.length > 1 ? `, ${plain(lead)} nats ahead.` : ".");
  if ($("said").textContent !== text) $("said").textContent = text;
}

function ordinal(number) {
  const ending = number % 100 > 10 && number % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[number % 10] || "th";
  return `${number}${ending}`;
}

function drawTable(order, scores, classes) {
  const { list } = state;
  const behind = behindBest(list, state.settings);
  const shown = state.all ? order : order.slice(0, SHOWN);
  const most = shown.reduce((found, k) => Math.max(found, behind[k].reduce((sum, part) => sum + part.value, 0)), 1e-9);
  const errors = list.errors?.each;
  const firstWords = wordsOf(list.hypotheses[order[0]]);
  const head = ["Now", "Before", "Hypothesis", ...(errors ? ["Errors"] : []), "Score", "Behind the best of each term"];
  const rows = shown.map((k, place) => {
    const moved = k - place;
    const cells = [
      el("td", { class: "number", text: place + 1 }),
      el("td", { class: "number" }, el("span", { text: `${k + 1} ` }),
        el("span", { class: "moved", role: "img", text: moved > 0 ? `▲${moved}` : moved < 0 ? `▼${-moved}` : "", "aria-label": moved > 0 ? `up ${moved}` : moved < 0 ? `down ${-moved}` : "not moved" })),
      el("td", {}, hypothesisButton(k, place, firstWords)),
      ...(errors ? [el("td", { class: "number", text: errors[k] })] : []),
      el("td", { class: "number", text: plain(scores[k]) }),
      el("td", {}, stackedBar(behind[k], most, classes)),
    ];
    cells.forEach((cell, i) => cell.setAttribute("data-name", i === 2 ? "" : ["now", "before", "", ...(errors ? ["errors"] : []), "score", ""][i]));
    return el("tr", { "aria-current": place === 0 ? "true" : null, class: k === state.chosen ? "chosen" : "" }, ...cells);
  });
  const focused = document.activeElement?.dataset?.k;
  $("ranked").replaceChildren(
    el("caption", { class: "note" }, termKey(behind[0].map((part) => part.term), classes),
      document.createTextNode("A bar shows by how many nats a hypothesis is behind the best of the list, term by term: the shortest bar wins. Choose a hypothesis to compare it with the winner.")),
    el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col", text: name, class: /Now|Before|Errors|Score/.test(name) ? "number" : "" })))),
    el("tbody", {}, ...rows));
  if (focused !== undefined) $("ranked").querySelector(`button[data-k="${focused}"]`)?.focus();
  $("ranked").parentElement.classList.toggle("tall", state.all);
  $("all").hidden = order.length <= SHOWN;
  $("all").textContent = state.all ? `Show the best ${SHOWN}` : `Show all ${order.length}`;
}

/** The hypothesis; words that differ from the winner's are marked. */
function hypothesisButton(k, place, firstWords) {
  const words = wordsOf(state.list.hypotheses[k]);
  const pairs = place === 0 ? words.map((word) => [word, word]) : align(firstWords, words) || words.map((word) => [word, word]);
  const children = pairs.flatMap(([a, b]) => (b === null ? [el("del", { text: "∅", title: `without ${a}` })] : [a === b ? document.createTextNode(b) : el("ins", { text: b })]).concat(document.createTextNode(" ")));
  return el("button", { type: "button", "data-k": k, "aria-pressed": state.chosen === k ? "true" : "false",
    onclick: () => { state.chosen = state.chosen === k ? null : k; draw(); } }, ...(words.length ? children : [document.createTextNode("(no words)")]));
}

async function drawDetail(order, other, classes) {
  const { list, settings, loaded } = state;
  const best = order[0];
  const title = el("h2", { text: other === best ? "The winner" : `Why ${ordinal(best + 1)} of the list beats ${ordinal(other + 1)}` });
  const show = (words) => {
    if (list !== state.list || settings !== state.settings) return; // something else is shown by now
    const names = other === best ? ["winner", "winner"] : ["the other", "winner"];
    $("detail").replaceChildren(title, ...compared({ list, settings, loaded, classes, explained: words }, other, best, names));
  };
  const texts = [other, best].map((k) => list.hypotheses[k]);
  if (texts.every((text) => !text || explained.has(text))) show(texts.map((text) => explained.get(text)));
  else {
    show(null);
    await attempt(async () => show(await explain(texts)));
  }
}

function drawErrors(order) {
  const { reference, list } = state;
  $("errors").hidden = reference === null;
  if (reference === null) return;
  const words = wordsOf(reference);
  const children = [el("h2", { text: "Word errors" })];
  const distinct = order[0] === 0 ? [["first and now", 0]] : [["first in the list", 0], ["now", order[0]]];
  const counted = distinct.map(([name, k]) => [name, align(words, wordsOf(list.hypotheses[k]))]);
  const least = Math.min(...list.errors.each);
  children.push(el("dl", { class: "figures" }, ...counted.map(([name, pairs]) => figure(name, pairs && countErrors(pairs), words.length)),
    el("div", {}, el("dt", { text: "best of the list (oracle)" }), el("dd", { text: least }))));
  for (const [name, pairs] of counted) {
    children.push(el("h3", { text: `Reference above, ${name} below` }));
    children.push(pairs ? errorColumns(pairs) : el("p", { class: "note", text: "Too long to be aligned here." }));
  }
  children.push(el("p", { class: "note", text: "S substituted, D left out, I put in." }));
  $("errors").replaceChildren(...children);
}

function figure(name, counts, words) {
  const shares = counts ? `S ${counts.substitutions} · D ${counts.deletions} · I ${counts.insertions}` : "";
  const rate = counts && words ? ` · of ${words} words, ${((100 * counts.errors) / words).toFixed(1)} %` : "";
  return el("div", {}, el("dt", { text: name }), el("dd", { text: counts ? counts.errors : "–" }, el("small", { text: shares + rate })));
}

// ---- what a person does

async function take(file) {
  if (!file) return;
  $("text").value = await file.text();
  await read(file.name);
}

$("go").onclick = () => read();
$("file").onchange = () => take($("file").files[0]).then(() => { $("file").value = ""; });
$("previous").onclick = () => showList(state.number - 1);
$("next").onclick = () => showList(state.number + 1);
$("list").onchange = () => showList(Number($("list").value));
$("which").onchange = () => showList(state.number);
$("all").onclick = () => { state.all = !state.all; draw(); };
$("access").onsubmit = (event) => { event.preventDefault(); useToken($("token").value); start(); };
$("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) read(); });
$("drop").addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  else $("text").value = event.dataTransfer.getData("text/plain");
});
start();
