"""The course documents whose claims are measured, by the numbers that the experiments and the errata use."""

DOCUMENTS = {
    0: "Intro aux Transformers (notes de cours, 28 novembre 2025)",
    1: "Fondements mathématiques des Transformers et des LLMs, module 2 (Togo Data Lab, Université de Kara, juillet 2025)",
    2: "« Attention Is All You Need », quand les Transformers changent la donne (FIDLE, séquence 12, saison 24/25)",
    3: "Attention mechanism and Transformers (ENSC, 2024-2025)",
    4: "L'essor des transformers : algorithmes et raisonnement (rapport d'élèves)",
}
