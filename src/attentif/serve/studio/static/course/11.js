/** The quadratic wall. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Comparer tous les jetons à tous les autres coûte n² produits. Doublez la longueur, le coût est quadruplé ; la matrice des poids de 32 000 jetons a un milliard de cases, par tête. FlashAttention évite d'écrire cette matrice en mémoire (n au lieu de n²), mais pas de la calculer.",
        "Comparing all tokens with all others costs n² products. Double the length and the cost is four times as high; the matrix of weights of 32,000 tokens has a billion cells, per head. FlashAttention avoids writing that matrix to memory (n instead of n²), but not computing it.") ],
      widget: { view: "cost" } },
    { title: b("Changer l'ordre du produit", "Change the order of the product"), text: [
      b("L'attention linéaire remplace exp(q·k) par φ(q)·φ(k). Le produit est associatif : (φ(Q) φ(K)ᵀ) V coûte n²·d, φ(Q) (φ(K)ᵀ V) coûte n·d², et c'est le même résultat, aux arrondis près. Écrite pas à pas, c'est un RNN dont l'état est une matrice.",
        "Linear attention replaces exp(q·k) by φ(q)·φ(k). The product is associative: (φ(Q) φ(K)ᵀ) V costs n²·d, φ(Q) (φ(K)ᵀ V) costs n·d², and it is the same result, up to rounding. Written step by step it is an RNN whose state is a matrix.") ],
      formula: "y_t = φ(q_t)ᵀ S_t / φ(q_t)ᵀ z_t        S_t = S_{t−1} + φ(k_t) v_tᵀ        z_t = z_{t−1} + φ(k_t)" },
    { text: [b("La matrice implicite d'un tel modèle : sans softmax, elle est plus floue, car rien n'y est exponentiel.", "The implied matrix of such a model: without a softmax it is blurrier, as nothing in it is exponential.")],
      widget: { view: "inside", kinds: ["linear-transformer-tiny", "performer"], train: { recipe: "stdlib", model: "linear-transformer-tiny" }, query: { view: "matrix" } } },
    { title: b("Ne regarder qu'une partie", "Look at a part only"), text: [
      b("Autre voie : des motifs. Une fenêtre glissante (Longformer), des jetons globaux (BigBird), des paquets de clés semblables (Reformer). Chaque couche ne voit que près d'elle, mais les couches s'empilent : la portée grandit avec la profondeur.",
        "Another way: patterns. A sliding window (Longformer), global tokens (BigBird), buckets of similar keys (Reformer). Each layer sees only nearby, but layers stack up: the reach grows with depth.") ] },
  ],
  lab: [
    { name: "L8", claim: b("L'attention coûte n² ; l'attention linéaire, une fenêtre et Mamba, n.", "Attention costs n²; linear attention, a window and Mamba n.") },
    { name: "L9", claim: b("L'attention linéaire calculée dans un ordre ou dans l'autre donne le même résultat.", "Linear attention computed either way round gives the same result.") },
    { name: "L21", claim: b("Au-delà de 2 048 jetons, l'attention est le goulot.", "Past 2,048 tokens attention is the bottleneck.") }],
  questions: [
    { ask: b("Doubler la longueur multiplie le coût de l'attention complète par…", "Doubling the length multiplies the cost of full attention by…"), answers: [b("2", "2"), b("4", "4"), b("8", "8")], right: 1, why: b("(2n)² = 4n².", "(2n)² = 4n².") },
    { ask: b("À partir de quelle longueur n·d² est-il moins cher que n²·d ?", "From which length is n·d² cheaper than n²·d?"), answers: [b("n > d", "n > d"), b("n > d²", "n > d²"), b("jamais", "never")], right: 0, why: b("n·d² < n²·d si et seulement si d < n.", "n·d² < n²·d if and only if d < n.") },
    { ask: b("FlashAttention réduit…", "FlashAttention reduces…"), answers: [b("le nombre de produits", "the number of products"), b("la mémoire et ses allers-retours", "memory and its traffic"), b("la précision", "precision")], right: 1, why: b("Le calcul reste n², exactement le même résultat.", "The computation stays n², with exactly the same result.") },
  ],
};
