/** The block. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un bloc fait deux additions à un flux qui traverse tout le réseau. L'attention y ajoute ce qu'elle a trouvé chez les autres jetons ; puis un petit réseau à deux couches, appliqué à chaque jeton séparément, y ajoute ce qu'il en conclut.",
        "A block makes two additions to a stream that runs through the whole network. Attention adds what it found at other tokens; then a small two-layer network, applied to each token by itself, adds what it makes of it.") ],
      formula: "x ← x + Attention(norm(x))        x ← x + W₂ σ(W₁ norm(x))" },
    { text: [
      b("Les connexions résiduelles laissent passer le gradient : la dérivée de x + f(x) contient toujours l'identité. La norme, placée avant (pre-norm), garde les vecteurs à l'échelle, et l'on peut empiler cent blocs. Placée après, comme en 2017, elle demande un échauffement du taux d'apprentissage.",
        "Residual connections let the gradient through: the derivative of x + f(x) always contains the identity. The norm, placed before (pre-norm), keeps vectors to scale, and a hundred blocks can be stacked. Placed after, as in 2017, it needs a warm-up of the learning rate.") ] },
    { title: b("La réponse qui se forme", "The answer taking shape"), text: [
      b("Puisque tout s'ajoute à un même flux, on peut le lire en route avec la tête de sortie du modèle : c'est la lentille à logits. En bas le plongement, en haut la fin.",
        "As everything adds to one stream, it can be read on the way with the model's own head: the logit lens. The embedding at the bottom, the end at the top.") ],
      widget: { view: "inside", kinds: ["language", "masked"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" }, query: { view: "lens" } } },
    { title: b("Retirez une pièce", "Take a piece away"), text: [b("« Sans connexions résiduelles » ruine le modèle ; une seule couche retirée, souvent, presque rien.", "“No residual connections” ruins the model; taking one layer away often changes little.")],
      widget: { view: "change", kinds: ["language"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" }, query: { changes: '[{"kind":"residual","path":""}]' } } },
  ],
  lab: [
    { name: "L11", claim: b("Les résidus et la norme permettent la profondeur ; pre-norm se passe d'échauffement.", "Residuals and normalisation let depth train; pre-norm needs no warm-up.") },
    { name: "L13", claim: b("À paramètres égaux, SwiGLU fait mieux que ReLU.", "At equal parameters SwiGLU does better than ReLU.") },
    { name: "L29", claim: b("L'attention sans MLP a une expressivité limitée.", "Attention without the MLP has limited expressivity.") }],
  questions: [
    { ask: b("Que lit le réseau à deux couches ?", "What does the feed-forward network read?"), answers: [b("tous les jetons", "all tokens"), b("un jeton à la fois", "one token at a time"), b("les positions", "the positions")], right: 1, why: b("Seule l'attention fait passer de l'information d'un jeton à l'autre.", "Only attention moves information between tokens.") },
    { ask: b("Le gradient traverse x + f(x) même si f' ≈ 0, parce que…", "The gradient gets through x + f(x) even if f' ≈ 0, because…"), answers: [b("la dérivée est 1 + f'(x)", "the derivative is 1 + f'(x)"), b("la norme l'amplifie", "the norm amplifies it"), b("f est linéaire", "f is linear")], right: 0, why: b("L'identité reste : c'est l'autoroute du gradient.", "The identity remains: the gradient's motorway.") },
    { ask: b("Où se trouvent la plupart des paramètres d'un bloc classique (largeur interne 4d) ?", "Where are most parameters of a classic block (inner width 4d)?"), answers: [b("dans l'attention", "in the attention"), b("dans le réseau à deux couches", "in the feed-forward network"), b("dans les normes", "in the norms")], right: 1, why: b("8d² contre 4d² pour l'attention.", "8d² against 4d² for attention.") },
  ],
};
