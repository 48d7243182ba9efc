"""From a table to a decision: train on a DataFrame, score, ask why, answer a file. Runs in a minute, in an empty folder."""

import pandas as pd

import attentif

GOOD, BAD = ("superbe", "touchant", "drôle", "juste"), ("ennuyeux", "raté", "creux", "interminable")
rows = [
    {"id": f"a{number}", "avis": f"{what} de {number} pages est {word}", "sentiment": "positif" if word in GOOD else "négatif"}
    for what in ("le roman", "ce récit", "le livre")
    for number in range(15)
    for word in (*GOOD, *BAD)
]
df = pd.DataFrame(rows).sample(frac=1, random_state=0)

# Columns are detected by their names; any key of the configuration can be changed.
run = attentif.train("reviews", df, train={"epochs": 2, "min_steps": 60, "threads": 1})
print(run.results["scores"]["accuracy"])

# Answers to texts, or to a column.
for answer in run.predict(["ce récit de 7 pages est superbe", "le livre de 3 pages est raté"]):
    print(answer.output, round(answer.probability or 0, 3), answer.input)

# Why?
print(run.explain("le livre de 3 pages est raté"))

# A file of any size: every column is kept, bad rows are skipped and listed, an interrupted call goes on with resume=True.
df[["id", "avis"]].to_csv("avis.csv", index=False)
done = run.predict_file("avis.csv", "answers.csv", skip_bad=10)
print(done.answered, "answers")

# Scored on rows that were trained on, a run says so.
print(run.evaluate(df).details["trained_on"], "of", len(df), "rows were trained on")
