/** Positions. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("L'auto-attention est équivariante : permutez les jetons, les sorties se permutent de même, et rien d'autre ne change. Pour elle, « le chien mord l'homme » et « l'homme mord le chien » contiennent les mêmes vecteurs. Il faut donc lui dire où se trouve chaque jeton.",
        "Self-attention is equivariant: permute the tokens, the outputs are permuted alike, and nothing else changes. To it, “the dog bites the man” and “the man bites the dog” hold the same vectors. So it must be told where each token stands.") ] },
    { title: b("Les sinusoïdes de 2017", "The sinusoids of 2017"), text: [
      b("Chaque place reçoit un vecteur de sinus et de cosinus de périodes croissantes, comme les aiguilles d'une horloge. Le produit de deux places ne dépend que de leur écart : c'est la courbe du bas.",
        "Each place gets a vector of sines and cosines of growing periods, like the hands of a clock. The product of two places depends on their distance alone: that is the curve below.") ],
      formula: "PE(p, 2i) = sin(p / 10000^{2i/d})        PE(p, 2i+1) = cos(p / 10000^{2i/d})", widget: { view: "sinusoids" } },
    { title: b("Aujourd'hui : tourner q et k", "Today: turning q and k"), text: [
      b("RoPE (2021) n'ajoute rien au flux : il fait tourner q et k d'un angle proportionnel à leur place, si bien que q·k ne dépend que de l'écart. Presque tous les modèles récents l'emploient.",
        "RoPE (2021) adds nothing to the stream: it turns q and k by an angle proportional to their place, so that q·k depends on the distance alone. Almost all recent models use it."),
      b("« Sans positions » est coché ci-dessous. Décochez, recochez, échangez deux mots.", "“No positions” is ticked below. Untick it, tick it again, swap two words.") ],
      widget: { view: "change", kinds: ["language", "classify"], attends: true, train: { recipe: "stdlib", model: "decoder-tiny" }, query: { changes: '[{"kind":"positions"}]' } } },
  ],
  lab: [
    { name: "L5", claim: b("Sans positions, l'auto-attention est équivariante, et non invariante.", "Without positions self-attention is equivariant, not invariant.") },
    { name: "L6", claim: b("Sinusoïdes : PE(p+k) est une fonction linéaire de PE(p).", "Sinusoids: PE(p+k) is a linear map of PE(p).") },
    { name: "L30", claim: b("Les positions en amplitude ou en binaire échouent là où les sinusoïdes réussissent.", "Amplitude and binary positions fail where sinusoids work.") }],
  questions: [
    { ask: b("Sans positions, l'auto-attention est…", "Without positions self-attention is…"), answers: [b("invariante par permutation", "permutation-invariant"), b("équivariante par permutation", "permutation-equivariant"), b("causale", "causal")], right: 1, why: b("Les sorties se permutent avec les entrées ; elles ne restent pas en place.", "Outputs are permuted with the inputs; they do not stay in place.") },
    { ask: b("PE(p)·PE(p + k) dépend…", "PE(p)·PE(p + k) depends…"), answers: [b("de p et de k", "on p and on k"), b("de k seulement", "on k only"), b("de p seulement", "on p only")], right: 1, why: b("Σ cos(ω_i k) : la place absolue disparaît.", "Σ cos(ω_i k): the absolute place vanishes.") },
    { ask: b("RoPE agit sur…", "RoPE acts on…"), answers: [b("le plongement des jetons", "the token embeddings"), b("q et k, dans chaque couche", "q and k, in every layer"), b("v", "v")], right: 1, why: b("Les valeurs ne sont pas tournées : seul le score dépend de l'écart.", "Values are not turned: only the score depends on the distance.") },
  ],
};
