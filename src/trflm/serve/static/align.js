// Word alignment, with the costs and the choice among equals of evaluation/alignment.py: fewest errors, then most words right.

const INDEL = 1 << 20;
const SUBSTITUTION = INDEL + 1;
const MOST_CELLS = 4e6;

export const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

/** [[i, j]] places of `a` and `b` side by side, null where one side has no word; null altogether where both are too long. */
export function alignPlaces(a, b) {
  const width = b.length + 1;
  if ((a.length + 1) * width > MOST_CELLS) return null;
  const cost = new Float64Array((a.length + 1) * width);
  for (let j = 0; j < width; j++) cost[j] = j * INDEL;
  for (let i = 1; i <= a.length; i++) {
    cost[i * width] = i * INDEL;
    for (let j = 1; j < width; j++) {
      const corner = cost[(i - 1) * width + j - 1] + (a[i - 1] === b[j - 1] ? 0 : SUBSTITUTION);
      cost[i * width + j] = Math.min(corner, cost[(i - 1) * width + j] + INDEL, cost[i * width + j - 1] + INDEL);
    }
  }
  const pairs = [];
  let [i, j] = [a.length, b.length];
  while (i || j) {
    const here = cost[i * width + j];
    if (i && j && here === cost[(i - 1) * width + j - 1] + (a[i - 1] === b[j - 1] ? 0 : SUBSTITUTION)) pairs.push([--i, --j]);
    else if (j && here === cost[i * width + j - 1] + INDEL) pairs.push([null, --j]);
    else pairs.push([--i, null]);
  }
  return pairs.reverse();
}

/** [[word of a | null, word of b | null]], or null where both are too long. */
export function align(a, b) {
  const pairs = alignPlaces(a, b);
  return pairs && pairs.map(([i, j]) => [i === null ? null : a[i], j === null ? null : b[j]]);
}

/** S, D, I and their sum. */
export function countErrors(pairs) {
  const counts = { substitutions: 0, deletions: 0, insertions: 0, errors: 0 };
  for (const [said, heard] of pairs) {
    if (said === heard) continue;
    counts[said === null ? "insertions" : heard === null ? "deletions" : "substitutions"]++;
    counts.errors++;
  }
  return counts;
}
