// What the page of the service and `trf report` both draw. Words of a list are always put in as text, never as markup.

/** An element. A key `text` is its text, `style` an object of properties, `onX` a listener; others are attributes. */
export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key === "style") for (const [name, of] of Object.entries(value)) made.style.setProperty(name, of);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A number with its sign, a true minus, and as many places as its size deserves. */
export function signed(value, places = 2) {
  if (!Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(places);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
}

export function plain(value, places = 2) {
  return signed(value, places).replace("+", "");
}

const hidden = (text) => el("span", { class: "hidden", text });

/** name of a term -> class of its colour; the OOV words of a model have its colour, hatched. */
export function termClasses(lmNames) {
  const found = { acoustic: "t-acoustic", words: "t-words" };
  lmNames.forEach((name, number) => {
    found[name] = `t-lm${number % 5}`;
    found[`${name} OOV words`] = `t-lm${number % 5} hatched`;
  });
  return found;
}

export function termKey(terms, classes) {
  return el("ul", { class: "key", "aria-label": "terms of the score" },
    ...terms.map((term) => el("li", {}, el("i", { class: `swatch ${classes[term]}` }), document.createTextNode(term))));
}

/** One bar of segments side by side, `most` nats to the full width. */
export function stackedBar(parts, most, classes) {
  const label = parts.map((part) => `${part.term} ${part.value.toFixed(2)}`).join(", ");
  return el("div", { class: "bar", role: "img", "aria-label": `behind the best: ${label || "nothing"}`, title: label },
    ...parts.filter((part) => part.value > 0).map((part) =>
      el("i", { class: classes[part.term], style: { width: `${(100 * part.value) / most}%` } })));
}

/** From what a word added to a class from far below (-4) to far above (+4) the mean of `all`. */
function shade(value, mean, spread) {
  const level = Math.max(-4, Math.min(4, Math.round((4 * (value - mean)) / (spread || 1))));
  return level < 0 ? `low${-level}` : level > 0 ? `high${level}` : "even";
}

/** [shade class] of each value; `against` are the values that the scale comes from. */
export function shades(values, against = values) {
  const mean = against.reduce((sum, value) => sum + value, 0) / Math.max(against.length, 1);
  const spread = against.reduce((most, value) => Math.max(most, Math.abs(value - mean)), 0);
  return values.map((value) => shade(value, mean, spread));
}

/** A sentence whose words are coloured by what they added, the number under each. */
export function wordLine(words, added, against = added) {
  const classes = shades(added, against);
  return el("ol", { class: "words" }, ...words.map((word, i) =>
    el("li", { class: classes[i], title: `${signed(added[i])} nats` }, el("b", { text: word }), el("small", { text: signed(added[i], 1) }))));
}

/** Two sentences in columns. `added` (of each side, by place) puts the difference under a column; places that differ are marked
 *  by a frame and a sign, for the eye, and in words for those who listen. */
export function sideBySide(pairs, names, added = null) {
  const said = ([a, b]) => (a === null ? `${names[1]} adds ${b}` : b === null ? `${names[1]} leaves out ${a}` : `${a} becomes ${b}`);
  return el("ol", { class: "columns", "aria-label": `${names[0]} above ${names[1]}` }, ...pairs.map((pair, i) => {
    const differs = pair[0] !== pair[1];
    const change = added && added[i];
    return el("li", { class: differs ? "differs" : "" },
      differs ? hidden(said(pair)) : null,
      ...pair.map((word) => el("span", { text: word ?? "∅", class: word === null ? "nothing" : "", "aria-hidden": differs ? "true" : null })),
      added ? el("small", { text: change === null ? "" : signed(change, 1), title: "what the column changes, in nats" }) : null);
  }));
}

/** A hypothesis under its reference: S, D and I stand under the words they are. */
export function errorColumns(pairs) {
  const kind = ([said, heard]) => (said === heard ? "" : said === null ? "I" : heard === null ? "D" : "S");
  const name = { S: "substituted", D: "left out", I: "put in" };
  return el("ol", { class: "columns errors", "aria-label": "reference above, hypothesis below" }, ...pairs.map((pair) => {
    const mark = kind(pair);
    return el("li", { class: mark ? "wrong" : "" },
      el("span", { text: pair[0] ?? "∅", class: pair[0] === null ? "nothing" : "" }),
      el("span", { text: pair[1] ?? "∅", class: pair[1] === null ? "nothing" : "" }),
      mark ? el("small", { role: "img", "aria-label": name[mark], title: name[mark], text: mark }) : el("small"));
  }));
}

/** Terms of two hypotheses and by how much each speaks for the second: bars from a middle line. */
export function termTable(before, now, names, classes) {
  const gains = now.map((part, t) => part.value - before[t].value);
  const most = gains.reduce((found, gain) => Math.max(found, Math.abs(gain)), 1e-9);
  const sum = (parts) => parts.reduce((total, part) => total + part.value, 0);
  const row = (term, a, b, gain, strong) => el("tr", { class: strong ? "total" : "" },
    el("th", { scope: "row" }, ...(classes[term] ? [el("i", { class: `swatch ${classes[term]}` })] : []), document.createTextNode(term)),
    el("td", { class: "number", text: plain(a) }), el("td", { class: "number", text: plain(b) }),
    el("td", { class: "number", text: signed(gain) }), el("td", { class: "gain" }, strong ? null : gainBar(gain, most)));
  return el("div", { class: "scroll" }, el("table", { class: "terms" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "term, in nats" }),
      ...names.map((name) => el("th", { scope: "col", class: "number", text: name })),
      el("th", { scope: "col", class: "number", text: "difference" }), el("th", { scope: "col" }, hidden("difference as a bar")))),
    el("tbody", {}, ...now.map((part, t) => row(part.term, before[t].value, part.value, gains[t], false)),
      row("score", sum(before), sum(now), sum(now) - sum(before), true))));
}

/** A bar to the right (for) or left (against) of a middle line. */
export function gainBar(gain, most) {
  return el("div", { class: `balance ${gain < 0 ? "against" : "for"}`, "aria-hidden": "true" },
    el("i", { style: { width: `${(50 * Math.abs(gain)) / most}%` } }));
}
