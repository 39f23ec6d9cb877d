// Two hypotheses of a list beside each other: the terms that decided, the columns in which they differ, each word's share.

import { alignPlaces, wordsOf } from "./align.js";
import { el, sideBySide, signed, termTable, wordLine } from "./draw.js";
import { factorOf, partsOf } from "./rank.js";

/** What the words of a sentence added through each model, at the factors of now. `explained` is at those of `loaded`. */
export function wordParts(explained, settings, loaded) {
  const found = {};
  for (const [name, of] of Object.entries(explained || {})) {
    const was = factorOf(loaded, name);
    const turned = was ? factorOf(settings, name) / was : 0;
    found[name] = { words: of.words, added: of.added.map((value) => turned * value), rest: turned * of.rest };
  }
  return found;
}

/** Added up over models that saw the same words; null where they differ. */
function summed(parts) {
  const every = Object.values(parts);
  if (!every.length) return null;
  const words = every[0].words;
  if (every.some((of) => of.words.join(" ") !== words.join(" "))) return null;
  return { words, added: words.map((_, i) => every.reduce((sum, of) => sum + of.added[i], 0)) };
}

/** pairs and by how much each column speaks for b, of sentences whose words have added what they did. */
function columns(a, b) {
  const places = alignPlaces(a.words, b.words);
  if (!places) return null;
  return {
    pairs: places.map(([i, j]) => [i === null ? null : a.words[i], j === null ? null : b.words[j]]),
    change: places.map(([i, j]) => (j === null ? 0 : b.added[j]) - (i === null ? 0 : a.added[i])),
  };
}

/** Children that show hypothesis b against a. view: {list, settings, loaded, classes, explained: [of a, of b] or null} */
export function compared(view, a, b, names) {
  const { list, settings, classes } = view;
  const parts = [partsOf(list, a, settings), partsOf(list, b, settings)];
  const told = parts[0].map((part, t) => Math.abs(part.value) > 1e-12 || Math.abs(parts[1][t].value) > 1e-12);
  const [before, now] = parts.map((of) => of.filter((_, t) => told[t]));
  const children = [termTable(before, now, names, classes)];
  const byModel = (view.explained || []).map((of) => wordParts(of, settings, view.loaded));
  const sums = byModel.map(summed);
  const bare = [a, b].map((k) => ({ words: wordsOf(list.hypotheses[k]), added: null }));
  children.push(el("h3", { text: "Where they differ" }));
  if (sums.length === 2 && sums[0] && sums[1]) {
    const found = columns(...sums);
    if (found) children.push(sideBySide(found.pairs, names, found.change));
  } else {
    const places = alignPlaces(bare[0].words, bare[1].words);
    if (places) children.push(sideBySide(places.map(([i, j]) => [i === null ? null : bare[0].words[i], j === null ? null : bare[1].words[j]]), names));
    else children.push(el("p", { class: "note", text: "Too long to be aligned here." }));
  }
  for (const name of Object.keys(byModel[0] || {})) {
    const both = byModel.map((of) => of[name]);
    if (both.some((of) => !of)) continue;
    const against = both.flatMap((of) => of.added);
    children.push(el("h3", { text: `What each word adds through ${name}` }));
    both.forEach((of, side) => children.push(el("div", { class: "heard" },
      el("span", { class: "who", text: names[side] }), wordLine(of.words, of.added, against),
      el("p", { class: "note", text: `and ${signed(of.rest)} for the end or the length of the sentence` }))));
  }
  if (byModel.length) {
    children.push(el("p", { class: "note", text: "Red and underlined: below the mean of these words; green: above it. Numbers are nats" +
      (Object.keys(list.lms).some((name) => settings.oov[name] !== view.loaded.oov[name] && (list.lms[name].oov[a] || list.lms[name].oov[b]))
        ? ", with the OOV penalty the service has loaded." : ".") }));
  }
  return children;
}
