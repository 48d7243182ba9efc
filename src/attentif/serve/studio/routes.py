"""The studio's part of the server: its page, its modules, and `/studio/api`, which a script may call as well.

The address that `attentif studio` prints holds the session's token; opening it sets a strict cookie, and the page sends the token in a
header with every request. Without one of the two nothing here answers.
"""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from torch import nn

from attentif.api import Run
from attentif.errors import AttentifError
from attentif.french import Lang
from attentif.inspect import architecture
from attentif.models.presets import preset_names
from attentif.recipes import recipe_description, recipe_layer, recipe_names
from attentif.serve.errors import ApiError
from attentif.serve.security import TOKEN_HEADER, read_cookie
from attentif.serve.settings import ServerSettings
from attentif.serve.studio import answers, inside, vectors, writing
from attentif.serve.studio import messages as m
from attentif.serve.studio.both import compare_rows
from attentif.serve.studio.counts import counts_of
from attentif.serve.studio.given import list_examples
from attentif.serve.studio.jobs import Jobs
from attentif.serve.studio.language import PageLang, install_languages, localize_for
from attentif.serve.studio.library import Library, steps_of, summarise
from attentif.serve.studio.numbers import Numbers
from attentif.serve.studio.pages import report_pages, studio_pages
from attentif.serve.studio.reading import labels_of, roles_of
from attentif.training.rundir import RunFolder, read_results
from attentif.version import __version__
from attentif.view.diagram import draw_model

Done = TypeVar("Done")
WATCH_SECONDS = 1.0  # between two looks at a training
STOPPED = (0, 130, 143)  # exit codes of a training that ended, or was stopped and saved itself


def install_studio(app: FastAPI, settings: ServerSettings, library: Library, jobs: Jobs) -> None:
    """Add the studio to a server."""

    def session(request: Request) -> None:
        given = request.headers.get(TOKEN_HEADER) or read_cookie(request.headers.get("cookie", ""))
        if not hmac.compare_digest(given.encode(), settings.token.encode()):
            raise ApiError(403, "open the address that `attentif studio` printed: it holds this session's token", code="token_missing")

    install_languages(app)
    app.include_router(studio_pages(settings))
    api = APIRouter(prefix="/studio/api", dependencies=[Depends(session)], tags=["studio"])
    _add_runs(api, library, jobs)
    _add_inside(api, library)
    _add_training(api, library, jobs)
    _add_both(api, library, jobs)
    app.include_router(report_pages(library, jobs, session))
    app.include_router(api)


async def _answer(work: Callable[[], Done]) -> Done:
    """Work in a thread; what the user can mend is a 400 with one sentence."""
    try:
        return await run_in_threadpool(work)
    except AttentifError as error:
        raise ApiError(400, error.message, code=type(error).__name__) from None


def _short_path(path: Path) -> str:
    """As a user in the studio's own folder would type it."""
    here = Path.cwd().resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _on_run(library: Library, id: str, step: int | None, work: Callable[[Run], Done]) -> Callable[[], Done]:
    def run_locked() -> Done:
        with library.run(id, step) as run:
            return work(run)

    return run_locked


# --------------------------------------------------------------------------------------------------------------------- runs


def _add_runs(api: APIRouter, library: Library, jobs: Jobs) -> None:
    @api.get("/runs")
    async def runs(lang: PageLang) -> dict[str, Any]:
        """Every run of the opened folders."""
        found = await run_in_threadpool(lambda: [summarise(entry, lang) for entry in library.entries().values()])
        started = {id: job.is_running for id, job in jobs.jobs.items()}
        return {"runs": found, "folder": library.roots[0].name, "jobs": started, "version": __version__}

    @api.get("/runs/{id}")
    async def one(id: str, lang: PageLang) -> dict[str, Any]:
        """A run: what it is, what it can do, its picture, its curves."""

        def work() -> dict[str, Any]:
            entry = library.entry(id)
            with library.run(id) as run:
                network = isinstance(run.model, nn.Module)
                return {
                    **summarise(entry),
                    "capabilities": list(run.capabilities),
                    "kind": run.kind,
                    "network": network,
                    "diagram": draw_model(run.model.config, lang=lang, title=id) if network else None,
                    "architecture": asdict(architecture(run.model.config)) if network else None,
                    "sizes": run.model.sizes(),
                    "steps": steps_of(run.path),
                    "curve": RunFolder(run.path).metrics.rows()[-2000:],
                    "results": {key: value for key, value in read_results(run.folder).items() if key != "details"},
                    "report": (run.path / "report.html").is_file(),
                    "note": localize_for(lang, run.note),
                    "labels": labels_of(run),
                    "path": _short_path(run.path),
                    **roles_of(run),
                }

        return await _answer(work)

    @api.get("/runs/{id}/curve")
    async def curve(id: str) -> dict[str, Any]:
        """The curve of a run that may be going on."""
        entry = library.entry(id)
        return {**summarise(entry), "curve": RunFolder(entry.path).metrics.rows()[-2000:], "steps": steps_of(entry.path)}


