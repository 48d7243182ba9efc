/** Encoder and decoder. */
import { b } from "./index.js";

/** @type {import("./index.js").Chapter} */
export default {
  parts: [
    { text: [
      b("L'encodeur voit toute la phrase, des deux côtés. Le décodeur écrit un jeton à la fois et ne voit que ce qui est déjà écrit : un masque met −∞ aux places à venir, et la softmax leur donne zéro. À l'entraînement, ce masque permet de prédire tous les jetons à la fois sans tricher.",
        "The encoder sees the whole sentence, both ways. The decoder writes one token at a time and sees only what is already written: a mask puts −∞ at places to come, and the softmax gives them zero. In training this mask lets all tokens be predicted at once without cheating."),
      b("Entre les deux, l'attention croisée : les requêtes viennent du décodeur, les clés et les valeurs de l'encodeur.", "Between the two, cross-attention: queries come from the decoder, keys and values from the encoder.") ],
      formula: b("Q = W_Q · décodeur        K = W_K · encodeur        V = W_V · encodeur", "Q = W_Q · decoder        K = W_K · encoder        V = W_V · encoder") },
    { title: b("Trois attentions dans un modèle", "Three attentions in one model"), text: [
      b("Cliquez sur les trois dans le dessin : celle de l'encodeur (carrée, pleine), celle du décodeur (triangulaire), la croisée (rectangulaire).",
        "Click all three in the drawing: the encoder's (square, full), the decoder's (triangular), the crossed one (rectangular).") ],
      widget: { view: "inside", kinds: ["translate"], train: { recipe: "numbers" }, query: { path: "decoder.blocks.0.cross", view: "matrix" } } },
    { title: b("Coupez le pont", "Cut the bridge"), text: [b("Retirez l'attention croisée : le décodeur écrit encore des nombres bien formés, mais ce ne sont plus les vôtres.", "Take cross-attention away: the decoder still writes well-formed numbers, but no longer yours.")],
      widget: { view: "change", kinds: ["translate"], train: { recipe: "numbers" }, query: { changes: '[{"kind":"part","path":"decoder.blocks.0.cross"}]' } } },
  ],
  lab: [{ name: "L20", claim: b("Les erreurs s'accumulent quand un modèle relit ses propres prédictions.", "Errors accumulate when a model is fed its own predictions.") }],
  questions: [
    { ask: b("D'où viennent les clés de l'attention croisée ?", "Where do the keys of cross-attention come from?"), answers: [b("du décodeur", "the decoder"), b("de l'encodeur", "the encoder"), b("du masque", "the mask")], right: 1, why: b("On interroge ce qui a été lu.", "What was read is being asked.") },
    { ask: b("Le masque causal est…", "The causal mask is…"), answers: [b("un vecteur de longueur n", "a vector of length n"), b("une matrice n × n triangulaire", "a triangular n × n matrix"), b("un jeton spécial", "a special token")], right: 1, why: b("La ligne i laisse voir les colonnes 1 à i.", "Row i shows columns 1 to i.") },
    { ask: b("À l'entraînement, le décodeur reçoit…", "In training the decoder is given…"), answers: [b("ses propres prédictions", "its own predictions"), b("la vraie traduction, décalée d'un jeton", "the true translation, shifted by one token"), b("rien", "nothing")], right: 1, why: b("Le « teacher forcing » : tous les jetons sont prédits en parallèle.", "Teacher forcing: all tokens are predicted in parallel.") },
  ],
};
