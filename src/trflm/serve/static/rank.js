// The score of a hypothesis from its parts, and the order that follows. No page is needed: tests call these directly.
//
//   score_k = acoustic_k + sum_lm factor * (log_prob_k - oov_penalty * oov_k) + word_penalty * n_words_k
//   factor of an LM = scale * its share; shares sum to one
//
// list: {hypotheses: [text], acoustic: [nats], n_words: [count], lms: {name: {log_prob: [nats], oov: [count]}}}

/** What the sliders hold, from the weights that the server tells. */
export function settingsOf(weights) {
  const names = Object.keys(weights.lms);
  const scale = names.reduce((sum, name) => sum + weights.lms[name].factor, 0);
  const share = {};
  const oov = {};
  for (const name of names) {
    share[name] = scale ? weights.lms[name].factor / scale : 1 / names.length;
    oov[name] = weights.lms[name].oov_penalty;
  }
  return { scale, share, oov, word: weights.word_penalty };
}

/** The same with another share of one model; the others keep their proportions. */
export function withShare(settings, name, value) {
  const others = Object.keys(settings.share).filter((other) => other !== name);
  const rest = others.reduce((sum, other) => sum + settings.share[other], 0);
  const share = { ...settings.share, [name]: others.length ? value : 1 };
  for (const other of others) {
    share[other] = (1 - value) * (rest > 0 ? settings.share[other] / rest : 1 / others.length);
  }
  return { ...settings, share };
}

export const factorOf = (settings, name) => settings.scale * settings.share[name];

/** What each term adds to the score of hypothesis k: [{term, of, value}]; `of` is the model, if it is one's. */
export function partsOf(list, k, settings) {
  const parts = [{ term: "acoustic", of: null, value: list.acoustic[k] }];
  for (const name of Object.keys(list.lms)) {
    const factor = factorOf(settings, name);
    parts.push({ term: name, of: name, value: factor * list.lms[name].log_prob[k] });
    parts.push({ term: `${name} OOV words`, of: name, value: -factor * settings.oov[name] * list.lms[name].oov[k] });
  }
  parts.push({ term: "words", of: null, value: settings.word * list.n_words[k] });
  return parts;
}

/** [K] scores. */
export function scoresOf(list, settings) {
  return list.hypotheses.map((_, k) => {
    let score = list.acoustic[k] + settings.word * list.n_words[k];
    for (const name of Object.keys(list.lms)) {
      const { log_prob, oov } = list.lms[name];
      score += factorOf(settings, name) * (log_prob[k] - settings.oov[name] * oov[k]);
    }
    return score;
  });
}

/** Hypotheses by falling score, equals as they stood. */
export function orderOf(scores) {
  return scores.map((_, k) => k).sort((a, b) => scores[b] - scores[a] || a - b);
}

/** By term, how far each hypothesis is behind the best of the list in that term: [K][terms] of {term, of, value >= 0}.
 *  Their sums differ as the scores do, so the smallest sum wins. Terms in which all are equal are left out. */
export function behindBest(list, settings) {
  const parts = list.hypotheses.map((_, k) => partsOf(list, k, settings));
  const best = parts[0].map((_, t) => parts.reduce((most, of) => Math.max(most, of[t].value), -Infinity));
  const worst = parts[0].map((_, t) => parts.reduce((least, of) => Math.min(least, of[t].value), Infinity));
  const told = best.map((value, t) => value - worst[t] > 1e-9);
  return parts.map((of) => of.map((part, t) => ({ ...part, value: best[t] - part.value })).filter((_, t) => told[t]));
}