# ------------------------------------------------------------------------------------------------------------------- inside


def _add_inside(api: APIRouter, library: Library) -> None:
    @api.post("/runs/{id}/answer")
    async def answer(id: str, asked: m.InputRequest, lang: PageLang) -> m.InputAnswer:
        """What the run answers, and what each word did for it."""
        found = await _answer(_on_run(library, id, asked.step, lambda run: answers.answer(run, asked)))
        if found.outcome.kind == "series":  # a summary of the table, and no text that a model wrote
            found.outcome.text = localize_for(lang, found.outcome.text)
        return found.model_copy(update={"note": localize_for(lang, found.note)})

    @api.get("/runs/{id}/examples")
    async def examples(id: str) -> m.ExampleRows:
        """Rows of the run's own test split."""
        return await _answer(_on_run(library, id, None, list_examples))

    @api.post("/runs/{id}/frames")
    async def frames(id: str, asked: m.InputRequest) -> Numbers:
        """The numbers that the first layer reads: a sound's spectrogram."""
        return await _answer(_on_run(library, id, asked.step, lambda run: inside.frames_of(run, asked)))

    @api.post("/runs/{id}/tokens")
    async def tokens(id: str, asked: m.InputRequest) -> m.Tokens:
        """The tokens of an input, and the parts whose weights can be shown."""
        return await _answer(_on_run(library, id, asked.step, lambda run: inside.tokens_of(run, asked)))

    @api.post("/runs/{id}/maps")
    async def maps(id: str, asked: m.PartRequest) -> m.MapWeights:
        """Weights of one part, all heads."""
        return await _answer(_on_run(library, id, asked.step, lambda run: inside.maps_of(run, asked)))

    @api.post("/runs/{id}/part")
    async def part(id: str, asked: m.PartRequest) -> m.PartView:
        """The computation of one part, with its numbers."""
        return await _answer(_on_run(library, id, asked.step, lambda run: inside.part_of(run, asked)))

    @api.post("/runs/{id}/lens")
    async def lens(id: str, asked: m.InputRequest) -> m.Lens:
        """What the model would answer after each sublayer."""
        return await _answer(_on_run(library, id, asked.step, lambda run: inside.lens_of(run, asked)))

    @api.post("/runs/{id}/counts")
    async def counts(id: str, asked: m.CountsRequest) -> m.Counts:
        """Counts of an n-gram model after a text, and the smoothing of one next token's probability."""
        return await _answer(_on_run(library, id, asked.step, lambda run: counts_of(run, asked)))

    @api.post("/runs/{id}/change")
    async def change(id: str, asked: m.ChangeRequest) -> m.Changed:
        """The answer of a changed network beside the original one."""
        return await _answer(_on_run(library, id, asked.step, lambda run: answers.change(run, asked)))

    @api.post("/runs/{id}/heads")
    async def heads(id: str, asked: m.InputRequest) -> list[m.HeadEffectRow]:
        """Every head by the effect of its removal."""
        return await _answer(_on_run(library, id, asked.step, lambda run: answers.rank(run, asked)))

    @api.post("/runs/{id}/next")
    async def next_token(id: str, asked: m.NextRequest) -> m.Next:
        """Scores of every token that may come next."""
        return await _answer(_on_run(library, id, asked.step, lambda run: writing.next_token(run, asked)))

    @api.post("/runs/{id}/names")
    async def names(id: str, asked: m.NextRequest) -> dict[str, list[str]]:
        """Tokens by their numbers, as people read them."""
        return {"names": await _answer(_on_run(library, id, None, lambda run: writing.names_of(run, asked)))}

    @api.post("/runs/{id}/write")
    async def write(id: str, asked: m.WriteRequest, lang: PageLang) -> StreamingResponse:
        """A text, token by token, as server-sent events."""
        library.entry(id)
        return _events(writing.write(library, id, asked), lang)

    @api.post("/runs/{id}/neighbours")
    async def neighbours(id: str, asked: m.NearestWordsRequest) -> list[vectors.Near]:
        """Words near a word."""
        return await _answer(_on_run(library, id, None, lambda run: vectors.near(run, asked)))

    @api.post("/runs/{id}/map")
    async def word_map(id: str, asked: m.MapRequest) -> vectors.WordMap:
        """Word vectors as a map in the plane."""
        return await _answer(_on_run(library, id, None, lambda run: vectors.project(run, asked)))


def _events(items: Iterator[Any], lang: Lang) -> StreamingResponse:
    async def stream() -> AsyncIterator[str]:
        try:
            while (item := await run_in_threadpool(lambda: next(items, None))) is not None:
                yield f"data: {json.dumps(asdict(item), ensure_ascii=False)}\n\n"
        except AttentifError as error:
            yield f"event: failed\ndata: {json.dumps({'message': localize_for(lang, error.message)})}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


