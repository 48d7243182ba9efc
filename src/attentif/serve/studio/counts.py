"""What an n-gram model has counted, and how a probability comes from it."""

from functools import partial

import numpy as np

from attentif.api import Run
from attentif.errors import UsageError
from attentif.inspect.counts import ngram_counts, ngram_steps
from attentif.serve.studio.messages import Counts, CountsRequest, OrderContext, OrderShare
from attentif.serve.studio.reading import token_names
from attentif.text.ngram import NGram

LIKELIEST = 12  # next tokens


def counts_of(run: Run, asked: CountsRequest) -> Counts:
    """Counts after a text by order, the likeliest next tokens, and Kneser-Ney order by order for one of them."""
    if not isinstance(run.model, NGram):
        raise UsageError(f"a {run.kind} model counts no n-grams")
    ids, name = run.require("generate").prompt(run.tokenizers, asked.text), partial(token_names, run.tokenizer)
    p = run.model.next(ids)
    best = np.argsort(-p, kind="stable")[:LIKELIEST].tolist()
    token = best[0] if asked.token is None else asked.token
    return Counts(
        orders=[
            OrderContext(context=name(list(one.context)), total=one.total, names=name(list(one.tokens)), counts=list(one.counts))
            for one in ngram_counts(run.model, ids)
        ],
        next=best,
        names=name(best),
        probabilities=p[best].tolist(),
        token=token,
        token_name=name([token])[0],
        steps=[
            OrderShare(
                context=name(list(one.context)),
                count=one.count,
                total=one.total,
                discount=one.discount,
                gamma=one.gamma,
                lower=one.lower,
                probability=one.probability,
            )
            for one in ngram_steps(run.model, ids, token)
        ],
    )
