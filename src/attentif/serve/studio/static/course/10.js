/** The family. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("Un même bloc, quatre emplois. BERT (2018) est un encodeur qui devine des mots cachés, des deux côtés : il comprend, il n'écrit pas. GPT (2018) est un décodeur qui devine le jeton suivant : il écrit. T5 (2019) garde les deux et ramène toute tâche à du texte. ViT (2020) coupe une image en carrés et les lit comme des mots.",
        "One block, four uses. BERT (2018) is an encoder that guesses hidden words, looking both ways: it understands, it does not write. GPT (2018) is a decoder that guesses the next token: it writes. T5 (2019) keeps both and turns every task into text. ViT (2020) cuts a picture into patches and reads them like words."),
      b("Tous sont d'abord pré-entraînés sur beaucoup de données sans étiquettes, puis adaptés avec peu d'exemples.", "All are first pre-trained on plenty of data without labels, then adapted with few examples.") ] },
    { title: b("Un GPT : le jeton suivant", "A GPT: the next token"), text: [b("Déplacez la température, cliquez sur un autre jeton, partez sur une autre branche.", "Move the temperature, click another token, start another branch.")],
      widget: { view: "try", kinds: ["language"], train: { recipe: "stdlib", model: "decoder-tiny" } } },
    { title: b("Un ViT : une image est une suite de carrés", "A ViT: a picture is a sequence of patches"), text: [b("Dessinez un chiffre. Le modèle lit des carrés de quelques pixels ; les cartes montrent lesquels chaque tête regarde.", "Draw a digit. The model reads patches of a few pixels; the maps show which each head looks at.")],
      widget: { view: "try", kinds: ["image"], train: { recipe: "digits" } } },
  ],
  lab: [
    { name: "L18", claim: b("Le pré-entraînement paie, selon le nombre d'exemples étiquetés.", "Pre-training pays, by the number of labelled examples.") },
    { name: "L19", claim: b("Pour classer, deviner des mots cachés sert mieux que deviner le suivant.", "For classification masked pre-training serves better than causal.") },
    { name: "L28", claim: b("Avec peu de données, un ViT est derrière un réseau convolutif.", "With little data a ViT is behind a convolutional network.") }],
  questions: [
    { ask: b("Lequel n'a pas de masque causal ?", "Which has no causal mask?"), answers: [b("GPT", "GPT"), b("BERT", "BERT"), b("le décodeur de T5", "T5's decoder")], right: 1, why: b("Il regarde des deux côtés : c'est pour cela qu'il devine des mots cachés.", "It looks both ways: that is why it guesses hidden words.") },
    { ask: b("Une image de 224 × 224 en carrés de 16 × 16 donne…", "A picture of 224 × 224 in patches of 16 × 16 gives…"), answers: [b("14 jetons", "14 tokens"), b("196 jetons", "196 tokens"), b("50 176 jetons", "50,176 tokens")], right: 1, why: b("(224 / 16)² = 14² = 196.", "(224 / 16)² = 14² = 196.") },
    { ask: b("Baisser la température sous 1…", "Lowering the temperature below 1…"), answers: [b("rend les jetons probables encore plus probables", "makes likely tokens likelier still"), b("donne plus de variété", "gives more variety"), b("change les poids du modèle", "changes the model's weights")], right: 0, why: b("Les scores sont divisés par T avant la softmax.", "Scores are divided by T before the softmax.") },
  ],
};