# ----------------------------------------------------------------------------------------------------------------- training


def _add_both(api: APIRouter, library: Library, jobs: Jobs) -> None:
    @api.post("/both")
    async def compare(asked: m.BothRequest, lang: PageLang) -> StreamingResponse:
        """Two runs on the rows of a file, as server-sent events: where they disagree."""
        await _answer(lambda: (library.entry(asked.first), library.entry(asked.second)))
        return _events(compare_rows(library, jobs, asked), lang)

    @api.post("/lab/start")
    async def measure(asked: m.LabRequest, lang: PageLang) -> dict[str, Any]:
        """Run an experiment of the laboratory as a process of its own."""
        job = await _answer(lambda: jobs.measure(asked.name, lang))
        return {"id": job.run, "command": job.command}

    @api.get("/lab/{name}/events")
    async def follow(name: str, request: Request) -> StreamingResponse:
        """What an experiment says while it measures, as server-sent events."""
        return StreamingResponse(_follow(jobs, name, request), media_type="text/event-stream")


async def _follow(jobs: Jobs, name: str, request: Request) -> AsyncIterator[str]:
    job = jobs.jobs.get(f"lab-{name}")
    while not await request.is_disconnected():
        running = job is not None and job.is_running
        state = "running" if running else "failed" if job is not None and job.process.poll() else "finished"
        line = {"state": state, "said": jobs.read_last_lines(job.run) if job is not None else [], "page": name in jobs.list_measured()}
        yield f"data: {json.dumps(line, ensure_ascii=False)}\n\n"
        if not running:
            break
        await asyncio.sleep(WATCH_SECONDS)
    yield "data: [DONE]\n\n"


def _add_training(api: APIRouter, library: Library, jobs: Jobs) -> None:
    @api.get("/training")
    async def choices(lang: PageLang) -> dict[str, Any]:
        """Recipes, models and the files of the opened data folder."""
        return {
            "measured": jobs.list_measured(),
            "recipes": {name: localize_for(lang, recipe_description(name)) for name in recipe_names()},
            "fitted": [name for name in recipe_names() if "fit" in recipe_layer(name).values],
            "models": [name for name in preset_names() if name.endswith("tiny")],
            "files": [path.name for path in jobs.files()],
        }

    @api.get("/training/files/{number}")
    async def preview(number: int) -> dict[str, Any]:
        """Columns and first rows of a file."""
        return dict(await _answer(lambda: jobs.preview(number)))

    @api.post("/training/estimate")
    async def estimate(asked: m.TrainRequest, lang: PageLang) -> dict[str, str]:
        """What a training would take."""
        return {"text": await _answer(lambda: jobs.estimate(asked, lang))}

    @api.post("/training/start")
    async def start(asked: m.TrainRequest, lang: PageLang) -> dict[str, Any]:
        """Start a training as a process of its own."""
        job = await _answer(lambda: jobs.start(asked, lang))
        return {"run": job.run, "command": job.command}

    @api.post("/runs/{id}/stop")
    async def stop(id: str) -> dict[str, str]:
        """Stop a training that was started here; it saves itself first."""
        await _answer(lambda: jobs.stop(id))
        return {"run": id}

    @api.post("/runs/{id}/resume")
    async def resume(id: str, lang: PageLang) -> dict[str, Any]:
        """Go on with a run that was stopped."""
        job = await _answer(lambda: jobs.resume(id, library.entry(id).path, lang))
        library.forget(id)
        return {"run": job.run, "command": job.command}

    @api.get("/runs/{id}/events")
    async def events(id: str, request: Request) -> StreamingResponse:
        """Progress of a training as server-sent events, from wherever it is."""
        return StreamingResponse(_watch(library, jobs, id, request), media_type="text/event-stream")


def _last(jobs: Jobs, id: str) -> str:
    return next(reversed(jobs.read_last_lines(id)), "") if id in jobs.jobs else ""


async def _watch(library: Library, jobs: Jobs, id: str, request: Request) -> AsyncIterator[str]:
    shown = 0
    while not await request.is_disconnected():
        entry = library.entries().get(id)
        job = jobs.jobs.get(id)
        ended = job is not None and not job.is_running  # asked before the folder is read: what is read then is final
        line: dict[str, Any] = {"id": id, "state": "starting", "rows": [], "said": ""}
        if entry is not None:
            rows = RunFolder(entry.path).metrics.rows()
            line |= {"state": summarise(entry)["state"], "rows": rows[shown:], "said": _last(jobs, id)}
            shown = len(rows)
        if line["state"] in ("finished", "damaged"):
            ended = True
        if ended:
            library.forget(id)
            if job is not None and job.process.poll() not in STOPPED and line["state"] != "finished":
                line["state"] = "failed"
        yield f"data: {json.dumps(line, ensure_ascii=False)}\n\n"
        if ended or (job is None and line["state"] != "running"):
            break
        await asyncio.sleep(WATCH_SECONDS)
    yield "data: [DONE]\n\n"
