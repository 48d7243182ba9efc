from attentif.view.figures.words import word_plane


def test_words_stand_where_they_are_put_and_their_markup_is_seen_not_obeyed():
    fig = word_plane([("roi", 0.5, -1.0), ("<b>", 2.0, 0.0)], lang="fr")
    (trace,) = fig.data
    assert list(trace.x) == [0.5, 2.0]
    assert list(trace.text) == ["roi", "&lt;b&gt;"]
    assert fig.layout.xaxis.title.text == "composante 1"
