/** Self-attention by hand. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Et si une phrase se regardait elle-même ? Chaque jeton pose une question (q), se présente par une clé (k) et donne une valeur (v), trois projections linéaires du même vecteur. Les produits q·k disent qui intéresse qui ; divisés par √d_k, ils passent par une softmax ; la sortie est la moyenne des valeurs avec ces poids.",
        "What if a sentence looked at itself? Each token asks a question (q), introduces itself by a key (k) and gives a value (v), three linear projections of the same vector. The products q·k say who interests whom; divided by √d_k they go through a softmax; the output is the mean of the values with these weights.") ],
      formula: "Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V" },
    { text: [b("Ici q = k = v = x, pour voir l'essentiel. Changez n'importe quel nombre.", "Here q = k = v = x, to see what matters. Change any number.")], widget: { view: "three" } },
    { title: b("Pourquoi √d_k ?", "Why √d_k?"), text: [
      b("Si les coordonnées de q et k sont de variance 1, leur produit est de variance d_k : il grandit avec la largeur. Augmentez l'échelle ci-dessus : la softmax sature, un poids tend vers 1, tous les gradients vers 0. Diviser par √d_k garde la variance à 1.",
        "If the coordinates of q and k have variance 1, their product has variance d_k: it grows with the width. Raise the scale above: the softmax saturates, one weight tends to 1, all gradients to 0. Dividing by √d_k keeps the variance at 1.") ] },
    { title: b("Les mêmes calculs dans un vrai modèle", "The same computation in a real model"), text: [
      b("Une requête d'une tête, avec ses vrais nombres, du flux au flux.", "One query of one head, with its real numbers, from the stream to the stream.") ],
      widget: { view: "inside", kinds: ["language"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" } } },
  ],
  lab: [
    { name: "L4", claim: b("Sans √d_k, la softmax sature et son gradient meurt quand d_k grandit.", "Without √d_k the softmax saturates and its gradient dies as d_k grows.") },
    { name: "L27", claim: b("Des q, k, v linéaires suffisent, et les scores doivent dépendre de x.", "Linear q, k, v suffice, and the scores must depend on x.") }],
  questions: [
    { ask: b("Quand la softmax sature, son gradient tend vers…", "When the softmax saturates, its gradient tends to…"), answers: [b("zéro", "zero"), b("un", "one"), b("l'infini", "infinity")], right: 0, why: b("Les sorties tendent vers 0 ou 1 ; la dérivée p(1 − p), vers 0.", "Outputs tend to 0 or 1; the derivative p(1 − p) tends to 0.") },
    { ask: b("La sortie d'une requête est…", "The output of a query is…"), answers: [b("la valeur du jeton le plus regardé", "the value of the most attended token"), b("une moyenne pondérée de toutes les valeurs", "a weighted mean of all values"), b("la somme des clés", "the sum of the keys")], right: 1, why: b("Un mélange : tous les poids sont positifs, aucun n'est nul sans masque.", "A mixture: all weights are positive, none is zero without a mask.") },
    { ask: b("Que vaut le produit q·k en moyenne quadratique si d_k = 64 et les coordonnées sont de variance 1 ?", "What is the root mean square of q·k when d_k = 64 and coordinates have variance 1?"), answers: [b("1", "1"), b("8", "8"), b("64", "64")], right: 1, why: b("La variance est 64, l'écart type √64 = 8.", "The variance is 64, the standard deviation √64 = 8.") },
  ],
};
