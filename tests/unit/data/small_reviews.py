"""Reviews of one sentence, and the smallest model that learns them."""

GOOD, BAD = ("superbe", "touchant", "drôle"), ("ennuyeux", "raté", "creux")
ROWS = [
    {"id": n, "avis": f"le film numéro {n} est {word}", "sentiment": "positif" if word in GOOD else "négatif"}
    for n in range(12)
    for word in (*GOOD, *BAD)
]
SMALL = {
    "tokenizer": {"kind": "word"},
    "task": {"kind": "classify"},
    "model": {"base": "encoder-tiny", "width": 16, "layers": 1, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}},
    "train": {"steps": 3, "eval_every": 3, "threads": 1, "baselines": False},
}
