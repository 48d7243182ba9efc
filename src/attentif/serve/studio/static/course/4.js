/** The bottleneck, and attention. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Pour traduire, on emploie en 2014 deux RNN : l'encodeur lit la phrase et la résume dans son dernier état ; le décodeur écrit à partir de ce seul vecteur. Quatre mots ou quarante, le vecteur a la même taille : les longues phrases se perdent. C'est le goulot.",
        "To translate, in 2014, two RNNs are used: the encoder reads the sentence and sums it up in its last state; the decoder writes from that one vector. Four words or forty, the vector has the same size: long sentences get lost. That is the bottleneck."),
      b("En 2015, Bahdanau laisse le décodeur regarder tous les états de l'encodeur. À chaque mot écrit, il note chaque état, normalise ces notes par une softmax, et prend la moyenne pondérée :",
        "In 2015, Bahdanau lets the decoder look at every state of the encoder. For each word written it scores each state, normalises the scores by a softmax, and takes the weighted mean:") ],
      formula: "e_ts = vᵀ tanh(W s_t + U h_s)     α_ts = softmax_s(e_ts)     c_t = Σ_s α_ts h_s" },
    { title: b("Traduire, et voir où l'on regarde", "Translate, and see where it looks"), text: [
      b("Ce modèle traduit en anglais des nombres écrits en français. La matrice dit quel mot source il regarde en écrivant chaque mot : pour « quatre-vingt-dix », trois mots français n'en font qu'un, « ninety ».",
        "This model translates numbers written in French into English. The matrix says which source word it looks at while it writes each word: for “quatre-vingt-dix”, three French words become one, “ninety”.") ],
      widget: { view: "try", kinds: ["translate"], train: { recipe: "numbers" } } },
  ],
  lab: [
    { name: "L2", claim: b("Un vecteur résumé oublie les longues phrases ; l'attention, non.", "A summary vector forgets long sentences; attention does not.") },
    { name: "L20", claim: b("Les erreurs s'accumulent quand un modèle relit ses propres prédictions.", "Errors accumulate when a model is fed its own predictions.") }],
  questions: [
    { ask: b("Que voit un décodeur avec attention ?", "What does a decoder with attention see?"), answers: [b("le dernier état de l'encodeur seulement", "the encoder's last state only"), b("tous les états de l'encodeur", "every state of the encoder"), b("le mot suivant", "the next word")], right: 1, why: b("Il en fait une moyenne pondérée, différente à chaque mot écrit.", "It takes a weighted mean of them, another one for each word.") },
    { ask: b("Les poids α d'un mot écrit somment à…", "The weights α of one written word sum to…"), answers: [b("1", "1"), b("la longueur de la phrase", "the length of the sentence"), b("rien de particulier", "nothing in particular")], right: 0, why: b("C'est ce que fait la softmax : des poids positifs de somme 1.", "That is what the softmax does: positive weights that sum to 1.") },
    { ask: b("Le goulot gêne surtout…", "The bottleneck hurts most…"), answers: [b("les phrases courtes", "short sentences"), b("les phrases longues", "long sentences"), b("les mots rares", "rare words")], right: 1, why: b("Un vecteur de taille fixe doit contenir de plus en plus.", "A vector of fixed size must hold more and more.") },
  ],
};
