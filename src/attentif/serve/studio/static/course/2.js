/** Embeddings. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un numéro ne dit rien : le jeton 812 n'est pas « deux fois » le 406. On remplace donc chaque numéro par un vecteur appris. « On connaît un mot par ses fréquentations » (Firth, 1957) : des mots que l'on trouve dans les mêmes contextes doivent recevoir des vecteurs voisins.",
        "A number says nothing: token 812 is not “twice” token 406. So each number is replaced by a learned vector. “You shall know a word by the company it keeps” (Firth, 1957): words found in the same contexts should get similar vectors."),
      b("Word2Vec (2013) prédit les voisins d'un mot dans une fenêtre, à gauche et à droite ; GloVe (2014) factorise la table de toutes les cooccurrences. Dans les deux cas, la parenté est mesurée par l'angle :",
        "Word2Vec (2013) predicts the neighbours of a word within a window, on both sides; GloVe (2014) factorises the table of all co-occurrences. In both, relatedness is measured by the angle:") ],
      formula: "cos(a, b) = a·b / (‖a‖ ‖b‖)" },
    { title: b("Cherchez un mot", "Look a word up"), text: [
      b("Les plus proches voisins, et la carte du plan où ces mots diffèrent le plus. Cliquez sur un voisin pour continuer depuis lui.", "Nearest neighbours, and the map of the plane in which these words differ most. Click a neighbour to go on from there.") ],
      widget: { view: "try", kinds: ["word2vec", "glove"], train: { recipe: "word2vec" } } },
    { title: b("Un vecteur par mot, est-ce assez ?", "Is one vector a word enough?"), text: [
      b("Un vecteur statique mélange tous les sens : « avocat » est à la fois au tribunal et dans la salade. Les modèles contextuels partent de ce vecteur et le transforment selon la phrase ; leurs couches finales séparent les sens.",
        "A static vector mixes all senses: “bank” is both by the river and on the high street. Contextual models start from that vector and transform it by the sentence; their last layers separate the senses.") ] },
  ],
  lab: [
    { name: "L17", claim: b("Les vecteurs statiques ont un vecteur par mot, les contextuels séparent les sens.", "Static vectors have one vector per word, contextual models separate the senses.") },
    { name: "L23", claim: b("Sur un petit corpus, GloVe est moins bon que Word2Vec.", "On a small corpus GloVe is weaker than Word2Vec.") }],
  questions: [
    { ask: b("Combien de vecteurs Word2Vec donne-t-il au mot « avocat » ?", "How many vectors does Word2Vec give the word “bank”?"), answers: [b("un par sens", "one for each sense"), b("un seul", "a single one"), b("un par phrase", "one for each sentence")], right: 1, why: b("Les sens y sont mélangés, selon leur fréquence dans le corpus.", "The senses are mixed in it, by their frequency in the corpus.") },
    { ask: b("Deux vecteurs de même direction, l'un deux fois plus long : leur cosinus vaut…", "Two vectors of the same direction, one twice as long: their cosine is…"), answers: [b("0", "0"), b("0,5", "0.5"), b("1", "1")], right: 2, why: b("Le cosinus ne regarde que l'angle, pas la longueur.", "The cosine looks at the angle alone, not at the length.") },
    { ask: b("Que prédit Word2Vec (skip-gram) ?", "What does Word2Vec (skip-gram) predict?"), answers: [b("le mot suivant seulement", "the next word only"), b("les mots autour, des deux côtés", "the words around, on both sides"), b("la classe grammaticale", "the part of speech")], right: 1, why: b("Une fenêtre symétrique : ce n'est pas un modèle de langue causal.", "A symmetric window: it is not a causal language model.") },
  ],
};
