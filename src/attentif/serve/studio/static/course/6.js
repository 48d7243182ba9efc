/** Several heads. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Une seule softmax donne une seule moyenne : le verbe ne peut pas regarder à la fois son sujet et sa négation. Plusieurs têtes regardent en parallèle, chacune avec ses propres projections, plus étroites (d_k = d / H). Leurs sorties sont mises côte à côte, puis mélangées par W_O. Le coût est celui d'une seule grande tête.",
        "One softmax gives one mean: the verb cannot look at its subject and its negation at once. Several heads look in parallel, each with projections of its own, narrower ones (d_k = d / H). Their outputs stand side by side and are mixed by W_O. The cost is that of one large head.") ],
      formula: "MultiHead(X) = [z_1 … z_H] W_O        z_h = softmax(Q_h K_hᵀ / √d_k) V_h" },
    { title: b("Toutes les têtes", "All heads"), text: [b("Cliquez sur une tête pour l'agrandir. Certaines regardent le jeton d'avant, d'autres le premier, d'autres un mot semblable.", "Click a head to enlarge it. Some look at the token before, some at the first, some at a similar word.")],
      widget: { view: "inside", kinds: ["language", "classify"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" }, query: { view: "headsView" } } },
    { title: b("Regarder n'est pas agir", "Looking is not doing"), text: [
      b("Une carte montre où une tête regarde, pas ce qu'elle change à la réponse. Pour le savoir, on la retire : c'est une expérience, et non une impression. Classez toutes les têtes : la plus « nette » n'est pas forcément la plus utile.",
        "A map shows where a head looks, not what it changes in the answer. To know that, remove it: an experiment and not an impression. Rank all heads: the “sharpest” is not always the most useful.") ],
      widget: { view: "change", kinds: ["language", "classify"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" } } },
  ],
  lab: [
    { name: "L7", claim: b("Plusieurs têtes captent plusieurs relations qu'une seule de même largeur ne peut capter.", "Several heads capture several relations that one head of the same width cannot.") },
    { name: "L10", claim: b("L'attention groupée divise le cache à qualité presque égale.", "Grouped-query attention divides the cache at nearly the same quality.") }],
  questions: [
    { ask: b("Quelle matrice mélange les têtes ?", "Which matrix mixes the heads?"), answers: [b("W_Q", "W_Q"), b("W_O", "W_O"), b("aucune", "none")], right: 1, why: b("Sans W_O, chaque tête n'écrirait que dans sa tranche du flux.", "Without W_O each head would only write to its own slice of the stream.") },
    { ask: b("Largeur 512, huit têtes : d_k vaut…", "Width 512, eight heads: d_k is…"), answers: [b("8", "8"), b("64", "64"), b("512", "512")], right: 1, why: b("512 / 8 = 64.", "512 / 8 = 64.") },
    { ask: b("Une tête très nette sur un jeton…", "A head that is very sharp on one token…"), answers: [b("est forcément importante", "is necessarily important"), b("peut ne rien changer à la réponse", "may change nothing in the answer"), b("est toujours une erreur", "is always a mistake")], right: 1, why: b("Sa sortie peut être petite, ou ignorée par la suite : il faut la retirer pour le savoir.", "Its output may be small, or ignored later: remove it to know.") },
  ],
};
