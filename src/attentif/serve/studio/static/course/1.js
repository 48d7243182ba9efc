/** Sequences and tokens. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un réseau ne lit pas des lettres : il lit des nombres. Il faut donc couper le texte en morceaux, les jetons (tokens), et donner un numéro à chacun. Trois façons de couper s'opposent. Par mots : le vocabulaire explose, et un mot jamais vu devient « inconnu ». Par caractères : rien n'est inconnu, mais les suites sont longues. Par sous-mots : les mots fréquents restent entiers, les rares sont coupés. C'est ce que font tous les grands modèles.",
        "A network reads numbers, not letters. So text is cut into pieces, the tokens, and each gets a number. There are three ways to cut. By words: the vocabulary explodes, and a word never seen becomes “unknown”. By characters: nothing is unknown, but sequences are long. By sub-words: frequent words stay whole, rare ones are cut. That is what every large model does.") ] },
    { title: b("BPE, une fusion à la fois", "BPE, one merge at a time"), text: [
      b("BPE (Byte Pair Encoding) part des caractères. À chaque étape, il compte les paires de symboles voisins, fusionne la plus fréquente en un nouveau symbole, et recommence. L'ordre des fusions est le tokenizer : un texte nouveau est coupé en rejouant les mêmes fusions.",
        "BPE (byte-pair encoding) starts from characters. At each step it counts pairs of neighbouring symbols, merges the most frequent one into a new symbol, and starts again. The order of the merges is the tokenizer: a new text is cut by replaying them."),
      b("Déplacez le curseur : voici l'algorithme sur votre texte, fusion par fusion.", "Move the slider: this is the algorithm on your own text, merge by merge.") ], widget: { view: "bpe" } },
    { title: b("De vrais jetons, leurs numéros, leurs vecteurs", "Real tokens, their numbers, their vectors"), text: [
      b("Ci-dessous, un modèle qui a appris sur du vrai texte. Changez la phrase : chaque morceau a son numéro, et chaque numéro sa ligne dans une table de vecteurs, apprise avec le reste.",
        "Below, a model that learned from real text. Change the sentence: each piece has its number, and each number its row in a table of vectors that is learned with everything else.") ],
      widget: { view: "inside", kinds: ["classify", "language"], train: { recipe: "reviews", model: "encoder-tiny" }, query: { path: "frontend" } } },
  ],
  lab: [{ name: "L24", claim: b("Les sous-mots aident pour les mots rares ; couper les chiffres aide à calculer.", "Sub-words help with rare words; splitting digits helps with arithmetic.") }],
  questions: [
    { ask: b("Que fusionne BPE à chaque étape ?", "What does BPE merge at each step?"), answers: [b("la paire de symboles voisins la plus fréquente", "the most frequent pair of neighbouring symbols"), b("les deux mots les plus longs", "the two longest words"), b("trois lettres au hasard", "three letters at random")], right: 0, why: b("Toujours une paire ; le symbole fusionné peut ensuite entrer dans une autre paire.", "Always a pair; the merged symbol may then be part of another pair.") },
    { ask: b("Un mot jamais vu pendant l'apprentissage du tokenizer BPE…", "A word that was never seen while BPE was trained…"), answers: [b("devient le jeton inconnu", "becomes the unknown token"), b("est coupé en morceaux connus", "is cut into known pieces"), b("reçoit un nouveau numéro", "is given a new number")], right: 1, why: b("Au pire en caractères (ou en octets), qui sont tous dans le vocabulaire.", "At worst into characters (or bytes), all of which are in the vocabulary.") },
    { ask: b("Pourquoi ne pas couper simplement en caractères ?", "Why not simply cut into characters?"), answers: [b("les suites deviennent longues, et l'attention coûte n²", "sequences become long, and attention costs n²"), b("les caractères n'ont pas de vecteur", "characters have no vectors"), b("les accents seraient perdus", "accents would be lost")], right: 0, why: b("Quatre à cinq fois plus de jetons, donc seize à vingt-cinq fois plus de comparaisons.", "Four to five times as many tokens, so sixteen to twenty-five times as many comparisons.") },
  ],
};
