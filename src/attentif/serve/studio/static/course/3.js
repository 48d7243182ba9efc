/** Recurrence. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un réseau récurrent lit un jeton, met à jour un état, lit le suivant. La même matrice sert à chaque pas : la longueur est libre, la mémoire est de taille fixe.",
        "A recurrent network reads a token, updates a state, reads the next. The same matrix serves at every step: length is free, memory has a fixed size.") ],
      formula: "h_t = tanh(W h_{t−1} + U x_t + b)" },
    { title: b("Le gradient qui s'évanouit", "The vanishing gradient"), text: [
      b("Pour apprendre d'un mot lointain, le gradient remonte le temps : un produit de T matrices. Si leur plus grande valeur singulière est sous 1, il tend vers zéro ; au-dessus, il explose. Couper les gradients trop longs guérit l'explosion, pas l'évanouissement.",
        "To learn from a distant word, the gradient travels back in time: a product of T matrices. Where their largest singular value is below 1 it tends to zero; above, it explodes. Clipping cures the explosion, not the vanishing.") ],
      widget: { view: "gradient" } },
    { title: b("La LSTM et ses portes", "The LSTM and its gates"), text: [
      b("La LSTM (1997) ajoute une cellule c que l'on modifie par des additions, gardées par des portes entre 0 et 1 :", "The LSTM (1997) adds a cell c that is changed by additions, guarded by gates between 0 and 1:") ],
      formula: "c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t        h_t = o_t ⊙ tanh(c_t)" },
    { text: [b("Ci-dessous, une LSTM qui juge des critiques de films. Chaque ligne est un mot, chaque colonne une unité : la porte d'oubli dit ce que la cellule garde.", "Below, an LSTM that judges film reviews. Each row is a word, each column a unit: the forget gate says what the cell keeps.")],
      widget: { view: "inside", kinds: ["lstm", "gru"], train: { recipe: "reviews", model: "lstm-tiny" } } },
  ],
  lab: [
    { name: "L1", claim: b("Le gradient d'un RNN s'évanouit ou explose avec la distance.", "The gradient of an RNN vanishes or explodes with distance.") },
    { name: "L3", claim: b("Un RNN apprend pas à pas ; un transformer, tout à la fois.", "An RNN trains step by step; a transformer all at once.") }],
  questions: [
    { ask: b("Que fait une porte d'oubli proche de 1 ?", "What does a forget gate near 1 do?"), answers: [b("elle efface la cellule", "it erases the cell"), b("elle garde la cellule", "it keeps the cell"), b("elle écrit le jeton", "it writes the token")], right: 1, why: b("c ← f ⊙ c + i ⊙ g : avec f = 1, la mémoire reste.", "c ← f ⊙ c + i ⊙ g: with f = 1 the memory stays.") },
    { ask: b("Couper les gradients (clipping) guérit…", "Clipping gradients cures…"), answers: [b("l'explosion", "explosion"), b("l'évanouissement", "vanishing"), b("les deux", "both")], right: 0, why: b("Un gradient nul reste nul : il n'y a rien à couper.", "A gradient of zero stays zero: there is nothing to clip.") },
    { ask: b("Pourquoi un RNN est-il lent à entraîner ?", "Why is an RNN slow to train?"), answers: [b("il a trop de paramètres", "it has too many parameters"), b("chaque pas attend le précédent", "each step waits for the one before"), b("tanh est coûteux", "tanh is expensive")], right: 1, why: b("h_t dépend de h_{t−1} : on ne peut pas calculer tous les pas en parallèle.", "h_t depends on h_{t−1}: the steps cannot be computed in parallel.") },
  ],
};
