/**
 * The course: twelve chapters that follow one road, from tokens to Mamba. Titles are here, each chapter is a module of its own.
 * @typedef {{fr: string, en: string}} Both
 * @typedef {{ask: Both, answers: Both[], right: number, why: Both}} Question
 * @typedef {{view: string, kinds?: string[], attends?: boolean, train?: {recipe: string, model?: string, minutes?: number}, query?: Record<string, string>}} Widget
 * @typedef {{title?: Both, text?: Both[], formula?: string | Both, widget?: Widget}} Part
 * @typedef {{parts: Part[], lab: {name: string, claim: Both}[], questions: Question[]}} Chapter
 */

/** @param {string} fr @param {string} en @returns {Both} */
export const b = (fr, en) => ({ fr, en });

/** @type {{title: Both, lead: Both}[]} */
export const TITLES = [
  { title: b("Séquences et jetons", "Sequences and tokens"), lead: b("Du texte aux nombres.", "From text to numbers.") },
  { title: b("Plongements", "Embeddings"), lead: b("Le sens comme direction.", "Meaning as a direction.") },
  { title: b("Récurrence", "Recurrence"), lead: b("Lire mot à mot, avec une mémoire.", "Reading word by word, with a memory.") },
  { title: b("Le goulot, puis l'attention", "The bottleneck, and attention"), lead: b("Une phrase ne tient pas dans un vecteur.", "A sentence does not fit in one vector.") },
  { title: b("L'auto-attention à la main", "Self-attention by hand"), lead: b("Trois vecteurs suffisent.", "Three vectors are enough.") },
  { title: b("Plusieurs têtes", "Several heads"), lead: b("Regarder de plusieurs façons à la fois.", "Looking in several ways at once.") },
  { title: b("Positions", "Positions"), lead: b("Sans elles, l'ordre ne compte pas.", "Without them, order does not count.") },
  { title: b("Le bloc", "The block"), lead: b("Attention, réseau, résidus, normes.", "Attention, feed-forward, residuals, norms.") },
  { title: b("Encodeur et décodeur", "Encoder and decoder"), lead: b("Lire, puis écrire.", "Reading, then writing.") },
  { title: b("La famille", "The family"), lead: b("BERT, GPT, T5, ViT.", "BERT, GPT, T5, ViT.") },
  { title: b("Le mur quadratique", "The quadratic wall"), lead: b("n² comparaisons, et comment s'en passer.", "n² comparisons, and how to do without.") },
  { title: b("Espaces d'états et Mamba", "State spaces and Mamba"), lead: b("Une mémoire de taille fixe, qui choisit.", "A memory of fixed size that chooses.") },
];

/** @param {number} number from 1 @returns {Promise<Chapter>} */
export const chapter = async (number) => (await import(`./${number}.js`)).default;
