/** State spaces and Mamba. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un espace d'états est une équation différentielle linéaire, h' = A h + B x, lue tous les Δ. Discrétisée (bloqueur d'ordre zéro), elle devient une récurrence ; déroulée, une convolution. On entraîne par la convolution, en parallèle ; on génère par la récurrence, à mémoire constante.",
        "A state space is a linear differential equation, h' = A h + B x, read every Δ. Discretised (zero-order hold), it becomes a recurrence; unrolled, a convolution. Train by the convolution, in parallel; generate by the recurrence, in constant memory.") ],
      formula: "h_t = exp(ΔA) h_{t−1} + (exp(ΔA) − 1)/A · B x_t        y_t = C h_t" },
    { title: b("Un pas petit oublie peu, un grand retient l'instant", "A small step forgets little, a large one keeps the moment"), text: [
      b("Une seule dimension, A = −1. Déplacez Δ : l'état suit l'entrée ou la lisse.", "A single dimension, A = −1. Move Δ: the state follows the input or smooths it.") ], widget: { view: "statespace" } },
    { title: b("Mamba : le pas dépend du jeton", "Mamba: the step depends on the token"), text: [
      b("Un espace d'états fixe traite tous les jetons de même : il ne peut pas choisir. Mamba (2023) rend Δ, B et C fonctions du jeton. A reste appris et fixe ; seul exp(ΔA) varie. Un petit Δ ignore le jeton, un grand remplace la mémoire par lui. C'est une porte, comme dans la LSTM.",
        "A fixed state space treats all tokens alike: it cannot choose. Mamba (2023) makes Δ, B and C functions of the token. A stays learned and fixed; only exp(ΔA) varies. A small Δ passes a token over, a large one replaces the memory by it. It is a gate, as in the LSTM.") ],
      widget: { view: "inside", kinds: ["mamba"], train: { recipe: "stdlib", model: "mamba-tiny" } } },
  ],
  lab: [
    { name: "L14", claim: b("Bloqueur d'ordre zéro : la récurrence et la convolution sont la même fonction.", "Zero-order hold: the recurrence and the convolution are the same function.") },
    { name: "L15", claim: b("La sélection de Mamba résout la copie sélective, un espace d'états fixe non.", "Mamba's selection solves selective copying, a fixed state space does not.") },
    { name: "L16", claim: b("Sur le rappel exact, les modèles récurrents perdent contre l'attention.", "Recurrent models lose to attention on exact recall.") }],
  questions: [
    { ask: b("Dans Mamba, qu'est-ce qui ne dépend pas du jeton ?", "In Mamba, what does not depend on the token?"), answers: [b("A", "A"), b("B", "B"), b("Δ", "Δ")], right: 0, why: b("A est appris et fixe ; exp(ΔA) varie parce que Δ varie.", "A is learned and fixed; exp(ΔA) varies because Δ does.") },
    { ask: b("Quand Δ tend vers 0, l'état…", "As Δ tends to 0 the state…"), answers: [b("est remplacé par le jeton", "is replaced by the token"), b("reste ce qu'il était", "stays as it was"), b("explose", "explodes")], right: 1, why: b("exp(ΔA) tend vers 1, et l'entrée est multipliée par presque 0.", "exp(ΔA) tends to 1, and the input is multiplied by almost 0.") },
    { ask: b("La mémoire de Mamba pour écrire le jeton n + 1…", "Mamba's memory for writing token n + 1…"), answers: [b("grandit avec n", "grows with n"), b("est de taille fixe", "has a fixed size"), b("grandit avec n²", "grows with n²")], right: 1, why: b("C'est aussi pourquoi le rappel exact d'un long texte lui coûte.", "Which is also why exact recall of a long text is hard for it.") },
  ],
};
