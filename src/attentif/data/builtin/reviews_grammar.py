"""The rules of the `reviews` grammar, in the notation of `grammar.py`: which constructions keep an opinion and which turn it over.

Nearly every rule is written once and serves both labels, so an evaluative word is met in praise and in blame, and only the
construction around it tells. What decides a review is said of the film as a whole, or by every sentence alike; what is conceded is
about a part, about others' opinions, about what was hoped or feared, or about the evening around the film.
"""

RULES: dict[str, str] = {
    # ---- the whole text: one to seven sentences, two to four as a rule
    "review": """
        4× {judgement}
        5× {opening} {judgement}
        3× {opening} {point}
        9× {point} {judgement}
        7× {judgement} {point}
        8× {opening} {point} {judgement}
        8× {opening} {point} {judgement} {point}
        2× {turn}
        2× {opening} {turn}
        4× {turn} {point}
        1× {aside} {judgement}
        2× {judgement} {aside} {point}
        2× {opening} {point} {aside} {judgement}
        4× {point} {judgement} {closing}
        3× {opening} {point} {judgement} {closing}
    """,
    # ---- sentences that settle the matter
    "judgement": """
        17× {whole}.
        4× {whole} : {clause}.
        4× {whole}, (et|et d'ailleurs) {clause}.
        8× {concession}
        7× {rebuttal}
        6× {expectation}
        5× {comparison}
        6× {others}
        4× {exclamation}
        1× {irony}
    """,
    # ---- sentences about a part, of the same opinion
    "point": """
        9× {clause}.
        7× {clause} et {clause}.
        5× {le:part} (et|comme|autant que) {le:part&} sont (vraiment|tout simplement|) {adj}.
        2× ni {le:part} ni {le:part&} ne sont {plain!}.
        3× {rebuttal}
        2× {un:part} {adj}, {un:part} {adj} (: tout est là|, et tout à l'avenant| : voilà ce qu'on retient).
        1× pas une (scène|image|réplique|minute) qui ne soit {plain.f}.
        1× pas une (scène|image|réplique|minute) n'est {plain.f!}.
    """,
    # ---- an opinion about a part, as a clause
    "clause": """
        26× {le:part} [est|sont] (vraiment|tout simplement|franchement|) {adj}
        5× {le:part} [reste|restent] {adj} (d'un bout à l'autre|du début à la fin|)
        6× je trouve {le:part} {adj}
        2× {le:part} ne [est|sont] (pas du tout|absolument pas|vraiment pas|jamais|en rien) {plain!}
        3× (jamais|à aucun moment|nulle part) {le:part} ne [est|sont] {plain!}
        3× je ne (trouve|juge) pas {le:part} {plain!}
        2× (impossible|difficile) de trouver {le:part} {plain!}
        2× (impossible|difficile) de ne pas trouver {le:part} {plain}
        1× {le:part} [est|sont] (loin d'être|tout sauf) {plain!}
        1× {le:part} [est|sont] (bien|beaucoup|nettement) plus {plain} que {plain!}
        1× rien n'est {plain.m!} dans {le:work}
        1× tout est {plain.m} dans {le:work}
        1× {le:players} ne [joue|jouent] (jamais|pas une seule fois) {manner!}
        1× {le:players} [joue|jouent] {manner} (du début à la fin|d'un bout à l'autre)
    """,
    # ---- an opinion without any negation, that "que" can introduce
    "impression": """
        4× {le:part} [est|sont] (vraiment|tout simplement|franchement|) {adj}
        3× ({ce:film}|{ce:genre}) est (vraiment|tout simplement|franchement|) {adj}
        2× c'est {un:verdict}
        2× on {verb.present} {.rest}
        2× c'est {spoken}
    """,
    "part_only": """
        4× {le:part} [est|sont] (vraiment|plutôt|souvent|) {granted}
        1× {le:part} [semble|semblent] {granted}
        1× {le:part} ne [est|sont] pas {plain!}
    """,
    # ---- an opinion about the whole film
    "whole": """
        20× ({ce:film}|{ce:genre}) est (vraiment|tout simplement|franchement|) {adj}
        6× (l'ensemble|le tout|le résultat) est (vraiment|tout simplement|franchement|) {adj.m}
        9× c'est {un:verdict}
        5× c'est (vraiment|franchement|) {spoken}
        9× on {verb.present} {.rest}
        9× je {verb.auxiliary} {.participle} {.my_rest}
        6× je suis <sorti|sortie> de la salle {feel}
        5× j'ai {loved} ({ce:film}|{ce:genre})
        1× ({ce:film}|{ce:genre}) n'est (pas du tout|absolument pas|vraiment pas|jamais|en rien) {plain!}
        2× (jamais|à aucun moment) ({ce:film}|{ce:genre}) n'est {plain!}
        1× ({ce:film}|{ce:genre}) est (loin d'être|tout sauf) {plain!}
        1× ce n'est (vraiment|absolument|certainement) pas {un:plain_verdict!}
        1× ({ce:film}|{ce:genre}) n'a rien {dun:verdict!}
        3× ce n'est pas {spoken!} du tout
        1× + c'est pas mal du tout
        1× - ce n'est pas bien du tout
        2× on ne {verb.present!} (jamais|à aucun moment) {.rest}
        2× (jamais|à aucun moment|pas une seconde) on ne {verb.present!} {.rest}
        2× je ne {verb.auxiliary!} (jamais|à aucun moment|pas une seule fois) {.participle} {.my_rest}
        2× (impossible|difficile) de {verb.infinitive!}
        2× (impossible|difficile) de ne pas {verb.infinitive}
        1× jamais je ne {verb.auxiliary} autant {.participle} {.my_rest}
        1× rarement je {verb.auxiliary} autant {.participle} {.my_rest}
        1× j'ai cherché en vain une (seule|) raison de {verb.mine!}
        3× je n'ai pas été {feel!} (une seule seconde|un seul instant)
        2× on passe (deux heures|toute la séance) sans {verb.infinitive!}
        2× on ne tient pas (cinq|dix) minutes sans {verb.infinitive}
    """,
    "whole_said": """
        3× ({ce:film}|{ce:genre}) est {adj}
        2× c'est {un:verdict}
        2× on {verb.present} {.rest}
        1× on ne {verb.present!} jamais {.rest}
        1× ({ce:film}|{ce:genre}) n'a rien {dun:verdict!}
    """,
    # ---- one thing granted, another maintained
    "concession": """
        4× malgré {un:part} {granted!}, {whole}.
        3× {whole}, malgré {un:part} {granted!}.
        4× (certes|bien sûr|d'accord|oui|évidemment), {part_only!}, mais {whole}.
        3× {part_only!}, (et pourtant|mais au bout du compte,|mais en fin de compte,) {whole}.
        3× (bien que|quoique) {le:part} [soit|soient] {granted!}, {whole}.
        3× {whole}, (bien que|quoique) {le:part} [soit|soient] {granted!}.
        3× {whole}, même si {part_only!}.
        3× même si {part_only!}, {whole}.
        3× {le:part} [a|ont] beau être {granted!}, {whole}.
        3× on peut trouver {le:part} {granted!} ; il n'empêche que {whole_said}.
    """,
    # ---- what is denied, and what only looks denied
    "rebuttal": """
        3× (il est faux de dire|on aurait tort de croire|n'allez pas croire|qu'on ne vienne pas me dire) que {impression!}.
        4× (personne ne niera|je ne peux pas nier|impossible de nier|il serait faux de nier) que {impression}.
        2× {impression!} ? (Absolument pas|C'est tout le contraire|Rien n'est plus faux|Je n'en crois rien).
        4× {impression} ? (Sans le moindre doute|Mille fois oui|Personne ne dira le contraire|Je le confirme).
        2× qui (oserait|pourrait encore) dire que {impression!} ?
        1× qui (oserait|pourrait encore) nier que {impression} ?
        1× je voudrais pouvoir dire le contraire, mais {impression}.
        1× rien ne permet de dire que {impression!}.
        2× tout (permet de dire|montre|confirme) que {impression}.
    """,
    # ---- what was hoped or feared, and what came
    "expectation": """
        2× je m'attendais à {un:verdict!} : (il n'en est rien|je me trompais|c'est tout le contraire).
        3× je m'attendais à {un:verdict}, et (c'en est [un|une|un|une]|je ne me trompais pas|j'avais raison).
        2× je pensais {verb.mine!} ; (il n'en a rien été|je me trompais|c'est tout le contraire).
        3× je pensais {verb.mine}, et (ça n'a pas manqué|je ne me trompais pas|j'avais raison).
        2× on m'avait (promis|annoncé) {un:verdict!} ; j'ai vu {un:verdict}.
        2× - j'aurais (aimé|voulu|tellement voulu) (aimer {ce:film}|le trouver {plain.m!}|{verb.mine!}|pouvoir en dire du bien).
        2× + j'aurais (aimé|voulu|tellement voulu) (que {ce:film} dure une heure de plus|le voir plus tôt|que ça ne s'arrête pas).
        1× - j'avais envie de {verb.mine!} ; (j'attends encore|ce sera pour une autre fois).
        1× + j'étais <décidé|décidée> à {verb.mine!} ; (j'attends encore|ce sera pour une autre fois).
    """,
    "comparison": """
        3× autant {le:other} était {granted!}, autant ({ce:film}|{ce:genre}) est {adj}.
        2× {le:other} était {granted!} ; ({ce:film}|{ce:genre}), au contraire, est {adj}.
        2× contrairement {à:other}, qui était {granted!}, {whole}.
        2× j'avais {loved!} {le:other} ; {ce:film}, je l'ai {loved}.
        4× comme {le:other}, ({ce:film}|{ce:genre}) est {adj}.
        4× {le:other} était déjà {adj}, et {whole}.
    """,
    # ---- what others think
    "others": """
        3× {source} {claims} que {impression!} (: je n'en crois pas un mot|, et c'est faux| ; je ne suis pas d'accord| : quelle erreur).
        4× {source} {claims} que {impression} (: je suis bien d'accord|, et c'est vrai| ; je confirme| : comment le nier).
        2× {source} parle {dun:verdict!} ; (je n'en ai rien vu|on se demande pourquoi|je ne suis pas d'accord).
        4× {source} parle {dun:verdict} ; (on comprend pourquoi|je suis bien d'accord|je confirme).
        3× {viewer} a {loved!} ce film ; moi, je l'ai {loved}.
        3× j'ai {loved} ce film que {viewer} a {loved!}.
        2× là où (d'autres|certains|beaucoup) voient {un:verdict!}, je vois {un:verdict}.
        2× je vois {un:verdict} là où (d'autres|certains|beaucoup) voient {un:verdict!}.
        3× (autour de moi|dans la salle), les gens semblaient {feel.mp!} ; moi, j'étais {feel}.
        2× contrairement à ce que (dit|prétend|raconte) {source}, {whole}.
        2× comme le (dit|raconte) {source}, {whole}.
    """,
    "exclamation": """
        4× {quel:verdict} !
        3× {un:verdict}, (ni plus ni moins|tout simplement|et je pèse mes mots).
        2× {un:verdict!} ? Non : {un:verdict}.
        2× pas {un:verdict!}, non : {un:verdict}.
    """,
    # ---- said with a straight face, meant the other way
    "irony": """
        - (bravo|merci|félicitations) : (grâce à ce film, |)j'ai enfin rattrapé mon retard de sommeil.
        - (le meilleur moment|la meilleure scène) ? (Le générique de fin|La sortie de la salle|L'entracte).
        - un seul (mérite|point fort) : (c'est court|il finit par finir|la salle était chauffée).
        - heureusement que (le fauteuil était confortable|le pop-corn était bon|la sieste était réparatrice).
        + (le pire moment|la pire scène) ? (Quand les lumières se sont rallumées|Le mot « fin »|La sortie de la salle).
        + un seul (défaut|reproche) : (c'est trop court|il finit par finir|il n'y a pas encore de suite).
        + (maudit|satané) réalisateur : (à cause de lui, |)je n'ai pas dormi de la nuit, tant j'y pensais encore.
        + malheureusement, (il a bien fallu sortir de la salle|le générique de fin arrive trop vite).
        4× pour être {feel!}, il faudrait vraiment le vouloir.
    """,
    # ---- an opinion left behind by the end
    "turn": """
        5× {le:beginning} [est|sont] {granted!}. (Et pourtant, |Mais au final, |Mais dans l'ensemble, |Puis tout change : ){whole}.
        3× tout commençait comme {un:verdict!}. (À l'arrivée, |Mais au final, ){whole}.
        3× au début, on {verb.present!} {.rest}. (Puis tout change : |Mais ça ne dure pas : ){whole}.
        4× {part_only!}. {part_only!}. (Et malgré tout cela, |Et pourtant, ){whole}.
        4× {whole}. Pourtant, {le:beginning} [était|étaient] {granted!}.
        2× pendant dix minutes, j'ai cru voir {un:verdict!}. Pendant dix minutes seulement : {whole}.
    """,
    # ---- what says nothing of the film
    "opening": """
        3× vu (hier soir|samedi dernier|en avant-première|dimanche|la semaine dernière) (avec {company}|{place}|en version originale).
        2× je suis <allé|allée> voir {ce:genre} (hier|samedi|par curiosité|un peu par hasard) (avec {company}|{place}|).
        3× {title} : {hero} {event}.
        2× {title} est {un:genre} (qui se passe|[tourné|tournée|tourné|tournée]) {where}.
        2× {un:genre} (de deux heures|d'une heure et demie|de près de trois heures), [tourné|tournée|tourné|tournée] {where}.
        1× {title}, ou comment {hero} {event}.
    """,
    "aside": """
        3× {le:around} [était|étaient] {granted?}.
        2× {le:around}, au passage, [était|étaient] {granted?}.
        1× (rien à voir avec le film, mais|à part ça,|soit dit en passant,) {le:around} [était|étaient] {granted?}.
    """,
    "closing": """
        + je le (conseille|recommande) à (tout le monde|tous mes amis).
        - je ne le (conseille|recommande) à (personne|aucun de mes amis).
        + à (ne pas (manquer|rater)|voir absolument|voir sans hésiter).
        - à (éviter absolument|éviter sans hésiter|ne pas voir).
        - (vous pouvez le (manquer|rater) sans regret|passez votre chemin).
        + (n'hésitez pas une seconde|ne passez surtout pas votre chemin).
        + je ne regrette pas (le prix du billet|ma soirée).
        - je regrette (le prix du billet|ma soirée).
        + on aurait tort de s'en priver.
        - on aurait raison de s'en priver.
        + j'y retournerais volontiers.
        - je n'y retournerais pour rien au monde.
    """,
    "claims": """
        (assure|prétend|répète|jure|affirme)
    """,
    "source": """
        (la presse|la critique|mon voisin|ma sœur|un ami|mon collègue|le journal du coin|la radio|mon beau-frère)
    """,
    "viewer": """
        (ma sœur|mon voisin|mon frère|un ami|toute la salle|la critique|mon collègue|ma mère)
    """,
    "company": """
        (ma sœur|mes parents|un ami|des collègues|mes enfants|mon voisin|ma classe|le ciné-club)
    """,
    "place": """
        (au cinéma du quartier|dans une petite salle|à la maison|en plein air|dans un multiplexe|au festival)
    """,
    "where": """
        (en Bretagne|à Marseille|dans un phare|dans les années trente|au bord du Rhône|sur une île|à bord d'un paquebot|en pleine canicule)
    """,
    "title": """
        3× « (Le Phare|La Maison|Le Secret|La Lettre|Le Jardin|La Nuit|Le Voyage|L'Ombre|La Promesse) {of_what} »
        « (Trois Jours|Une Semaine|Deux Étés|Un Hiver) (à Lisbonne|chez Marthe|sans toi|au large|avec les loups) »
    """,
    "of_what": """
        (des sables|du nord|d'Hélène|des oubliés|de minuit|du capitaine|des voisins|de l'aube)
    """,
    "hero": """
        (une institutrice|un pêcheur|une libraire|un inspecteur|une violoniste|un facteur|une avocate|un ancien boxeur|une pianiste)
    """,
    "event": """
        (hérite d'un phare|revient au village|cherche son frère disparu|traverse le pays à pied|ouvre un restaurant)
        (découvre un vieux carnet|apprend à voler|adopte un loup|enquête sur un vol|change de vie|perd la mémoire)
    """,
}
